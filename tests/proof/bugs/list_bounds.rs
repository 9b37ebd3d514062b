//! Bugs of what bounds the service.

use super::{Bug, list::probe, probes};

pub(super) fn bugs() -> Vec<Bug> {
    vec![
        Bug {
            name: "budget not kept",
            does: "bodies and answers in flight may take any amount of memory",
            patches: &[],
            breaks: &["I15"],
            scenario: probe!(bounds::half_bodies),
        },
        Bug {
            name: "refused grants kept",
            does: "what is granted and finds no room in the answer waits out its lease",
            patches: &[],
            breaks: &["I12"],
            scenario: probe!(bounds::grants_without_room),
        },
    ]
}
