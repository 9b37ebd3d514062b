//! I9 alongside the record: a total counts each request that was answered ok once, and of the others
//! only what may have run. What is conserved in Redis itself is the audit's to say (I8, I9).

use std::collections::{BTreeMap, HashSet};

use super::contract::concerned;
use super::found::Found;
use super::run::Run;
use crate::proof::history::{Back, Ms, OnDuplicate, Op, Outcome, Publish, What};

/// As many as there may be.
const ANY: i64 = i64::MAX / 2;

#[derive(Default)]
struct Bounds(BTreeMap<&'static str, (i64, i64)>);

impl Bounds {
    fn add(&mut self, name: &'static str, least: i64, most: i64) {
        let bounds = self.0.entry(name).or_default();
        *bounds = (bounds.0 + least, (bounds.1 + most).min(ANY));
    }
}

pub(super) fn check(run: &Run, found: &mut Found) {
    found_by_the_audit(run, found);
    let mut bounds = Bounds::default();
    let names = [
        "published",
        "granted",
        "acked",
        "nacked",
        "released",
        "deleted",
        "purged",
        "redriven",
        "replaced",
        "dead",
        "expired",
        "returned",
    ];
    names.iter().for_each(|name| bounds.add(name, 0, 0));
    for (at, op) in run.ops.iter().enumerate() {
        let counts =
            Counts { ok: i64::from(firm(run, at)), may: i64::from(op.bare().may_have_run()) };
        of_op(run, op, counts, &mut bounds);
    }
    of_messages(run, &mut bounds);
    for (name, (least, most)) in bounds.0 {
        let total = run.audit.total(name);
        if !(least..=most).contains(&total) {
            let most = if most >= ANY { "any".to_owned() } else { most.to_string() };
            let what = format!("{name} is {total}, the record says {least}…{most}");
            found.say(None, format!("I9 conservation: {what}"));
        }
    }
}

fn found_by_the_audit(run: &Run, found: &mut Found) {
    for what in run.audit.violations() {
        let named = what.split([' ', '"', ',']).find_map(|word| run.by_member.get(word));
        found.say(named.copied(), what);
    }
}

/// Was it answered ok, and can it not have been forgotten?
fn firm(run: &Run, at: usize) -> bool {
    run.ops[at].bare().is_ok() && run.forgotten(at) == Ms::MAX
}

#[derive(Clone, Copy)]
struct Counts {
    ok: i64,
    may: i64,
}

fn of_op(run: &Run, op: &Op, Counts { ok, may }: Counts, bounds: &mut Bounds) {
    match &op.what {
        What::Publish(publish) => of_publish(publish, ok, may, bounds),
        What::Nack { back, outcome, .. } => {
            let name = if *back == Back::Released { "released" } else { "nacked" };
            bounds.add(name, ok, may);
            let state = outcome.ok().map_or("", |nacked| nacked.state.as_str());
            bounds.add("expired", ok * i64::from(state == "expired"), 0);
            bounds.add("dead", ok * i64::from(state == "dead"), 0);
            if *back == Back::Dead {
                bounds.add("dead", 0, may);
            }
        }
        What::Redrive { .. } => bounds.add("redriven", ok, may),
        What::RedriveTopic { max_messages, outcome } => {
            let count = outcome.ok().copied();
            bounds.add(
                "redriven",
                ok * count.unwrap_or(0),
                may * count.unwrap_or(*max_messages as i64),
            );
        }
        What::Purge { outcome, .. } => {
            let count = outcome.ok().copied();
            bounds.add("purged", ok * count.unwrap_or(0), may * count.unwrap_or(ANY));
        }
        What::Lease { outcome: Outcome::Ok(grants), .. } => {
            let last = grants.iter().filter(|grant| grant.attempts_left == 0).count() as i64;
            bounds.add("dead", 0, last);
        }
        _ => {}
    }
    if let Some((_, most)) = run.faults.lost_grants(op) {
        bounds.add("granted", 0, most);
        bounds.add("dead", 0, most);
        bounds.add("returned", 0, most);
    }
    if let Some((_, most)) = run.faults.returned_grants(op) {
        bounds.add("returned", 0, most);
    }
}

fn of_publish(publish: &Publish, ok: i64, may: i64, bounds: &mut Bounds) {
    let duplicate = publish.outcome.ok().is_some_and(|published| published.duplicate);
    if publish.outcome == Outcome::Unknown {
        bounds.add("published", 0, may);
    }
    if publish.on_duplicate == OnDuplicate::Replace && publish.key.is_some() {
        let replaced = duplicate && publish.idempotency_key.is_none();
        let may_replace = duplicate || publish.outcome == Outcome::Unknown;
        bounds.add("replaced", ok * i64::from(replaced), may * i64::from(may_replace));
    }
    if publish.ttl.is_some() {
        // A message may be forgotten and expire twice, but is one publish.
        bounds.add("expired", 0, may);
    }
}

fn of_messages(run: &Run, bounds: &mut Bounds) {
    for life in &run.lives {
        // Its publish was answered, or a client saw it all the same.
        let (there, forgotten) = life.there_from(run);
        let known = there < super::life::NEVER && forgotten == Ms::MAX;
        let answered = !life.births.is_empty();
        bounds.add("published", i64::from(known), i64::from(answered));
        let firm_grants = life.held.iter().filter(|held| held.forgotten == Ms::MAX).count();
        bounds.add("granted", firm_grants as i64, life.held.len() as i64);
    }
    for (name, verb) in [("acked", false), ("deleted", true)] {
        let (mut least, mut most) = (HashSet::new(), HashSet::new());
        for (at, op) in run.ops.iter().enumerate() {
            let same = match op.what {
                What::Ack { .. } => !verb,
                What::Delete { .. } => verb,
                _ => false,
            };
            if same && firm(run, at) {
                least.insert(concerned(op));
            }
            if same && op.bare().may_have_run() {
                most.insert(concerned(op));
            }
        }
        bounds.add(name, least.len() as i64, most.len() as i64);
    }
    // What was given back unseen was granted too.
    bounds.add("granted", 0, run.audit.total("returned"));
    let rules = run.rules;
    if rules.expires || rules.drops_dead || rules.drops_oldest {
        bounds.add("expired", 0, ANY);
    }
    let retained = run.audit.total("dead") >= 100_000;
    bounds.add("expired", 0, if retained { ANY } else { 0 });
}
