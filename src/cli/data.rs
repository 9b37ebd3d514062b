//! The data that offline commands work on: a Redis, or the directory of a private Redis that is not being served.

use crate::embedded::{self, EmbeddedArgs, EmbeddedRedis, Fsync, StartError};
use clap::{Args, builder::BoolishValueParser};
use dueq_base::metrics::Metrics;
use dueq_model::Secret;
use dueq_store::{RedisArgs, Store, StoreOptions};
use std::{error::Error, path::PathBuf, sync::Arc};

/// Arguments that name the data.
#[derive(Args)]
pub struct DataArgs {
    #[command(flatten)]
    redis: RedisArgs,
    /// Allow a Redis URL that ends in #insecure: any certificate is then accepted.
    #[arg(long, env = "DUEQ_INSECURE", value_parser = BoolishValueParser::new())]
    insecure: bool,
    /// Directory of a private Redis that is not being served.
    #[arg(long, env = "DUEQ_DATA_DIR", value_name = "DIR", default_value = "./dueq-data")]
    data_dir: PathBuf,
    /// Program to run as the private Redis.
    #[arg(long, env = "DUEQ_REDIS_BIN", value_name = "PATH")]
    redis_bin: Option<PathBuf>,
    /// Prefix of every key in Redis.
    #[arg(long, env = "DUEQ_KEY_PREFIX", value_name = "TEXT", default_value = "dueq:")]
    key_prefix: String,
}

/// An open connection to the data.
pub struct Data {
    pub store: Store,
    embedded: Option<EmbeddedRedis>,
}

impl DataArgs {
    /// Checks that there are data to work on. A command that only reads must not create their directory.
    pub fn exist(&self) -> Result<(), String> {
        match self.redis.are_given() || self.data_dir.is_dir() {
            true => Ok(()),
            false => Err(format!(
                "there is no data directory {}: pass --data-dir DIR, or --redis-url URL of a running Redis",
                self.data_dir.display()
            )),
        }
    }

    /// Where the data are, in words, without secrets.
    pub fn described(&self) -> String {
        let plain = |url: &Secret| match url::Url::parse(url.reveal()) {
            Ok(mut url) => {
                // Neither can fail where there is something to take away.
                let _ = (url.set_username(""), url.set_password(None));
                url.set_query(None);
                url.to_string()
            }
            Err(_) => "a Redis".to_owned(),
        };
        match &self.redis.redis_url_file {
            _ if !self.redis.are_given() => self.data_dir.display().to_string(),
            Some(file) => format!("the Redis of {}", file.display()),
            None => self.redis.redis_url.iter().map(plain).collect::<Vec<_>>().join(" "),
        }
    }

    /// Connects to the data, and runs the private Redis while they are open. `upgrade` migrates data of an older schema;
    /// without it they are refused. `moves`: to move much, the private Redis need not sync before each answer, and one that is
    /// being served is used as it is.
    ///
    /// Errors: the reason, in one line.
    pub async fn open(self, upgrade: bool, moves: bool) -> Result<Data, Box<dyn Error>> {
        let fsync = if moves { Fsync::Everysec } else { Fsync::Always };
        let Self { redis, insecure, data_dir, redis_bin, key_prefix } = self;
        let (redis, embedded) = match redis.are_given() {
            true => (RedisArgs { insecure, ..redis }, None),
            false => {
                let options = EmbeddedArgs { data_dir, redis_bin, fsync, maxmemory: Some(0) };
                let dir = options.data_dir.clone();
                match EmbeddedRedis::start(options).await {
                    Ok(redis) => (RedisArgs::at(redis.url()), Some(redis)),
                    // It is being served: its Redis takes us, too.
                    Err(StartError::Locked(_)) if moves => {
                        (RedisArgs::at(embedded::url_in(&dir)?), None)
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        };
        let options = StoreOptions { upgrade, ..StoreOptions::of_tool(redis, key_prefix) };
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
    /// Closes the connections, and stops the private Redis.
    pub async fn close(self) {
        self.store.stop().await;
        if let Some(redis) = self.embedded {
            redis.stop().await;
        }
    }
}
