//! I19: groups of a fair topic take turns. While a group has a ready message and is granted none, each other group of its
//! partition is granted one message, or as many as its weight is of that of the group that waits, and at most one more: it may
//! just have been before it in the round.
//!
//! That a message was ready is certain from its publish or its nack, both answered, to its next grant, or to the end if it
//! waits there. That its group was granted nothing meanwhile is certain where the attempts of each of its messages follow one
//! another: a grant that nobody saw leaves a gap.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};

use super::found::Found;
use super::groups::groups;
use super::held::Held;
use super::life::{Life, NEVER};
use super::run::{AT_THE_END, Run, member};
use super::windows::Windows;
use crate::harness::partition_of;
use crate::proof::history::{Ms, Nacked, Op, Outcome, What};

/// The partition and the name of a group; the messages without one are a group too.
type Group<'a> = (u8, Option<&'a str>);

/// A message that is ready while its group is granted nothing.
#[derive(Clone, Copy)]
struct Wait {
    from: Ms,
    until: Ms,
    life: usize,
}

/// What a record tells of turns.
#[derive(Default)]
struct Turns<'a> {
    /// By partition, and the weight of the group.
    waits: BTreeMap<(u8, usize), Vec<Wait>>,
    /// When each group was granted something, at the earliest and at the latest, in order.
    grants: BTreeMap<Group<'a>, Vec<(Ms, Ms)>>,
}

pub(super) fn check(run: &Run, found: &mut Found) {
    let turns = Turns::read(run);
    for ((partition, weight), waits) in &turns.waits {
        let spans = Windows::new(waits.iter().map(|wait| (wait.from, wait.until)).collect());
        for ((_, group), grants) in turns.grants.iter().filter(|((of, _), _)| of == partition) {
            let own = group.map_or(1, |group| run.group_rules(group).weight);
            let most = own.div_ceil(*weight) + 1;
            let mut reported = Ms::MIN;
            for some in grants.windows(most + 1) {
                let (from, until) = (some[0].0, some[most].1);
                let too_many =
                    from > reported && spans.latest_end(from).is_some_and(|end| end >= until);
                let within = |wait: &&Wait| wait.from <= from && wait.until >= until;
                let Some(wait) = waits.iter().find(within).filter(|_| too_many) else { continue };
                reported = wait.until;
                let count =
                    grants.iter().filter(|it| it.0 >= wait.from && it.1 <= wait.until).count();
                let (id, since) = (run.lives[wait.life].id, wait.from);
                let what = format!(
                    "{id} was ready from {since} on, and while its group was granted nothing {group:?} was granted {count} messages, at most {most} may be"
                );
                found.say(Some(wait.life), format!("I19 fairness: {what}"));
            }
        }
    }
}

/// In how many waits of groups another one was granted something: where there are none, nothing was shown.
pub(super) fn compared(run: &Run) -> usize {
    let turns = Turns::read(run);
    let count = |((partition, _), waits): (&(u8, usize), &Vec<Wait>)| {
        let all = turns
            .grants
            .iter()
            .filter(|((of, _), _)| of == partition)
            .flat_map(|(_, grants)| grants);
        let mut all: Vec<Ms> = all.map(|grant| grant.0).collect();
        all.sort_unstable();
        let some = |wait: &&Wait| {
            let next = all.partition_point(|at| *at < wait.from);
            all.get(next).is_some_and(|at| *at < wait.until)
        };
        waits.iter().filter(some).count()
    };
    turns.waits.iter().map(count).sum()
}

