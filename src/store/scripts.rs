//! The Lua scripts, as this crate's `build.rs` joins them with their includes. `migrations-lua/README.md` says how one is written.

use super::batch::Phase;
use deadpool_redis::redis;
use std::sync::LazyLock;

/// A script and what it is called by.
#[derive(Debug)]
pub struct Script {
    /// Its file's name; also its label in the metrics.
    pub name: &'static str,
    /// Its text, includes first.
    pub source: &'static str,
    /// The place of its calls among those that a lane sends together.
    pub phase: Phase,
    sha: String,
}

impl Script {
    fn new(name: &'static str, text: &'static str, phase: Phase) -> Script {
        let source = dueq_base::seeded::patched(name, text);
        Script { name, source, phase, sha: redis::Script::new(source).get_hash().to_owned() }
    }

    /// SHA-1 of the text, as EVALSHA wants it.
    pub fn sha(&self) -> &str {
        &self.sha
    }

    /// Does its answer say how things are, for a look at a whole topic, and neither that something was done nor that
    /// it is over?
    pub fn only_looks(&self) -> bool {
        ["list_messages", "forecast_topic", "count_topic", "note_history", "read_history", "sweep"]
            .contains(&self.name)
            || self.name.starts_with("audit_")
    }

    /// A call of it that lacks its keys and arguments: by its digest, or by its text, which Redis then knows again.
    pub fn call(&self, by_text: bool) -> redis::Cmd {
        let (name, which) = if by_text { ("EVAL", self.source) } else { ("EVALSHA", self.sha()) };
        let mut call = redis::cmd(name);
        call.arg(which);
        call
    }
}

/// Where the joined scripts are.
#[cfg(feature = "testing")]
pub const JOINED: &str = concat!(env!("OUT_DIR"), "/lua");

macro_rules! scripts {
    ($($phase:ident { $($constant:ident = $name:literal;)* })*) => {
        $($(#[allow(missing_docs)] pub static $constant: LazyLock<Script> = LazyLock::new(|| {
            let text = include_str!(concat!(env!("OUT_DIR"), "/lua/", $name, ".lua"));
            Script::new($name, text, Phase::$phase)
        });)*)*

        /// All scripts, to be loaded when a Redis is met that has none of them.
        pub fn all() -> Vec<&'static Script> {
            vec![$($(&$constant,)*)*]
        }
    };
}

scripts! {
    Write {
        PUBLISH = "publish";
        PUBLISH_SPECIAL = "publish_special";
        ACK = "ack";
        NACK = "nack";
        EXTEND = "extend";
        GET = "get";
        SETTLE_LATE = "settle_late";
        UPDATE = "update";
        CLAIM_DEAD = "claim_dead";
        FINISH_DEAD = "finish_dead";
        COMPLETE = "complete";
        PAUSE_TOPIC = "pause_topic";
        PUT_TOPIC = "put_topic";
        REMOVE_TOPIC = "remove_topic";
        OPEN_PARTITION = "open_partition";
        CLOSE_PARTITION = "close_partition";
        NOTE_SWEEPS = "note_sweeps";
        CLAIM_SWEEPS = "claim_sweeps";
        TAKE_CALLS = "take_calls";
        COUNT_LEASES = "count_leases";
        START_CALL = "start_call";
        FETCH_PARKED = "fetch_parked";
        FINISH_CLAIM = "finish_claim";
        CLAIM_WALK = "claim_walk";
        NOTE_ACTIVE = "note_active";
        CLAIM_HISTORY = "claim_history";
        PUT_GROUP = "put_group";
        PUT_SCHEDULE = "put_schedule";
        GET_SCHEDULE = "get_schedule";
        LIST_SCHEDULES = "list_schedules";
        DELETE_SCHEDULE = "delete_schedule";
        PAUSE_SCHEDULE = "pause_schedule";
        TRIGGER_SCHEDULE = "trigger_schedule";
        CLAIM_SCHEDULES = "claim_schedules";
        RELEASE_TICKS = "release_ticks";
        FINISH_SCHEDULE = "finish_schedule";
        OPEN_SERVICE = "open_service";
        NOTE_INSTANCE = "note_instance";
        ADOPT_VERSION = "adopt_version";
        PAUSE_HOST = "pause_host";
        SWAP_HOST = "swap_host";
        SWAP_MOVES = "swap_moves";
        REPORT_HOSTS = "report_hosts";
        LOAD_SCHEDULE = "load_schedule";
        AUDIT_REGISTRY = "audit_registry";
        FENCE = "fence";
        WEIGH_PARTITION = "weigh_partition";
    }
    Grant {
        LEASE = "lease";
    }
    Scan {
        PURGE_TOPIC = "purge_topic";
        CHANGE_MESSAGES = "change_messages";
        LIST_MESSAGES = "list_messages";
        LIST_GROUPS = "list_groups";
        FORECAST_TOPIC = "forecast_topic";
        COUNT_TOPIC = "count_topic";
        NOTE_HISTORY = "note_history";
        READ_HISTORY = "read_history";
        SWEEP = "sweep";
        TAKE_DEAD = "take_dead";
        DUMP_MESSAGES = "dump_messages";
        LOAD_MESSAGES = "load_messages";
        AUDIT_MESSAGES = "audit_messages";
        AUDIT_KEYS = "audit_keys";
        AUDIT_MEND = "audit_mend";
        AUDIT_TOTALS = "audit_totals";
    }
}

/// The commands that make all scripts known to a Redis.
pub fn loading() -> redis::Pipeline {
    let mut load = redis::Pipeline::new();
    for script in all() {
        load.cmd("SCRIPT").arg("LOAD").arg(script.source);
    }
    load
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_file_is_named() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../migrations-lua/scripts");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        files.sort();
        let mut names: Vec<_> = all().iter().map(|script| script.name.to_owned()).collect();
        names.sort();
        assert_eq!(files, names);
    }
}
