//! Which data a command works on that needs no service: a Redis, or the directory of a private one that nobody serves.

use crate::{
    embedded::{EmbeddedRedis, Fsync, Options},
    metrics::Metrics,
    store::{Store, StoreOptions},
};
use clap::Args;
use std::{error::Error, path::PathBuf, sync::Arc, time::Duration};

/// How long one call waits for Redis.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Which data.
#[derive(Args)]
pub struct DataArgs {
    /// Redis with the data.
    #[arg(long, env = "DUEQ_REDIS_URL", value_name = "URL", hide_env_values = true)]
    redis_url: Option<String>,
    /// Directory of a private Redis that is not being served.
    #[arg(long, env = "DUEQ_DATA_DIR", value_name = "DIR", default_value = "./dueq-data")]
    data_dir: PathBuf,
    /// Program to run as the private Redis.
    #[arg(long, env = "DUEQ_REDIS_BIN", value_name = "PATH")]
    redis_bin: Option<PathBuf>,
    /// What every key begins with.
    #[arg(long, env = "DUEQ_KEY_PREFIX", value_name = "TEXT", default_value = "dueq:")]
    key_prefix: String,
}

/// The data, open.
pub struct Data {
    pub store: Store,
    embedded: Option<EmbeddedRedis>,
}

/// There is no such directory: nobody wants data made that are only to be looked at.
#[derive(Debug, thiserror::Error)]
#[error("there is no data directory {}: name the one to look at with --data-dir DIR, or a running Redis with --redis-url URL", .0.display())]
pub struct NoData(PathBuf);

impl DataArgs {
    /// Is there anything to work on?
    pub fn exist(&self) -> Result<(), NoData> {
        if self.redis_url.is_some() || self.data_dir.is_dir() {
            Ok(())
        } else {
            Err(NoData(self.data_dir.clone()))
        }
    }

    /// Connects; starts the private Redis for as long as the data are open. With `upgrade` brings older data to the present
    /// schema, otherwise refuses them.
    ///
    /// Errors: why not, in one line.
    pub async fn open(self, upgrade: bool) -> Result<Data, Box<dyn Error>> {
        let Self { redis_url, data_dir, redis_bin, key_prefix } = self;
        let (url, embedded) = match redis_url {
            Some(url) => (url, None),
            None => {
                let options =
                    Options { data_dir, redis_bin, fsync: Fsync::Always, maxmemory: Some(0) };
                let redis = EmbeddedRedis::start(options).await?;
                (redis.url(), Some(redis))
            }
        };
        let options = StoreOptions { url, key_prefix, lanes: 1, timeout: TIMEOUT, upgrade };
        match Store::connect(&options, Arc::new(Metrics::new())).await {
            Ok((store, _)) => Ok(Data { store, embedded }),
            Err(error) => {
                if let Some(redis) = embedded {
                    redis.stop().await;
                }
                Err(error.into())
            }
        }
    }
}

impl Data {
    /// Ends the connections, and the private Redis.
    pub async fn close(self) {
        self.store.stop().await;
        if let Some(redis) = self.embedded {
            redis.stop().await;
        }
    }
}