impl<'a> Turns<'a> {
    /// Nothing where a record cannot tell, or messages wait for more than their turns.
    fn read(run: &Run<'a>) -> Turns<'a> {
        let mut turns = Turns::default();
        if !run.rules.groups.fair || run.clock.stepped() || !run.faults.losses.is_empty() {
            return turns;
        }
        for life in &run.lives {
            for held in &life.held {
                let group = (partition_of(life.id), held.grant.group.as_deref());
                turns.grants.entry(group).or_default().push(held.at);
            }
        }
        turns.grants.values_mut().for_each(|grants| grants.sort_unstable());
        let mut unseen = unknown_publishes(run);
        for (group, lives) in groups(run) {
            let rules = run.group_rules(group);
            if !rules.is_free() {
                continue;
            }
            let mut spans = unseen.remove(group).unwrap_or_default();
            spans.extend(pauses(run, group));
            let mut ready: Vec<Wait> = Vec::new();
            for life in lives.iter().copied() {
                granted_unseen(run, &run.lives[life], &mut spans);
                let its = readiness(run, &run.lives[life]).into_iter();
                ready.extend(its.map(|(from, until)| Wait { from, until, life }));
            }
            ready.sort_by_key(|wait| Reverse(wait.from));
            if let Some(first) = lives.first() {
                turns.wait(
                    (partition_of(run.lives[*first].id), Some(group)),
                    rules.weight,
                    ready,
                    &Windows::new(spans),
                );
            }
        }
        turns
    }

    /// Notes the waits of a group between its grants. `ready` has the latest first.
    fn wait(&mut self, group: Group<'a>, weight: usize, mut ready: Vec<Wait>, unseen: &Windows) {
        let grants = self.grants.get(&group).map_or(&[][..], Vec::as_slice);
        let ends = grants.iter().map(|grant| grant.0).chain([AT_THE_END.sent]);
        let begins = [Ms::MIN].into_iter().chain(grants.iter().map(|grant| grant.1));
        // Those that are ready by the end of a wait, the earliest first.
        let mut there: BinaryHeap<Reverse<(Ms, Ms, usize)>> = BinaryHeap::new();
        for (begin, end) in begins.zip(ends) {
            while let Some(wait) = ready.pop_if(|wait| wait.from < end) {
                there.push(Reverse((wait.from, wait.until, wait.life)));
            }
            while there.peek().is_some_and(|Reverse((_, until, _))| *until < end) {
                there.pop();
            }
            let Some(Reverse((from, _, life))) = there.peek().copied() else { continue };
            let wait = Wait { from: from.max(begin), until: end, life };
            if wait.from < end && !unseen.touch(wait.from, end) {
                self.waits.entry((group.0, weight)).or_default().push(wait);
            }
        }
    }
}

/// When this group may have been paused: from the sending of the first pause on.
fn pauses(run: &Run, group: &str) -> Option<(Ms, Ms)> {
    let pause = |op: &&Op| matches!(&op.what, What::Pause { group: Some(of), .. } if of == group);
    run.ops.iter().filter(pause).map(|op| (op.sent, NEVER)).min()
}

/// From when on a message of each group may be there of whose publish nothing is known.
fn unknown_publishes<'a>(run: &Run<'a>) -> HashMap<&'a str, Vec<(Ms, Ms)>> {
    let held = run.lives.iter().flat_map(|life| &life.held);
    let granted = held.map(|held| held.grant.payload.as_str());
    let seen: HashSet<&str> = granted.collect();
    let mut unknown: HashMap<&str, Vec<(Ms, Ms)>> = HashMap::new();
    for at in 0..run.ops.len() {
        let publish = run.publish(at).filter(|publish| publish.outcome == Outcome::Unknown);
        if let Some(publish) = publish.filter(|publish| !seen.contains(publish.payload.as_str()))
            && let Some(group) = &publish.group
        {
            unknown.entry(group).or_default().push((run.ops[at].sent, NEVER));
        }
    }
    unknown
}

/// Between which instants a message waited for certain, ready.
fn readiness(run: &Run, life: &Life) -> Vec<(Ms, Ms)> {
    let born = life.birth.map_or(Ms::MIN, |birth| birth.sent);
    if !life.updates.is_empty()
        || !life.claims.is_empty()
        || life.may_be_replaced_unseen(run, born, NEVER)
    {
        return Vec::new();
    }
    let publish = match life.births[..] {
        [at] => run.publish(at).and_then(|publish| publish.outcome.ok()).map(|it| (at, it.due_at)),
        _ => None,
    };
    let nacked = |held: &Held| {
        let back = held.enders.iter().find_map(|at| match &run.ops[*at].what {
            What::Nack { outcome: Outcome::Ok(Nacked { due_at: Some(due), .. }), .. } => {
                Some((*at, *due))
            }
            _ => None,
        });
        (held.grant.attempt, back)
    };
    let backs = [(0, publish)].into_iter().chain(life.held.iter().map(nacked));
    let nexts = life.held.iter().map(|held| Some((held.grant.attempt, held.at.0))).chain([None]);
    let at_the_end = attempts_at_the_end(run, life).filter(|(_, waits)| *waits);
    let mut all = Vec::new();
    for ((attempts, back), next) in backs.zip(nexts) {
        let next = next.or_else(|| at_the_end.map(|(attempts, _)| (attempts + 1, AT_THE_END.sent)));
        if let (Some((at, due)), Some((attempt, until))) = (back, next)
            && attempt == attempts + 1
        {
            all.push((run.ops[at].answered.max(due), until));
        }
    }
    all
}

/// How often a message was granted that is there at the end, and whether it waits.
fn attempts_at_the_end(run: &Run, life: &Life) -> Option<(i64, bool)> {
    let places = run.lies_there(life.id)?;
    let ended = run.audit.attempts.get(&member(life.id)).copied().unwrap_or(0);
    let leased = places.iter().any(|place| matches!(*place, "unack" | "last"));
    let waits = places.iter().all(|place| *place == "blocked");
    Some((ended + i64::from(leased), waits))
}

/// Notes between which instants a message may have been granted that nobody saw.
fn granted_unseen(run: &Run, life: &Life, spans: &mut Vec<(Ms, Ms)>) {
    let (mut since, mut attempts) = (life.birth.map_or(Ms::MIN, |birth| birth.sent), 0);
    for held in &life.held {
        if held.grant.attempt != attempts + 1 {
            spans.push((since, held.at.1));
        }
        (since, attempts) = (held.at.0, held.grant.attempt);
    }
    let spent =
        life.held.last().is_some_and(|held| held.grant.attempts_left == 0 || buried(run, held));
    let over = !life.ends.is_empty() || (spent && !life.may_be_redriven(run, since, NEVER));
    let known = attempts_at_the_end(run, life).is_some_and(|(all, _)| all == attempts);
    if !over && !known {
        spans.push((since, NEVER));
    }
}

/// Did a nack make it dead?
fn buried(run: &Run, held: &Held) -> bool {
    held.enders.iter().any(|at| match &run.ops[*at].what {
        What::Nack { outcome: Outcome::Ok(nacked), .. } => nacked.state == "dead",
        _ => false,
    })
}
