//! The Lua scripts, each joined with the includes that it uses when dueq is compiled. `migrations-lua/README.md` says
//! how a script is written.
//!
//! Lua makes a script's local functions anew in every call. So the happy path's scripts have what it never needs inside
//! one function, `rare()`, which makes and returns them where they are wanted: 5 to 10 % of a call.

use deadpool_redis::redis;
use std::sync::LazyLock;

/// A script and what it is called by.
#[derive(Debug)]
pub(crate) struct Script {
    /// Its file's name; also its label in the metrics.
    pub name: &'static str,
    /// Its text, includes first.
    pub source: &'static str,
    sha: LazyLock<String, Box<dyn FnOnce() -> String + Send>>,
}

impl Script {
    /// SHA-1 of the text, as EVALSHA wants it.
    pub fn sha(&self) -> &str {
        &self.sha
    }
}

macro_rules! scripts {
    ($($constant:ident = $name:literal : $($include:literal)* $(, rare $($rare:literal)* => $($function:literal)*)?;)*) => {
        $(pub(crate) static $constant: LazyLock<Script> = LazyLock::new(|| {
            let source = concat!(
                $(include_str!(concat!("../../migrations-lua/includes/", $include, ".lua")),)*
                $(
                    "local function rare()\n",
                    $(include_str!(concat!("../../migrations-lua/includes/", $rare, ".lua")),)*
                    "return {", $(" ", $function, " = ", $function, ",",)* " }\nend\n",
                )?
                include_str!(concat!("../../migrations-lua/scripts/", $name, ".lua")),
            );
            let source = crate::seeded::patched($name, source);
            Script {
                name: $name,
                source,
                sha: LazyLock::new(Box::new(|| redis::Script::new(source).get_hash().to_owned())),
            }
        });)*

        /// All scripts, to be loaded when a Redis is met that has none of them.
        pub(crate) fn all() -> Vec<&'static Script> {
            vec![$(&$constant),*]
        }
    };
}

