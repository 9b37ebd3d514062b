//! The model: what the contract says is there, as plain data, and what time does to it. Written from
//! the contract alone; what that leaves open is taken from the answer and checked for being allowed.

use std::collections::BTreeMap;

use super::config::{Backoff, Config};
use crate::proof::audit::member_of;

/// Where a message is in its life.
#[derive(Clone, Debug, PartialEq)]
pub enum Place {
    Waiting { due: i64 },
    Leased { granted: i64, deadline: i64 },
    Dead { at: i64 },
    Acked { at: i64 },
    Gone,
}

/// A message, whatever became of it.
#[derive(Clone, Debug)]
pub struct Message {
    pub id: String,
    pub topic: usize,
    pub published_at: i64,
    /// The instance that it was published through.
    pub via: bool,
    /// The fields of the payload as answers have them: `"payload":…`, byte for byte.
    pub payload: String,
    pub bytes: i64,
    pub headers: BTreeMap<String, String>,
    pub priority: i64,
    pub ttl: Option<i64>,
    pub max_attempts: Option<i64>,
    pub backoff: Option<Backoff>,
    pub key: Option<String>,
    pub until_granted: bool,
    /// A grant has freed the key for good.
    pub key_freed: bool,
    pub group: Option<String>,
    /// Its place in the line of its group.
    pub order: u64,
    /// It waits for others of its group.
    pub blocked: bool,
    /// Its own time to live begins when it comes to the front.
    pub unbegun: bool,
    /// Its own due time, while it waits at the front of a group with a rate.
    pub turn: Option<i64>,
    pub attempts: i64,
    /// Grants of this budget that count, the present one included.
    pub counted: i64,
    pub place: Place,
    /// It went by itself, and nobody has looked since: a holder may still be told that its lease is
    /// lost, instead of that there is no such message.
    pub lingers: bool,
    /// When its time to live began, where that is not the due time in force.
    pub began: Option<i64>,
    /// Its time was over while it was leased: that stays so, whatever its topic's TTL becomes.
    pub spent: bool,
    /// The tokens of its grants, the latest last.
    pub tokens: Vec<String>,
    /// What happened: kind, number of the grant (0: none), reason.
    pub events: Vec<(&'static str, i64, Option<String>)>,
}

impl Message {
    pub fn lives(&self) -> bool {
        matches!(self.place, Place::Waiting { .. } | Place::Leased { .. })
    }

    pub fn leased(&self) -> bool {
        matches!(self.place, Place::Leased { .. })
    }

    /// The due time of one that waits.
    pub fn due(&self) -> Option<i64> {
        match self.place {
            Place::Waiting { due } => Some(due),
            _ => None,
        }
    }

    /// When its time is over if it waits, due then.
    pub fn over(&self, config: &Config, due: i64) -> Option<i64> {
        if self.spent {
            return Some(i64::MIN);
        }
        let rated = config.group_interval().is_some();
        let unbegun = if self.ttl.is_some() { self.unbegun } else { rated && self.began.is_none() };
        if self.blocked && unbegun {
            return None;
        }
        Some(self.began.unwrap_or(due) + self.ttl.or(config.ttl)?)
    }

    /// Counted grants that are left.
    pub fn left(&self, config: &Config) -> i64 {
        (self.max_attempts.unwrap_or(config.max_attempts) - self.counted).max(0)
    }

    pub fn note(&mut self, kind: &'static str, attempt: i64) {
        self.events.push((kind, attempt, None));
    }

    /// The state's word, and nothing for one that is gone.
    pub fn state(&self, now: i64) -> Option<&'static str> {
        match self.place {
            Place::Waiting { .. } if self.blocked => Some("blocked"),
            Place::Waiting { due } if due > now => Some("delayed"),
            Place::Waiting { .. } => Some("ready"),
            Place::Leased { .. } => Some("leased"),
            Place::Dead { .. } => Some("dead"),
            Place::Acked { .. } => Some("acked"),
            Place::Gone => None,
        }
    }
}

/// What an idempotency key answers.
#[derive(Clone, Debug)]
pub struct Told {
    pub until: i64,
    pub body: String,
    pub message: usize,
    pub due: Option<i64>,
}

