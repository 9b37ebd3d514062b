//! The steps of a holder: lease, ack, nack, extend, single and in batches.

use serde_json::{Value, json};

use super::broken::{CONTRACT, Kept, must, same};
use super::hold::{Granted, Kind, Nacked};
use super::steps::{Hold, How, Token, Want};
use super::walk::Walk;
use crate::harness::{instant, instant_ms};

/// How a nack ends the lease, in words, as the model has it.
fn kind(how: &How) -> (Kind, Option<i64>, Option<String>) {
    let kind = [Kind::Failed, Kind::Released, Kind::Dead][usize::from(how.kind % 3)];
    let reason = || format!("because é\0{}\n\r\t\u{1b}\u{7f}, and", how.kind);
    (kind, how.delay, how.reason.then(reason))
}

fn nack_body(body: &mut Value, how: &How) {
    let (kind, delay, reason) = kind(how);
    match kind {
        Kind::Failed => {}
        Kind::Released => body["release"] = json!(true),
        Kind::Dead => body["dead"] = json!(true),
    }
    if let Some(delay) = delay {
        body["delay_ms"] = json!(delay);
    }
    if let Some(reason) = reason {
        body["reason"] = json!(reason);
    }
}

impl Walk<'_> {
    /// The message of a hold, and the token that it shows.
    fn token(&self, at: usize, hold: &Hold) -> (Option<usize>, String) {
        let n = self.find(at, hold.pick);
        let messages = &self.world.messages;
        let tokens = n.map_or(&[][..], |n| &messages[n].tokens);
        let mut latest = tokens.last().cloned().unwrap_or("none".to_owned());
        let token = match hold.token {
            Token::Right => latest,
            Token::Stale if tokens.len() > 1 => tokens[tokens.len() - 2].clone(),
            Token::Foreign => {
                let others = messages.iter().enumerate().filter(|(other, _)| Some(*other) != n);
                let found = others.filter_map(|(_, m)| m.tokens.last()).next_back();
                found.cloned().unwrap_or("none".to_owned())
            }
            _ => {
                let middle = latest.len() / 2;
                let other = if &latest[middle..=middle] == "A" { "B" } else { "A" };
                latest.replace_range(middle..=middle, other);
                latest
            }
        };
        (n, token)
    }

    fn item(&self, at: usize, hold: &Hold) -> (Option<usize>, Value) {
        let (n, token) = self.token(at, hold);
        (n, json!({"id": self.id(n), "lease_token": token}))
    }

    /// leaseMessages of one topic, leaseFromTopics of several.
    pub(super) async fn lease(&mut self, via: bool, topics: &[usize], want: &Want) -> Kept {
        for at in topics {
            // Acks come first where there are groups, as far as the instance knows.
            if !want.acks.is_empty() && self.world.of(*at).any(|(_, m)| m.group.is_some()) {
                self.look_at_topic(via, *at).await?;
            }
        }
        let mut body = json!({"max_messages": want.most});
        if let Some(bytes) = want.bytes {
            body["max_bytes"] = json!(bytes);
        }
        if let Some(ms) = want.lease_ms {
            body["lease_ms"] = json!(ms);
        }
        let acks: Vec<_> = want.acks.iter().map(|hold| self.item(topics[0], hold)).collect();
        if !acks.is_empty() {
            body["acks"] = acks.iter().map(|(_, item)| item.clone()).collect();
        }
        let path = if let [one] = topics {
            format!("/topics/{}/lease", self.names[*one])
        } else {
            body["topics"] = topics.iter().map(|at| json!(self.names[*at])).collect();
            "/lease".to_owned()
        };
        let reply = self.talk.send(via, "POST", &path, "", Some(&body.to_string())).await?;
        same(CONTRACT, "the status", reply.status, 200)?;
        self.same_acks(&acks, &reply.json["acks"])?;
        let messages = reply.json["messages"].as_array().cloned().unwrap_or_default();
        let text = |m: &Value, name: &str| m[name].as_str().unwrap_or_default().to_owned();
        self.bury_in_turn(via, topics).await?;
        let ready = |at: &&usize| {
            let paused = self.world.topics[**at].as_ref().is_none_or(|topic| topic.paused);
            !paused && self.world.come_by(**at, want.most)
        };
        let first = topics.iter().find(ready).copied().unwrap_or(topics[0]);
        let dues: Vec<_> = messages
            .iter()
            .map(|m| {
                (
                    text(m, "id"),
                    text(m, "lease_token"),
                    text(m, "due_at"),
                    text(m, "lease_expires_at"),
                )
            })
            .collect();
        let granted: Vec<Granted> = messages
            .iter()
            .zip(&dues)
            .map(|(m, (id, token, due, end))| Granted {
                id,
                token,
                due: instant_ms(due),
                deadline: instant_ms(end),
                attempt: m["attempt"].as_i64().unwrap_or_default(),
                left: m["attempts_left"].as_i64().unwrap_or(-1),
            })
            .collect();
        self.world.lease(first, want.most, want.bytes, want.lease_ms, &granted)?;
        for m in &messages {
            let found = self.world.messages.iter().position(|known| m["id"] == known.id);
            let n = found.unwrap_or_default();
            let known = &self.world.messages[n];
            same(CONTRACT, "topic", m["topic"].as_str(), Some(&*self.names[first]))?;
            same(CONTRACT, "key", m["key"].as_str(), known.key.as_deref())?;
            same(CONTRACT, "group", m["group"].as_str(), known.group.as_deref())?;
            same(CONTRACT, "priority", m["priority"].as_i64(), Some(known.priority))?;
            same(CONTRACT, "headers", &m["headers"], &json!(known.headers))?;
            let whole = reply.body.contains(&known.payload);
            must!("I2 no invention", whole, "no {} in {}", known.payload, reply.body);
            self.touched.push(n);
        }
        Ok(())
    }

    /// How far a lease of a fair topic comes by those that have failed as often as is allowed by now is open: they die of it.
    async fn bury_in_turn(&mut self, via: bool, topics: &[usize]) -> Kept {
        let fair = topics.iter().copied().filter(|at| self.world.is_fair(*at));
        let ready = fair.flat_map(|at| self.world.in_state(at, "ready"));
        let spent: Vec<usize> = ready.filter(|n| self.world.is_spent(*n)).collect();
        for n in spent {
            let path = format!("/messages/{}", self.world.messages[n].id);
            let seen = self.talk.send(via, "GET", &path, "", None).await?;
            if seen.json["state"] == "dead" {
                self.world.bury(n, self.world.now);
            }
        }
        Ok(())
    }

    fn same_acks(&mut self, acks: &[(Option<usize>, Value)], seen: &Value) -> Kept {
        same(CONTRACT, "acks", seen.as_array().map(Vec::len), Some(acks.len()))?;
        for (at, (n, item)) in acks.iter().enumerate() {
            let token = item["lease_token"].as_str().unwrap_or_default();
            let wanted = self.world.ack(*n, token);
            self.same_code(*n, seen[at]["status"].as_str().unwrap_or_default(), wanted)?;
            same(CONTRACT, "the ack's id", &seen[at]["id"], &item["id"])?;
            self.touched.extend(n);
        }
        Ok(())
    }

    pub(super) async fn ack(&mut self, via: bool, at: usize, hold: &Hold) -> Kept {
        let (n, token) = self.token(at, hold);
        let path = format!("/messages/{}/ack", self.id(n));
        let body = json!({"lease_token": token}).to_string();
        let reply = self.talk.send(via, "POST", &path, "", Some(&body)).await?;
        self.touched.extend(n);
        let wanted = self.world.ack(n, &token);
        self.same_code(n, reply.code(), wanted)
    }

    pub(super) async fn ack_batch(&mut self, via: bool, at: usize, holds: &[Hold]) -> Kept {
        let acks: Vec<_> = holds.iter().map(|hold| self.item(at, hold)).collect();
        let items: Vec<&Value> = acks.iter().map(|(_, item)| item).collect();
        let results = self.batch(via, "ack", &json!({"messages": items})).await?;
        self.same_acks(&acks, &results)
    }

    /// The code that a holder is answered with.
    fn same_code(&self, n: Option<usize>, seen: &str, wanted: &str) -> Kept {
        let lingers = n.is_some_and(|n| self.world.messages[n].lingers);
        if (seen, wanted, lingers) == ("lease_lost", "message_not_found", true) {
            return Ok(());
        }
        same("I5 fencing", "the answer", seen, wanted)
    }

    async fn batch(&mut self, via: bool, verb: &str, body: &Value) -> Kept<Value> {
        let path = format!("/messages/{verb}");
        let mut reply = self.talk.send(via, "POST", &path, "", Some(&body.to_string())).await?;
        same(CONTRACT, "the status", reply.status, 200)?;
        let wanted = body["messages"].as_array().map(Vec::len);
        same(CONTRACT, "results", reply.json["results"].as_array().map(Vec::len), wanted)?;
        Ok(reply.json["results"].take())
    }

    pub(super) async fn nack(&mut self, via: bool, at: usize, hold: &Hold, how: &How) -> Kept {
        let (n, token) = self.token(at, hold);
        let path = format!("/messages/{}/nack", self.id(n));
        let mut body = json!({"lease_token": token});
        nack_body(&mut body, how);
        let reply = self.talk.send(via, "POST", &path, "", Some(&body.to_string())).await?;
        let code = reply.code().to_owned();
        self.same_nack(n, &token, how, &code, &reply.json)
    }

    pub(super) async fn nack_batch(&mut self, via: bool, at: usize, nacks: &[(Hold, How)]) -> Kept {
        let mut items = Vec::new();
        for (hold, how) in nacks {
            let (n, mut item) = self.item(at, hold);
            nack_body(&mut item, how);
            items.push((n, item, how));
        }
        let bodies: Vec<&Value> = items.iter().map(|(_, item, _)| item).collect();
        let results = self.batch(via, "nack", &json!({"messages": bodies})).await?;
        for (at, (n, item, how)) in items.iter().enumerate() {
            let token = item["lease_token"].as_str().unwrap_or_default();
            let code = results[at]["status"].as_str().unwrap_or_default().to_owned();
            self.same_nack(*n, token, how, &code, &results[at])?;
        }
        Ok(())
    }

    fn same_nack(
        &mut self,
        n: Option<usize>,
        token: &str,
        how: &How,
        code: &str,
        seen: &Value,
    ) -> Kept {
        self.touched.extend(n);
        let due = seen["due_at"].as_str().map(instant_ms);
        match self.world.nack(n, token, kind(how), due) {
            Err(refused) => self.same_code(n, code, refused),
            Ok(Nacked { state, due: allowed, attempt }) => {
                same("I5 fencing", "the answer", code, "ok")?;
                same("I7 attempts", "state", seen["state"].as_str(), Some(state))?;
                same("I5 fencing", "attempt", seen["attempt"].as_i64(), Some(attempt))?;
                let fits = match (due, allowed) {
                    (Some(due), Some((least, most))) => (least..=most).contains(&due),
                    (due, allowed) => due.is_none() && allowed.is_none(),
                };
                must!(CONTRACT, fits, "due_at is {due:?}, and should be within {allowed:?}");
                Ok(())
            }
        }
    }

    pub(super) async fn extend(&mut self, via: bool, at: usize, hold: &Hold, ms: i64) -> Kept {
        let (n, token) = self.token(at, hold);
        let path = format!("/messages/{}/extend", self.id(n));
        let body = json!({"lease_token": token, "lease_ms": ms}).to_string();
        let reply = self.talk.send(via, "POST", &path, "", Some(&body)).await?;
        let code = reply.code().to_owned();
        self.same_extension(n, &token, ms, &code, &reply.json)
    }

    pub(super) async fn extend_batch(
        &mut self,
        via: bool,
        at: usize,
        extensions: &[(Hold, i64)],
    ) -> Kept {
        let mut items = Vec::new();
        for (hold, ms) in extensions {
            let (n, mut item) = self.item(at, hold);
            item["lease_ms"] = json!(ms);
            items.push((n, item, *ms));
        }
        let bodies: Vec<&Value> = items.iter().map(|(_, item, _)| item).collect();
        let results = self.batch(via, "extend", &json!({"messages": bodies})).await?;
        for (at, (n, item, ms)) in items.iter().enumerate() {
            let token = item["lease_token"].as_str().unwrap_or_default();
            let code = results[at]["status"].as_str().unwrap_or_default().to_owned();
            self.same_extension(*n, token, *ms, &code, &results[at])?;
        }
        Ok(())
    }

    fn same_extension(
        &mut self,
        n: Option<usize>,
        token: &str,
        ms: i64,
        code: &str,
        seen: &Value,
    ) -> Kept {
        self.touched.extend(n);
        match self.world.extend(n, token, ms) {
            Err(refused) => self.same_code(n, code, refused),
            Ok(deadline) => {
                same("I5 fencing", "the answer", code, "ok")?;
                let end = seen["lease_expires_at"].as_str();
                same("I6 extend", "lease_expires_at", end, Some(&*instant(deadline)))?;
                let left = seen["lease_ms"].as_i64();
                same("I6 extend", "lease_ms", left, Some(deadline - self.world.now))
            }
        }
    }
}
