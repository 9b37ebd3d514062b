//! What can be looked at must be what the model says: a topic's counts and totals, a message with all
//! that belongs to it, lists, forecasts.

use serde_json::{Value, json};

use super::broken::{CONTRACT, Kept, must, same};
use super::wire::Reply;
use super::world::{Message, Place, World};
use crate::harness::instant;
use crate::proof::audit::TOTALS;

impl World {
    /// An answer that is a topic.
    pub fn same_topic(&mut self, at: usize, reply: &Reply) -> Kept {
        let now = self.now;
        let Some(topic) = &self.topics[at] else {
            return same(CONTRACT, "the answer", reply.code(), "topic_not_found");
        };
        same(CONTRACT, "the status", reply.status, 200)?;
        let seen = &reply.json;
        for state in ["delayed", "ready", "blocked", "leased", "dead", "acked"] {
            let count = self.in_state(at, state).len();
            same(
                "I9 counts",
                &format!("counts.{state}"),
                seen["counts"][state].as_u64(),
                Some(count as u64),
            )?;
        }
        for name in TOTALS {
            let total = topic.totals.get(name).copied().unwrap_or_default();
            same(
                "I9 counts",
                &format!("totals.{name}"),
                seen["totals"][name].as_i64(),
                Some(total),
            )?;
        }
        same(CONTRACT, "paused", seen["paused"].as_bool(), Some(topic.paused))?;
        let config = topic.config.json();
        for (name, value) in config.as_object().into_iter().flatten() {
            same(CONTRACT, name, &seen["config"][name], value)?;
        }
        for name in ["ttl_ms", "max_messages", "group_rate_per_s", "group_concurrency"] {
            same(CONTRACT, name, seen["config"].get(name), config.get(name))?;
        }
        let dues = || self.of(at).filter(|(_, m)| !m.blocked).filter_map(|(_, m)| m.due());
        let oldest = dues().filter(|due| *due <= now).min().map(|due| now - due);
        same(CONTRACT, "oldest_ready_age_ms", seen["oldest_ready_age_ms"].as_i64(), oldest)?;
        let next = dues().filter(|due| *due > now).min().map(instant);
        same(CONTRACT, "next_due_at", seen["next_due_at"].as_str(), next.as_deref())?;
        let revision = seen["revision"].as_i64().unwrap_or_default();
        let known = topic.revision;
        must!(CONTRACT, revision == known || known == 0, "revision {revision}, not {known}");
        if let Some(topic) = &mut self.topics[at] {
            topic.revision = revision;
        }
        Ok(())
    }

    /// An answer that is a message, or of a list.
    pub fn same_message(&self, n: usize, seen: &Value, names: &[String; 2]) -> Kept {
        let m = &self.messages[n];
        let Some(topic) = &self.topics[m.topic] else { return Ok(()) };
        let state = m.state(self.now);
        same(state_promise(m), "state", seen["state"].as_str(), state)?;
        same(CONTRACT, "id", seen["id"].as_str(), Some(&*m.id))?;
        same(CONTRACT, "topic", seen["topic"].as_str(), Some(&*names[m.topic]))?;
        same(CONTRACT, "key", seen["key"].as_str(), m.key.as_deref())?;
        same(CONTRACT, "group", seen["group"].as_str(), m.group.as_deref())?;
        same(CONTRACT, "priority", seen["priority"].as_i64(), Some(m.priority))?;
        same("I5 fencing", "attempts", seen["attempts"].as_i64(), Some(m.attempts))?;
        let left = m.left(&topic.config);
        same("I7 attempts", "attempts_left", seen["attempts_left"].as_i64(), Some(left))?;
        same(CONTRACT, "max_attempts", seen["max_attempts"].as_i64(), m.max_attempts)?;
        let backoff = m.backoff.as_ref().map(super::config::Backoff::json);
        same(CONTRACT, "backoff", seen.get("backoff"), backoff.as_ref())?;
        same(CONTRACT, "ttl_ms", seen["ttl_ms"].as_i64(), m.ttl)?;
        let due = m.due();
        same(CONTRACT, "due_at", seen["due_at"].as_str(), due.map(instant).as_deref())?;
        let end = match m.place {
            Place::Leased { deadline, .. } => Some(instant(deadline)),
            _ => None,
        };
        same("I6 extend", "lease_expires_at", seen["lease_expires_at"].as_str(), end.as_deref())?;
        let published = Some(instant(m.published_at));
        same(CONTRACT, "published_at", seen["published_at"].as_str(), published.as_deref())
    }

