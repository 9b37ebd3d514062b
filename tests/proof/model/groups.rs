//! The lines of groups in the model: a message joins the end of its group's, and becomes one of the few at its front once
//! those before it have left. None goes back. Where a group has a rate, turns are planned for those at the front, and taken by
//! grants: what leaves without one, or is put off, makes the others plan again.
//!
//! In a fair topic nothing is blocked or planned. Groups take turns, and the messages of a group go by priority and due time: a
//! group that waits, though it could go, waits for at most two messages of each other group.

use std::collections::{BTreeMap, BTreeSet};

use super::broken::{Kept, must};
use super::config::interval;
use super::world::{Message, Own, Place, World};
use crate::proof::audit::member_of;

/// A consumer that is so late (ms) delays none of the next ones.
const LATE_MS: i64 = 50;
/// When a message is due that is so by itself, after turns that end at `ahead`.
fn planned(ahead: i64, now: i64, due: i64, (interval, burst): (i64, i64)) -> i64 {
    let turn = (ahead - (burst - 1) * interval + 999).div_euclid(1000);
    if turn > now { due.max(turn) } else { due }
}

/// Where the turns end after a grant, if its turn has come.
fn taken(ahead: i64, now: i64, due: i64, (interval, burst): (i64, i64)) -> Option<i64> {
    let ahead = ahead.max(due.max(now - LATE_MS) * 1000);
    (ahead - (burst - 1) * interval <= now * 1000).then_some(ahead + interval)
}

impl World {
    /// A message that has come to live joins its group, if it has one.
    pub fn join(&mut self, n: usize) {
        let m = &self.messages[n];
        let (topic, Some(group)) = (m.topic, m.group.clone()) else { return };
        self.order += 1;
        let order = self.order;
        let rated = self.rate(topic).is_some();
        let m = &mut self.messages[n];
        m.order = order;
        if !self.is_fair(topic) {
            let m = &mut self.messages[n];
            (m.blocked, m.unbegun) = (true, rated);
            self.let_go(topic, &group);
        }
    }

    /// A message lives no more.
    pub fn leave(&mut self, n: usize) {
        let m = &mut self.messages[n];
        let was_blocked = std::mem::take(&mut m.blocked);
        let waited = m.turn.take().is_some();
        let (topic, Some(group)) = (m.topic, m.group.clone()) else { return };
        self.stirred[topic] |= self.settling;
        if !was_blocked {
            self.let_go(topic, &group);
            if waited {
                self.plan(topic, &group);
            }
        }
    }

    /// More messages of each group of a topic may be at the front by now.
    pub fn let_more_go(&mut self, topic: usize) {
        let groups: Vec<String> = self.of(topic).filter_map(|(_, m)| m.group.clone()).collect();
        for group in groups {
            self.let_go(topic, &group);
        }
    }

    /// A waiting message was changed, and `moved` where it has another due time.
    pub fn changed(&mut self, n: usize, moved: bool) {
        let m = &self.messages[n];
        let (topic, Some(due), Some(group)) = (m.topic, m.due(), m.group.clone()) else { return };
        let rated = self.rate(topic).is_some();
        let m = &mut self.messages[n];
        if m.blocked {
            m.unbegun = rated;
            m.began = m.began.filter(|_| !rated);
        } else {
            m.turn = m.turn.map(|own| if moved { due } else { own });
            self.plan(topic, &group);
        }
    }

    /// A message whose lease has ended goes back behind those that its strict group may have by now. Returns whether it does.
    pub fn step_back(&mut self, n: usize) -> bool {
        let m = &self.messages[n];
        let (topic, Some(group)) = (m.topic, m.group.as_deref()) else { return false };
        let Some(config) = self.topics[topic].as_ref().map(|topic| &topic.config) else {
            return false;
        };
        let front = |(_, m): &(usize, &Message)| {
            m.lives() && !m.blocked && m.group.as_deref() == Some(group)
        };
        let most = self.most_of(topic, group);
        let back = !config.fair && self.of(topic).filter(front).count() > most;
        self.messages[n].blocked = back;
        back
    }

    /// Other limits hold for all groups of a strict topic.
    pub fn put_all_back(&mut self, topic: usize) {
        let groups: BTreeSet<String> =
            self.of(topic).filter_map(|(_, m)| m.group.clone()).collect();
        groups.iter().for_each(|group| self.put_back(topic, group));
    }

