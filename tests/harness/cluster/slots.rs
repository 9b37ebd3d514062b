//! Where a key lies, and how a slot moves from one primary to another: key by key as every version can, or all at once as
//! Valkey 9 can.

use std::process::Command;
use std::sync::OnceLock;

use deadpool_redis::redis::RedisResult;

use super::{Cluster, ask};
use crate::harness::eventually;
use crate::harness::redis::server;

/// How many keys MIGRATE takes at once.
const KEYS_AT_ONCE: &str = "100";

/// CRC16 (XMODEM) of the hash tag, modulo 16384: the Redis Cluster specification's HASH_SLOT.
pub fn slot(key: &str) -> u16 {
    let tag = key.split_once('{').and_then(|(_, rest)| rest.split_once('}'));
    let tag = tag.map(|(tag, _)| tag).filter(|tag| !tag.is_empty()).unwrap_or(key);
    crc16(0, tag.as_bytes()) % 16384
}

/// The CRC16 (XMODEM) of what had this one, with these bytes at its end.
pub fn crc16(crc: u16, bytes: &[u8]) -> u16 {
    bytes.iter().fold(crc, |crc, byte| {
        (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 }
        })
    })
}

/// The slot of everything that a topic of one partition has.
pub fn slot_of(topic: &str) -> u16 {
    slot(&format!("{{{topic}:0}}"))
}

/// Whether the server under test moves slots all at once: Valkey from 9.0 on.
pub fn moves_atomically() -> bool {
    static DOES: OnceLock<bool> = OnceLock::new();
    *DOES.get_or_init(|| {
        let version = Command::new(server()).arg("--version").output().expect("a server");
        let version = String::from_utf8_lossy(&version.stdout).into_owned();
        let major = version.split("v=").nth(1).and_then(|rest| rest.split('.').next());
        version.contains("Valkey")
            && major.is_some_and(|major| major.parse().is_ok_and(|major: u32| major >= 9))
    })
}

/// A slot that moves key by key, between its beginning and its end: missing keys are answered ASK meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    pub slot: u16,
    pub from: usize,
    pub to: usize,
}

impl Cluster {
    /// Begins to move a slot key by key.
    pub async fn begin_move(&self, slot: u16, to: usize) -> Move {
        let from = self.primary_of(slot).await;
        let (number, source, target) = (slot.to_string(), self.id(from).await, self.id(to).await);
        for (node, state, other) in [(to, "IMPORTING", source), (from, "MIGRATING", target)] {
            let words = ["CLUSTER", "SETSLOT", &number, state, &other];
            let _: () = self.node(node).command(&words).await;
        }
        Move { slot, from, to }
    }

    /// Moves one key of it, or as many as are moved at once; whether there was any.
    pub async fn move_keys(&self, moving: Move, key: Option<&str>) -> RedisResult<bool> {
        let number = moving.slot.to_string();
        let (source, port) = (self.node(moving.from), self.node(moving.to).port().to_string());
        let keys: Vec<String> = match key {
            Some(key) => vec![key.to_owned()],
            None => ask(source, &["CLUSTER", "GETKEYSINSLOT", &number, KEYS_AT_ONCE]).await?,
        };
        if keys.is_empty() {
            return Ok(false);
        }
        let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
        words.extend(keys.iter().map(String::as_str));
        Ok(ask::<String>(source, &words).await? == "OK")
    }

    /// Moves what is left of it, and tells everybody.
    pub async fn end_move(&self, moving: Move) {
        while self.move_keys(moving, None).await.expect("MIGRATE") {}
        let (number, target) = (moving.slot.to_string(), self.id(moving.to).await);
        let words = ["CLUSTER", "SETSLOT", &number, "NODE", &target];
        // The target first: should it end meanwhile, the slot still has a primary.
        for index in [moving.to, moving.from] {
            let _: () = self.node(index).command(&words).await;
        }
        self.is_told(moving.slot, moving.to).await;
    }

    /// Moves a slot key by key, at once.
    pub async fn move_slot(&self, slot: u16, to: usize) {
        let moving = self.begin_move(slot, to).await;
        self.end_move(moving).await;
    }

    /// Moves a slot all at once.
    ///
    /// # Panics
    /// Where the server cannot ([`moves_atomically`]).
    pub async fn move_slot_atomically(&self, slot: u16, to: usize) {
        let (from, target) = (self.primary_of(slot).await, self.id(to).await);
        let number = slot.to_string();
        let words = ["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &number, &number, "NODE", &target];
        let _: () = self.node(from).command(&words).await;
        self.is_told(slot, to).await;
    }

    /// Waits until this node has the slot, and the one that had it knows.
    async fn is_told(&self, slot: u16, to: usize) {
        eventually("the slot has moved", || async {
            (self.find_primary_of(slot).await == Some(to)).then_some(())
        })
        .await;
    }
}
