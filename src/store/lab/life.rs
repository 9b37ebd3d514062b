//! A message's life on Redis alone: published, leased and acked in groups, by
//! the scripts or by the very same commands without Lua. The difference is
//! what the scripts themselves cost.

use deadpool_redis::redis::aio::{ConnectionLike, MultiplexedConnection};
use deadpool_redis::redis::{self, Cmd, Pipeline, RedisError};

use super::LabError;
use crate::model::{Epoch, Partition, TopicName};
use crate::store::keys::PartitionKeys;
use crate::store::scripts::{self, Script};
use crate::store::server_info::epoch_of;

/// How the commands reach Redis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// One script call a group, as dueq does it.
    Scripts,
    /// The commands of that call as a pipeline.
    NoLua,
}

/// The number that the scripts are told the topic has.
const TOPIC: u32 = 1;
/// Number of the epoch in the leases' scores.
const EPOCH: u64 = 1;
/// A seal of the first attempt and the epoch that is named first, as the scripts read it.
const SEAL: u64 = 1 << 12;
/// Some instant in 2026; what is due then is due now.
const DUE_MS: u64 = 1_780_000_000_000;
const LEASE_MS: u64 = 30_000;

/// One group after the other, on a partition of its own.
pub(super) struct Flow {
    way: Way,
    keys: PartitionKeys,
    group: usize,
    body: Vec<u8>,
    /// Redis's, by which the leases' holders go.
    epoch: Epoch,
}

/// Makes the scripts known, so that EVALSHA finds them.
pub(super) async fn load_scripts(connection: &mut MultiplexedConnection) -> Result<(), LabError> {
    let mut load = redis::pipe();
    for script in [&*scripts::PUBLISH, &*scripts::LEASE, &*scripts::ACK] {
        load.cmd("SCRIPT").arg("LOAD").arg(script.source);
    }
    Ok(load.exec_async(connection).await?)
}

impl Flow {
    /// The flow of that `number`: `group` messages of `body` bytes at a time.
    pub fn new(way: Way, number: usize, group: usize, body: usize) -> Self {
        let prefix = format!("dueq:lab-{}-{number}:", std::process::id());
        // A constant that is a valid name; no other error is possible.
        let topic = TopicName::parse("lab").unwrap_or_else(|_| unreachable!());
        let keys = PartitionKeys::new(&prefix, &topic, Partition(0));
        // The first byte of a stored body says that it is JSON without headers.
        let mut body = vec![b'x'; body + 1];
        body[0] = 0;
        Self { way, keys, group, body, epoch: Epoch::default() }
    }

    /// Lets `rounds` groups live, and leaves nothing behind.
    pub async fn run(
        mut self,
        mut connection: MultiplexedConnection,
        rounds: usize,
    ) -> Result<(), LabError> {
        let mut open = redis::cmd("HSET");
        open.arg(&self.keys.meta).arg("topic").arg(TOPIC).arg("max_attempts").arg(10);
        open.exec_async(&mut connection).await?;
        let info: String =
            redis::cmd("INFO").arg("replication").query_async(&mut connection).await?;
        self.epoch = epoch_of(&info, "master_replid");
        for round in 0..rounds {
            // As long as the store's members, and never the same again.
            let member = |index| format!("{:011}", round * self.group + index);
            let members: Vec<String> = (0..self.group).map(member).collect();
            self.step(&mut connection, self.publish(&members)).await?;
            self.step(&mut connection, self.lease(&members)).await?;
            let last = self.step(&mut connection, self.ack(&members)).await?;
            self.check(last.as_ref())?;
        }
        let keys = &self.keys;
        let mut delete = redis::cmd("DEL");
        delete.arg(&[&keys.delayed, &keys.unack, &keys.messages, &keys.meta][..]);
        Ok(delete.exec_async(&mut connection).await?)
    }

    /// Sends the commands together; the last one's reply.
    async fn step(
        &self,
        connection: &mut MultiplexedConnection,
        commands: Vec<Cmd>,
    ) -> Result<Option<redis::Value>, LabError> {
        let mut pipeline = Pipeline::with_capacity(commands.len());
        let count = commands.len();
        for command in commands {
            pipeline.add_command(command);
        }
        // Unlike `query_async` this takes no reply apart, which would cost the
        // cores that Redis needs.
        let replies = connection.req_packed_commands(&pipeline, 0, count).await?;
        Ok(replies.into_iter().last())
    }

