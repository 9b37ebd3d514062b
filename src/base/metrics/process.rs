//! What the system knows of this process, under the names that all Prometheus clients use. Read from `/proc` at every
//! scrape; a system without it shows none of them.

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
};
use rustix::{
    param::{clock_ticks_per_second, page_size},
    process::{Resource, getrlimit},
};
use std::{fmt, fs};

/// Reads and renders them.
#[derive(Debug)]
pub(super) struct ProcessCollector;

/// Of `/proc/self/stat`.
#[derive(Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    resident_bytes: f64,
    /// Since the machine was started.
    started_seconds: f64,
}

impl Stat {
    fn parse(stat: &str, ticks: f64, page: f64) -> Option<Self> {
        // The second field is the program's name, which may hold anything.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        // proc(5) numbers fields from 1; the first here is the third there.
        let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        Some(Self {
            cpu_seconds: (field(14)? + field(15)?) / ticks,
            resident_bytes: field(24)? * page,
            started_seconds: field(22)? / ticks,
        })
    }

    fn read() -> Option<Self> {
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        Self::parse(&stat, clock_ticks_per_second() as f64, page_size() as f64)
    }
}

/// Resident memory of this process; `None` where the system does not say.
pub fn resident_bytes() -> Option<i64> {
    Stat::read().map(|stat| stat.resident_bytes as i64)
}

/// The name of this machine, in letters, digits, `-`, `_` and points; a container has one of its own. `None` where it has none.
pub fn host_name() -> Option<String> {
    let name = rustix::system::uname();
    let name = name.nodename().to_string_lossy();
    let known = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    Some(name.chars().take(64).map(known).collect()).filter(|name: &String| !name.is_empty())
}

/// When the machine was started, s since 1970.
fn boot_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

/// Linux 6.2 and later say it as the size of the directory; otherwise its entries are counted.
fn open_fds() -> Option<f64> {
    match fs::metadata("/proc/self/fd").ok()?.len() {
        // One of the entries is the listing itself.
        0 => Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as f64),
        number => Some(number as f64),
    }
}

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(stat) = Stat::read() else { return Ok(()) };
        let (name, help) = ("process_cpu_seconds", "CPU time used, user and system");
        let metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(stat.cpu_seconds).encode(metric)?;
        let max_fds = getrlimit(Resource::Nofile).current.map(|limit| limit as f64);
        let start = boot_seconds().map(|boot| boot + stat.started_seconds);
        for (name, help, value) in [
            ("process_resident_memory_bytes", "Resident memory", Some(stat.resident_bytes)),
            ("process_open_fds", "Open file descriptors", open_fds()),
            ("process_max_fds", "Limit of open file descriptors", max_fds),
            ("process_start_time_seconds", "When the process began, s since 1970", start),
        ] {
            let Some(value) = value else { continue };
            let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_the_system_is_read_whatever_the_program_is_called() {
        let rest =
            "S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0 9 0 12345 900000 300 18446744073709551615";
        for name in ["dueq", "a) b (c", ""] {
            let stat = Stat::parse(&format!("42 ({name}) {rest}"), 100.0, 4096.0);
            let expected =
                Stat { cpu_seconds: 3.0, resident_bytes: 1_228_800.0, started_seconds: 123.45 };
            assert_eq!(stat, Some(expected), "{name}");
        }
        assert_eq!(Stat::parse("42 (dueq) S 1", 100.0, 4096.0), None);
        assert_eq!(Stat::parse("", 100.0, 4096.0), None);
    }
}
