//! What is done to many messages: to those of some ids, and to those of a topic that a query finds.

use serde_json::{Value, json};

use super::broken::{CONTRACT, Kept, must, same};
use super::steps::{Bulk, Pick};
use super::walk::Walk;
use super::world::{Message, Place, World};
use crate::proof::audit::member_of;

/// Whether a query finds a message.
type Finds = fn(&Message) -> bool;

/// Queries, and what they find.
const QUERIES: [(&str, Finds); 4] = [
    ("priority:0", |m| m.priority == 0),
    ("attempts:>0", |m| m.attempts > 0),
    ("key:*", |m| m.key.is_some()),
    ("group:*", |m| m.group.is_some()),
];

impl Bulk {
    /// The states that a query looks at: what is blocked goes before others let it go.
    fn states(self) -> &'static [&'static str] {
        match self {
            Bulk::Redrive => &["dead"],
            Bulk::Delete => &["blocked", "ready", "delayed", "dead"],
            Bulk::Run => &["delayed", "blocked"],
        }
    }
}

impl Walk<'_> {
    pub(super) async fn bulk_by_ids(
        &mut self,
        via: bool,
        at: usize,
        bulk: Bulk,
        picks: &[Pick],
    ) -> Kept {
        let verb = match bulk {
            Bulk::Redrive => "redrive",
            Bulk::Delete => "delete",
            Bulk::Run => "run",
        };
        let found: Vec<_> = picks.iter().map(|pick| self.find(at, *pick)).collect();
        let ids: Vec<String> = found.iter().map(|n| self.id(*n)).collect();
        let body = json!({"ids": ids}).to_string();
        let path = format!("/messages/{verb}");
        let reply = self.talk.send(via, "POST", &path, "", Some(&body)).await?;
        same(CONTRACT, "the status", reply.status, 200)?;
        let results = reply.json["results"].as_array().map(Vec::as_slice).unwrap_or_default();
        same(CONTRACT, "results", results.len(), ids.len())?;
        for ((n, id), result) in found.into_iter().zip(&ids).zip(results) {
            same(CONTRACT, "the id of a result", &result["id"], &json!(id))?;
            let wanted = match bulk {
                Bulk::Redrive => self.world.redrive(n),
                Bulk::Delete => self.world.delete(n, false),
                Bulk::Run => self.world.run(n),
            };
            same(CONTRACT, id, &result["status"], &json!(wanted))?;
            self.touched.extend(n);
        }
        self.world.settle();
        Ok(())
    }

    pub(super) async fn bulk_by_query(
        &mut self,
        via: bool,
        at: usize,
        bulk: Bulk,
        query: u8,
        dry: bool,
    ) -> Kept {
        let (query, finds) = QUERIES[usize::from(query) % QUERIES.len()];
        let mut body = json!({"q": query, "dry_run": dry});
        let (verb, done) = match bulk {
            Bulk::Redrive => ("redrive", "redriven"),
            Bulk::Delete => ("purge", "purged"),
            Bulk::Run => ("run", "run"),
        };
        if bulk == Bulk::Delete {
            body["states"] = json!(["ready", "delayed", "dead"]);
        }
        let path = format!("/topics/{}/{verb}", self.names[at]);
        let reply = self.talk.send(via, "POST", &path, "", Some(&body.to_string())).await?;
        if self.world.topics[at].is_none() {
            return same(CONTRACT, "the answer", reply.code(), "topic_not_found");
        }
        same(CONTRACT, "the status", reply.status, 200)?;
        must!(CONTRACT, reply.json["next_cursor"].is_null(), "there is more: {}", reply.body);
        let all: Vec<_> = bulk.states().iter().flat_map(|s| self.world.in_order(at, s)).collect();
        let matched: Vec<_> =
            all.iter().copied().filter(|n| finds(&self.world.messages[*n])).collect();
        let number = |count: usize| Value::from(count);
        same(CONTRACT, "scanned", &reply.json["scanned"], &number(all.len()))?;
        same(CONTRACT, "matched", &reply.json["matched"], &number(matched.len()))?;
        let mut count = 0;
        for n in matched.into_iter().filter(|_| !dry) {
            count += usize::from(match bulk {
                Bulk::Redrive => self.world.redrive(Some(n)) == "ok",
                Bulk::Run => {
                    let (now, place) = (self.world.now, &self.world.messages[n].place);
                    let is_later = matches!(place, Place::Waiting { due } if *due > now);
                    self.world.run(Some(n)) == "ok" && is_later
                }
                Bulk::Delete => {
                    self.world.remove(n, Some("purged"));
                    true
                }
            });
            self.touched.push(n);
        }
        same(CONTRACT, done, &reply.json[done], &number(count))?;
        if bulk != Bulk::Run {
            let left = bulk.states().iter().map(|state| self.world.in_state(at, state).len());
            same(CONTRACT, "remaining", &reply.json["remaining"], &number(left.sum()))?;
        }
        self.world.settle();
        Ok(())
    }
}

impl World {
    /// Those in this state, dead ones as a list has them: longest dead first. Of others the order does not show.
    fn in_order(&self, at: usize, state: &str) -> Vec<usize> {
        let mut all = self.in_state(at, state);
        all.sort_by_key(|n| {
            let m = &self.messages[*n];
            let died = if let Place::Dead { at } = m.place { at } else { 0 };
            (died, member_of(&m.id))
        });
        all
    }

    /// A message is due now, if it waits: `ok`, or the code of the refusal.
    fn run(&mut self, n: Option<usize>) -> &'static str {
        let (now, Some(n)) = (self.now, n) else { return "message_not_found" };
        let m = &mut self.messages[n];
        match m.place {
            Place::Gone => return "message_not_found",
            Place::Leased { .. } => return "message_leased",
            Place::Dead { .. } => return "message_dead",
            Place::Acked { .. } => return "message_acked",
            Place::Waiting { due } if due <= now => {}
            Place::Waiting { .. } => {
                m.place = Place::Waiting { due: now };
                m.began = m.ttl.map(|_| now);
                m.note("updated", 0);
                self.changed(n, true);
            }
        }
        "ok"
    }
}