    /// Other limits hold for a group of a strict topic: what waits for a turn at the front goes back, and so do the last ones
    /// where it has more than it may.
    fn put_back(&mut self, topic: usize, group: &str) {
        let front = self
            .of(topic)
            .filter(|(_, m)| m.lives() && !m.blocked && m.group.as_deref() == Some(group));
        let mut front: Vec<(u64, usize)> = front.map(|(n, m)| (m.order, n)).collect();
        front.sort_unstable();
        let mut surplus = front.len().saturating_sub(self.most_of(topic, group));
        if !front.is_empty() {
            self.rates.remove(&(topic, group.to_owned()));
        }
        for (_, n) in front.into_iter().rev() {
            let (now, m) = (self.now, &mut self.messages[n]);
            let Place::Waiting { due } = m.place else { continue };
            if surplus == 0 && m.turn.is_none() {
                continue;
            }
            surplus = surplus.saturating_sub(1);
            m.blocked = true;
            if let Some(turn) = m.turn.take() {
                m.place = Place::Waiting { due: turn };
                if due > now {
                    (m.began, m.unbegun) = (None, m.ttl.is_some());
                }
            }
        }
    }

    /// What holds for this group in place of what its topic says.
    pub fn own(&self, topic: usize, group: &str) -> Own {
        self.own.get(&(topic, group.to_owned())).cloned().unwrap_or_default()
    }

    pub fn has_own_rates(&self, topic: usize) -> bool {
        self.own.iter().any(|((of, _), own)| *of == topic && own.rate.is_some())
    }

    /// Other settings hold for a group.
    pub fn set_group(&mut self, topic: usize, group: &str, own: Own) {
        let (before, key) = (self.own(topic, group), (topic, group.to_owned()));
        let weight = own.weight.unwrap_or(1);
        let (least, most) = self.weights.entry(key.clone()).or_insert((1, 1));
        (*least, *most) = ((*least).min(weight), (*most).max(weight));
        if before.rate != own.rate {
            self.granted.remove(&key);
            self.rates.remove(&key);
        }
        self.own.insert(key, own);
        if !self.is_fair(topic) {
            self.put_back(topic, group);
            self.let_go(topic, group);
        }
        self.settle();
    }

    /// How many messages of this group may be leased, or at its front in a strict topic.
    fn most_of(&self, topic: usize, group: &str) -> usize {
        let own = self.own(topic, group);
        let of_topic =
            || self.topics[topic].as_ref().map_or(1, |topic| topic.config.most_of_group());
        match own.concurrency.and_then(|most| usize::try_from(most).ok()) {
            _ if own.paused => 0,
            Some(most) => most,
            None => of_topic(),
        }
    }

    /// The rate of this group: the time between two messages (µs), and how many may go at once.
    fn rate_of(&self, topic: usize, group: &str) -> Option<(i64, i64)> {
        let (own, config) = (self.own(topic, group), &self.topics[topic].as_ref()?.config);
        let between = own.rate.map(interval).or(config.group_interval())?;
        Some((between, own.burst.unwrap_or(config.group_rate.map_or(1, |(_, burst)| burst))))
    }

    /// How many messages of a group may be granted while another one waits.
    fn most_passed(&self, topic: usize, group: Option<&str>, waiting: Option<&str>) -> usize {
        let weights = |group: Option<&str>| {
            let known = group.and_then(|group| self.weights.get(&(topic, group.to_owned())));
            known.copied().unwrap_or((1, 1))
        };
        let ratio = (weights(group).1 + weights(waiting).0 - 1) / weights(waiting).0;
        usize::try_from(1 + ratio).unwrap_or(usize::MAX)
    }

    /// A message is granted: a turn is taken, if there are such and it has had none.
    pub fn take_turn(&mut self, n: usize) {
        let m = &self.messages[n];
        let (topic, Some(group), Some(due)) = (m.topic, m.group.clone(), m.due()) else { return };
        if let Some(rate) = self.rate_of(topic, &group)
            && (m.turn.is_some() || m.attempts == 0)
        {
            let ahead = self.granted.entry((topic, group)).or_default();
            *ahead = taken(*ahead, self.now, due, rate).unwrap_or(*ahead + rate.0);
        }
        self.messages[n].turn = None;
    }