    /// An answer that is a whole message: its payload and what happened to it too.
    pub fn same_whole(&self, n: usize, reply: &Reply, names: &[String; 2]) -> Kept {
        self.same_message(n, &reply.json, names)?;
        let m = &self.messages[n];
        must!(
            "I2 no invention",
            reply.body.contains(&m.payload),
            "no {} in {}",
            m.payload,
            reply.body
        );
        same(CONTRACT, "headers", &reply.json["headers"], &json!(m.headers))?;
        let config = self.topics[m.topic].as_ref().map(|topic| &topic.config);
        let over = m.due().zip(config).and_then(|(due, config)| m.over(config, due));
        let seen = reply.json["expires_at"].as_str();
        same(CONTRACT, "expires_at", seen, over.map(instant).as_deref())?;
        if matches!(m.place, Place::Acked { .. }) {
            return Ok(());
        }
        let events = &m.events[m.events.len().saturating_sub(20)..];
        let seen = reply.json["events"].as_array().map_or(&[][..], Vec::as_slice);
        let seen: Vec<(&str, i64)> = seen
            .iter()
            .map(|e| (e["kind"].as_str().unwrap_or_default(), e["attempt"].as_i64().unwrap_or(0)))
            .collect();
        let wanted: Vec<(&str, i64)> = events.iter().map(|(kind, n, _)| (*kind, *n)).collect();
        same(CONTRACT, "events", seen, wanted)?;
        let error = events.iter().rev().find_map(|(_, _, reason)| reason.as_deref());
        same(CONTRACT, "last_error", reply.json["last_error"].as_str(), error)
    }

    /// All pages of a list, in order.
    pub fn same_list(&self, at: usize, state: &str, items: &[Value], names: &[String; 2]) -> Kept {
        let mut left = self.in_state(at, state);
        let place = |n: usize| {
            let m = &self.messages[n];
            match m.place {
                Place::Waiting { due } if state == "ready" && !self.takes_turns(n) => {
                    (-m.priority, due)
                }
                Place::Waiting { due } => (0, due),
                Place::Leased { deadline, .. } => (0, deadline),
                Place::Dead { at } | Place::Acked { at } => (0, at),
                Place::Gone => (0, 0),
            }
        };
        for item in items {
            let id = item["id"].as_str().unwrap_or_default();
            let found = left.iter().position(|n| self.messages[*n].id == id);
            must!(CONTRACT, found.is_some(), "{id} is listed as {state}, and should not be");
            let n = left.remove(found.unwrap_or_default());
            let before = left.iter().find(|other| place(**other) < place(n));
            must!(CONTRACT, before.is_none(), "{id} is listed before {before:?}");
            self.same_message(n, item, names)?;
        }
        let missing: Vec<&str> = left.iter().map(|n| &*self.messages[*n].id).collect();
        must!(CONTRACT, missing.is_empty(), "not listed as {state}: {missing:?}");
        Ok(())
    }

    /// A forecast.
    pub fn same_forecast(&self, at: usize, bucket: i64, buckets: i64, seen: &Value) -> Kept {
        let of = |n: i64| {
            let from = self.now + n * bucket;
            let within = |due: &i64| *due > self.now && (from..from + bucket).contains(due);
            let count = self.of(at).filter_map(|(_, m)| m.due()).filter(within).count();
            json!({"from_at": instant(from), "count": count})
        };
        let wanted = json!((0..buckets).map(of).collect::<Vec<Value>>());
        same(CONTRACT, "the forecast", &seen["buckets"], &wanted)
    }
}

/// What it breaks when a message is in another state than it should be.
fn state_promise(m: &Message) -> &'static str {
    match m.place {
        Place::Waiting { .. } if m.group.is_some() => "I17 groups",
        Place::Waiting { .. } => "I1 no loss",
        Place::Leased { .. } => "I4 one holder",
        Place::Dead { .. } => "I7 attempts",
        _ => CONTRACT,
    }
}
