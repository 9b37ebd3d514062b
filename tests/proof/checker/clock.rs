//! Two clocks: `sent` and `answered` are this machine's, instants in answers are Redis's. They are
//! the same until a fault sets Redis's, and may then be any of two while it does.

use crate::proof::history::{Fault, FaultKind, Ms};

/// What an answer without an instant tells of Redis's clock may be off by this much.
pub(super) const SLACK: Ms = 20;

struct Step {
    from: Ms,
    until: Ms,
    by: Ms,
}

/// How far Redis's clock was from this machine's, and when.
pub(super) struct Clock {
    steps: Vec<Step>,
}

impl Clock {
    pub fn new(faults: &[Fault]) -> Clock {
        let step = |fault: &Fault| match fault.kind {
            FaultKind::ClockStepped(by) => {
                Some(Step { from: fault.from, until: fault.until.max(fault.from), by })
            }
            _ => None,
        };
        let mut steps: Vec<Step> = faults.iter().filter_map(step).collect();
        steps.sort_by_key(|step| step.from);
        Clock { steps }
    }

    /// What Redis's clock was ahead by at this instant of the machine's: at least, at most.
    fn ahead(&self, machine: Ms) -> (Ms, Ms) {
        let (mut least, mut most) = (0, 0);
        for step in self.steps.iter().take_while(|step| step.from <= machine) {
            if machine > step.until {
                (least, most) = (least + step.by, most + step.by);
            } else {
                (least, most) = (least + step.by.min(0), most + step.by.max(0));
            }
        }
        (least, most)
    }

    /// The earliest that Redis's clock can have shown at this instant.
    pub fn least(&self, machine: Ms) -> Ms {
        machine.saturating_add(self.ahead(machine).0)
    }

    /// The latest that Redis's clock can have shown between two instants.
    pub fn highest(&self, from: Ms, until: Ms) -> Ms {
        let mut highest = until.saturating_add(self.ahead(until).1);
        for step in self.steps.iter().filter(|s| s.by < 0 && s.until >= from && s.from <= until) {
            // The instant before it was set back.
            highest = highest.max(step.until + self.ahead(step.from - 1).1);
        }
        highest
    }

    /// The earliest that Redis's clock can have shown between two instants.
    pub fn lowest(&self, from: Ms, until: Ms) -> Ms {
        let mut lowest = self.least(from);
        for step in self.steps.iter().filter(|s| s.by < 0 && s.until >= from && s.from <= until) {
            lowest = lowest.min(self.least(step.from));
        }
        lowest
    }

    /// Was it ever set?
    pub fn stepped(&self) -> bool {
        !self.steps.is_empty()
    }

    /// Was it set back between these instants?
    pub fn set_back(&self, from: Ms, until: Ms) -> bool {
        self.steps.iter().any(|s| s.by < 0 && s.until >= from && s.from <= until)
    }

    /// When it was on this machine's clock, of something that Redis did and that was asked for and
    /// answered in between: at the earliest, at the latest.
    pub fn machine(&self, redis: Ms, sent: Ms, answered: Ms) -> (Ms, Ms) {
        if self.steps.is_empty() {
            return (redis, redis);
        }
        let ((least, most), (later_least, later_most)) = (self.ahead(sent), self.ahead(answered));
        let (least, most) = (least.min(later_least), most.max(later_most));
        if least == most {
            return (redis - least, redis - least);
        }
        let clip = |at: Ms| at.clamp(sent, answered.max(sent));
        (clip(redis - most), clip(redis - least))
    }
}
