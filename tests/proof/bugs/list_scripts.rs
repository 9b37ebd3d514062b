//! Bugs of what scripts compute before they write, and of what they write.

use super::list::probe;
use super::{Bug, Patch, probes};

pub(super) fn bugs() -> Vec<Bug> {
    vec![
        Bug {
            name: "key cut at a NUL",
            does: "what is written of a message that failed ends where its key has a NUL",
            patches: &[Patch {
                script: "nack",
                find: "  return table.concat({ string.format('%d,%d,', attempts, counted), max_attempts, string.format(',%d', priority), rest })",
                put: "  return string.format('%d,%d,%s,%d%s', attempts, counted, max_attempts, priority, rest)",
            }],
            breaks: &["I8", "I10"],
            scenario: probe!(keys::a_key_with_a_nul),
        },
        Bug {
            name: "removed before it is placed",
            does: "a nack ends the lease, and then falls over the backoff that it computes",
            patches: &[Patch {
                script: "nack",
                find: "        after = backoff(policy, counted, ARGV[at + 3])",
                put: "        redis.call('ZREM', k.unack, member)\n        after = backoff(policy, counted, ARGV[at + 3]) + nil",
            }],
            breaks: &["I1", "I8"],
            scenario: probe!(deaths::a_backoff),
        },
    ]
}
