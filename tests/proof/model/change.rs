//! What changes, deletes, redrives and purges do to the model.

use std::collections::{BTreeMap, HashSet};

use super::broken::{Kept, must};
use super::config::Backoff;
use super::publish::When;
use super::steps::Field;
use super::world::{Place, World};
use crate::proof::audit::member_of;

/// A PATCH as it goes out.
#[derive(Clone, Debug)]
pub struct Patch {
    pub when: Option<When>,
    pub priority: Option<i64>,
    /// The payload as answers show it, and its size.
    pub payload: Option<(String, i64)>,
    pub headers: Option<BTreeMap<String, String>>,
    pub ttl: Field<i64>,
    pub max_attempts: Field<i64>,
    pub backoff: Field<Backoff>,
}

fn set<T: Clone>(field: &Field<T>, value: &mut Option<T>) {
    match field {
        Field::Absent => {}
        Field::Null => *value = None,
        Field::Set(set) => *value = Some(set.clone()),
    }
}

impl World {
    /// A PATCH: `ok`, or the code of the refusal.
    pub fn update(&mut self, n: Option<usize>, patch: &Patch) -> &'static str {
        let (now, Some(n)) = (self.now, n) else { return "message_not_found" };
        let m = &mut self.messages[n];
        match m.place {
            Place::Gone => return "message_not_found",
            Place::Leased { .. } => return "message_leased",
            Place::Acked { .. } => return "message_acked",
            Place::Dead { .. } if patch.when.is_some() => return "message_dead",
            Place::Dead { .. } => set(&patch.ttl, &mut m.ttl),
            Place::Waiting { due } => {
                // A TTL that a rate has held back begins now.
                let held = m.blocked && m.unbegun && m.ttl.is_some();
                let began = if held { due.max(now) } else { m.began.unwrap_or(due) };
                let (mut due, mut began) = (due, began);
                if let Some(when) = patch.when {
                    due = when.due(now);
                    began = due;
                }
                set(&patch.ttl, &mut m.ttl);
                // A topic's TTL that comes later counts from then on only where this is known.
                m.began = (m.ttl.is_some() || began != due).then_some(began);
                m.place = Place::Waiting { due };
            }
        }
        set(&patch.max_attempts, &mut m.max_attempts);
        set(&patch.backoff, &mut m.backoff);
        m.priority = patch.priority.unwrap_or(m.priority);
        if let Some((payload, bytes)) = &patch.payload {
            (m.payload, m.bytes) = (payload.clone(), *bytes);
        }
        if let Some(headers) = &patch.headers {
            m.headers.clone_from(headers);
        }
        m.note("updated", 0);
        if self.is_spent(n) {
            self.bury(n, now);
        }
        self.changed(n, patch.when.is_some());
        "ok"
    }

    /// A DELETE: `ok`, or the code of the refusal.
    pub fn delete(&mut self, n: Option<usize>, force: bool) -> &'static str {
        let Some(n) = n else { return "message_not_found" };
        match self.messages[n].place {
            Place::Gone => return "message_not_found",
            Place::Leased { .. } if !force => return "message_leased",
            Place::Leased { .. } => self.topic_of(n).add("deleted_leased"),
            _ => {}
        }
        let acked = matches!(self.messages[n].place, Place::Acked { .. });
        self.remove(n, (!acked).then_some("deleted"));
        "ok"
    }

    /// Whether the key of a dead message is taken by a live one.
    fn key_taken(&self, n: usize) -> bool {
        let m = &self.messages[n];
        let key = m.key.as_ref().filter(|_| !m.key_freed);
        key.is_some_and(|key| self.holder(m.topic, key).is_some())
    }

    /// Whether nothing more may live in a topic.
    fn is_full(&self, at: usize) -> bool {
        let config = self.topics[at].as_ref().map(|topic| &topic.config);
        let most = config.and_then(|config| config.bound).map(|(most, _)| most);
        most.is_some_and(|most| self.live(at) as i64 >= most)
    }

    /// A redrive of one: `ok`, or the code of the refusal.
    pub fn redrive(&mut self, n: Option<usize>) -> &'static str {
        let Some(n) = n.filter(|n| self.messages[*n].place != Place::Gone) else {
            return "message_not_found";
        };
        if !matches!(self.messages[n].place, Place::Dead { .. }) {
            return "message_not_dead";
        }
        if self.is_full(self.messages[n].topic) {
            return "topic_full";
        }
        if self.key_taken(n) {
            return "duplicate_key";
        }
        self.revive(n, self.now);
        "ok"
    }

    fn revive(&mut self, n: usize, due: i64) {
        self.topic_of(n).add("redriven");
        let m = &mut self.messages[n];
        (m.place, m.counted) = (Place::Waiting { due }, 0);
        m.began = m.ttl.map(|_| due);
        m.note("redriven", 0);
        self.join(n);
    }

    /// A redrive of the topic. `left` holds the ids that are still dead, `dues` when the others are
    /// due now: which go first of those that died in one millisecond the contract leaves open.
    pub fn redrive_topic(
        &mut self,
        at: usize,
        most: i64,
        spread: i64,
        left: &HashSet<String>,
        dues: &BTreeMap<String, i64>,
    ) -> Kept<i64> {
        let mut dead = self.in_state(at, "dead");
        let died = |world: &World, n: usize| match world.messages[n].place {
            Place::Dead { at } => at,
            _ => 0,
        };
        let id = |world: &World, n: usize| world.messages[n].id.clone();
        dead.sort_by_key(|n| {
            let id = id(self, *n);
            // The order of their members, which groups show.
            let member = member_of(&id);
            let due = dues.get(&id).copied().filter(|_| spread > 0);
            (died(self, *n), left.contains(&id), due, member)
        });
        let (mut count, mut latest) = (0, self.now);
        for n in dead {
            if count == most || self.is_full(at) {
                break;
            }
            if self.key_taken(n) {
                continue;
            }
            let id = id(self, n);
            must!("the contract", !left.contains(&id), "{id} is still dead, but its turn had come");
            let seen = dues.get(&id).copied().unwrap_or(self.now);
            // Without a spread all are due now, or when the rate of their group allows.
            let due = if spread == 0 { self.now } else { seen };
            let fits = (latest..=self.now + spread).contains(&due);
            must!("the contract", fits, "{id} is due {} ms from now", due - self.now);
            latest = due;
            self.revive(n, due);
            let got = self.messages[n].due();
            must!("the contract", got == Some(seen), "{id} is due at {seen}, not {got:?}");
            count += 1;
        }
        Ok(count)
    }

    /// Messages of these states leave: how many.
    pub fn purge(&mut self, at: usize, states: &[&str]) -> i64 {
        let mut count = 0;
        // What is blocked goes with what is delayed, and first: nobody lets it go, and no turn comes sooner.
        for state in ["blocked", "delayed", "ready", "dead"] {
            let with = if state == "blocked" { "delayed" } else { state };
            for n in self.in_state(at, state).into_iter().filter(|_| states.contains(&with)) {
                self.remove(n, Some("purged"));
                count += 1;
            }
        }
        count
    }

    /// The topic is deleted: `ok`, or the code of the refusal.
    pub fn delete_topic(&mut self, at: usize, force: bool) -> &'static str {
        if self.topics[at].is_none() {
            return "topic_not_found";
        }
        let in_it = |m: &super::world::Message| !matches!(m.place, Place::Acked { .. });
        if !force && self.of(at).any(|(_, m)| in_it(m)) {
            return "topic_not_empty";
        }
        for m in self.messages.iter_mut().filter(|m| m.topic == at) {
            (m.place, m.blocked) = (Place::Gone, false);
        }
        self.passed.retain(|(topic, ..), _| *topic != at);
        self.rates.retain(|(topic, _), _| *topic != at);
        self.granted.retain(|(topic, _), _| *topic != at);
        self.topics[at] = None;
        self.own.retain(|(topic, _), _| *topic != at);
        self.weights.retain(|(topic, _), _| *topic != at);
        "ok"
    }
}
