//! Requests that nobody would send on purpose, for as long as one likes: bytes on the wire, and whatever the OpenAPI
//! document allows or forbids. No panic, no answer of the 500s, and memory that does not grow with them.

#![allow(dead_code)]

pub mod schema;
pub mod wire;

use crate::harness::memory_kib;

/// Resident memory of a process, KiB.
pub fn rss_kib(pid: u32) -> u64 {
    memory_kib(pid).expect("a living process") as u64
}
