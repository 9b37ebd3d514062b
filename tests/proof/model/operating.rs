//! The steps that look after messages and topics: look, change, delete, redrive, purge, pause,
//! configure.

use std::collections::{BTreeMap, HashSet};

use serde_json::{Map, Value, json};

use super::broken::{CONTRACT, Kept, must, same};
use super::config::{self, Config, Settings};
use super::steps::{Change, Field, Guard, Pick};
use super::walk::Walk;
use super::wire::Reply;
use super::words::{self, GROUPS};
use super::world::{Message, Own, Topic};
use crate::harness::{by_key, encoded, instant_ms};

const STATES: [&str; 6] = ["delayed", "ready", "leased", "dead", "acked", "blocked"];

impl Walk<'_> {
    /// The message that a step names, and its path: by key where it is named so.
    fn path(&self, at: usize, pick: Pick) -> (Option<usize>, String) {
        let n = self.find(at, pick);
        let path = match pick {
            Pick::ByKey(key) => by_key(&self.names[at], words::KEYS[usize::from(key)]),
            _ => format!("/messages/{}", self.id(n)),
        };
        (n, path)
    }

    /// The code that a message which is not there is answered with.
    fn missing(&self, at: usize, pick: Pick) -> &'static str {
        let by_key = matches!(pick, Pick::ByKey(_));
        if by_key && self.world.topics[at].is_none() {
            "topic_not_found"
        } else {
            "message_not_found"
        }
    }

    pub(super) async fn get(&mut self, via: bool, at: usize, pick: Pick) -> Kept {
        let (n, path) = self.path(at, pick);
        let reply = self.talk.send(via, "GET", &path, "", None).await?;
        match n {
            Some(_) => self.same_got(n, &reply),
            None => same("I10 keys", "the answer", reply.code(), self.missing(at, pick)),
        }
    }

    pub(super) async fn update(
        &mut self,
        via: bool,
        at: usize,
        pick: Pick,
        change: &Change,
    ) -> Kept {
        self.made += 1;
        let (n, path) = self.path(at, pick);
        let (body, patch) = words::change(change, self.world.now, self.made);
        let reply = self.talk.send(via, "PATCH", &path, "", Some(&body)).await?;
        let mut wanted = self.world.update(n, &patch);
        if n.is_none() {
            wanted = self.missing(at, pick);
        }
        same(CONTRACT, "the answer", reply.code(), wanted)?;
        self.touched.extend(n);
        // What had expired by its new time to live is told as it was changed.
        if wanted == "ok" { self.same_changed(n, &reply) } else { Ok(()) }
    }

    /// The message as a change answers it, before time is asked again.
    fn same_changed(&mut self, n: Option<usize>, reply: &Reply) -> Kept {
        let kept = match n {
            Some(n) => self.world.same_whole(n, reply, &self.names),
            None => Ok(()),
        };
        self.world.settle();
        kept
    }

    pub(super) async fn delete(&mut self, via: bool, at: usize, pick: Pick, force: bool) -> Kept {
        let (n, path) = self.path(at, pick);
        let query = if force { "?force=true" } else { "" };
        let reply = self.talk.send(via, "DELETE", &format!("{path}{query}"), "", None).await?;
        let mut wanted = self.world.delete(n, force);
        if n.is_none() {
            wanted = self.missing(at, pick);
        }
        self.touched.extend(n);
        same("I11 delete", "the answer", reply.code(), wanted)
    }

    pub(super) async fn redrive(&mut self, via: bool, at: usize, pick: Pick) -> Kept {
        let n = self.find(at, pick);
        let path = format!("/messages/{}/redrive", self.id(n));
        let reply = self.talk.send(via, "POST", &path, "", None).await?;
        let wanted = self.world.redrive(n);
        same(CONTRACT, "the answer", reply.code(), wanted)?;
        self.touched.extend(n);
        if wanted == "ok" { self.same_changed(n, &reply) } else { Ok(()) }
    }

    pub(super) async fn redrive_topic(
        &mut self,
        via: bool,
        at: usize,
        most: Option<i64>,
        spread: i64,
    ) -> Kept {
        let mut body = json!({});
        if let Some(most) = most {
            body["max_messages"] = json!(most);
        }
        // A rate would hide where the spread has put them.
        let config = self.world.topics[at].as_ref().map(|topic| &topic.config);
        let rated = config.is_some_and(|config| config.group_rate.is_some())
            || self.world.has_own_rates(at);
        let spread = if rated { 0 } else { spread };
        if spread > 0 {
            body["spread_ms"] = json!(spread);
        }
        let dead = self.world.in_state(at, "dead");
        let path = format!("/topics/{}/redrive", self.names[at]);
        let reply = self.talk.send(via, "POST", &path, "", Some(&body.to_string())).await?;
        if self.world.topics[at].is_none() {
            return same(CONTRACT, "the answer", reply.code(), "topic_not_found");
        }
        same(CONTRACT, "the status", reply.status, 200)?;
        let (mut left, mut dues) = (HashSet::new(), BTreeMap::new());
        for n in &dead {
            let id = self.world.messages[*n].id.clone();
            let reply = self.talk.send(via, "GET", &format!("/messages/{id}"), "", None).await?;
            match reply.json["due_at"].as_str() {
                Some(due) => drop(dues.insert(id, instant_ms(due))),
                None => drop(left.insert(id)),
            }
        }
        let redriven =
            self.world.redrive_topic(at, most.unwrap_or(10_000), spread, &left, &dues)?;
        same(CONTRACT, "redriven", reply.json["redriven"].as_i64(), Some(redriven))?;
        let remaining = self.world.in_state(at, "dead").len();
        same(CONTRACT, "remaining", reply.json["remaining"].as_u64(), Some(remaining as u64))?;
        self.touched.extend(dead.last());
        Ok(())
    }

    pub(super) async fn purge(&mut self, via: bool, at: usize, mut which: [bool; 3]) -> Kept {
        // What the ready leave behind may be purged with them or not: then the blocked go, too.
        which[1] |= !self.world.in_state(at, "blocked").is_empty();
        // So may those whose turn comes sooner then.
        which[1] |= self.world.of(at).any(|(_, m)| m.turn.is_some());
        let states: Vec<&str> = ["ready", "delayed", "dead"]
            .into_iter()
            .zip(which)
            .filter(|(_, on)| *on)
            .map(|(s, _)| s)
            .collect();
        let path = format!("/topics/{}/purge", self.names[at]);
        let body = json!({"states": states}).to_string();
        let reply = self.talk.send(via, "POST", &path, "", Some(&body)).await?;
        if self.world.topics[at].is_none() {
            return same(CONTRACT, "the answer", reply.code(), "topic_not_found");
        }
        same(CONTRACT, "the status", reply.status, 200)?;
        let purged = self.world.purge(at, &states);
        same(CONTRACT, "purged", reply.json["purged"].as_i64(), Some(purged))?;
        same(CONTRACT, "remaining", reply.json["remaining"].as_i64(), Some(0))
    }

    pub(super) async fn pause(&mut self, via: bool, at: usize, pause: bool) -> Kept {
        let verb = if pause { "pause" } else { "resume" };
        let path = format!("/topics/{}/{verb}", self.names[at]);
        let reply = self.talk.send(via, "POST", &path, "", None).await?;
        if let Some(topic) = &mut self.world.topics[at] {
            topic.paused = pause;
        }
        self.world.same_topic(at, &reply)
    }

    pub(super) async fn configure(
        &mut self,
        via: bool,
        at: usize,
        method: &str,
        settings: &Settings,
        guard: Guard,
    ) -> Kept {
        let revision = self.world.topics[at].as_ref().map(|topic| topic.revision);
        let header = match guard {
            Guard::None => String::new(),
            Guard::Right => format!("\r\nif-match: \"{}\"", revision.unwrap_or(1)),
            Guard::Wrong => format!("\r\nif-match: \"{}\"", revision.unwrap_or(0) + 1),
        };
        let path = format!("/topics/{}", self.names[at]);
        let config = |settings: &Settings| match (&self.world.topics[at], method) {
            (Some(topic), "PATCH") => topic.config.with(settings),
            _ => Config::default().with(settings),
        };
        // Whether what a call drops has been at the front of its group for a moment is open, and so what that takes of the
        // rate.
        let mut settings = settings.clone();
        let wanted = config(&settings);
        if wanted.drops_at().is_some() && wanted.group_rate.is_some() {
            settings.group_rate = Field::Null;
        }
        let own_rates = self.world.has_own_rates(at);
        if wanted.drops_at().is_some() && own_rates {
            settings.bound = Field::Null;
        }
        // What was planned at a rate, or lived in line, goes another way by and by.
        let fair = self.world.is_fair(at);
        let before = self.world.topics[at].as_ref().map(|topic| topic.config.group_rate.is_some());
        let wanted = config(&settings);
        let rated = wanted.group_rate.is_some() || before == Some(true) || own_rates;
        if wanted.fair != fair && rated {
            settings.fair = Field::Set(fair);
        }
        let config = config(&settings);
        let body = config::body(&settings).to_string();
        let reply = self.talk.send(via, method, &path, &header, Some(&body)).await?;
        let wrong = match guard {
            Guard::None => false,
            Guard::Right => revision.is_none(),
            Guard::Wrong => true,
        };
        let code = match (revision, method) {
            _ if wrong => "revision_mismatch",
            (None, "PATCH") => "topic_not_found",
            _ => "ok",
        };
        if (code, revision, method) == ("revision_mismatch", None, "PATCH") {
            // Both are true of a topic that is not there.
            must!(CONTRACT, matches!(reply.status, 404 | 412), "the answer is {}", reply.body);
            return Ok(());
        }
        same(CONTRACT, "the answer", reply.code(), code)?;
        if code != "ok" {
            return Ok(());
        }
        same(CONTRACT, "the status", reply.status, if revision.is_none() { 201 } else { 200 })?;
        let topic = self.world.topics[at].get_or_insert_with(Topic::default);
        let reordered = topic.config.fair != config.fair;
        let other_rate = topic.config.group_interval() != config.group_interval();
        let limited = topic.config.group_rate != config.group_rate
            || topic.config.most_of_group() != config.most_of_group();
        if reordered || other_rate {
            self.world.rates.retain(|(topic, _), _| *topic != at);
            self.world.granted.retain(|(topic, _), _| *topic != at);
        }
        topic.config = config;
        // As good as new: whatever the answer says, but none from before.
        let before = std::mem::take(&mut topic.revision);
        let now = reply.json["revision"].as_i64().unwrap_or_default();
        must!(CONTRACT, now > before, "revision {now} after {before}");
        if topic.config.ttl.is_none() {
            // Without a TTL nobody keeps when its messages first fell due: one that comes later counts
            // from the due time then in force.
            let without = |m: &&mut Message| m.topic == at && m.ttl.is_none();
            self.world.messages.iter_mut().filter(without).for_each(|m| m.began = None);
        }
        if reordered {
            self.world.reorder(at);
        } else if limited && !self.world.is_fair(at) {
            // What is over by now does not come to the front again.
            self.world.settle();
            self.world.put_all_back(at);
        }
        self.world.let_more_go(at);
        self.world.settle();
        let created = Reply { status: 200, ..reply };
        self.world.same_topic(at, &created)
    }

    /// putGroup; a weight only where it may be, and no rate where a full topic drops its oldest.
    pub(super) async fn put_group(
        &mut self,
        via: bool,
        at: usize,
        group: u8,
        own: &Own,
        says_paused: bool,
    ) -> Kept {
        let config = self.world.topics[at].as_ref().map(|topic| topic.config.clone());
        let config = config.unwrap_or_default();
        let mut own = own.clone();
        own.weight = own.weight.filter(|_| config.fair);
        own.rate = own.rate.filter(|_| config.drops_at().is_none());
        let mut body = Map::new();
        for (name, value) in
            [("concurrency", own.concurrency), ("burst", own.burst), ("weight", own.weight)]
        {
            body.extend(value.map(|value| (name.to_owned(), json!(value))));
        }
        body.extend(own.rate.map(|rate| ("rate_per_s".to_owned(), config::per_second(rate))));
        if says_paused {
            body.insert("paused".to_owned(), json!(own.paused));
        } else {
            own.paused = self.world.own(at, GROUPS[usize::from(group)]).paused;
        }
        let body = Value::Object(body).to_string();
        let path = self.group_path(at, group);
        let reply = self.talk.send(via, "PUT", &path, "", Some(&body)).await?;
        self.same_group(at, group, own, &reply)
    }

    pub(super) async fn delete_group(&mut self, via: bool, at: usize, group: u8) -> Kept {
        let path = self.group_path(at, group);
        let reply = self.talk.send(via, "DELETE", &path, "", None).await?;
        if self.world.topics[at].is_none() {
            return same(CONTRACT, "the answer", reply.code(), "topic_not_found");
        }
        same(CONTRACT, "the status", reply.status, 204)?;
        self.world.set_group(at, GROUPS[usize::from(group)], Own::default());
        Ok(())
    }

    pub(super) async fn pause_group(
        &mut self,
        via: bool,
        at: usize,
        group: u8,
        pause: bool,
    ) -> Kept {
        let path =
            format!("{}/{}", self.group_path(at, group), ["resume", "pause"][usize::from(pause)]);
        let reply = self.talk.send(via, "POST", &path, "", None).await?;
        let own = Own { paused: pause, ..self.world.own(at, GROUPS[usize::from(group)]) };
        self.same_group(at, group, own, &reply)
    }

    fn group_path(&self, at: usize, group: u8) -> String {
        format!("/topics/{}/groups/{}", self.names[at], encoded(GROUPS[usize::from(group)]))
    }

    /// A group has these settings by now, as the answer says.
    fn same_group(&mut self, at: usize, group: u8, own: Own, reply: &Reply) -> Kept {
        if self.world.topics[at].is_none() {
            return same(CONTRACT, "the answer", reply.code(), "topic_not_found");
        }
        same(CONTRACT, "the status", reply.status, 200)?;
        let seen = &reply.json;
        same(CONTRACT, "paused", seen["paused"].as_bool(), Some(own.paused))?;
        for (name, value) in [
            ("concurrency", own.concurrency.map(|it| json!(it))),
            ("rate_per_s", own.rate.map(config::per_second)),
            ("burst", own.burst.map(|it| json!(it))),
            ("weight", own.weight.map(|it| json!(it))),
        ] {
            same(CONTRACT, name, seen.get(name), value.as_ref())?;
        }
        let name = GROUPS[usize::from(group)];
        self.world.set_group(at, name, own);
        let of_group = self.world.of(at).filter(|(_, m)| m.group.as_deref() == Some(name));
        let leased = of_group.filter(|(_, m)| m.leased()).count();
        same(CONTRACT, "leased", seen["leased"].as_u64(), Some(leased as u64))
    }

    pub(super) async fn delete_topic(&mut self, via: bool, at: usize, force: bool) -> Kept {
        let query = if force { "?force=true" } else { "" };
        let path = format!("/topics/{}{query}", self.names[at]);
        let reply = self.talk.send(via, "DELETE", &path, "", None).await?;
        let some = self.world.of(at).map(|(n, _)| n).next();
        self.touched.extend(some);
        same(CONTRACT, "the answer", reply.code(), self.world.delete_topic(at, force))
    }

    pub(super) async fn list(
        &mut self,
        via: bool,
        at: usize,
        state: u8,
        limit: i64,
        payload: bool,
    ) -> Kept {
        let state = STATES[usize::from(state) % STATES.len()];
        let base = format!(
            "/topics/{}/messages?state={state}&limit={limit}&payload={payload}",
            self.names[at]
        );
        let (mut items, mut path) = (Vec::<Value>::new(), base.clone());
        loop {
            let reply = self.talk.send(via, "GET", &path, "", None).await?;
            if self.world.topics[at].is_none() {
                return same(CONTRACT, "the answer", reply.code(), "topic_not_found");
            }
            same(CONTRACT, "the status", reply.status, 200)?;
            let page = reply.json["items"].as_array().cloned().unwrap_or_default();
            let most = usize::try_from(limit).unwrap_or_default();
            must!(CONTRACT, page.len() <= most, "{} items, of at most {limit}", page.len());
            let with = |item: &Value| {
                payload == (item.get("payload").is_some() || item.get("payload_base64").is_some())
            };
            must!(CONTRACT, page.iter().all(with), "payloads: {}", reply.body);
            let empty = page.is_empty();
            items.extend(page);
            match reply.json["next_cursor"].as_str() {
                Some(next) if !empty => path = format!("{base}&cursor={next}"),
                Some(_) => must!(CONTRACT, !empty, "an empty page says that there is more"),
                None => return self.world.same_list(at, state, &items, &self.names),
            }
        }
    }

    pub(super) async fn forecast(
        &mut self,
        via: bool,
        at: usize,
        bucket: i64,
        buckets: i64,
    ) -> Kept {
        let path =
            format!("/topics/{}/forecast?bucket_ms={bucket}&buckets={buckets}", self.names[at]);
        let reply = self.talk.send(via, "GET", &path, "", None).await?;
        if self.world.topics[at].is_none() {
            return same(CONTRACT, "the answer", reply.code(), "topic_not_found");
        }
        same(CONTRACT, "the status", reply.status, 200)?;
        self.world.same_forecast(at, bucket, buckets, &reply.json)
    }
}
