//! What Redis tells of itself when it is met, and what it hides: a managed service or an ACL may refuse INFO, or leave
//! parts of it out. dueq works all the same, and says what it can then not promise.

use crate::{
    Store,
    backend::REPLICA_AWAY,
    batch::{Command, Node},
    connect_error::ConnectError,
    connection::Connection,
    outage,
    reply::word,
};
use deadpool_redis::redis::{ServerError, Value, aio::ConnectionLike, cmd};
use dueq_model::Epoch;
use std::time::Duration;

/// How long a look at a server's health waits for connections that are about to open.
const CONNECT_PATIENCE: Duration = Duration::from_millis(250);

/// A Redis, as it was when it was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerInfo {
    pub version: String,
    /// By its replication ID, else by its `run_id`.
    pub epoch: Epoch,
    /// What cannot be promised, because Redis hides what it takes.
    pub warnings: Vec<&'static str>,
    /// INFO is refused.
    pub refused: bool,
    pub mode: Mode,
}

/// What kind of server it says that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Standalone,
    Sentinel,
    Cluster,
}

impl Mode {
    /// What INFO says. Valkey has another name for it.
    pub(crate) fn of_info(info: &str) -> Self {
        Self::of(line(info, "redis_mode").or_else(|| line(info, "server_mode")))
    }

    fn of(word: Option<&str>) -> Self {
        match word {
            Some("sentinel") => Self::Sentinel,
            Some("cluster") => Self::Cluster,
            _ => Self::Standalone,
        }
    }
}

impl ServerInfo {
    /// Asks the server behind `connection`. Also returns its INFO, empty where that is refused.
    pub async fn ask(connection: &mut Connection) -> Result<(Self, String), ConnectError> {
        let unreachable = |error: &dyn std::fmt::Display| {
            ConnectError::Unreachable(format!("it does not answer INFO: {error}"))
        };
        let info = connection.inner.req_packed_command(&cmd("INFO")).await;
        match info.map_err(|error| unreachable(&error))? {
            Value::ServerError(error) if refuses(&error) => {
                let hello = connection.inner.req_packed_command(&cmd("HELLO")).await;
                let hello = hello.and_then(Value::extract_error);
                Ok((Self::of_hello(&hello.map_err(|error| unreachable(&error))?), String::new()))
            }
            Value::ServerError(error) => Err(ConnectError::Refused(outage::cause(&error))),
            info => {
                let info = word(&info).unwrap_or_default();
                Ok((Self::of_info(info), info.to_owned()))
            }
        }
    }

    fn of_info(info: &str) -> Self {
        let (epoch, run) = (epoch_of(info, "master_replid"), epoch_of(info, "run_id"));
        let warnings = match (epoch.is_known(), run.is_known()) {
            (true, _) => vec![],
            (false, true) => vec![
                "Redis shows no replication ID: after a failover, a lease token from before it may still be accepted",
            ],
            (false, false) => vec![
                "Redis shows no replication ID and no run_id: after a restart or a failover, a lease token from before it may still be accepted",
            ],
        };
        Self {
            version: line(info, "redis_version").unwrap_or_default().to_owned(),
            epoch: if epoch.is_known() { epoch } else { run },
            warnings,
            refused: false,
            mode: Mode::of_info(info),
        }
    }

    /// HELLO answers with names and values by turns; in RESP3 with a map.
    fn of_hello(hello: &Value) -> Self {
        let pairs: Vec<(&Value, &Value)> = match hello {
            Value::Array(items) => items.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect(),
            Value::Map(pairs) => pairs.iter().map(|(name, value)| (name, value)).collect(),
            _ => vec![],
        };
        let told = |wanted: &str| {
            let (_, value) = pairs.iter().find(|(name, _)| word(name) == Some(wanted))?;
            word(value)
        };
        let mut this = Self::of_info("");
        this.version = told("version").unwrap_or_default().to_owned();
        this.mode = Mode::of(told("mode"));
        this.warnings.push("Redis refuses INFO: its maxmemory-policy cannot be checked");
        this.refused = true;
        this
    }
}

