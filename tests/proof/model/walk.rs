//! Walks a sequence: makes a request of each step, sends it, and holds the answer, and then what can
//! be looked at, against the model.

use std::collections::{BTreeMap, HashSet};

use serde_json::Value;

use super::broken::{CONTRACT, Kept, must, same};
use super::clock::Clock;
use super::publish::{Answered, Given, Sent};
use super::steps::{Leap, Op, Pick, Publish, Step};
use super::wire::{Reply, Talk};
use super::words;
use super::world::World;
use crate::harness::{instant, instant_ms};

/// An id that no server gives out.
const UNKNOWN: &str = "0190a0b0-0000-7000-8000-000000000000";

/// A sequence under way.
pub struct Walk<'a> {
    pub clock: &'a Clock,
    pub talk: Talk,
    pub names: [String; 2],
    pub world: World,
    /// What was last published with each idempotency key of each topic.
    repeats: BTreeMap<(usize, String), (Sent, usize)>,
    /// Makes every payload one of its own.
    pub made: usize,
    /// The messages that the step was about.
    pub touched: Vec<usize>,
    /// Steps so far.
    taken: usize,
}

/// After every so many steps the topic is looked at, and a message that the step was about: looking
/// costs as much as doing.
const LOOK_AT_TOPIC: usize = 4;
const LOOK_AT_MESSAGE: usize = 3;

