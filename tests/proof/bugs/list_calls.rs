//! Bugs of callbacks and of deaths that are told of elsewhere.

use super::{Bug, Patch, list::probe, probes};

pub(super) fn bugs() -> Vec<Bug> {
    vec![
        Bug {
            name: "a letter goes with its message",
            does: "what is deleted before its death was told of elsewhere is never told of",
            patches: &[Patch {
                script: "*",
                find: "  if died then members = but_untold(k, members) end\n",
                put: "",
            }],
            breaks: &["I1"],
            scenario: probe!(calls::letters),
        },
        Bug {
            name: "called as it was",
            does: "what waited for a place is called though its topic has been paused",
            patches: &[],
            breaks: &["I14"],
            scenario: probe!(calls::a_pause),
        },
        Bug {
            name: "a park is a grant",
            does: "a message that waits for a place has given up the key that it holds until it is granted",
            patches: &[Patch {
                script: "lease",
                find: "ARGV[3] < '2' and lib.grant_key(k, members[i], extras[i]) or lib.call_key(extras[i])",
                put: "lib.grant_key(k, members[i], extras[i])",
            }],
            breaks: &["I10"],
            scenario: probe!(calls::a_key_that_waits),
        },
        Bug {
            name: "broken off is no attempt",
            does: "a call that the end of an instance breaks off does not count",
            patches: &[],
            breaks: &["I7"],
            scenario: probe!(calls::a_drain),
        },
        Bug {
            name: "parked to the end",
            does: "what was parked stays so when its topic is pushed no more",
            patches: &[Patch {
                script: "fetch_parked",
                find: "    redis.call('ZADD', k.delayed, due, member)\n",
                put: "",
            }],
            breaks: &["I12"],
            scenario: probe!(calls::a_pulled_topic),
        },
    ]
}
