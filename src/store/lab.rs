//! What `dueq bench` asks Redis directly: its own counters, and what the happy
//! path's commands cost it without Lua. It stands here because only the store
//! may name Redis; nothing that serves requests uses it.

mod life;
mod slow;

use std::collections::HashMap;
use std::time::Duration;

use deadpool_redis::redis::aio::MultiplexedConnection;
use deadpool_redis::redis::{self, AsyncConnectionConfig, Client, RedisError};
use life::Flow;

pub use life::Way;
pub use slow::SlowCall;

/// Redis did not answer the bench as it should.
#[derive(Debug, thiserror::Error)]
#[error("redis: {0}")]
pub struct LabError(#[from] RedisError);

/// The bench's own way to a Redis.
#[derive(Debug, Clone)]
pub struct Lab {
    client: Client,
    connection: MultiplexedConnection,
}

async fn open(client: &Client) -> Result<MultiplexedConnection, RedisError> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(Duration::from_secs(5)))
        .set_response_timeout(Some(Duration::from_secs(30)));
    client.get_multiplexed_async_connection_with_config(&config).await
}

/// Redis's counters at one instant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// CPU that the main thread has used, µs (of the whole process where Redis
    /// does not tell its threads apart: before 6.2, or not on Linux).
    pub cpu_us: f64,
    /// Commands executed since the start, those inside scripts included.
    pub commands: u64,
    /// Memory that the data takes: `used_memory` less the buffers of clients
    /// and of the append-only file, which come and go. Bytes.
    pub memory: u64,
    /// Whether a child of it rewrites the append-only file, or is about to:
    /// that takes a core for some seconds.
    pub rewriting: bool,
    /// Whether a thread of it still frees what was unlinked.
    pub freeing: bool,
    /// `redis_version` (Valkey: the version it is compatible with).
    pub version: String,
    /// `mem_allocator`: what a message takes depends on its size classes.
    pub allocator: String,
}

impl Facts {
    /// Reads the text of INFO; what it does not hold is 0 or empty.
    pub fn parse(info: &str) -> Self {
        let fields: HashMap<&str, &str> =
            info.lines().filter_map(|line| line.trim_end().split_once(':')).collect();
        let text = |name| fields.get(name).copied().unwrap_or_default();
        let number = |name| text(name).parse::<f64>().ok();
        let whole = |name| text(name).parse::<u64>().unwrap_or(0);
        let cpu = |user, system| Some(number(user)? + number(system)?);
        let seconds = cpu("used_cpu_user_main_thread", "used_cpu_sys_main_thread")
            .or_else(|| cpu("used_cpu_user", "used_cpu_sys"));
        let buffers = whole("mem_clients_normal") + whole("mem_aof_buffer");
        Self {
            cpu_us: seconds.unwrap_or(0.0) * 1e6,
            commands: whole("total_commands_processed"),
            memory: whole("used_memory").saturating_sub(buffers),
            rewriting: whole("aof_rewrite_in_progress") + whole("aof_rewrite_scheduled") > 0,
            freeing: whole("lazyfree_pending_objects") > 0,
            version: text("redis_version").to_owned(),
            allocator: text("mem_allocator").to_owned(),
        }
    }
}

impl Lab {
    /// Connects to the Redis at `url` (`redis://…` or `redis+unix:///…`).
    ///
    /// # Errors
    /// When it does not answer within 5 s.
    pub async fn connect(url: &str) -> Result<Self, LabError> {
        let client = Client::open(url)?;
        let connection = open(&client).await?;
        Ok(Self { client, connection })
    }

    /// The counters now. Asking is itself one command.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn facts(&self) -> Result<Facts, LabError> {
        let mut connection = self.connection.clone();
        let info: String = redis::cmd("INFO").query_async(&mut connection).await?;
        Ok(Facts::parse(&info))
    }

    /// CPU that Redis spends on one message's life (publish, lease, ack), µs:
    /// `lives` messages of `body` bytes in groups of `group`, `flows` calls in
    /// flight at a time, each over a connection and on a partition of its own,
    /// which is deleted afterwards.
    ///
    /// # Errors
    /// When Redis does not answer, or refuses a command.
    pub async fn life_cpu(
        &self,
        way: Way,
        group: usize,
        lives: usize,
        flows: usize,
        body: usize,
    ) -> Result<f64, LabError> {
        let rounds = lives.div_ceil(group * flows);
        let mut connection = self.connection.clone();
        life::load_scripts(&mut connection).await?;
        let mut flows_open = Vec::new();
        for number in 0..flows {
            flows_open.push((Flow::new(way, number, group, body), open(&self.client).await?));
        }
        let before = self.facts().await?;
        let running = flows_open.into_iter().map(|(flow, connection)| flow.run(connection, rounds));
        futures_util::future::try_join_all(running).await?;
        let after = self.facts().await?;
        Ok((after.cpu_us - before.cpu_us) / (rounds * group * flows) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_is_read_by_name() {
        let facts = Facts::parse(
            "# Server\r\nredis_version:7.0.15\r\n# Memory\r\nused_memory:5000\r\n\
             mem_clients_normal:1000\r\nmem_aof_buffer:500\r\nmem_allocator:jemalloc-5.3.0\r\n\
             aof_rewrite_in_progress:1\r\ntotal_commands_processed:42\r\nused_cpu_sys:9.0\r\nused_cpu_user:9.0\r\n\
             lazyfree_pending_objects:3\r\nused_cpu_sys_main_thread:1.5\r\nused_cpu_user_main_thread:0.25\r\n",
        );
        assert_eq!(facts.cpu_us, 1_750_000.0);
        assert_eq!((facts.commands, facts.memory), (42, 3500));
        assert!(facts.rewriting && facts.freeing);
        assert_eq!(facts.version, "7.0.15");
        assert_eq!(facts.allocator, "jemalloc-5.3.0");
    }

    #[test]
    fn without_the_main_thread_the_process_counts() {
        let facts = Facts::parse("used_cpu_sys:1.0\nused_cpu_user:2.0\n");
        assert_eq!(facts.cpu_us, 3_000_000.0);
        assert_eq!(Facts::parse(""), Facts::default());
    }
}
