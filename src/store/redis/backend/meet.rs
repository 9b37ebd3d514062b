//! What is learnt when a connection meets a server, and looked at again while it lives.

use super::{Backend, KNOWN_VERSION, Link, SCHEMA_VERSION, Service, UNGUARDED};
use crate::{
    connect_error::ConnectError,
    connection::Connection,
    outage,
    reply::{self, Fields},
    scripts,
    server_info::{
        Mode, ServerInfo, connected_replicas, epoch_of, is_of_replica, is_replica, is_unguarded,
    },
    upgrade::upgrade_service,
};
use deadpool_redis::redis::{Cmd, Pipeline, Value, aio::ConnectionLike, cmd};
use dueq_model::{Epoch, TokenKey};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

impl Backend {
    /// Is the Redis behind `link` there, and a primary? It may be in another epoch by now, without the connection having
    /// broken: then it is met again. In an outage it is found out whether that is over, by a write that changes nothing to the
    /// server's `key`.
    pub async fn probe(&self, link: &mut Link, key: impl FnOnce() -> String) -> bool {
        let mut look = Pipeline::with_capacity(3);
        look.cmd("TIME");
        match self.server() {
            Some(server) if server.refused => look.cmd("ROLE"),
            _ => look.cmd("INFO").arg("replication"),
        };
        if self.outage.cause().is_some() {
            look.cmd("SETRANGE").arg(key()).arg(0).arg("");
        }
        let sent = Instant::now();
        let asked = link.connection.inner.req_packed_commands(&look, 0, look.len());
        let Ok(Ok(answers)) = tokio::time::timeout(self.shared.options.timeout, asked).await else {
            return false;
        };
        if let Some(Value::Array(time)) = answers.first() {
            self.clock.observe_time(time, sent);
        }
        // An error reply is an answer too: Redis may be busy or loading.
        let info = answers.get(1).and_then(reply::word).unwrap_or_default();
        let replica = answers.get(1).is_some_and(is_replica) || is_of_replica(info);
        if replica {
            return false;
        }
        // What is said of the key or the user does not keep other writes out.
        let is_taken = |it| matches!(reply::code_of(it), None | Some("WRONGTYPE" | "NOPERM"));
        if answers.get(2).is_some_and(is_taken) {
            self.outage.end(|| self.address(), sent);
        }
        self.look_at_replication(info);
        let epoch = epoch_of(info, "master_replid");
        if !epoch.is_known() || epoch == link.epoch {
            return true;
        }
        let met =
            tokio::time::timeout(self.shared.options.timeout, self.meet(&mut link.connection))
                .await;
        let Ok(Ok(epoch)) = met else { return false };
        link.epoch = epoch;
        true
    }

    /// Learns what must be known of the server behind `connection`.
    pub(super) async fn meet(&self, connection: &mut Connection) -> Result<Epoch, ConnectError> {
        let (server, info) = ServerInfo::ask(connection).await?;
        match server.mode {
            Mode::Sentinel => return Err(ConnectError::Sentinel),
            Mode::Cluster if self.clustered => {}
            Mode::Cluster => {
                let alone = self.shared.options.redis.is_standalone();
                if !alone || !has_all_slots(connection).await {
                    return Err(ConnectError::Cluster);
                }
            }
            Mode::Standalone if self.clustered => {
                return Err(ConnectError::NoCluster(self.address()));
            }
            Mode::Standalone => {}
        }
        if !new_enough(&server.version) {
            return Err(ConnectError::TooOld(server.version));
        }
        let role = connection.inner.req_packed_command(&cmd("ROLE")).await;
        if role.as_ref().is_ok_and(is_replica) {
            return Err(ConnectError::Replica);
        }
        self.look_at_replication(&info);
        let waits = connection.inner.req_packed_command(cmd("WAIT").arg(0).arg(0)).await;
        // One that loads its data says so of every command.
        let refused =
            waits.as_ref().is_ok_and(|it| matches!(reply::code_of(it), Some("NOPERM" | "ERR")));
        self.refuses_wait.store(refused, Relaxed);
        // Ids carry Redis's time, so it must be known before the first message.
        let sent = Instant::now();
        if let Value::Array(time) = ask(connection, &cmd("TIME")).await? {
            self.clock.observe_time(&time, sent);
        }
        let _meeting = self.meeting.lock().await;
        let epoch = server.epoch;
        // If Redis hides its epoch, any connection may lead to a new one.
        if self.server().is_some_and(|known| known.epoch == epoch) && epoch.is_known() {
            return Ok(epoch);
        }
        let load = scripts::loading();
        let loaded = connection.inner.req_packed_commands(&load, 0, load.len()).await;
        loaded.map_err(|error| ConnectError::Unreachable(error.to_string()))?;
        if self.home.load(Relaxed) {
            self.open_service(connection).await?;
        }
        let address = self.address();
        if self.outage.cause().is_none() {
            tracing::info!(version = server.version, %epoch, address, "met Redis");
        }
        for warning in &server.warnings {
            tracing::warn!("{warning}");
        }
        *self.server.write() = Some(Arc::new(server));
        self.shared.met_epoch(self.registry.load(Relaxed));
        Ok(epoch)
    }