scripts! {
    PUBLISH = "publish": "now" "format" "due" "announce" "wake";
    PUBLISH_SPECIAL = "publish_special": "partition" "now" "format" "due" "lease_score" "rank" "extra" "rules" "events"
        "place" "promote" "forget" "expiry" "end_lease" "spent" "drop_expired" "note_over" "sweep" "settle" "room"
        "announce" "wake";
    LEASE = "lease": "now" "format" "lease_score" "epoch", rare "partition" "rank" "extra" "read_extras" "rules" "events" "place"
        "forget" "expiry" "end_lease" "spent" "drop_expired" "clear_head" "promote" "grant" "next_event" "payload_bytes"
        "take_by_size"
        => "partition" "parse_rules" "end_leases" "promote" "clear_head" "take_by_size" "rank_due" "read_extras"
        "remember_first_due" "parse_extra" "add_events" "event" "grant_key" "call_key" "next_event" "new_budget";
    ACK = "ack": "now", rare "lease_score" "extra" "read_extras" "rules" "events" "seal" "forget"
        => "read_leases" "parse_rules" "holds" "open_seal" "pack_lease" "parse_extra" "free_key" "forget_all" "event"
        "add_events" "trim_acked" "room_after" "EVENT_BYTES" "freeable" "new_budget";
    NACK = "nack": "partition" "now" "lease_score" "rank" "extra" "read_extras" "rules" "events" "seal" "place" "forget"
        "expiry" "announce" "wake" "backoff";
    EXTEND = "extend": "now" "lease_score" "extra" "read_extras" "seal";
    GET = "get": "partition" "now" "lease_score" "rank" "extra" "rules" "events" "place" "forget" "expiry" "end_lease"
        "settle" "which" "snapshot";
    DELETE = "delete": "partition" "now" "lease_score" "rank" "extra" "rules" "events" "place" "forget" "expiry"
        "end_lease" "settle" "which";
    UPDATE = "update": "partition" "now" "format" "due" "lease_score" "rank" "extra" "rules" "events" "place" "forget"
        "expiry" "end_lease" "spent" "settle" "which" "snapshot" "announce" "wake";
    REDRIVE_MESSAGE = "redrive_message": "partition" "now" "lease_score" "rank" "extra" "rules" "events" "place"
        "forget" "expiry" "end_lease" "settle" "redrive" "snapshot" "announce" "wake";
    REDRIVE_TOPIC = "redrive_topic": "partition" "now" "lease_score" "rank" "extra" "rules" "events" "place" "promote"
        "forget" "expiry" "end_lease" "drop_expired" "note_over" "sweep" "settle" "redrive" "announce" "wake";
    PURGE_TOPIC = "purge_topic": "partition" "now" "lease_score" "rank" "extra" "rules" "events" "place" "forget"
        "expiry" "end_lease";
    LIST_MESSAGES = "list_messages": "partition" "now" "format" "lease_score" "rank" "extra" "rules" "events" "place"
        "promote" "forget" "expiry" "end_lease" "page";
    FORECAST_TOPIC = "forecast_topic": "partition" "now" "format" "lease_score" "rank" "extra" "rules" "events" "place"
        "promote" "forget" "expiry" "end_lease" "drop_expired" "note_over" "sweep";
    EXISTS = "exists": ;
    COUNT_TOPIC = "count_topic": "partition" "now" "format" "lease_score" "rank" "extra" "rules" "events" "place"
        "promote" "forget" "expiry" "end_lease" "drop_expired" "note_over" "sweep";
    SWEEP = "sweep": "partition" "now" "lease_score" "rank" "extra" "rules" "events" "place" "promote" "forget" "expiry"
        "end_lease" "drop_expired" "note_over" "sweep" "next_sweep";
    TAKE_DEAD = "take_dead": "partition" "now" "lease_score" "rank" "extra" "rules" "expiry" "stands" "snapshot";
    FINISH_DEAD = "finish_dead": "partition" "extra" "forget" "stands";
    PAUSE_TOPIC = "pause_topic": "announce";
    CREATE_TOPIC = "create_topic": "now" "format" "revision";
    PUT_TOPIC = "put_topic": "now" "format" "revision" "announce";
    REMOVE_TOPIC = "remove_topic": ;
    OPEN_PARTITION = "open_partition": "announce";
    CLOSE_PARTITION = "close_partition": "partition" "now" "lease_score" "rank" "extra" "rules" "events" "place"
        "promote" "forget" "expiry" "end_lease" "drop_expired" "note_over" "sweep";
    NOTE_SWEEPS = "note_sweeps": ;
    CLAIM_SWEEPS = "claim_sweeps": "now" "format";
    TAKE_CALLS = "take_calls": "now" "format";
    START_CALL = "start_call": "partition" "extra" "forget" "grant";
    FETCH_PARKED = "fetch_parked": "partition" "now" "rank" "extra" "place" "announce" "wake";
    FINISH_SWEEP = "finish_sweep": ;
    CLAIM_WALK = "claim_walk": "now" "format";
    PUT_SCHEDULE = "put_schedule": "now" "format" "revision" "schedule_state";
    GET_SCHEDULE = "get_schedule": ;
    LIST_SCHEDULES = "list_schedules": ;
    DELETE_SCHEDULE = "delete_schedule": ;
    PAUSE_SCHEDULE = "pause_schedule": "now" "format" "revision" "schedule_state";
    TRIGGER_SCHEDULE = "trigger_schedule": "schedule_state";
    CLAIM_SCHEDULES = "claim_schedules": "now" "format" "schedule_state";
    RELEASE_TICKS = "release_ticks": "now" "format";
    FINISH_SCHEDULE = "finish_schedule": "schedule_state";
    OPEN_SERVICE = "open_service": ;
    AUDIT_MESSAGES = "audit_messages": "partition" "owner" "extra" "stands" "examine";
    AUDIT_KEYS = "audit_keys": "partition" "owner" "extra" "stands" "holds_key";
    AUDIT_MEND = "audit_mend": "partition" "now" "owner" "rank" "extra" "place" "forget" "stands" "holds_key" "mend"
        "announce" "wake";
    AUDIT_TOTALS = "audit_totals": "partition" "owner";
    AUDIT_REGISTRY = "audit_registry": "now" "format" "revision";
}

/// The commands that make all scripts known to a Redis.
pub(crate) fn loading() -> redis::Pipeline {
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
    fn every_script_file_is_joined_and_has_no_shebang() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations-lua/scripts");
        let mut files: Vec<_> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .collect();
        files.sort();
        let mut names: Vec<_> = all().iter().map(|script| script.name.to_owned()).collect();
        names.sort();
        assert_eq!(files, names);
        assert!(all().iter().all(|script| !script.source.starts_with("#!")));
    }
}