    /// A lease of so many comes by messages whose turn has not come, and has them wait. Returns whether there were any.
    pub fn hold_early(&mut self, topic: usize, most: i64) -> bool {
        if self.is_fair(topic) {
            return false;
        }
        let (mut held, mut any) = (true, false);
        while held {
            let mut ready = self.in_state(topic, "ready");
            ready.sort_by_key(|n| self.rank(*n));
            ready.truncate(usize::try_from(most).unwrap_or(usize::MAX));
            let mut early = BTreeSet::new();
            let mut ends: BTreeMap<String, i64> = BTreeMap::new();
            for n in ready {
                let (now, m) = (self.now, &self.messages[n]);
                let (Some(group), Some(due)) = (m.group.clone(), m.due()) else { continue };
                let Some(rate) = self.rate_of(topic, &group) else { continue };
                let m = &mut self.messages[n];
                if m.turn.is_none() && m.attempts > 0 {
                    continue;
                }
                let before = self.granted.get(&(topic, group.clone())).copied().unwrap_or(0);
                let ahead = ends.entry(group.clone()).or_insert(before);
                m.turn.get_or_insert(due);
                match taken(*ahead, now, due, rate) {
                    Some(after) => *ahead = after,
                    None => drop(early.insert(group)),
                }
            }
            held = !early.is_empty();
            any |= held;
            early.iter().for_each(|group| self.plan(topic, group));
        }
        any
    }

    /// In what order ready messages go.
    pub fn rank(&self, n: usize) -> (i64, Option<i64>, i64, usize) {
        let m = &self.messages[n];
        (-m.priority, m.due(), m.published_at, n)
    }

    /// The rate of a topic's groups: the time between two messages (µs), and how many may go at once.
    fn group_rate(&self, topic: usize) -> Option<(i64, i64)> {
        let config = &self.topics[topic].as_ref()?.config;
        Some((config.group_interval()?, config.group_rate?.1))
    }

    /// The same where turns are planned at it.
    fn rate(&self, topic: usize) -> Option<(i64, i64)> {
        self.group_rate(topic).filter(|_| !self.is_fair(topic))
    }

    pub fn is_fair(&self, topic: usize) -> bool {
        self.topics[topic].as_ref().is_some_and(|topic| topic.config.fair)
    }

    /// Is it a message of a group that takes turns?
    pub fn takes_turns(&self, n: usize) -> bool {
        self.messages[n].group.is_some() && self.is_fair(self.messages[n].topic)
    }

    /// The order of a topic's groups has changed.
    pub fn reorder(&mut self, topic: usize) {
        let (fair, now) = (self.is_fair(topic), self.now);
        for m in self.messages.iter_mut().filter(|m| m.topic == topic && m.group.is_some()) {
            m.blocked = !fair && m.due().is_some();
            if fair
                && m.due().is_some()
                && let Some(turn) = m.turn.take()
            {
                m.place = Place::Waiting { due: turn };
            }
            if fair && std::mem::take(&mut m.unbegun) && m.ttl.is_some() {
                m.began = m.due().map(|due| due.max(now));
            }
        }
        self.passed.retain(|(of, ..), _| *of != topic);
    }

    /// Of each group of a fair topic that may be granted a message, the messages without a group among them, the next one.
    pub fn next_in_turn(&self, topic: usize) -> BTreeMap<Option<String>, usize> {
        let mut nexts: BTreeMap<Option<String>, usize> = BTreeMap::new();
        for n in self.in_state(topic, "ready") {
            let rank = |n: usize| {
                let m = &self.messages[n];
                (-m.priority, m.due(), member_of(&m.id))
            };
            let next = nexts.entry(self.messages[n].group.clone()).or_insert(n);
            if rank(n) < rank(*next) {
                *next = n;
            }
        }
        nexts.retain(|group, n| {
            let Some(name) = group else { return true };
            let leased = self.of(topic).filter(|(_, m)| m.leased() && m.group == *group).count();
            let m = &self.messages[*n];
            let ahead = self.granted.get(&(topic, name.clone())).copied().unwrap_or(0);
            let due = m.due().unwrap_or_default();
            let rate = self.rate_of(topic, name).filter(|_| m.attempts == 0);
            leased < self.most_of(topic, name)
                && rate.is_none_or(|rate| taken(ahead, self.now, due, rate).is_some())
        });
        nexts
    }

    /// A group that cannot go waits for nobody.
    pub fn forget_passed(&mut self) {
        let nexts = [0, 1].map(|topic| self.next_in_turn(topic));
        self.passed.retain(|(topic, group, _), _| nexts[*topic].contains_key(group));
    }

