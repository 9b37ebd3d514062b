//! What leases, acks, nacks and extensions do to the model.

use super::broken::{Kept, must, same};
use super::world::{Message, Place, World};

/// A lease is never longer than this from its grant, ms.
const CAP_MS: i64 = 43_200_000;

/// A grant as the answer tells it.
pub struct Granted<'a> {
    pub id: &'a str,
    pub token: &'a str,
    pub due: i64,
    pub deadline: i64,
    pub attempt: i64,
    pub left: i64,
}

/// How a nack is to end the lease.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Failed,
    Released,
    Dead,
}

/// What a nack must be answered: the state, the due times that are allowed, the grant's number.
#[derive(Clone, Debug, PartialEq)]
pub struct Nacked {
    pub state: &'static str,
    pub due: Option<(i64, i64)>,
    pub attempt: i64,
}

/// In what order ready messages go: less goes first. What is published through one instance goes in
/// that order; between instances only the times of publishing say something.
fn goes_before(a: (usize, &Message), b: (usize, &Message)) -> bool {
    let rank = |m: &Message| (-m.priority, m.due());
    if rank(a.1) != rank(b.1) {
        return rank(a.1) < rank(b.1);
    }
    a.1.published_at < b.1.published_at || (a.1.via == b.1.via && a.0 < b.0)
}

impl World {
    /// A lease of so many comes by those that have failed as often as is allowed by now: they die of it. Returns whether
    /// any are ready.
    pub fn bury_spent(&mut self, at: usize, most: i64) -> bool {
        // One that dies may let another of its group go, which is due sooner than some behind it.
        loop {
            let mut ready = self.in_state(at, "ready");
            ready.sort_by_key(|n| self.rank(*n));
            ready.truncate(usize::try_from(most).unwrap_or(usize::MAX));
            let spent: Vec<usize> = ready.iter().copied().filter(|n| self.is_spent(*n)).collect();
            if spent.is_empty() {
                return !ready.is_empty();
            }
            spent.into_iter().for_each(|n| self.bury(n, self.now));
        }
    }

    /// A lease of so many comes by those that are not to be granted, and clears the way. Returns whether any are ready.
    pub fn come_by(&mut self, at: usize, most: i64) -> bool {
        if self.is_fair(at) {
            return self.next_in_turn(at).into_values().any(|n| !self.is_spent(n));
        }
        loop {
            self.hold_early(at, most);
            let ready = self.bury_spent(at, most);
            if !self.hold_early(at, most) {
                return ready;
            }
        }
    }

    /// These were granted for `lease_ms`, and nothing else.
    pub fn lease(
        &mut self,
        at: usize,
        most: i64,
        bytes: Option<i64>,
        lease_ms: Option<i64>,
        granted: &[Granted],
    ) -> Kept {
        let now = self.now;
        let topic = self.topics[at].clone();
        must!("I2 no invention", topic.is_some() || granted.is_empty(), "granted from no topic");
        let Some(topic) = topic else { return Ok(()) };
        must!("the contract", granted.is_empty() || !topic.paused, "granted while paused");
        let lease_ms = lease_ms.unwrap_or(topic.config.lease_ms);
        let (mut used, mut count, fair) = (0, 0, topic.config.fair);
        for grant in granted {
            let found = self.messages.iter().position(|m| m.id == grant.id);
            must!("I2 no invention", found.is_some(), "{} was never published", grant.id);
            let n = found.unwrap_or_default();
            let state = self.messages[n].state(now);
            let early = if state == Some("delayed") { "I3 never early" } else { "I4 one holder" };
            must!(early, state == Some("ready"), "{} was granted while {state:?}", grant.id);
            same("the contract", "the topic granted from", self.messages[n].topic, at)?;
            let m = &self.messages[n];
            for (other, before) in self.of(at).filter(|_| !fair) {
                let passed =
                    before.state(now) == Some("ready") && goes_before((other, before), (n, m));
                must!("I16 order", !passed, "{} was granted before {}", m.id, before.id);
            }
            used += m.bytes;
            let fits = count == 0 || bytes.is_none_or(|most| used <= most);
            must!("the contract", fits, "{used} bytes were granted, of at most {bytes:?}");
            count += 1;
            same("the contract", "due_at of a grant", Some(grant.due), m.due())?;
            if fair {
                self.pass(n)?;
            }
            self.grant(n, lease_ms);
            let m = &mut self.messages[n];
            m.tokens.push(grant.token.to_owned());
            same("I5 fencing", "attempt", grant.attempt, m.attempts)?;
            same("I7 attempts", "attempts_left", grant.left, m.left(&topic.config))?;
            same("the contract", "lease_expires_at of a grant", grant.deadline, now + lease_ms)?;
        }
        must!("the contract", count <= most, "{count} messages were granted, of at most {most}");
        let mut left: Vec<usize> = self.in_state(at, "ready");
        if fair {
            left = self.next_in_turn(at).into_values().filter(|n| !self.is_spent(*n)).collect();
        }
        let next = |n: &usize| {
            let m = (*n, &self.messages[*n]);
            fair || !left.iter().any(|other| goes_before((*other, &self.messages[*other]), m))
        };
        let fits =
            |n: &usize| bytes.is_none_or(|b| count == 0 || used + self.messages[*n].bytes <= b);
        let more = count < most
            && !topic.paused
            && left.iter().filter(|n| next(n)).any(fits)
            && left.iter().filter(|n| next(n)).all(fits);
        must!(
            "I12 liveness",
            !more,
            "{count} were granted of {most}, and {} are ready",
            left.len()
        );
        Ok(())
    }

