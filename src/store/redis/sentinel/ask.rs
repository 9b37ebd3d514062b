//! What one Sentinel says.

use super::{Address, address_of};
use crate::{
    connect_error::ConnectError,
    connection_source::reason,
    reply::word,
    server_info::{Mode, is_of_replica},
};
use deadpool_redis::redis::{
    AsyncConnectionConfig, Client, ErrorKind, FromRedisValue, Pipeline, RedisError, Value,
    aio::{ConnectionLike, MultiplexedConnection},
    cmd, from_redis_value,
};
use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};
use tokio::time::timeout;

/// Where the primary is by one Sentinel.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// Its address.
    pub seed: String,
    /// The primary's name.
    pub name: String,
    pub address: Address,
    /// Grows with every failover.
    pub epoch: i64,
    /// How many replicas it knows, also those that are away.
    pub replicas: usize,
    /// The ids of the Sentinels that watch this primary as far as this one knows, its own included.
    pub group: BTreeSet<String>,
}

impl View {
    /// Whether the other one is of the same Sentinels' group. While they agree, nothing speaks against it.
    pub fn is_beside(&self, other: &Self) -> bool {
        self.address == other.address || !self.group.is_disjoint(&other.group)
    }
}

/// Why a Sentinel said nothing of use.
#[derive(Debug)]
pub(super) enum Refusal {
    /// It cannot be reached: the others will do. Its address, and why.
    Silent(String),
    /// It is none, or not one for this primary.
    Wrong(ConnectError),
}

/// Asks a Sentinel where the primary of this name is, or its only one.
pub(super) async fn ask(
    seed: &Client,
    master: Option<&str>,
    limit: Duration,
) -> Result<View, Refusal> {
    let asked =
        timeout(limit, async { look(&mut connect(seed, limit).await?, seed, master).await });
    let silent = |why: &str| Refusal::Silent(format!("{}: {why}", address_of(seed)));
    asked.await.unwrap_or_else(|_| Err(silent("it does not answer in time")))
}

/// Whether a Sentinel is there.
pub(crate) async fn is_one(seed: &Client, limit: Duration) -> bool {
    let asked = timeout(limit.min(super::ASK_TIMEOUT), async {
        let mut connection = connect(seed, limit).await.ok()?;
        let info = connection.req_packed_command(&cmd("INFO")).await.ok()?;
        Some(Mode::of_info(word(&info)?) == Mode::Sentinel)
    });
    asked.await.ok().flatten().unwrap_or(false)
}

async fn connect(seed: &Client, limit: Duration) -> Result<MultiplexedConnection, Refusal> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(limit))
        .set_response_timeout(Some(limit));
    let connected = seed.get_multiplexed_async_connection_with_config(&config).await;
    connected.map_err(|error| failure(seed, &error))
}

async fn look(
    connection: &mut MultiplexedConnection,
    seed: &Client,
    master: Option<&str>,
) -> Result<View, Refusal> {
    let known = names(connection, seed).await?;
    let listed = known.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let name = match (master, known.len()) {
        (_, 0) => return Err(Refusal::Wrong(ConnectError::NoMaster(address_of(seed)))),
        (Some(name), _) if known.contains(name) => name.to_owned(),
        (Some(name), _) => {
            let (seed, name) = (address_of(seed), name.to_owned());
            return Err(Refusal::Wrong(ConnectError::UnknownMaster { seed, name, known: listed }));
        }
        (None, 1) => listed,
        (None, _) => return Err(Refusal::Wrong(ConnectError::SeveralMasters(listed))),
    };
    // While a replica is being promoted, only the first of these commands names it.
    let mut look = Pipeline::with_capacity(4);
    look.cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(&name);
    look.cmd("SENTINEL").arg("MASTER").arg(&name);
    look.cmd("SENTINEL").arg("MYID");
    look.cmd("SENTINEL").arg("SENTINELS").arg(&name);
    let answers = connection.req_packed_commands(&look, 0, 4).await;
    let mut answers = answers.map_err(|error| failure(seed, &error))?.into_iter();
    let address: Address = read(seed, answers.next())?;
    let facts: HashMap<String, String> = read(seed, answers.next())?;
    let id: String = read(seed, answers.next())?;
    let others: Vec<HashMap<String, String>> = read(seed, answers.next())?;
    let ids = others.into_iter().filter_map(|mut other| other.remove("runid"));
    let group = ids.chain([id]).filter(|id| !id.is_empty()).collect();
    let epoch = facts.get("config-epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0);
    let replicas = facts.get("num-slaves").and_then(|number| number.parse().ok()).unwrap_or(0);
    Ok(View { seed: address_of(seed), name, address, epoch, replicas, group })
}

/// The names of the primaries that it knows.
async fn names(
    connection: &mut MultiplexedConnection,
    seed: &Client,
) -> Result<BTreeSet<String>, Refusal> {
    let asked = connection.req_packed_command(cmd("SENTINEL").arg("MASTERS")).await;
    let answer = asked.map_err(|error| failure(seed, &error))?;
    if let Value::ServerError(error) = &answer
        && error.code() == "ERR"
        && let Ok(info) = connection.req_packed_command(&cmd("INFO")).await
        && let Some(what) = word(&info).and_then(what_else)
    {
        let seed = address_of(seed);
        return Err(Refusal::Wrong(ConnectError::NoSentinel { seed, what }));
    }
    let masters: Vec<HashMap<String, String>> = read(seed, Some(answer))?;
    Ok(masters.into_iter().filter_map(|mut facts| facts.remove("name")).collect())
}

/// What it is by its INFO, if it is no Sentinel.
fn what_else(info: &str) -> Option<&'static str> {
    match Mode::of_info(info) {
        Mode::Sentinel => None,
        Mode::Cluster => Some("a Redis in cluster mode"),
        Mode::Standalone if is_of_replica(info) => Some("a replica"),
        Mode::Standalone => Some("a Redis"),
    }
}

/// Reads an answer; an error is a refusal.
fn read<T: FromRedisValue>(seed: &Client, answer: Option<Value>) -> Result<T, Refusal> {
    let answer = answer.unwrap_or(Value::Nil).extract_error();
    let read = answer.and_then(|value| from_redis_value(value).map_err(RedisError::from));
    read.map_err(|error| refuses(seed, error.to_string()))
}

/// A refusal of the credentials, or a connection that failed.
fn failure(seed: &Client, error: &RedisError) -> Refusal {
    match error.code() {
        Some("NOAUTH" | "WRONGPASS" | "NOPERM" | "ERR") => refuses(seed, error.to_string()),
        _ if error.kind() == ErrorKind::AuthenticationFailed => refuses(seed, error.to_string()),
        _ => Refusal::Silent(format!("{}: {}", address_of(seed), reason(error))),
    }
}

fn refuses(seed: &Client, reason: String) -> Refusal {
    Refusal::Wrong(ConnectError::SentinelRefuses { seed: address_of(seed), reason })
}
