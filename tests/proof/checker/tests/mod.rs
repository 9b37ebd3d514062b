//! The checker is not blind: a good run passes, and each way to break it is named. Nor does it see
//! what is not there: whatever a lost answer, a loss or a step of the clock explains passes.

use crate::proof::audit::{Audit, member_of};
use crate::proof::history::{
    Back, Fault, FaultKind, Grant, History, Ms, Nacked, OnDuplicate, Op, Outcome, Partitions,
    Publish, Published, Seen, What,
};

mod attempts;
mod ends;
mod good_run;
mod groups;
mod keys;
mod losses;
mod payloads;
mod steps;
mod topic;
mod turns;
mod waiting;

const A: &str = "0000000a-aaaa-8aaa-8aaa-aaaaaaaaaaaa";
const B: &str = "0000000b-bbbb-8bbb-8bbb-bbbbbbbbbbbb";
const C: &str = "0000000c-cccc-8ccc-8ccc-cccccccccccc";

fn op(sent: Ms, what: What) -> Op {
    Op { topic: "t".into(), client: 0, instance: 0, sent, answered: sent + 5, what }
}

fn publish(sent: Ms, delay: Ms, payload: &str, outcome: Outcome<&str>) -> Op {
    let outcome =
        outcome.map(|id| Published { id: id.into(), due_at: sent + delay, duplicate: false });
    let publish = Publish {
        payload: payload.into(),
        delay,
        priority: 0,
        max_attempts: None,
        ttl: None,
        key: None,
        on_duplicate: OnDuplicate::Return,
        key_until_granted: false,
        idempotency_key: None,
        group: None,
        outcome,
    };
    op(sent, What::Publish(publish))
}

fn grant(id: &str, attempt: i64, due_at: Ms, granted_at: Ms) -> Grant {
    Grant {
        id: id.into(),
        token: format!("token {attempt} of {id}"),
        payload: format!("payload of {id}"),
        group: None,
        attempt,
        attempts_left: 10 - attempt,
        due_at,
        granted_at,
        deadline: granted_at + 1000,
    }
}

fn lease(grant: Grant) -> Op {
    op(
        grant.granted_at - 1,
        What::Lease { max_messages: 1, wait: 0, outcome: Outcome::Ok(vec![grant]) },
    )
}

/// What the checker says of this record.
fn violations(ops: &[Op], audit: &Audit) -> Vec<String> {
    let history = History { ops: ops.to_vec(), max_attempts: 10, ..History::default() };
    super::violations(&history, audit).iter().map(ToString::to_string).collect()
}

fn nack(sent: Ms, attempt: i64, id: &str, outcome: Outcome<Nacked>) -> Op {
    let (back, delay) = (Back::Failed, Some(100));
    op(sent, What::Nack { id: id.into(), token: token(attempt, id), back, delay, outcome })
}

fn extend(sent: Ms, attempt: i64, id: &str, outcome: Outcome<Ms>) -> Op {
    let token = token(attempt, id);
    op(sent, What::Extend { id: id.into(), token, lease_ms: 1_700, outcome })
}

fn token(attempt: i64, id: &str) -> String {
    format!("token {attempt} of {id}")
}

fn ack(sent: Ms, attempt: i64, id: &str, outcome: Outcome<()>) -> Op {
    op(sent, What::Ack { id: id.into(), token: token(attempt, id), outcome })
}

fn refused(code: &str) -> Outcome<()> {
    Outcome::Refused(409, code.into())
}

/// A small run, and what lies in Redis after it.
#[derive(Default)]
struct Small {
    ops: Vec<Op>,
    faults: Vec<Fault>,
    audit: Audit,
}

impl Small {
    /// What the checker says of these ops, with totals that fit.
    fn of(ops: impl IntoIterator<Item = Op>) -> Small {
        Small { ops: ops.into_iter().collect(), ..Small::default() }
    }

    /// This message lies in this place at the end.
    fn there(mut self, id: &str, place: &'static str) -> Small {
        self.audit.places.insert(member_of(id), vec![place]);
        self.audit.bodies.insert(member_of(id), payload(id));
        self
    }

    fn total(mut self, name: &str, total: i64) -> Small {
        self.audit.meta.insert(name.into(), total.to_string());
        self
    }

    fn fault(self, kind: FaultKind, from: Ms, until: Ms) -> Small {
        self.fault_at(kind, from, until, Partitions::ALL)
    }

    fn fault_at(mut self, kind: FaultKind, from: Ms, until: Ms, at: Partitions) -> Small {
        self.faults.push(Fault { kind, from, until, at });
        self
    }

    fn history(&self) -> History {
        let (ops, faults) = (self.ops.clone(), self.faults.clone());
        History { ops, faults, max_attempts: 10, ..History::default() }
    }

    /// What is found, apart from totals (I9), which these runs leave at nought.
    fn found(&self) -> Vec<String> {
        let found = super::violations(&self.history(), &self.audit);
        let found = found.into_iter().filter(|found| found.invariant != "I9");
        found.map(|found| found.what).collect()
    }

    #[track_caller]
    fn passes(&self) {
        assert_eq!(self.found(), Vec::<String>::new());
    }

    #[track_caller]
    fn names(&self, invariant: &str) {
        let found = self.found();
        assert!(
            found.iter().any(|what| what.starts_with(invariant)),
            "{invariant} not in {found:#?}"
        );
    }
}

fn payload(id: &str) -> String {
    format!("payload of {id}")
}

/// A publish of this message at this instant, due then, answered ok.
fn published(sent: Ms, id: &str) -> Op {
    publish(sent, 0, &payload(id), Outcome::Ok(id))
}

/// The same op with other fields of its publish.
fn with(mut op: Op, change: impl FnOnce(&mut Publish)) -> Op {
    match &mut op.what {
        What::Publish(publish) => change(publish),
        other => panic!("{other:?} is no publish"),
    }
    op
}

/// A grant of this attempt, due since, with so many attempts left.
fn granted(id: &str, attempt: i64, left: i64, granted_at: Ms) -> Op {
    let mut grant = grant(id, attempt, granted_at, granted_at);
    grant.attempts_left = left;
    lease(grant)
}

fn nacked(sent: Ms, attempt: i64, id: &str, back: Back, state: &str) -> Op {
    let due_at = (state != "dead").then_some(sent);
    let outcome = Outcome::Ok(Nacked { state: state.into(), due_at, attempt });
    let (id, token, delay) = (id.into(), token(attempt, id), Some(0));
    op(sent, What::Nack { id, token, back, delay, outcome })
}

fn delete(sent: Ms, id: &str, force: bool, outcome: Outcome<()>) -> Op {
    op(sent, What::Delete { id: id.into(), force, outcome })
}

fn seen(state: &str, due_at: Option<Ms>, attempts: i64, attempts_left: i64) -> Outcome<Seen> {
    Outcome::Ok(Seen { state: state.into(), due_at, attempts, attempts_left })
}

fn get(sent: Ms, id: &str, outcome: Outcome<Seen>) -> Op {
    op(sent, What::Get { id: id.into(), outcome })
}

fn not_found<T>() -> Outcome<T> {
    Outcome::Refused(404, "message_not_found".into())
}

fn empty_lease(sent: Ms, wait: Ms, outcome: Outcome<Vec<Grant>>) -> Op {
    let mut op = op(sent, What::Lease { max_messages: 1, wait, outcome });
    op.answered = sent + wait + 5;
    op
}
