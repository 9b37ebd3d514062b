//! A message as a dump has it, and how it lies in Redis. Nothing of it is lost on the way there and back, apart from who held
//! its lease.

use super::line::Content;
use bytes::Bytes;
use dueq_model::{Backoff, Body, MAX_PAYLOAD_BYTES, MessageId, Route};
use dueq_store::{Partition, is_default};
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What Redis keeps of a message, as `dump_messages` reads it.
pub struct Stored {
    pub member: Bytes,
    pub body: Bytes,
    /// The set that holds it, as `stands_of` numbers them; 0: none.
    pub set: i64,
    pub score: i64,
    pub extra: Bytes,
    pub events: Bytes,
    pub expires: Option<i64>,
    pub first_due: Option<i64>,
    pub untold: Option<i64>,
}

/// A message's line.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// Its id.
    pub id: String,
    /// Its topic.
    pub topic: String,
    /// Its state: `delayed`, `ready`, `blocked`, `leased`, `dead`, `acked`; or `untold`, if it is kept only until its death is
    /// published.
    pub state: String,
    /// Its due time, the end of its lease, its death or its ack, ms.
    pub at_ms: i64,
    /// Grants so far; the present one not among them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attempts: i64,
    /// Those that count against max_attempts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub counted: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u16>,
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_ms: Option<i64>,
    /// Its TTL ended while it was leased.
    #[serde(default, skip_serializing_if = "is_default")]
    pub ttl_over: bool,
    /// When its own TTL ends, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<i64>,
    /// When it first fell due, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_due_ms: Option<i64>,
    /// When it died, ms, if that is still to be published to the dead topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untold_ms: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// How long it holds its key: `d` until it is done, `g` until it is granted, `f` no longer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key_hold: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// Its place in the group, hex.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub group_order: String,
    /// What happened to it, as Redis has it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub events: String,
    /// Content type, headers, callback and trace, as Redis has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<Box<RawValue>>,
    /// The payload, byte for byte.
    pub payload: Content,
}

/// Scores of ready messages with a priority, and of leases: see `migrations-lua/README.md`.
const RANK_BITS: i64 = 1 << 45;
const EPOCH_BITS: i64 = 11;

impl Message {
    /// The line of a message as it was at `now`, ms; `None` where it is damaged.
    pub fn of(stored: &Stored, partition: &Partition, now: i64) -> Option<Self> {
        let member = stored.member[..].try_into().ok()?;
        let (state, at_ms) = match (stored.set, stored.score) {
            (1 | 2, score) => ("leased", score >> EPOCH_BITS),
            (3, score) => ("ready", score % RANK_BITS),
            (4 | 5, due) => (if due > now { "delayed" } else { "ready" }, due),
            (6, due) => ("blocked", due),
            (7, at) => ("dead", at),
            (8, score) => ("acked", score >> EPOCH_BITS),
            _ => ("untold", stored.untold?),
        };
        let (header, payload) = Body::split(&stored.body).ok()?;
        let header = header.map(std::str::from_utf8).transpose().ok()?;
        // A line break would end the line.
        if header.is_some_and(|header| header.contains(['\n', '\r'])) {
            return None;
        }
        let message = Self {
            id: MessageId::from_member(&member, partition.route).to_string(),
            topic: partition.topic.name.to_string(),
            state: state.to_owned(),
            at_ms,
            expires_ms: stored.expires,
            first_due_ms: stored.first_due,
            untold_ms: stored.untold,
            events: String::from_utf8(stored.events.to_vec()).ok()?,
            header: header
                .map(|header| RawValue::from_string(header.to_owned()))
                .transpose()
                .ok()?,
            payload: Content::of(payload),
            ..Self::of_extra(std::str::from_utf8(&stored.extra).ok()?)?
        };
        message.check().is_ok().then_some(message)
    }

    /// Reads an `extra`, as [`Extra::parse`](dueq_store) does, and nothing less of it than there is.
    fn of_extra(text: &str) -> Option<Self> {
        let mut parts = text.splitn(8, ',');
        let number = |text: Option<&str>| text.unwrap_or("0").parse().ok();
        let (attempts, counted) =
            if text.is_empty() { (0, 0) } else { (number(parts.next())?, number(parts.next())?) };
        let optional = |text: Option<&str>| text.filter(|text| !text.is_empty()).map(str::parse);
        let max_attempts = optional(parts.next()).transpose().ok()?;
        let priority = parts.next().unwrap_or("0").parse().ok()?;
        let ttl = parts.next().unwrap_or_default();
        let (ttl_over, ttl) = ttl.strip_prefix('o').map_or((false, ttl), |ttl| (true, ttl));
        let ttl_ms = Some(ttl).filter(|ttl| !ttl.is_empty()).map(str::parse).transpose().ok()?;
        let backoff = match parts.next().unwrap_or_default() {
            "" => None,
            policy => Some(Backoff::from_script(policy)?),
        };
        let hold = parts.next().unwrap_or_default();
        let at = hold.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(hold.len());
        let (key_hold, place) = hold.split_at(at);
        let names = parts.next().unwrap_or_default();
        let (group_order, (group, key)) = match place.split_once('.') {
            Some((length, order)) => (order, names.split_at_checked(length.parse().ok()?)?),
            None => ("", ("", names)),
        };
        Some(Self {
            attempts,
            counted,
            max_attempts,
            priority,
            ttl_ms,
            ttl_over,
            backoff,
            key: key.to_owned(),
            key_hold: key_hold.to_owned(),
            group: group.to_owned(),
            group_order: group_order.to_owned(),
            ..Self::default()
        })
    }