/// A topic that is there.
#[derive(Clone, Debug, Default)]
pub struct Topic {
    pub config: Config,
    pub revision: i64,
    pub paused: bool,
    pub totals: BTreeMap<&'static str, i64>,
    pub told: BTreeMap<String, Told>,
    /// Of what is throttled the latest interval: its begin, its end, the message due at its begin, and whether that trails
    /// another interval.
    pub throttled: BTreeMap<u8, (i64, i64, usize, bool)>,
}

impl Topic {
    pub fn add(&mut self, total: &'static str) {
        *self.totals.entry(total).or_default() += 1;
    }
}

/// What holds for one group in place of what its topic says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Own {
    pub paused: bool,
    pub concurrency: Option<i64>,
    /// Hundredths a second.
    pub rate: Option<i64>,
    pub burst: Option<i64>,
    pub weight: Option<i64>,
}

/// All topics of a sequence, and every message that ever was.
#[derive(Clone, Debug, Default)]
pub struct World {
    pub now: i64,
    pub topics: [Option<Topic>; 2],
    pub messages: Vec<Message>,
    /// The place of the last one in the line of a group.
    pub(super) order: u64,
    /// When the messages of a topic's group that have come to the front so far end at its rate, µs.
    pub(super) rates: BTreeMap<(usize, String), i64>,
    /// The same of those that were granted.
    pub(super) granted: BTreeMap<(usize, String), i64>,
    /// What was blocked when the publish under way began, or came so since: a full topic drops it as such.
    pub(super) in_line: Vec<usize>,
    /// In a fair topic: how many messages a group was granted while another one waited, by their names, that one first.
    pub(super) passed: BTreeMap<(usize, Option<String>, Option<String>), usize>,
    /// The settings of groups of their own, by topic and name.
    pub(super) own: BTreeMap<(usize, String), Own>,
    /// The least and the greatest weight that a group has had.
    pub(super) weights: BTreeMap<(usize, String), (i64, i64)>,
    /// Time itself is at work.
    pub(super) settling: bool,
    /// Time has ended a message of a group.
    pub stirred: [bool; 2],
}

impl World {
    /// The messages of a topic that are there in any way, by number.
    pub fn of(&self, topic: usize) -> impl Iterator<Item = (usize, &Message)> {
        let all = self.messages.iter().enumerate();
        all.filter(move |(_, m)| m.topic == topic && m.place != Place::Gone)
    }

    /// Those in this state.
    pub fn in_state(&self, topic: usize, state: &str) -> Vec<usize> {
        let of = self.of(topic).filter(|(_, m)| m.state(self.now) == Some(state));
        of.map(|(n, _)| n).collect()
    }

    /// Those that live.
    pub fn live(&self, topic: usize) -> usize {
        self.of(topic).filter(|(_, m)| m.lives()).count()
    }

    /// The live message that holds this key.
    pub fn holder(&self, topic: usize, key: &str) -> Option<usize> {
        let holds = |m: &Message| m.lives() && !m.key_freed && m.key.as_deref() == Some(key);
        self.of(topic).find(|(_, m)| holds(m)).map(|(n, _)| n)
    }

    /// The topic of a message that is there.
    pub fn topic_of(&mut self, message: usize) -> &mut Topic {
        let at = self.messages[message].topic;
        self.topics[at].as_mut().expect("a message that is there has a topic")
    }

    /// A message leaves, counted as `total` if it is.
    pub fn remove(&mut self, message: usize, total: Option<&'static str>) {
        if let Some(total) = total {
            self.topic_of(message).add(total);
        }
        self.messages[message].place = Place::Gone;
        self.leave(message);
    }

    /// Does it wait, having failed as often as is allowed by now?
    pub fn is_spent(&self, message: usize) -> bool {
        let m = &self.messages[message];
        let config = self.topics[m.topic].as_ref().map(|topic| &topic.config);
        m.due().is_some() && m.counted > 0 && config.is_some_and(|config| m.left(config) == 0)
    }