    /// In a fair topic, this message may be granted now: it is the next of its group, and its group has not passed another one
    /// more often than it may.
    pub fn pass(&mut self, n: usize) -> Kept {
        let (topic, group) = (self.messages[n].topic, self.messages[n].group.clone());
        self.forget_passed();
        let nexts = self.next_in_turn(topic);
        let id = &self.messages[n].id;
        let Some(next) = nexts.get(&group) else {
            must!("I17 groups", false, "{id} was granted, and its group may have no more");
            return Ok(());
        };
        let next_id = &self.messages[*next].id;
        must!("I16 order", *next == n, "{id} was granted before {next_id} of its group");
        self.passed.retain(|(of, waiting, _), _| (*of, waiting) != (topic, &group));
        for other in nexts.into_keys().filter(|other| *other != group) {
            let passed = self.passed.entry((topic, other.clone(), group.clone())).or_default();
            *passed += 1;
            let (passed, id) = (*passed, &self.messages[n].id);
            let fits = passed <= self.most_passed(topic, group.as_deref(), other.as_deref());
            must!(
                "I19 fairness",
                fits,
                "{id} is number {passed} of {group:?} while {other:?} waits"
            );
        }
        Ok(())
    }

    /// As many as may come to the front.
    fn let_go(&mut self, topic: usize, group: &str) {
        let Some(config) = self.topics[topic].as_ref().map(|topic| &topic.config) else { return };
        if config.fair {
            return;
        }
        let lives = config.ttl.is_some();
        let live = self.of(topic).filter(|(_, m)| m.lives() && m.group.as_deref() == Some(group));
        let (mut line, front): (Vec<_>, Vec<_>) = live.partition(|(_, m)| m.blocked);
        line.sort_by_key(|(_, m)| m.order);
        let free = self.most_of(topic, group).saturating_sub(front.len());
        let go: Vec<usize> = line.into_iter().take(free).map(|(n, _)| n).collect();
        let (now, rated) = (self.now, self.rate(topic).is_some());
        let (rate, key) = (self.rate_of(topic, group), (topic, group.to_owned()));
        for n in go {
            let m = &mut self.messages[n];
            m.blocked = false;
            let Place::Waiting { due } = m.place else { continue };
            let unbegun = std::mem::take(&mut m.unbegun);
            let mut at = due;
            // One that has failed was at the front before.
            if let Some(rate) = rate.filter(|_| m.counted == 0) {
                let taken = self.granted.get(&key).copied().unwrap_or(0);
                let end = self.rates.entry(key.clone()).or_default();
                let ahead = (*end).max(taken);
                *end = ahead.max(now * 1000) + rate.0;
                at = planned(ahead, now, due, rate);
                m.place = Place::Waiting { due: at };
                m.turn = Some(due);
            }
            // Its time to live begins now, or with its turn, unless it has before.
            m.began = match m.ttl {
                Some(_) if unbegun => Some(at.max(now)),
                Some(_) => m.began.or(Some(due)),
                None if rated && lives && at < now => m.began.or(Some(now)),
                None => m.began,
            };
        }
    }

    /// Plans the turns of those at the front of a group that were never granted.
    fn plan(&mut self, topic: usize, group: &str) {
        let Some(rate) = self.rate_of(topic, group).filter(|_| !self.is_fair(topic)) else {
            return;
        };
        let lives = self.topics[topic].as_ref().is_some_and(|topic| topic.config.ttl.is_some());
        let (now, key) = (self.now, (topic, group.to_owned()));
        let is_planned = |m: &Message| m.turn.is_some() && !m.blocked && m.due().is_some();
        let front = self.of(topic).filter(|(_, m)| m.group.as_deref() == Some(group));
        let mut front: Vec<_> = front
            .filter(|(_, m)| is_planned(m))
            .map(|(n, m)| (m.turn.max(Some(now)), m.order, n))
            .collect();
        front.sort_unstable();
        let mut ahead = self.granted.get(&key).copied().unwrap_or(0);
        let mut end = ahead;
        for (_, _, n) in front {
            let m = &mut self.messages[n];
            let (Some(own), Some(before)) = (m.turn, m.due()) else { continue };
            let mut at = planned(ahead, now, own, rate);
            if at <= now && before <= now {
                at = before;
            }
            ahead = ahead.max(at * 1000).max(now * 1000) + rate.0;
            end = end.max(now * 1000) + rate.0;
            if at != before {
                m.place = Place::Waiting { due: at };
                m.began = (m.ttl.is_some() || (lives && at < now)).then_some(at.max(now));
            }
        }
        self.rates.insert(key, end);
    }
}