    /// Its `extra`; empty where it has none.
    pub fn extra(&self) -> String {
        let max_attempts = self.max_attempts.map(|most| most.to_string()).unwrap_or_default();
        let ttl = self.ttl_ms.map(|ttl| ttl.to_string()).unwrap_or_default();
        let over = if self.ttl_over { "o" } else { "" };
        let backoff = self.backoff.as_ref().map(Backoff::to_script).unwrap_or_default();
        let Self { attempts, counted, priority, key, key_hold: hold, .. } = self;
        let numbers = format!("{attempts},{counted},{max_attempts},{priority}");
        let options = format!(",{over}{ttl},{backoff},{hold}");
        if !self.group.is_empty() {
            let Self { group, group_order, .. } = self;
            return format!("{numbers}{options}{}.{group_order},{group}{key}", group.len());
        }
        match (options.as_str(), numbers.as_str()) {
            (",,,", "0,0,,0") if key.is_empty() => String::new(),
            (",,,", _) if key.is_empty() => numbers,
            _ => format!("{numbers}{options},{key}"),
        }
    }

    /// Its body as Redis keeps it. Errors: what is wrong with it.
    pub fn body(&self) -> Result<Bytes, &'static str> {
        let payload = self.payload.bytes().ok_or("its payload is not base64")?;
        Ok(Body::join(self.header.as_ref().map(|header| header.get().as_bytes()), &payload))
    }

    /// The state as `load_messages` knows it.
    pub fn place(&self) -> &str {
        if matches!(&*self.state, "delayed" | "ready") { "waiting" } else { &self.state }
    }

    /// Its id and where it lies. Errors: it is no id of dueq's.
    pub fn id(&self) -> Result<(MessageId, Route), &'static str> {
        let id = MessageId::parse(&self.id).map_err(|_| "its id is no UUID")?;
        Ok((id, id.route().ok_or("its id is none of dueq's")?))
    }

    /// Whether Redis can keep it. Errors: what is wrong with it.
    pub fn check(&self) -> Result<(), &'static str> {
        const STATES: [&str; 7] =
            ["delayed", "ready", "blocked", "leased", "dead", "acked", "untold"];
        // Scores are whole numbers below 2^53, and those of leases hold an epoch too.
        let packed = matches!(&*self.state, "leased" | "acked");
        let first = if packed { self.at_ms.saturating_mul(1 << EPOCH_BITS) } else { self.at_ms };
        let moments = [first].into_iter().chain(self.expires_ms).chain(self.first_due_ms);
        let mut moments = moments.chain(self.untold_ms);
        let lines = |text: &str| text.is_empty() || text.ends_with('\n');
        let hex = |text: &str| text.len() == 12 && text.bytes().all(|b| b.is_ascii_hexdigit());
        self.id()?;
        if !STATES.contains(&&*self.state) {
            return Err("its state is unknown");
        }
        if !moments.all(|at| (0..1 << 53).contains(&at)) || self.ttl_ms.is_some_and(|ttl| ttl < 0) {
            return Err("an instant of it is out of range");
        }
        if ![self.attempts, self.counted].iter().all(|n| (0..=i64::from(u32::MAX)).contains(n)) {
            return Err("its attempts are out of range");
        }
        if !matches!(&*self.key_hold, "" | "d" | "g" | "f")
            || self.key_hold.is_empty() != self.key.is_empty()
        {
            return Err("its key and how it is held do not fit");
        }
        if self.group.is_empty() && (self.state == "blocked" || !self.group_order.is_empty())
            || !self.group.is_empty() && !hex(&self.group_order)
        {
            return Err("its group and its place there do not fit");
        }
        if !lines(&self.events) {
            return Err("its events do not end with a line");
        }
        let body = Body::decode(self.body()?).map_err(|_| "its header cannot be read")?;
        // What tells of another message's death holds that message.
        if body.content.payload().len() as u64 > MAX_PAYLOAD_BYTES && !body.dead_letter {
            return Err("its payload is larger than 1 MiB");
        }
        Ok(())
    }

    /// A digest of what time does not change. Sums of them do not depend on the order.
    pub fn digest(&self) -> u128 {
        let (member, partition) = match self.id() {
            Ok((id, route)) => (id.member(), route.partition.0),
            Err(_) => Default::default(),
        };
        let mut digest = Context::new(&SHA256);
        digest.update(&member);
        let Self { max_attempts, priority, ttl_ms, backoff, key, group, .. } = self;
        let options = (partition, max_attempts, priority, ttl_ms, backoff, key, group);
        digest.update(&serde_json::to_vec(&options).unwrap_or_default());
        digest.update(&self.body().unwrap_or_default());
        let digest = digest.finish();
        let first = digest.as_ref().first_chunk().copied().unwrap_or_default();
        u128::from_be_bytes(first)
    }
}

#[cfg(test)]
mod tests;
