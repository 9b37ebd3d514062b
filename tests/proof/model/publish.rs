//! What a publish does to the model: keys, idempotency keys and full topics included.

use std::collections::{BTreeMap, HashSet};

use super::config::Backoff;
use super::steps::Policy;
use super::world::{Message, Place, Told, Topic, World};

/// When a message is due, as its publish or change says.
#[derive(Clone, Copy, Debug)]
pub enum When {
    Delay(i64),
    At(i64),
}

impl When {
    pub fn due(self, now: i64) -> i64 {
        match self {
            When::Delay(ms) => now + ms,
            When::At(at) => at.max(now),
        }
    }
}

/// A publish as it goes out.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The body without its idempotency key.
    pub body: String,
    pub when: When,
    pub priority: i64,
    pub ttl: Option<i64>,
    /// The key, `on_duplicate`, and whether it is held until granted.
    pub key: Option<(String, &'static str, bool)>,
    pub policy: Option<Policy>,
    pub idem: Option<String>,
    pub group: Option<String>,
    pub max_attempts: Option<i64>,
    pub backoff: Option<Backoff>,
    pub headers: BTreeMap<String, String>,
    pub payload: String,
    pub bytes: i64,
}

/// What a publish must be answered.
#[derive(Clone, Debug, PartialEq)]
pub enum Answered {
    Ok { message: usize, duplicate: bool, state: &'static str, due: Option<i64> },
    Refused(&'static str),
}

/// What the answer says that the contract leaves open.
pub struct Given<'a> {
    /// The id and publishing time of the message answered with, if one was.
    pub message: Option<(&'a str, i64)>,
    /// The instance.
    pub via: bool,
    /// Which messages still wait after the request; asked for where the topic drops some.
    pub survivors: &'a HashSet<String>,
}

impl World {
    /// A message is published.
    pub fn publish(&mut self, at: usize, sent: &Sent, given: &Given) -> Answered {
        self.topics[at].get_or_insert_with(Topic::default);
        let now = self.now;
        let mut due = sent.when.due(now);
        let window = self.topic(at).config.window;
        // What the request is remembered by, what a repeat must say, and for how long.
        let named = match &sent.policy {
            Some(Policy::Once(key, lasting)) => Some((format!("once {key}"), "", *lasting)),
            _ => sent.idem.clone().map(|idem| (idem, &*sent.body, window)),
        };
        if let Some((name, body, _)) = &named
            && let Some(told) = self.topic(at).told.get(name)
        {
            if told.body != *body {
                return Answered::Refused("idempotency_key_reused");
            }
            let (message, due) = (told.message, told.due);
            let state = self.messages[message].state(now).unwrap_or("gone");
            return Answered::Ok { message, duplicate: true, state, due };
        }
        let mut holder = sent.key.as_ref().and_then(|(key, ..)| self.holder(at, key));
        if let Some(Policy::Debounce(_, _, Some(most))) = sent.policy {
            due = due.min(now + most);
            if let Some(holder) = holder {
                due = due.min(self.messages[holder].published_at + most);
            }
        }
        let mut interval = None;
        if let Some(Policy::Throttle(key, _)) = sent.policy
            && let Some((begun, end, waiting, trails)) =
                self.topic(at).throttled.get(&key).copied().filter(|(_, end, ..)| *end > now)
        {
            due = if begun > now { begun } else { end };
            let m = &self.messages[waiting];
            if let Some(its_due) = m.due().filter(|_| m.attempts == 0)
                && trails
            {
                due = its_due.min(begun.max(now));
                (holder, interval) = (Some(waiting), Some((begun.max(now), trails)));
            }
        }
        let (message, duplicate) = match (holder, &sent.key) {
            (Some(holder), None) => {
                self.replace(holder, sent, due);
                (holder, true)
            }
            (Some(holder), Some((_, on_duplicate, _))) => {
                let leased = self.messages[holder].leased();
                match *on_duplicate {
                    "reject" => return Answered::Refused("duplicate_key"),
                    "replace" if leased => return Answered::Refused("message_leased"),
                    "replace" if self.messages[holder].group != sent.group => {
                        return Answered::Refused("group_changed");
                    }
                    "replace" => self.replace(holder, sent, due),
                    _ => {}
                }
                (holder, true)
            }
            _ => {
                if !self.make_room(at, given.survivors) {
                    return Answered::Refused("topic_full");
                }
                (self.store(at, sent, due, given), false)
            }
        };
        let m = &self.messages[message];
        let (state, due) = (m.state(now).unwrap_or_default(), m.due());
        if let Some(Policy::Throttle(key, every)) = sent.policy {
            let begin = due.unwrap_or(now);
            let (begin, trails) = interval.unwrap_or((begin, begin > now));
            self.topic(at).throttled.insert(key, (begin, begin + every, message, trails));
        }
        if let Some((name, body, window)) = named {
            let told = Told { until: now + window, body: body.to_owned(), message, due };
            self.topic(at).told.insert(name, told);
        }
        Answered::Ok { message, duplicate, state, due }
    }

    fn topic(&mut self, at: usize) -> &mut Topic {
        self.topics[at].as_mut().expect("the topic is there")
    }

    /// Whether a full topic lets another message in, after dropping what it drops for that.
    fn make_room(&mut self, at: usize, survivors: &HashSet<String>) -> bool {
        let config = self.topic(at).config.clone();
        let Some((most, drops)) = config.bound else { return true };
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let mut dropped = false;
        while self.live(at) >= most && drops {
            let waiting = || self.of(at).filter_map(|(n, m)| Some((m.due()?, n)));
            let Some(earliest) = waiting().map(|(due, _)| due).min() else { break };
            // Which of several goes is open. What is left tells; where several went, the order
            // matters only to those that come between: plain ones go first, then those in line, then by priority.
            let tied = waiting().filter(|(due, _)| *due == earliest);
            let oldest = tied.map(|(_, n)| n).min_by_key(|n| {
                let m = &self.messages[*n];
                let blocked = self.in_line.contains(n);
                let class = if blocked { 1 } else { 2 * i64::from(m.priority > 0) };
                let priority = if blocked { 0 } else { -m.priority };
                (survivors.contains(&m.id), class, priority, m.id.clone())
            });
            let Some(oldest) = oldest else { break };
            self.remove(oldest, Some("expired"));
            dropped = true;
        }
        // A bound that was lowered is reached by and by.
        dropped || self.live(at) < most
    }

    fn replace(&mut self, holder: usize, sent: &Sent, due: i64) {
        let now = self.now;
        let lives = self.topic_of(holder).config.ttl.is_some();
        let m = &mut self.messages[holder];
        m.payload.clone_from(&sent.payload);
        m.headers.clone_from(&sent.headers);
        m.backoff.clone_from(&sent.backoff);
        (m.bytes, m.priority, m.ttl, m.max_attempts) =
            (sent.bytes, sent.priority, sent.ttl, sent.max_attempts);
        m.until_granted = sent.key.as_ref().is_some_and(|(_, _, until_granted)| *until_granted);
        m.place = Place::Waiting { due };
        // A debounced message may have been due before.
        m.began = (sent.ttl.is_some() || (lives && due < now)).then_some(due.max(now));
        m.note("updated", 0);
        self.topic_of(holder).add("replaced");
        self.changed(holder, true);
    }

    fn store(&mut self, at: usize, sent: &Sent, due: i64, given: &Given) -> usize {
        let (id, published_at) = given.message.unwrap_or_default();
        let key = sent.key.as_ref();
        self.messages.push(Message {
            id: id.to_owned(),
            topic: at,
            published_at,
            via: given.via,
            payload: sent.payload.clone(),
            bytes: sent.bytes,
            headers: sent.headers.clone(),
            priority: sent.priority,
            ttl: sent.ttl,
            max_attempts: sent.max_attempts,
            backoff: sent.backoff.clone(),
            key: key.map(|(key, ..)| key.clone()),
            until_granted: key.is_some_and(|(_, _, until_granted)| *until_granted),
            key_freed: false,
            group: sent.group.clone(),
            order: 0,
            blocked: false,
            unbegun: false,
            turn: None,
            attempts: 0,
            counted: 0,
            place: Place::Waiting { due },
            lingers: false,
            spent: false,
            began: None,
            tokens: Vec::new(),
            events: vec![("published", 0, None)],
        });
        self.topic(at).add("published");
        let n = self.messages.len() - 1;
        self.join(n);
        let m = &mut self.messages[n];
        m.began = m.ttl.and(m.due());
        if self.messages[n].blocked || self.takes_turns(n) {
            self.in_line.push(n);
        }
        n
    }
}
