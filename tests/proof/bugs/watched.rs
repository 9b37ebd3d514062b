//! Bugs that no answer shows: what the watch over every run is there for.

use super::list::probe;
use super::{Bug, Patch, Scenario, probes};
use crate::proof::scenarios;

pub(super) fn bugs() -> Vec<Bug> {
    let endurance = Scenario {
        name: "endurance",
        run: |setting| Box::pin(scenarios::endurance::endurance(setting)),
    };
    vec![
        Bug {
            name: "script that holds Redis",
            does: "a lease takes tens of milliseconds of Redis's CPU",
            patches: &[Patch {
                script: "lease",
                find: "local now, up = now_ms()\n",
                put: "local now, up = now_ms()\nfor i = 1, 4000000 do end\n",
            }],
            breaks: &["I12"],
            scenario: probe!(waits::waiting_consumers),
        },
        Bug {
            name: "panic in the background",
            does: "housekeeping panics, and no request notices",
            patches: &[],
            breaks: &["no panic"],
            scenario: probe!(waits::waiting_consumers),
        },
        Bug {
            name: "loop that ends",
            does: "schedules tick once and no more, and no request notices",
            patches: &[],
            breaks: &["I14"],
            scenario: probe!(told::ticks),
        },
        Bug {
            name: "memory kept",
            does: "16 KiB of every look at a message are never freed",
            patches: &[],
            breaks: &["no growth"],
            scenario: endurance,
        },
        Bug {
            name: "descriptor kept",
            does: "every look at a message leaves a file open",
            patches: &[],
            breaks: &["no growth"],
            scenario: endurance,
        },
    ]
}
