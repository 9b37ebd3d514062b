//! Bugs of what dueq does on a Redis that is full, or that is a replica by now.

use super::{Bug, Patch, Scenario};
use crate::proof::scenarios::{failover, memory_stays};

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
            name: "claims refused at maxmemory",
            does: "housekeeping cannot claim a topic on a full Redis, so what has expired stays",
            patches: &[Patch {
                script: "claim_sweeps",
                find: "redis.call('ZREM', KEYS[1], '')\n",
                put: "",
            }],
            breaks: &["the contract"],
            scenario: MEMORY_STAYS,
        },
        Bug {
            name: "lanes stay at a replica",
            does: "an idle lane does not mind that its server has become a replica",
            patches: &[],
            breaks: &["I12"],
            scenario: Scenario {
                name: "failover_idle",
                run: |setting| Box::pin(failover::failover_idle(setting)),
            },
        },
    ]
}
