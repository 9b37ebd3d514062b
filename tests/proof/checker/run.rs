//! The record of a run, sorted by whom it concerns: each look at it afterwards is a short one.

use std::collections::HashMap;

use super::clock::Clock;
use super::contract::concerned;
use super::faults::Faults;
use super::life::Life;
use super::rules::{GroupRules, Rules};
use super::windows::Windows;
use crate::proof::audit::{Audit, member_of};
use crate::proof::history::{History, Ms, OnDuplicate, Op, Outcome, Partitions, Publish, What};

/// All that the checks read.
pub(super) struct Run<'a> {
    pub history: &'a History,
    pub ops: &'a [Op],
    pub audit: &'a Audit,
    pub rules: Rules,
    own_groups: HashMap<&'a str, GroupRules>,
    pub clock: Clock,
    pub faults: Faults,
    /// In the order in which they first turn up.
    pub lives: Vec<Life<'a>>,
    pub by_id: HashMap<&'a str, usize>,
    pub by_member: HashMap<String, usize>,
    /// The publishes and updates that say this payload.
    pub sources: HashMap<&'a str, Vec<usize>>,
    /// When leases were granted that nobody may have seen.
    pub lost: Windows,
    pub most_lost: i64,
    /// When leases were granted, and given back before anybody saw them; only where Redis counted
    /// such grants.
    pub returned: Windows,
    pub purges: Windows,
    pub redrives: Windows,
    /// Publishes of unknown outcome that may have replaced the message of this key.
    pub unseen_replaces: HashMap<&'a str, Windows>,
}

/// An op for anyone who looks at what it tells: between which instants it ran.
#[derive(Clone, Copy)]
pub(super) struct Look {
    pub sent: Ms,
    pub answered: Ms,
}

/// What lies in Redis at the end.
pub(super) const AT_THE_END: Look = Look { sent: Ms::MAX / 4, answered: Ms::MAX / 4 };

impl From<&Op> for Look {
    fn from(op: &Op) -> Look {
        Look { sent: op.sent, answered: op.answered }
    }
}

