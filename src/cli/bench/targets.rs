//! The numbers to reach, each in one place: what is wanted, and how a measured
//! figure is held against it. All of them are for a release build with Redis
//! and the generator on the same two cores, so on another machine a miss says
//! less than it does there.

use serde_json::{Value, json};

use super::report::Table;
use super::stats::thousands;

/// A number to reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Publish at 64 connections as a share of the ceiling.
    PublishShare,
    /// The consumer loop at 64 connections as a share of the ceiling.
    LoopShare,
    /// Redis CPU of a life by scripts against the same commands without Lua,
    /// groups of 16.
    ScriptCost16,
    /// The same in groups of 64.
    ScriptCost64,
    /// Bytes of a delayed message beyond its payload.
    Memory,
    /// p99 of lateness at 1,000 due a second, ms.
    Lateness,
    /// Messages granted before they were due.
    Early,
    /// Median latency of publish at one connection, group against direct.
    Latency,
    /// Redis commands a second while 1,000 long polls wait.
    Idle,
    /// Lease rate with 1,000,000 delayed messages present against empty.
    LeaseFull,
    /// Publish rate (random delays) with 1,000,000 present against empty.
    PublishFull,
    /// Publish with `--fsync always`, group against direct.
    Fsync,
    /// Messages a second, published by batches of 100.
    BatchPublish,
    /// Messages a second through leases of 100 with 100 acks.
    BatchLoop,
    /// Publish with key, TTL, priority and headers against plain publish.
    Fields,
    /// Redis calls above 3 ms while a burst is drained.
    BurstSlow,
    /// p99 of publish on another topic, during the burst against before it.
    BurstOthers,
    /// Listing the middle page of the backlog, ms in Redis.
    ListPage,
    /// The slowest call of a forecast of 1,000 buckets there, ms in Redis.
    Forecast,
    /// Redis commands a second for 10,000 idle topics, two instances.
    IdleTopics,
    /// Calls a second to one receiver, a pushed topic.
    Callbacks,
    /// The same for messages of `POST /callbacks`.
    OwnCallbacks,
    /// p99 of arrival less due time at 1,000 due a second, ms.
    CallbackLateness,
    /// Resident memory of a call under way, KiB.
    CallbackMemory,
    /// p99 of lateness beside a silent host against without it.
    CallbackFairness,
    /// How far two instances are off a topic's rate, per cent.
    CallbackRate,
}

/// A figure held against its target.
#[derive(Debug, Clone, Copy)]
pub struct Verdict {
    /// Which number.
    pub target: Target,
    /// What was measured.
    pub measured: f64,
}

impl Target {
    const ALL: [Target; 26] = [
        Self::PublishShare,
        Self::LoopShare,
        Self::ScriptCost16,
        Self::ScriptCost64,
        Self::Memory,
        Self::Lateness,
        Self::Early,
        Self::Latency,
        Self::Idle,
        Self::LeaseFull,
        Self::PublishFull,
        Self::Fsync,
        Self::BatchPublish,
        Self::BatchLoop,
        Self::Fields,
        Self::BurstSlow,
        Self::BurstOthers,
        Self::ListPage,
        Self::Forecast,
        Self::IdleTopics,
        Self::Callbacks,
        Self::OwnCallbacks,
        Self::CallbackLateness,
        Self::CallbackMemory,
        Self::CallbackFairness,
        Self::CallbackRate,
    ];