impl Store {
    /// Has every lane to the only server a connection?
    pub async fn is_whole(&self) -> bool {
        match self.lanes.cluster() {
            None => self.lanes.home().is_whole(Duration::ZERO).await,
            Some(_) => true,
        }
    }

    /// Does Redis answer, take writes and never evict? What to warn of where it does, the reason where it does not. Of a
    /// Cluster one primary must, and that of the registry.
    pub async fn health(&self) -> Result<Vec<String>, String> {
        let nodes = self.lanes.nodes();
        let Some(cluster) = self.lanes.cluster() else {
            let health = node_health(&nodes[0], &self.lanes.shared.keys.index).await;
            let warnings = health.map_err(|sick| sick.to_string())?;
            return Ok(warnings.into_iter().map(str::to_owned).collect());
        };
        cluster.health().await
    }
}

/// Why a server cannot serve.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unhealthy {
    #[error("Redis cannot be used: {0}")]
    Away(String),
    #[error("not all connections to Redis are open yet")]
    Connecting,
    /// Its policy.
    #[error("Redis may evict messages: its maxmemory-policy is {0}, noeviction is needed")]
    Evicts(String),
}

/// As [`Store::health`], of one server; `key` is one that it serves.
pub(crate) async fn node_health(node: &Node, key: &str) -> Result<Vec<&'static str>, Unhealthy> {
    // A write that changes nothing: refused by a replica, at a full disk, while Redis loads or is busy.
    let write = Command::new("ZREM").arg((key, ""));
    let away = |_| {
        Unhealthy::Away(node.backend.outage.cause().unwrap_or_else(|| outage::SILENT.to_owned()))
    };
    node.command(write).await.map_err(away)?;
    if !node.is_whole(CONNECT_PATIENCE).await {
        return Err(Unhealthy::Connecting);
    }
    let server = node.backend.server();
    let mut warnings = server.as_ref().map(|server| server.warnings.clone()).unwrap_or_default();
    warnings.extend(node.backend.warnings());
    // They are connected and do not answer, or too late.
    if node.backend.can_confirm() && node.backend.has_replicas() && !node.confirms() {
        warnings.push(REPLICA_AWAY);
    }
    if server.is_some_and(|server| server.refused) {
        return Ok(warnings);
    }
    let info = Command::new("INFO").arg("memory");
    let info = node.command(info).await.map_err(away)?;
    let policy = word(&info)
        .and_then(|info| info.lines().find_map(|line| line.strip_prefix("maxmemory_policy:")));
    match policy.map(str::trim) {
        Some("noeviction") | None => Ok(warnings),
        Some(policy) => Err(Unhealthy::Evicts(policy.to_owned())),
    }
}

/// The epoch that INFO tells by this name; unknown where it does not.
pub(crate) fn epoch_of(info: &str, name: &str) -> Epoch {
    line(info, name).and_then(Epoch::parse).unwrap_or_default()
}

/// Does this answer to ROLE come from a replica? An error does not say so: a user may have no right to ask.
pub(crate) fn is_replica(role: &Value) -> bool {
    is_role(role, "slave")
}

/// Does this answer to ROLE come from a primary?
pub(crate) fn is_primary(role: &Value) -> bool {
    is_role(role, "master")
}

fn is_role(role: &Value, name: &str) -> bool {
    matches!(role, Value::Array(facts) if facts.first().and_then(word) == Some(name))
}

/// Does INFO say so?
pub(crate) fn is_of_replica(info: &str) -> bool {
    line(info, "role") == Some("slave")
}

/// Does this primary take writes while it has no replica, although there are some, or Sentinels that would promote one?
/// INFO counts good replicas only where `min-replicas-to-write` asks for some.
pub(crate) fn is_unguarded(info: &str, sentinels: bool) -> bool {
    let replicas = line(info, "connected_slaves").is_some_and(|number| number != "0");
    (replicas || sentinels) && line(info, "min_slaves_good_slaves").is_none()
}

