//! Requests that nobody would send on purpose, for as long as one likes: bytes on the wire, and whatever the OpenAPI
//! document allows or forbids. No panic, no answer of the 500s, and memory that does not grow with them.

#![allow(dead_code)]

pub mod schema;
pub mod wire;

/// Resident memory of a process, KiB.
pub fn rss_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a living process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its VmRSS");
    line.trim().trim_end_matches(" kB").parse().expect("a number of KiB")
}