    /// What is measured, the bound, whether it is a lower one, and the unit.
    fn terms(self) -> (&'static str, f64, bool, &'static str) {
        match self {
            Self::PublishShare => ("publish, 64 connections, of the ceiling", 50.0, true, " %"),
            Self::LoopShare => ("consumer loop, 64 connections, of the ceiling", 40.0, true, " %"),
            Self::ScriptCost16 => {
                ("Redis CPU of a life, groups of 16, of no Lua", 1.8, false, " x")
            }
            Self::ScriptCost64 => {
                ("Redis CPU of a life, groups of 64, of no Lua", 1.8, false, " x")
            }
            Self::Memory => ("bytes beyond the payload, delayed message", 215.0, false, " B"),
            Self::Lateness => ("lateness p99 at 1,000 due a second", 10.0, false, " ms"),
            Self::Early => ("messages granted early", 0.0, false, ""),
            Self::Latency => ("publish latency, 1 connection, of direct", 1.5, false, " x"),
            Self::Idle => ("Redis commands a second, 1,000 long polls", 50.0, false, ""),
            Self::LeaseFull => ("lease with the backlog present, of empty", 90.0, true, " %"),
            Self::PublishFull => ("publish with the backlog present, of empty", 85.0, true, " %"),
            Self::Fsync => ("publish, --fsync always, 128 connections, of direct", 3.0, true, " x"),
            Self::BatchPublish => {
                ("publish by 100, 16 connections, messages a second", 150_000.0, true, "")
            }
            Self::BatchLoop => {
                ("lease 100 and ack 100, 16 connections, messages a second", 80_000.0, true, "")
            }
            Self::Fields => {
                ("publish with key, TTL, priority, headers, of plain", 60.0, true, " %")
            }
            Self::BurstSlow => ("Redis calls above 3 ms while a burst is drained", 0.0, false, ""),
            Self::BurstOthers => {
                ("publish p99 of others during the burst, of usual", 3.0, false, " x")
            }
            Self::ListPage => ("listing a page amid the backlog, in Redis", 1.0, false, " ms"),
            Self::Forecast => ("slowest call of a forecast there, in Redis", 3.0, false, " ms"),
            Self::IdleTopics => ("Redis commands a second, 10,000 idle topics", 50.0, false, ""),
            Self::Callbacks => ("callbacks a second, a pushed topic", 5_000.0, true, ""),
            Self::OwnCallbacks => ("callbacks a second, POST /callbacks", 5_000.0, true, ""),
            Self::CallbackLateness => {
                ("callback lateness p99 at 1,000 due a second", 50.0, false, " ms")
            }
            Self::CallbackMemory => ("memory of a call under way, of 10,000", 64.0, false, " KiB"),
            Self::CallbackFairness => {
                ("callback lateness p99 beside a silent host, of alone", 2.0, false, " x")
            }
            Self::CallbackRate => {
                ("calls off rate_per_s in ten seconds, two instances", 10.0, false, " %")
            }
        }
    }
}

impl Verdict {
    /// Whether the figure reaches the target.
    pub fn reached(&self) -> bool {
        let (_, bound, at_least, _) = self.target.terms();
        if at_least { self.measured >= bound } else { self.measured <= bound }
    }
}

/// The closing list: every target, with its figure where it was measured.
pub fn table(verdicts: &[Verdict]) -> Table {
    let mut table = Table::new("Numbers to reach", &["what", "wanted", "measured", ""]);
    for target in Target::ALL {
        let (what, bound, at_least, unit) = target.terms();
        let sign = if at_least { ">=" } else { "<=" };
        let verdict = verdicts.iter().find(|verdict| verdict.target == target);
        table.row([
            what.to_owned(),
            format!("{sign} {}{unit}", short(bound)),
            verdict.map_or("-".to_owned(), |v| match v.measured {
                rate if rate >= 1_000.0 => format!("{}{unit}", thousands(rate)),
                figure => format!("{figure:.2}{unit}"),
            }),
            match verdict {
                Some(verdict) if verdict.reached() => "ok".to_owned(),
                Some(_) => "MISSED".to_owned(),
                None => "not measured".to_owned(),
            },
        ]);
    }
    table
}

/// A bound as it was set, large ones with commas.
fn short(bound: f64) -> String {
    if bound >= 1_000.0 { thousands(bound) } else { bound.to_string() }
}

/// The same for machines.
pub fn to_json(verdicts: &[Verdict]) -> Value {
    let one = |verdict: &Verdict| {
        let (what, bound, at_least, unit) = verdict.target.terms();
        let bound_name = if at_least { "at_least" } else { "at_most" };
        json!({
            "what": what,
            bound_name: bound,
            "unit": unit.trim(),
            "measured": verdict.measured,
            "reached": verdict.reached(),
        })
    };
    verdicts.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_reached_from_its_own_side() {
        let reached = |target, measured| Verdict { target, measured }.reached();
        assert!(reached(Target::PublishShare, 50.0));
        assert!(!reached(Target::PublishShare, 49.9));
        assert!(reached(Target::Memory, 215.0));
        assert!(!reached(Target::Memory, 215.1));
        assert!(!reached(Target::Early, 1.0));
    }

    #[test]
    fn the_list_holds_every_target() {
        let measured = Verdict { target: Target::Fsync, measured: 2.0 };
        let text = table(&[measured]).render();
        assert_eq!(text.matches("not measured").count(), Target::ALL.len() - 1);
        assert!(text.contains("MISSED") && text.contains("2.00 x"));
        assert_eq!(to_json(&[measured])[0]["reached"], false);
    }
}