impl<'a> Walk<'a> {
    pub fn new(clock: &'a Clock, talk: Talk, names: [String; 2]) -> Walk<'a> {
        let (repeats, touched) = (BTreeMap::new(), Vec::new());
        let world = World::default();
        Walk { clock, talk, names, world, repeats, made: 100, touched, taken: 0 }
    }

    /// All steps.
    pub async fn all(&mut self, steps: &[Step]) -> Kept {
        for (n, step) in steps.iter().enumerate() {
            self.talk.say(|| format!("{n}: {step:?}"));
            self.step(step).await?;
        }
        for at in [0, 1] {
            self.look_at_topic(true, at).await?;
        }
        Ok(())
    }

    /// Removes what is left.
    pub async fn clear(&mut self) -> Kept {
        for name in self.names.clone() {
            let path = format!("/topics/{name}?force=true");
            self.talk.send(false, "DELETE", &path, "", None).await?;
        }
        Ok(())
    }

    async fn pass(&mut self, via: bool, ms: i64) -> Kept {
        self.look_at_stirred(via).await?;
        self.clock.advance(ms);
        self.world.now = self.clock.now();
        self.world.settle();
        self.look_at_stirred(via).await
    }

    /// What time has ended lets others of its group go when a client looks: at this time, then.
    async fn look_at_stirred(&mut self, via: bool) -> Kept {
        for at in [0, 1] {
            if std::mem::take(&mut self.world.stirred[at]) {
                self.look_at_topic(via, at).await?;
            }
        }
        Ok(())
    }

    async fn step(&mut self, step: &Step) -> Kept {
        let (via, at) = (step.via, usize::from(step.other));
        self.pass(via, step.tick).await?;
        self.world.forget_passed();
        self.touched.clear();
        if matches!(
            step.op,
            Op::Purge { .. } | Op::BulkByQuery { .. } | Op::Put(..) | Op::Patch(..)
        ) {
            // What time has brought is carried out when a client looks: here first, so that it is
            // not counted as purged, and not undone by a change of what it goes by.
            self.look_at_topic(via, at).await?;
        }
        match &step.op {
            Op::Advance(leap) => return self.leap(via, leap).await,
            Op::Publish(publish) => self.publish(via, at, publish).await?,
            Op::PublishBatch(batch) => self.publish_batch(via, at, batch).await?,
            Op::Lease(want) => self.lease(via, &[at], want).await?,
            Op::LeaseFromTopics(want) => self.lease(via, &[1, 0], want).await?,
            Op::Ack(hold) => self.ack(via, at, hold).await?,
            Op::Nack(hold, how) => self.nack(via, at, hold, how).await?,
            Op::Extend(hold, ms) => self.extend(via, at, hold, *ms).await?,
            Op::AckBatch(holds) => self.ack_batch(via, at, holds).await?,
            Op::NackBatch(nacks) => self.nack_batch(via, at, nacks).await?,
            Op::ExtendBatch(extensions) => self.extend_batch(via, at, extensions).await?,
            Op::Get(pick) => self.get(via, at, *pick).await?,
            Op::Update(pick, change) => self.update(via, at, *pick, change).await?,
            Op::Delete(pick, force) => self.delete(via, at, *pick, *force).await?,
            Op::Redrive(pick) => self.redrive(via, at, *pick).await?,
            Op::RedriveTopic { most, spread } => {
                self.redrive_topic(via, at, *most, *spread).await?;
            }
            Op::Purge { ready, delayed, dead } => {
                self.purge(via, at, [*ready, *delayed, *dead]).await?;
            }
            Op::BulkByIds(bulk, picks) => self.bulk_by_ids(via, at, *bulk, picks).await?,
            Op::BulkByQuery { bulk, query, dry } => {
                self.bulk_by_query(via, at, *bulk, *query, *dry).await?;
            }
            Op::Pause(pause) => return self.pause(via, at, *pause).await,
            Op::Put(settings, guard) => {
                return self.configure(via, at, "PUT", settings, *guard).await;
            }
            Op::Patch(settings, guard) => {
                return self.configure(via, at, "PATCH", settings, *guard).await;
            }
            Op::PutGroup(group, own, paused) => {
                self.put_group(via, at, *group, own, *paused).await?;
            }
            Op::DeleteGroup(group) => self.delete_group(via, at, *group).await?,
            Op::PauseGroup(group, pause) => self.pause_group(via, at, *group, *pause).await?,
            Op::DeleteTopic(force) => self.delete_topic(via, at, *force).await?,
            Op::List { state, limit, payload } => {
                self.list(via, at, *state, *limit, *payload).await?;
            }
            Op::Forecast { bucket, buckets } => self.forecast(via, at, *bucket, *buckets).await?,
        }
        self.look(via, at).await
    }

    async fn leap(&mut self, via: bool, leap: &Leap) -> Kept {
        let ms = match leap {
            Leap::Ms(ms) => *ms,
            Leap::Next(n, beside) => {
                let coming = self.world.coming();
                let next = coming.get(usize::from(*n)).or(coming.last());
                next.map_or(0, |at| at - self.world.now + beside).max(0)
            }
        };
        self.pass(via, ms).await
    }

    /// The topic, and a message that the step was about, through the other instance.
    pub async fn look(&mut self, via: bool, at: usize) -> Kept {
        self.taken += 1;
        let looks = self.taken.is_multiple_of(LOOK_AT_MESSAGE);
        if let Some(n) = self.touched.last().copied().filter(|_| looks) {
            let id = self.world.messages[n].id.clone();
            let reply = self.talk.send(!via, "GET", &format!("/messages/{id}"), "", None).await?;
            self.same_got(Some(n), &reply)?;
        }
        if self.taken.is_multiple_of(LOOK_AT_TOPIC) {
            self.look_at_topic(via, at).await
        } else {
            Ok(())
        }
    }

    /// getTopic, which carries out what time has brought, too.
    pub async fn look_at_topic(&mut self, via: bool, at: usize) -> Kept {
        let path = format!("/topics/{}", self.names[at]);
        let reply = self.talk.send(via, "GET", &path, "", None).await?;
        self.world.messages.iter_mut().filter(|m| m.topic == at).for_each(|m| m.lingers = false);
        self.world.same_topic(at, &reply)
    }

    /// What getMessage must answer.
    pub fn same_got(&self, n: Option<usize>, reply: &Reply) -> Kept {
        match n.filter(|n| self.world.messages[*n].state(self.world.now).is_some()) {
            Some(n) => {
                let lost = reply.status == 200;
                must!("I1 no loss", lost, "{} is {}", self.world.messages[n].id, reply.code());
                self.world.same_whole(n, reply, &self.names)
            }
            None => same(CONTRACT, "the answer", reply.code(), "message_not_found"),
        }
    }

    /// The message that a step names, if there is one.
    pub fn find(&self, at: usize, pick: Pick) -> Option<usize> {
        let world = &self.world;
        let (found, n): (Vec<usize>, u8) = match pick {
            Pick::ByKey(key) => return world.holder(at, words::KEYS[usize::from(key)]),
            Pick::Any(n) => ((0..world.messages.len()).collect(), n),
            Pick::Leased(n) => (world.in_state(at, "leased"), n),
            Pick::Dead(n) => (world.in_state(at, "dead"), n),
            Pick::Waiting(n) => {
                (world.of(at).filter(|(_, m)| m.due().is_some()).map(|(n, _)| n).collect(), n)
            }
            Pick::Granted(n) => {
                let all = world.messages.iter().enumerate();
                (all.filter(|(_, m)| !m.tokens.is_empty()).map(|(n, _)| n).collect(), n)
            }
        };
        (!found.is_empty()).then(|| found[usize::from(n) % found.len()])
    }

    /// The id of a message, or one that nobody has.
    pub fn id(&self, n: Option<usize>) -> String {
        n.map_or(UNKNOWN, |n| &self.world.messages[n].id).to_owned()
    }

    fn sent(&mut self, at: usize, step: &Publish) -> (Sent, usize) {
        self.made += 1;
        let sent = words::publish(step, self.world.now, self.made);
        let Some(idem) = &sent.idem else { return (sent, self.made) };
        let again = step.idem.is_some_and(|(_, again)| again);
        let known = self.repeats.get(&(at, idem.clone())).filter(|_| again);
        let sent = known.cloned().unwrap_or((sent, self.made));
        self.repeats.insert((at, sent.0.idem.clone().unwrap_or_default()), sent.clone());
        sent
    }

    async fn publish(&mut self, via: bool, at: usize, step: &Publish) -> Kept {
        let (sent, n) = self.sent(at, step);
        let base = format!("/topics/{}/messages", self.names[at]);
        let reply = if step.raw {
            let (query, body) = words::raw(&sent, n);
            let path = format!("{base}/raw?{query}");
            self.talk.send(via, "POST", &path, "\r\ncontent-type: text/x", Some(&body)).await?
        } else {
            let (header, body) = match (&sent.idem, step.header) {
                (Some(idem), true) if !idem.contains(char::is_control) => {
                    (format!("\r\nidempotency-key: {idem}"), sent.body.clone())
                }
                _ => (String::new(), with_key(&sent)),
            };
            self.talk.send(via, "POST", &base, &header, Some(&body)).await?
        };
        let survivors = self.survivors(via, at, 1).await?;
        let answered = (reply.code(), reply.json.get("id").map(|_| &reply.json));
        let wanted = self.published(at, &sent, via, answered, &survivors)?;
        if let Answered::Ok { duplicate, .. } = wanted {
            same(CONTRACT, "the status", reply.status, if duplicate { 200 } else { 201 })?;
            let id = reply.json["id"].as_str().unwrap_or_default();
            same(CONTRACT, "location", &*reply.location, &*format!("/messages/{id}"))?;
        }
        Ok(())
    }

    async fn publish_batch(&mut self, via: bool, at: usize, batch: &[Publish]) -> Kept {
        let plain = |step: &Publish| Publish { raw: false, ..step.clone() };
        let sent: Vec<Sent> = batch.iter().map(|step| self.sent(at, &plain(step)).0).collect();
        let bodies: Vec<String> = sent.iter().map(with_key).collect();
        let body = format!("{{\"messages\":[{}]}}", bodies.join(","));
        let path = format!("/topics/{}/messages/batch", self.names[at]);
        let reply = self.talk.send(via, "POST", &path, "", Some(&body)).await?;
        same(CONTRACT, "the status", reply.status, 200)?;
        let results = reply.json["results"].as_array().cloned().unwrap_or_default();
        same(CONTRACT, "results", results.len(), sent.len())?;
        let survivors = self.survivors(via, at, sent.len()).await?;
        for (sent, result) in sent.iter().zip(&results) {
            let answered = (result["status"].as_str().unwrap_or_default(), result.get("message"));
            self.published(at, sent, via, answered, &survivors)?;
        }
        Ok(())
    }

    /// The messages that still wait, where the topic may have dropped some.
    async fn survivors(&mut self, via: bool, at: usize, more: usize) -> Kept<HashSet<String>> {
        let mut ids = HashSet::new();
        self.world.in_line = self.world.in_state(at, "blocked");
        let lines = self.world.of(at).map(|(n, _)| n).filter(|n| self.world.takes_turns(*n));
        let lines: Vec<usize> = lines.collect();
        self.world.in_line.extend(lines);
        let config = self.world.topics[at].as_ref().map(|topic| &topic.config);
        let most = config.and_then(super::config::Config::drops_at);
        let most = most.and_then(|most| usize::try_from(most).ok());
        if most.is_none_or(|most| self.world.live(at) + more <= most) {
            return Ok(ids);
        }
        for state in ["ready", "delayed", "blocked"] {
            let path = format!("/topics/{}/messages?state={state}&limit=1000", self.names[at]);
            let reply = self.talk.send(via, "GET", &path, "", None).await?;
            let items = reply.json["items"].as_array().cloned().unwrap_or_default();
            ids.extend(items.iter().filter_map(|item| Some(item["id"].as_str()?.to_owned())));
        }
        Ok(ids)
    }

    /// What one publish was answered: `ok` or a code, and the message.
    fn published(
        &mut self,
        at: usize,
        sent: &Sent,
        via: bool,
        (code, message): (&str, Option<&Value>),
        survivors: &HashSet<String>,
    ) -> Kept<Answered> {
        let text = |name: &str| message.and_then(|message| message[name].as_str());
        let published = text("published_at").map(instant_ms).unwrap_or_default();
        let given = Given { message: text("id").map(|id| (id, published)), via, survivors };
        let wanted = self.world.publish(at, sent, &given);
        match &wanted {
            Answered::Refused(refused) => same("I10 keys", "the answer", code, refused)?,
            Answered::Ok { message: n, duplicate, state, due } => {
                same("I10 keys", "the answer", code, "ok")?;
                let m = &self.world.messages[*n];
                same("I10 keys", "id", text("id"), Some(&*m.id))?;
                let twice = self.world.messages.iter().filter(|other| other.id == m.id).count();
                same("I10 keys", "how often the id was given", twice, 1)?;
                let said = message.and_then(|message| message["duplicate"].as_bool());
                same("I10 keys", "duplicate", said, Some(*duplicate))?;
                same(CONTRACT, "state", text("state"), Some(state))?;
                same(CONTRACT, "due_at", text("due_at"), due.map(instant).as_deref())?;
                same(CONTRACT, "published_at", published, m.published_at)?;
                self.touched.push(*n);
            }
        }
        Ok(wanted)
    }
}

/// The body with its idempotency key.
fn with_key(sent: &Sent) -> String {
    match &sent.idem {
        Some(idem) => {
            let body = sent.body.trim_end_matches('}');
            let closing = &sent.body[body.len()..];
            format!("{body}{},\"idempotency_key\":{}}}", &closing[1..], Value::from(idem.as_str()))
        }
        None => sent.body.clone(),
    }
}
