//! Bugs of what dueq does on a Redis that is full, that is a replica by now, or that has gone back.

use super::{Bug, Patch, Scenario};
use crate::proof::scenarios::{failover, memory_stays, snapshot};

const MEMORY_STAYS: Scenario =
    Scenario { name: "memory_stays", run: |setting| Box::pin(memory_stays::memory_stays(setting)) };

pub(super) fn bugs() -> Vec<Bug> {
    vec![
        Bug {
            name: "resume refused at maxmemory",
            does: "a pause or resume begins with a write that a full Redis refuses",
            patches: &[Patch {
                script: "pause_topic",
                find: "redis.call('HDEL', KEYS[1], '')\n",
                put: "",
            }],
            breaks: &["the contract"],
            scenario: MEMORY_STAYS,
        },
        Bug {
            name: "epochs by run_id",
            does: "leases are fenced by the process that granted them, which lives through a demotion and a promotion",
            patches: &[Patch {
                script: "lease",
                find: "local info = redis.pcall('INFO', 'replication')\n  local digits = type(info) == 'string' and string.match(info, 'master_replid:(",
                put: "local info = redis.pcall('INFO', 'server')\n  local digits = type(info) == 'string' and string.match(info, 'run_id:(",
            }],
            breaks: &["I5"],
            scenario: Scenario {
                name: "failover",
                run: |setting| Box::pin(failover::failover(setting)),
            },
        },
        Bug {
            name: "revisions counted up from what is left",
            does: "a revision that Redis lost with its newest seconds is given out again, for another configuration",
            patches: &[Patch {
                script: "*",
                find: "local revision = int(math.max(last + 1, now * 1024))",
                put: "local revision = int(last + 1)",
            }],
            breaks: &["I13"],
            scenario: Scenario {
                name: "snapshot_restored",
                run: |setting| Box::pin(snapshot::snapshot_restored(setting)),
            },
        },
        Bug {
            name: "lanes stay at a replica",
            does: "a lane does not mind that its server has become a replica",
            patches: &[],
            breaks: &["I12"],
            scenario: Scenario {
                name: "failover_idle",
                run: |setting| Box::pin(failover::failover_idle(setting)),
            },
        },
    ]
}