    /// A script answers an ack with the size of the group: then every message
    /// of it had been published and leased.
    fn check(&self, last: Option<&redis::Value>) -> Result<(), LabError> {
        match (self.way, last) {
            (Way::NoLua, _) => Ok(()),
            (Way::Scripts, Some(redis::Value::Int(acked))) if *acked == self.group as i64 => Ok(()),
            (Way::Scripts, other) => Err(LabError(RedisError::from((
                redis::ErrorKind::UnexpectedReturnType,
                "a script answered otherwise than expected",
                format!("{other:?}"),
            )))),
        }
    }

    fn publish(&self, members: &[String]) -> Vec<Cmd> {
        let keys = &self.keys;
        let hset = |mut command: Cmd| {
            for member in members {
                command.arg(member).arg(&self.body);
            }
            command
        };
        if self.way == Way::Scripts {
            let mut call = call(&scripts::PUBLISH);
            call.arg(3).arg(&keys.messages).arg(&keys.delayed).arg(&keys.meta);
            call.arg(TOPIC).arg(members.len()).arg(0);
            for member in members {
                call.arg(0).arg(member);
            }
            return vec![hset(call)];
        }
        let mut zadd = on("ZADD", &keys.delayed);
        for member in members {
            zadd.arg(DUE_MS).arg(member);
        }
        vec![
            with(on("HMGET", &keys.meta), &["topic", "sleep", "large"]),
            redis::cmd("TIME"),
            hset(on("HSET", &keys.messages)),
            zadd,
            counted(&keys.meta, "published", members.len()),
        ]
    }

    fn lease(&self, members: &[String]) -> Vec<Cmd> {
        let keys = &self.keys;
        if self.way == Way::Scripts {
            let mut call = call(&scripts::LEASE);
            let keys = &keys.all()[..15];
            call.arg(keys.len()).arg(keys).arg(TOPIC).arg(self.epoch.to_string()).arg(0).arg(0);
            call.arg(members.len()).arg(LEASE_MS);
            return vec![call];
        }
        let over = (DUE_MS * 2048).to_string();
        let now = (DUE_MS + 1).to_string();
        let mut zadd = on("ZADD", &keys.unack);
        for member in members {
            zadd.arg((DUE_MS + LEASE_MS) * 2048 + EPOCH).arg(member);
        }
        vec![
            with(on("HMGET", &keys.meta), &["topic", "max_attempts", "large", "rules"]),
            with(on("ZREM", &keys.unack), &[""]),
            redis::cmd("TIME"),
            with(on("EXISTS", &keys.last), &[&keys.extra, &keys.delayed_prio, &keys.ready]),
            with(on("ZCOUNT", &keys.unack), &["-inf", &over]),
            with(on("ZCOUNT", &keys.delayed), &["-inf", &now]),
            redis::cmd("INFO").arg("replication").to_owned(),
            with(on("HGET", &keys.meta), &[format!("epoch:{}", self.epoch)]),
            with(on("ZPOPMIN", &keys.delayed), &[members.len().to_string()]),
            with(on("HMGET", &keys.messages), members),
            zadd,
            counted(&keys.meta, "granted", members.len()),
        ]
    }

    fn ack(&self, members: &[String]) -> Vec<Cmd> {
        let keys = &self.keys;
        if self.way == Way::Scripts {
            let mut call = call(&scripts::ACK);
            call.arg(10).arg(&keys.unack).arg(&keys.last).arg(&keys.messages).arg(&keys.extra);
            call.arg(&keys.meta).arg(&keys.keys).arg(&keys.expires).arg(&keys.first_due);
            call.arg(&keys.events).arg(&keys.acked).arg(TOPIC).arg(members.len());
            call.arg(format!("epoch:{}", self.epoch)).arg(SEAL).arg(members);
            return vec![call];
        }
        vec![
            with(on("HMGET", &keys.meta), &["topic", "rules", "epoch"]),
            with(on("ZREM", &keys.unack), &[""]),
            redis::cmd("TIME"),
            with(on("ZMSCORE", &keys.unack), members),
            on("EXISTS", &keys.extra),
            with(on("ZREM", &keys.unack), members),
            with(on("HDEL", &keys.messages), members),
            counted(&keys.meta, "acked", members.len()),
        ]
    }
}

fn call(script: &Script) -> Cmd {
    on("EVALSHA", script.sha())
}

fn on(name: &str, key: &str) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(key);
    command
}

fn with<T: redis::ToRedisArgs>(mut command: Cmd, arguments: &[T]) -> Cmd {
    command.arg(arguments);
    command
}

fn counted(meta: &str, total: &str, count: usize) -> Cmd {
    let mut command = on("HINCRBY", meta);
    command.arg(total).arg(count);
    command
}