    /// A message dies.
    pub fn bury(&mut self, message: usize, at: i64) {
        self.topic_of(message).add("dead");
        let m = &mut self.messages[message];
        m.note("dead", m.attempts);
        (m.place, m.began, m.spent) = (Place::Dead { at }, None, false);
        self.leave(message);
    }

    /// What time has brought by now: leases, times to live, retention, idempotency keys.
    pub fn settle(&mut self) {
        let now = self.now;
        self.settling = true;
        let configs = [0, 1].map(|at| self.topics[at].as_ref().map(|topic| topic.config.clone()));
        let mut ended = Vec::new();
        for (n, m) in self.messages.iter().enumerate() {
            if let (Place::Leased { deadline, .. }, Some(config)) = (&m.place, &configs[m.topic])
                && *deadline <= now
            {
                ended.push((m.left(config) == 0, *deadline, member_of(&m.id), n));
            }
        }
        ended.sort_unstable();
        for (_, deadline, _, n) in ended {
            let Some(config) = &configs[self.messages[n].topic] else { continue };
            self.lease_ends(n, config, deadline);
        }
        let mut over = Vec::new();
        for (n, m) in self.messages.iter_mut().enumerate() {
            let Some(config) = &configs[m.topic] else { continue };
            match m.place {
                Place::Leased { .. } => {
                    let ends = m.began.and_then(|began| m.over(config, began));
                    m.spent |= ends.is_some_and(|ends| ends <= now);
                }
                Place::Waiting { due } if m.over(config, due).is_some_and(|ends| ends <= now) => {
                    over.push(n);
                }
                Place::Dead { at } if at + config.retention.1 <= now => over.push(n),
                Place::Acked { at } if at + config.retention.0 <= now => over.push(n),
                _ => {}
            }
        }
        // All at once: none of them lets another of them go.
        for n in &over {
            let acked = matches!(self.messages[*n].place, Place::Acked { .. });
            if !acked {
                self.topic_of(*n).add("expired");
            }
            (self.messages[*n].place, self.messages[*n].lingers) = (Place::Gone, true);
        }
        over.into_iter().for_each(|n| self.leave(n));
        self.settling = false;
        for topic in self.topics.iter_mut().flatten() {
            topic.told.retain(|_, told| told.until > now);
        }
    }

    fn lease_ends(&mut self, n: usize, config: &Config, deadline: i64) {
        self.topic_of(n).add("lease_expired");
        let m = &mut self.messages[n];
        m.note("lease_expired", m.attempts);
        if m.over(config, deadline).is_some_and(|over| over <= deadline) {
            self.remove(n, Some("expired"));
            self.messages[n].lingers = true;
        } else if m.left(config) == 0 {
            self.bury(n, deadline);
        } else {
            m.place = Place::Waiting { due: deadline };
            // A message whose time is over when the end of its lease is noticed goes at once.
            if m.over(config, deadline).is_none_or(|over| over > self.now) {
                self.step_back(n);
            }
        }
    }

    /// The coming instants at which something happens by itself, the earliest first.
    pub fn coming(&self) -> Vec<i64> {
        let mut found = Vec::new();
        for m in &self.messages {
            let Some(topic) = &self.topics[m.topic] else { continue };
            match m.place {
                Place::Waiting { due } => {
                    found.push(due);
                    found.extend(m.over(&topic.config, due));
                }
                Place::Leased { deadline, .. } => {
                    found.push(deadline);
                    found.extend(m.over(&topic.config, deadline));
                }
                Place::Dead { at } => found.push(at + topic.config.retention.1),
                Place::Acked { at } => found.push(at + topic.config.retention.0),
                Place::Gone => {}
            }
        }
        found.extend(
            self.rates.values().chain(self.granted.values()).map(|end| end.div_euclid(1000)),
        );
        let told = self.topics.iter().flatten().flat_map(|topic| topic.told.values());
        found.extend(told.map(|told| told.until));
        let throttled = self.topics.iter().flatten().flat_map(|topic| topic.throttled.values());
        found.extend(throttled.flat_map(|(begin, end, ..)| [*begin, *end]));
        found.retain(|at| *at > self.now);
        found.sort_unstable();
        found.dedup();
        found
    }
}