    fn grant(&mut self, n: usize, lease_ms: i64) {
        let now = self.now;
        let topic = self.topic_of(n);
        topic.add("granted");
        let remembered = topic.config.ttl.is_some();
        self.take_turn(n);
        let m = &mut self.messages[n];
        if remembered || m.ttl.is_some() {
            m.began = m.began.or(m.due());
        }
        m.attempts += 1;
        m.counted += 1;
        m.note("granted", m.attempts);
        m.key_freed = m.key_freed || m.until_granted;
        m.place = Place::Leased { granted: now, deadline: now + lease_ms };
    }

    /// Whether this token holds the lease: `ok`, or the code of the refusal.
    fn held(&self, n: Option<usize>, token: &str) -> &'static str {
        match n.map(|n| &self.messages[n]) {
            Some(m) if m.leased() && m.tokens.last().is_some_and(|t| t == token) => "ok",
            Some(m) if m.place != Place::Gone => "lease_lost",
            _ => "message_not_found",
        }
    }

    /// An ack: `ok`, or the code of the refusal.
    pub fn ack(&mut self, n: Option<usize>, token: &str) -> &'static str {
        if let Some(m) = n.map(|n| &self.messages[n])
            && matches!(m.place, Place::Acked { .. })
            && m.tokens.last().is_some_and(|t| t == token)
        {
            return "ok";
        }
        let held = self.held(n, token);
        if let (Some(n), "ok") = (n, held) {
            self.topic_of(n).add("acked");
            if self.topic_of(n).config.retention.0 > 0 {
                self.messages[n].place = Place::Acked { at: self.now };
                self.leave(n);
            } else {
                self.remove(n, None);
            }
        }
        held
    }

    /// A nack, its due time as it was answered where that is one of several that are allowed.
    pub fn nack(
        &mut self,
        n: Option<usize>,
        token: &str,
        (kind, delay, reason): (Kind, Option<i64>, Option<String>),
        answered: Option<i64>,
    ) -> Result<Nacked, &'static str> {
        let (Some(n), "ok") = (n, self.held(n, token)) else { return Err(self.held(n, token)) };
        let now = self.now;
        let config = self.topic_of(n).config.clone();
        self.topic_of(n).add(if kind == Kind::Released { "released" } else { "nacked" });
        let m = &mut self.messages[n];
        let attempt = m.attempts;
        let ended = if kind == Kind::Released { "released" } else { "nacked" };
        m.events.push((ended, attempt, reason));
        if kind == Kind::Released {
            m.counted -= 1;
        }
        let (least, most) = match (delay, kind) {
            (Some(delay), _) => (delay, delay),
            (None, Kind::Failed) => m.backoff.as_ref().unwrap_or(&config.backoff).waits(m.counted),
            (None, _) => (0, 0),
        };
        if kind != Kind::Dead && m.over(&config, now).is_some_and(|over| over <= now) {
            self.remove(n, Some("expired"));
            return Ok(Nacked { state: "expired", due: None, attempt });
        }
        if kind == Kind::Dead || (kind == Kind::Failed && m.left(&config) == 0) {
            self.bury(n, now);
            return Ok(Nacked { state: "dead", due: None, attempt });
        }
        let due = answered.unwrap_or(now).clamp(now + least, now + most);
        m.place = Place::Waiting { due };
        let state = match self.step_back(n) {
            true => "blocked",
            false if due > now => "delayed",
            false => "ready",
        };
        Ok(Nacked { state, due: Some((now + least, now + most)), attempt })
    }

    /// An extension: the new end of the lease, or the code of the refusal.
    pub fn extend(&mut self, n: Option<usize>, token: &str, ms: i64) -> Result<i64, &'static str> {
        let (Some(n), "ok") = (n, self.held(n, token)) else { return Err(self.held(n, token)) };
        let Place::Leased { granted, deadline } = self.messages[n].place else {
            return Err("lease_lost");
        };
        let deadline = deadline.max((self.now + ms).min(granted + CAP_MS));
        self.messages[n].place = Place::Leased { granted, deadline };
        Ok(deadline)
    }
}