/// How many replicas follow this server by what it says. One that copies it for a backup has no port.
pub(crate) fn connected_replicas(info: &str) -> usize {
    let replica = |line: &&str| {
        line.strip_prefix("slave").is_some_and(|rest| {
            rest.starts_with(|c: char| c.is_ascii_digit()) && rest.contains("state=online")
        }) && !line.contains("port=0,")
    };
    info.lines().filter(replica).count()
}

/// What INFO says by this name.
pub(crate) fn line<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// The command is not for this user, or was renamed.
fn refuses(error: &ServerError) -> bool {
    matches!(error.code(), "NOPERM" | "ERR")
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLID: &str = "90072ceeff115a0e4f6a5f0d2a6c4c3c2a1b0c9d";
    const RUN_ID: &str = "4071aa00bb115a0e4f6a5f0d2a6c4c3c2a1b0c9d";

    #[test]
    fn an_epoch_is_told_by_the_replication_id_else_by_the_run_id() {
        let none = "0".repeat(40);
        for (replid, run_id, epoch, warnings) in [
            (REPLID, RUN_ID, "90072ceeff11", 0),
            (&none, RUN_ID, "4071aa00bb11", 1),
            ("", RUN_ID, "4071aa00bb11", 1),
            (&none, "", "000000000000", 1),
            ("", &none, "000000000000", 1),
        ] {
            let info = ServerInfo::of_info(&format!(
                "redis_version:7.0.15\r\nrun_id:{run_id}\r\nrole:master\r\nmaster_replid:{replid}\r\n"
            ));
            assert_eq!(info.epoch.to_string(), epoch, "{replid} {run_id}");
            assert_eq!(info.warnings.len(), warnings, "{replid} {run_id}");
            assert_eq!((info.version.as_str(), info.refused), ("7.0.15", false));
        }
        assert!(
            is_of_replica("role:slave\r\nmaster_host:x\r\n") && !is_of_replica("role:master\r\n")
        );
    }

    #[test]
    fn a_redis_that_refuses_info_tells_its_version_by_hello() {
        let text = |text: &str| Value::BulkString(text.into());
        let pairs = ["server", "redis", "version", "7.0.15", "mode", "cluster"].map(text);
        let map = pairs.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        for hello in [Value::Array(pairs.to_vec()), Value::Map(map)] {
            let info = ServerInfo::of_hello(&hello);
            assert_eq!((info.version.as_str(), info.refused), ("7.0.15", true));
            assert!(!info.epoch.is_known() && info.warnings.len() == 2, "{info:?}");
            assert_eq!(info.mode, Mode::Cluster);
        }
        assert_eq!(ServerInfo::of_hello(&Value::Nil).version, "");
    }

    #[test]
    fn a_server_says_what_it_is() {
        for (info, mode) in [
            ("redis_mode:standalone\r\n", Mode::Standalone),
            ("redis_mode:sentinel\r\n", Mode::Sentinel),
            ("server_mode:sentinel\r\n", Mode::Sentinel),
            ("server_mode:cluster\r\n", Mode::Cluster),
            ("", Mode::Standalone),
        ] {
            assert_eq!(Mode::of_info(info), mode, "{info}");
        }
    }

    #[test]
    fn a_primary_that_waits_for_no_replica_is_unguarded_if_there_are_some() {
        let alone = "role:master\r\nconnected_slaves:0\r\n";
        let one = "role:master\r\nconnected_slaves:1\r\nslave0:ip=10.0.0.2\r\n";
        let guard = "min_slaves_good_slaves:1\r\n";
        assert!(!is_unguarded(alone, false) && is_unguarded(alone, true));
        assert!(is_unguarded(one, false) && is_unguarded(one, true));
        assert!(!is_unguarded(&format!("{one}{guard}"), true));
        assert!(!is_unguarded(&format!("{alone}{guard}"), true));
    }
}