    /// Notes what INFO tells of replication, if anything: how many replicas there are, and whether the primary takes writes
    /// without one.
    pub fn look_at_replication(&self, info: &str) {
        if info.is_empty() {
            return;
        }
        let replicas = connected_replicas(info);
        self.replicas.store(replicas, Relaxed);
        if !self.clustered && self.source().sentinels().is_none() {
            self.listed.raise(replicas);
        }
        let unguarded = is_unguarded(info, self.source().sentinels().is_some());
        self.unguarded.store(unguarded, Relaxed);
        if unguarded && !self.unguarded_logged.swap(true, Relaxed) {
            tracing::warn!("{UNGUARDED}");
        }
    }

    /// Learns the secret that all instances share, and gets a number for this one.
    async fn open_service(&self, connection: &mut Connection) -> Result<(), ConnectError> {
        let keys = &self.shared.keys;
        let secret = match self.shared.service() {
            // A Redis that forgot the newest seconds gets the secret back that is in use.
            Some(service) => service.secret.clone(),
            None => {
                let mut bytes = [0; 16];
                getrandom::fill(&mut bytes).map_err(|error| {
                    ConnectError::Unreachable(format!("no randomness: {error}"))
                })?;
                hex::encode(bytes)
            }
        };
        let mut open = cmd("EVALSHA");
        open.arg(scripts::OPEN_SERVICE.sha()).arg(5);
        open.arg(&keys.instances).arg(&keys.secret).arg(&keys.schema).arg(&keys.min_reader);
        open.arg(&keys.began);
        open.arg(secret).arg(SCHEMA_VERSION).arg(KNOWN_VERSION);
        let broken = |_| ConnectError::Unreachable("its state of dueq cannot be read".to_owned());
        let mut fields = Fields::of(ask(connection, &open).await?).map_err(broken)?;
        let mut schema = fields.int().map_err(broken)?;
        if schema < SCHEMA_VERSION && self.shared.options.upgrade {
            ask(connection, &upgrade_service(keys)).await?;
            fields = Fields::of(ask(connection, &open).await?).map_err(broken)?;
            schema = fields.int().map_err(broken)?;
        }
        if schema < SCHEMA_VERSION {
            return Err(ConnectError::OlderSchema(schema));
        }
        let min_reader = fields.int().map_err(broken)?;
        self.shared.min_reader.send_replace(min_reader);
        if min_reader > KNOWN_VERSION {
            return Err(ConnectError::NewerSchema(min_reader));
        }
        self.ids.set_instance(fields.int().map_err(broken)? as u64);
        let secret = fields.text().map_err(broken)?;
        self.shared.began.store(fields.int().map_err(broken)?, Relaxed);
        let mut key = [0; 16];
        hex::decode_to_slice(&secret, &mut key)
            .map_err(|_| ConnectError::Unreachable("its secret of dueq is damaged".to_owned()))?;
        self.shared.set_service(Service { token_key: TokenKey::new(key), secret });
        Ok(())
    }
}

async fn ask(connection: &mut Connection, command: &Cmd) -> Result<Value, ConnectError> {
    let answer = connection.inner.req_packed_command(command).await;
    match answer {
        Ok(Value::ServerError(error)) => Err(ConnectError::Refused(outage::cause(&error))),
        Ok(value) => Ok(value),
        Err(error) => Err(ConnectError::Unreachable(error.to_string())),
    }
}

/// Is this the only node of its cluster? Then it serves every key.
async fn has_all_slots(connection: &mut Connection) -> bool {
    let info = connection.inner.req_packed_command(cmd("CLUSTER").arg("INFO")).await;
    let has = |info: &str, line: &str| info.lines().any(|known| known.trim() == line);
    info.is_ok_and(|info| {
        reply::word(&info).is_some_and(|info| {
            has(info, "cluster_size:1") && has(info, "cluster_slots_assigned:16384")
        })
    })
}

fn new_enough(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let (major, minor) = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    (major, minor) >= (6, 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_from_6_2_on_will_do() {
        for (version, good) in
            [("6.2.0", true), ("7.0.15", true), ("10.1", true), ("6.0.16", false), ("", false)]
        {
            assert_eq!(new_enough(version), good, "{version}");
        }
    }
}
