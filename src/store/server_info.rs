//! What Redis tells of itself when it is met, and what it hides: a managed service or an ACL may refuse INFO, or leave
//! parts of it out. dueq works all the same, and says what it can then not promise.

use super::{Store, backend::ConnectError, batch::Command, reply::word};
use crate::model::Epoch;
use deadpool_redis::{
    Connection,
    redis::{ServerError, Value, aio::ConnectionLike, cmd},
};

/// A Redis, as it was when it was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerInfo {
    pub version: String,
    /// By its replication ID, else by its `run_id`.
    pub epoch: Epoch,
    /// What cannot be promised, because Redis hides what it takes.
    pub warnings: Vec<&'static str>,
    /// INFO is refused.
    pub refused: bool,
}

impl ServerInfo {
    /// Asks the server behind `connection`.
    pub async fn ask(connection: &mut Connection) -> Result<Self, ConnectError> {
        let unreachable = |error: &dyn std::fmt::Display| {
            ConnectError::Unreachable(format!("it does not answer INFO: {error}"))
        };
        let info = connection.req_packed_command(&cmd("INFO")).await;
        match info.map_err(|error| unreachable(&error))? {
            Value::ServerError(error) if refuses(&error) => {
                let hello = connection.req_packed_command(&cmd("HELLO")).await;
                let hello = hello.and_then(Value::extract_error);
                Ok(Self::of_hello(&hello.map_err(|error| unreachable(&error))?))
            }
            Value::ServerError(error) => Err(unreachable(&error)),
            info => Ok(Self::of_info(word(&info).unwrap_or_default())),
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
        }
    }

    /// HELLO answers with names and values by turns; in RESP3 with a map.
    fn of_hello(hello: &Value) -> Self {
        let pairs: Vec<(&Value, &Value)> = match hello {
            Value::Array(items) => items.chunks_exact(2).map(|pair| (&pair[0], &pair[1])).collect(),
            Value::Map(pairs) => pairs.iter().map(|(name, value)| (name, value)).collect(),
            _ => vec![],
        };
        let version = pairs.iter().find(|(name, _)| word(name) == Some("version"));
        let mut this = Self::of_info("");
        this.version = version.and_then(|(_, value)| word(value)).unwrap_or_default().to_owned();
        this.warnings.push("Redis refuses INFO: its maxmemory-policy cannot be checked");
        this.refused = true;
        this
    }
}

impl Store {
    /// Does Redis answer, take writes and never evict? What to warn of where it does, the reason where it does not.
    pub async fn health(&self) -> Result<Vec<&'static str>, String> {
        let unavailable = |_| "Redis does not answer".to_owned();
        // A write that changes nothing: refused by a replica, at a full disk, while Redis loads or is busy.
        let write = Command::new("ZREM").arg((&self.lanes.backend.keys.index, ""));
        self.lanes.command(write).await.map_err(|_| "Redis cannot be written to".to_owned())?;
        let service = self.lanes.backend.service();
        let server = service.map(|service| service.server.clone());
        let warnings = server.as_ref().map(|server| server.warnings.clone()).unwrap_or_default();
        if server.is_some_and(|server| server.refused) {
            return Ok(warnings);
        }
        let info = Command::new("INFO").arg("memory");
        let info = self.lanes.command(info).await.map_err(unavailable)?;
        let policy = word(&info)
            .and_then(|info| info.lines().find_map(|line| line.strip_prefix("maxmemory_policy:")));
        match policy.map(str::trim) {
            Some("noeviction") | None => Ok(warnings),
            Some(policy) => Err(format!(
                "Redis may evict messages: its maxmemory-policy is {policy}, noeviction is needed"
            )),
        }
    }
}

/// The epoch that INFO tells by this name; unknown where it does not.
pub(super) fn epoch_of(info: &str, name: &str) -> Epoch {
    line(info, name).and_then(Epoch::parse).unwrap_or_default()
}

/// Does INFO say so?
pub(super) fn is_of_replica(info: &str) -> bool {
    line(info, "role") == Some("slave")
}

fn line<'a>(info: &'a str, name: &str) -> Option<&'a str> {
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
        let pairs = [text("server"), text("redis"), text("version"), text("7.0.15")];
        let map = pairs.chunks(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect();
        for hello in [Value::Array(pairs.to_vec()), Value::Map(map)] {
            let info = ServerInfo::of_hello(&hello);
            assert_eq!((info.version.as_str(), info.refused), ("7.0.15", true));
            assert!(!info.epoch.is_known() && info.warnings.len() == 2, "{info:?}");
        }
        assert_eq!(ServerInfo::of_hello(&Value::Nil).version, "");
    }
}