impl<'a> Run<'a> {
    pub fn read(history: &'a History, audit: &'a Audit) -> Run<'a> {
        let ops = &history.ops;
        let faults = Faults::new(&history.faults, ops);
        let mut run = Run {
            history,
            ops,
            audit,
            rules: Rules::of(audit),
            own_groups: GroupRules::own(audit),
            clock: Clock::new(&history.faults),
            lives: Vec::new(),
            by_id: HashMap::new(),
            by_member: HashMap::new(),
            sources: HashMap::new(),
            lost: Windows::default(),
            most_lost: 0,
            returned: Windows::default(),
            purges: Windows::default(),
            redrives: Windows::default(),
            unseen_replaces: HashMap::new(),
            faults,
        };
        run.topic_wide();
        for at in 0..ops.len() {
            run.sort_in(at);
        }
        run.by_member = run.by_id.iter().map(|(id, at)| (member(id), *at)).collect();
        let mut lives = std::mem::take(&mut run.lives);
        lives.iter_mut().for_each(|life| life.complete(&run));
        run.lives = lives;
        run
    }

    fn topic_wide(&mut self) {
        let (mut lost, mut purges, mut redrives) = (Vec::new(), Vec::new(), Vec::new());
        let mut replaces: HashMap<&str, Vec<(Ms, Ms)>> = HashMap::new();
        for op in self.ops {
            if let Some((window, most)) = self.faults.lost_grants(op) {
                lost.push(window);
                self.most_lost += most;
            }
            let window = (op.sent, self.faults.effect_until(op));
            match &op.what {
                What::Purge { outcome, .. } if outcome.may_have_run() => purges.push(window),
                What::RedriveTopic { outcome, .. } if outcome.may_have_run() => {
                    redrives.push(window);
                }
                What::Publish(Publish { key: Some(key), on_duplicate, outcome, .. })
                    if *on_duplicate == OnDuplicate::Replace && *outcome == Outcome::Unknown =>
                {
                    replaces.entry(key).or_default().push(window);
                }
                _ => {}
            }
        }
        self.lost = Windows::new(lost);
        if self.audit.total("returned") > 0 || !self.faults.losses.is_empty() {
            let returned = self.ops.iter().filter_map(|op| self.faults.returned_grants(op));
            self.returned = Windows::new(returned.map(|(window, _)| window).collect());
        }
        self.purges = Windows::new(purges);
        self.redrives = Windows::new(redrives);
        let windows = |(key, spans)| (key, Windows::new(spans));
        self.unseen_replaces = replaces.into_iter().map(windows).collect();
    }

    fn sort_in(&mut self, at: usize) {
        let ops = self.ops;
        let op = &ops[at];
        match &op.what {
            What::Publish(publish) => {
                self.sources.entry(&publish.payload).or_default().push(at);
                if let Outcome::Ok(published) = &publish.outcome {
                    let life = self.life(&published.id);
                    let list =
                        if published.duplicate { &mut life.claims } else { &mut life.births };
                    list.push(at);
                }
            }
            What::Lease { outcome: Outcome::Ok(grants), .. } => {
                for grant in grants {
                    let (least, most) = self.clock.machine(grant.granted_at, op.sent, op.answered);
                    // A grant's instant is rounded up: it was in the millisecond before.
                    let at = (least - 1, most);
                    let place = Partitions::of(&grant.id);
                    let forgotten = self.faults.forgotten(at.0, op.answered, place);
                    self.life(&grant.id).hold(grant, op.into(), at, forgotten);
                }
            }
            What::Lease { .. } | What::RedriveTopic { .. } => {}
            What::Purge { .. } | What::Pause { .. } => {}
            What::Ack { id, .. } | What::Nack { id, .. } | What::Extend { id, .. } => {
                self.life(id).uses.push(at);
            }
            What::Delete { id, .. } => self.life(id).deletes.push(at),
            What::Update { id, payload, outcome, .. } => {
                if let Some(payload) = payload {
                    self.sources.entry(payload).or_default().push(at);
                }
                let may_have_run = outcome.may_have_run();
                let life = self.life(id);
                if may_have_run {
                    life.updates.push(at);
                }
                life.looks.push(at);
            }
            What::Redrive { id, outcome } => {
                let may_have_run = outcome.may_have_run();
                let life = self.life(id);
                if may_have_run {
                    life.redrives.push(at);
                }
                life.looks.push(at);
            }
            What::Get { id, .. } => self.life(id).looks.push(at),
        }
    }

    fn life(&mut self, id: &'a str) -> &mut Life<'a> {
        let next = self.lives.len();
        let at = *self.by_id.entry(id).or_insert(next);
        if at == next {
            self.lives.push(Life::of(id));
        }
        &mut self.lives[at]
    }

    /// What holds for a group.
    pub fn group_rules(&self, group: &str) -> GroupRules {
        self.own_groups.get(group).copied().unwrap_or(self.rules.groups)
    }

    /// May anything have been granted between these instants that nobody saw?
    pub fn granted_unseen(&self, from: Ms, until: Ms) -> bool {
        self.lost.touch(from, until) || self.returned.touch(from, until)
    }

    /// The publish at this place of the record.
    pub fn publish(&self, at: usize) -> Option<&'a Publish> {
        match &self.ops[at].what {
            What::Publish(publish) => Some(publish),
            _ => None,
        }
    }

    /// Is it certain that what this op did is in force for anyone who looks then?
    pub fn in_force(&self, at: usize, look: Look) -> bool {
        let op = &self.ops[at];
        op.bare().is_ok() && look.answered < self.forgotten(at)
    }

    /// From when on what this op did may be forgotten.
    pub fn forgotten(&self, at: usize) -> Ms {
        let op = &self.ops[at];
        let place = concerned(op).map_or(Partitions::ALL, Partitions::of);
        self.faults.forgotten(op.sent, op.answered, place)
    }

    /// Between which instants this op may have taken effect.
    pub fn effect(&self, at: usize) -> (Ms, Ms) {
        let op = &self.ops[at];
        (op.sent, self.faults.effect_until(op))
    }

    /// Does it lie in Redis at the end, in this place where one is named?
    pub fn lies_there(&self, id: &str) -> Option<&'a [&'static str]> {
        self.audit.places.get(&member(id)).map(Vec::as_slice)
    }
}

/// The member of an id; of something else, itself.
pub(super) fn member(id: &str) -> String {
    let digits = id.bytes().filter(|byte| *byte != b'-').count();
    if digits == 32 && id.is_ascii() { member_of(id) } else { id.to_owned() }
}
