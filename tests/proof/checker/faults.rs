//! What faults excuse: an effect that comes late, an answer that is lost, and, after a power loss
//! that may forget, the newest of what was answered.

use super::windows::Windows;
use crate::proof::history::{Fault, FaultKind, Ms, Op, Outcome, Partitions, What};

/// A request that was given up on may run this long after, or after the fault that held it up: the
/// deadline of a call and some.
const GRACE: Ms = 5_000;
/// An answer that took longer, beyond its wait, shows a machine so busy that short leases are over before their grants are
/// handed out or given back.
const HELD_UP: Ms = 1_000;

/// A power loss that may have forgotten something.
pub(super) struct Loss {
    pub from: Ms,
    pub until: Ms,
    pub window: Ms,
    /// The partitions that it concerned: all that one server had, or the topic's only one.
    pub at: Partitions,
}

/// The faults of a run, as far as they excuse anything.
pub(super) struct Faults {
    /// When something was out of order.
    spans: Vec<(Ms, Ms)>,
    pub losses: Vec<Loss>,
    /// When answers may have been lost without any request that shows it.
    pub disturbed: Windows,
    /// When the machine was too busy to answer anybody in time.
    pub held_up: Windows,
    /// When something was out of order that concerns everybody: an instance's end concerns only those who wait there.
    shared: Windows,
}

impl Faults {
    pub fn new(faults: &[Fault], ops: &[Op]) -> Faults {
        // Nothing is lost or late because of these.
        let harmless =
            |kind| matches!(kind, FaultKind::ScriptsFlushed | FaultKind::ClockStepped(_));
        let harmful = || faults.iter().filter(|fault| !harmless(fault.kind));
        let spans: Vec<_> = harmful().map(|fault| (fault.from, fault.until)).collect();
        let loss = |fault: &Fault| match fault.kind {
            FaultKind::PowerLost(window) if window > 0 => {
                Some(Loss { from: fault.from, until: fault.until, window, at: fault.at })
            }
            _ => None,
        };
        let mut disturbed: Vec<_> =
            spans.iter().map(|(from, until)| (*from, until + GRACE)).collect();
        let late = |op: &&Op| op.was_answered() && op.took() > HELD_UP;
        let held_up = ops.iter().filter(late).map(|op| (op.sent, op.answered));
        let held_up = Windows::new(held_up.collect());
        let unsure = ops.iter().filter(|op| !op.was_answered() || op.took() > HELD_UP);
        disturbed.extend(unsure.map(|op| (op.sent, op.answered)));
        let own =
            |kind| matches!(kind, FaultKind::InstanceKilled(_) | FaultKind::InstancePaused(_));
        let shared = harmful().filter(|fault| !own(fault.kind));
        Faults {
            shared: Windows::new(shared.map(|fault| (fault.from, fault.until)).collect()),
            spans,
            losses: faults.iter().filter_map(loss).collect(),
            disturbed: Windows::new(disturbed),
            held_up,
        }
    }

    /// Is anything but an instance out of order between these instants?
    pub fn during(&self, from: Ms, until: Ms) -> bool {
        self.shared.touch(from, until)
    }

    /// Until when an op may take effect: its answer, or long enough where there was none.
    pub fn effect_until(&self, op: &Op) -> Ms {
        if op.was_answered() {
            return op.answered;
        }
        let latest = op.answered + GRACE;
        let held_up =
            self.spans.iter().filter(|(from, until)| *from <= latest && *until >= op.answered);
        held_up.fold(latest, |end, (_, until)| end.max(until + GRACE))
    }

    /// From when on something that took effect in these partitions at or after `from`, and was answered then, may be
    /// forgotten: `Ms::MAX` where it never is.
    pub fn forgotten(&self, from: Ms, answered: Ms, at: Partitions) -> Ms {
        let losses = self.losses.iter().filter(|loss| loss.at.touch(at));
        let forgetting = losses.filter(|l| from <= l.until && answered >= l.from - l.window);
        forgetting.map(|loss| loss.from).min().unwrap_or(Ms::MAX)
    }

    /// Was there a loss that may have forgotten something between these instants?
    pub fn lost_between(&self, from: Ms, until: Ms) -> bool {
        self.losses.iter().any(|loss| loss.from <= until && loss.until >= from)
    }

    /// May this lease have been granted messages that nobody saw, and how many? A lease of unknown
    /// outcome may. So may a long poll while something is out of order: the instance asks again and
    /// again for it, and answers when one reply comes through.
    pub fn lost_grants(&self, op: &Op) -> Option<((Ms, Ms), i64)> {
        let What::Lease { max_messages, wait, outcome } = &op.what else { return None };
        let most = *max_messages as i64;
        match outcome {
            Outcome::Unknown => Some(((op.sent, self.effect_until(op)), most * (1 + wait / 100))),
            Outcome::Ok(_) if *wait > 0 && self.disturbed.touch(op.sent, op.answered) => {
                Some(((op.sent, op.answered), most * (1 + wait / 100)))
            }
            _ => None,
        }
    }

    /// When this lease may have been granted messages that went back at once, for its wait was over:
    /// a long poll only, and with no fault about. The script may run a while after its answer.
    pub fn returned_grants(&self, op: &Op) -> Option<((Ms, Ms), i64)> {
        match &op.what {
            What::Lease { max_messages, wait, outcome: Outcome::Ok(_) } if *wait > 0 => {
                Some(((op.sent, op.answered + GRACE), *max_messages as i64))
            }
            _ => None,
        }
    }
}
