//! I17: messages of a group are granted in the order of publishing, unless groups take turns, and no more of them at once
//! than the topic allows.
//!
//! A grant is wrong while as many earlier messages of the group are alive as may be leased at once. That one was alive is
//! certain where it shows itself later: by a grant, by an answer to its holder, or by what lies in Redis at the end.

use std::collections::{BTreeMap, HashMap};

use super::due::seen_by;
use super::found::Found;
use super::life::{Life, NEVER};
use super::rates::at_once;
use super::run::{AT_THE_END, Run};
use crate::proof::history::{Ms, Op, What};

/// The places of messages that are neither dead nor done.
const LIVE: [&str; 6] = ["delayed", "delayed_prio", "ready", "blocked", "unack", "last"];

/// A message of a group.
struct Member {
    life: usize,
    /// Where its publish stands in the record, if that was answered.
    publish: Option<usize>,
    /// Its publish was sent.
    sent: Ms,
    /// It was alive until then, at least.
    alive: Ms,
}

pub(super) fn check(run: &Run, found: &mut Found) {
    for (group, lives) in groups(run) {
        let most = run.group_rules(group).concurrency;
        let of = lives.iter().map(|at| (*at, &run.lives[*at]));
        if let Some((at, count, when)) = at_once(run, of, most) {
            let what = format!("{count} of {group:?} are held at {when}, at most {most} may be");
            found.say(Some(at), format!("I17 groups: {what}"));
        }
        if !run.rules.groups.fair {
            in_order(run, &lives, most, found);
        }
    }
    for (at, life) in run.lives.iter().enumerate() {
        let Some(publish) = life.births.first().and_then(|at| run.publish(*at)) else { continue };
        if let Some(held) = life.held.iter().find(|held| held.grant.group != publish.group) {
            let (shown, its) = (&held.grant.group, &publish.group);
            let what = format!("{} granted with the group {shown:?}, it has {its:?}", life.id);
            found.say(Some(at), format!("I2 no invention: {what}"));
        }
    }
}

/// The messages of each group.
pub(super) fn groups<'a>(run: &Run<'a>) -> BTreeMap<&'a str, Vec<usize>> {
    let mut groups: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, life) in run.lives.iter().enumerate() {
        let published = life.births.first().and_then(|at| run.publish(*at)?.group.as_deref());
        let granted = || life.held.first().and_then(|held| held.grant.group.as_deref());
        if let Some(group) = published.or_else(granted) {
            groups.entry(group).or_default().push(at);
        }
    }
    groups
}

/// Of the members before one those that lived longest, as many as may be leased at once, the longest first.
type Longest<'a> = Vec<&'a Member>;

fn in_order(run: &Run, lives: &[usize], most: usize, found: &mut Found) {
    let member = |at: &usize| {
        let life = &run.lives[*at];
        let publish = life.births.first().copied();
        let sent = life.birth.map_or(Ms::MIN, |birth| birth.sent);
        Member { life: *at, publish, sent, alive: alive_until(run, life) }
    };
    let members: Vec<Member> = lives.iter().map(member).collect();
    // Those whose publish was answered before another was sent.
    let answered = |member: &Member| member.publish.map_or(NEVER, |at| run.ops[at].answered);
    let mut earlier: Vec<&Member> = members.iter().filter(|it| it.publish.is_some()).collect();
    earlier.sort_by_key(|member| answered(member));
    let mut later: Vec<&Member> = members.iter().collect();
    later.sort_by_key(|member| member.sent);
    let (mut longest, mut next) = (Longest::new(), 0);
    for member in &later {
        while let Some(one) = earlier.get(next).filter(|one| answered(one) <= member.sent) {
            add(&mut longest, one, most);
            next += 1;
        }
        judge(run, &longest, most, member, found);
    }
    // A client makes one request after another, and a batch is in order.
    later.retain(|member| member.publish.is_some());
    later.sort_by_key(|member| member.publish);
    let mut of_client: HashMap<u64, Longest> = HashMap::new();
    for member in &later {
        let client = member.publish.map_or(0, |at| run.ops[at].client);
        let before = of_client.entry(client).or_default();
        judge(run, before, most, member, found);
        add(before, member, most);
    }
}

fn add<'a>(longest: &mut Longest<'a>, member: &'a Member, most: usize) {
    longest.insert(longest.partition_point(|it| it.alive >= member.alive), member);
    longest.truncate(most);
}

/// Was `member` granted while as many earlier ones were alive as may be leased at once?
fn judge(run: &Run, earlier: &[&Member], most: usize, member: &Member, found: &mut Found) {
    let (Some(last), Some(earlier)) = (earlier.first(), earlier.get(most - 1)) else { return };
    let (life, before) = (&run.lives[member.life], &run.lives[earlier.life]);
    let wrong = |at: (Ms, Ms), forgotten: Ms| at.1 < earlier.alive && last.alive < forgotten;
    if let Some(held) = life.held.iter().find(|held| wrong(held.at, held.forgotten)) {
        let (granted, attempt) = (held.grant.granted_at, held.grant.attempt);
        let until =
            if earlier.alive < NEVER { earlier.alive.to_string() } else { "the end".to_owned() };
        let what = format!(
            "{} granted at {granted} as attempt {attempt}, {} of its group (and {} more) was published before it and alive until {until}",
            life.id,
            before.id,
            most - 1
        );
        found.say(Some(earlier.life), format!("I17 groups: {what}"));
    }
}

/// Until when a message was alive for certain, in the place that its publish gave it. A redrive gives it another.
fn alive_until(run: &Run, life: &Life) -> Ms {
    let born = life.birth.map_or(Ms::MIN, |birth| birth.sent);
    let last = life.held.iter().find(|held| held.grant.attempts_left == 0).map(|held| held.at.0);
    let dead = last.into_iter().chain(run.lost.first_from(born)).fold(life.may_be_buried, Ms::min);
    let own = life.redrives.iter().map(|at| run.ops[*at].sent);
    let redriven = own.chain(run.redrives.first_from(dead)).fold(NEVER, Ms::min);

    let in_place = |op: &&Op| op.bare().is_ok() && op.answered <= redriven;
    let ops = |places: &[usize]| places.iter().map(|at| &run.ops[*at]).collect::<Vec<_>>();
    let uses = ops(&life.uses);
    // An ack that says again what was said may be ok too.
    let acks = uses.iter().copied().filter(|op| matches!(op.what, What::Ack { .. }));
    let ack = acks.filter(in_place).map(|op| op.sent).min();
    let held = uses.iter().copied().filter(|op| !matches!(op.what, What::Ack { .. }));
    let held = held.filter(in_place).map(|op| op.sent);
    let live = |op: &&Op| {
        let state = seen_by(op).map_or("", |seen| seen.state.as_str());
        matches!(state, "delayed" | "ready" | "blocked" | "leased")
    };
    let looks = ops(&life.looks);
    let shown = looks.iter().copied().filter(in_place).filter(live).map(|op| op.sent);
    let grants = life.held.iter().filter(|held| held.at.1 <= redriven).map(|held| held.at.0 + 1);
    let there = run.lies_there(life.id).is_some_and(|at| at.iter().all(|it| LIVE.contains(it)));
    let end = (there && redriven == NEVER).then_some(AT_THE_END.sent);
    ack.into_iter().chain(held).chain(shown).chain(grants).chain(end).max().unwrap_or(Ms::MIN)
}
