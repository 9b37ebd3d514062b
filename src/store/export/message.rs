//! A message as a dump has it, and how it is stored in Redis. Nothing of it is lost on the way there and back, except the
//! holder of its lease.

use super::{ExportError, copies::Prefix, line::Content};
use crate::{
    extra::Extra,
    partition::Partition,
    reply::{CallError, Fields},
    types::{MessageOptions, is_default},
};
use bytes::Bytes;
use dueq_model::{Body, Ends, MAX_PAYLOAD_BYTES, MessageId, Millis, Route};
use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A message as `dump_messages` reads it.
pub(super) struct Stored {
    pub member: Bytes,
    pub body: Bytes,
    /// The set that holds it, as `stands_of` numbers them; 0: none.
    pub set: i64,
    pub score: i64,
    pub extra: Bytes,
    pub events: Bytes,
    pub expires: Option<Millis>,
    pub first_due: Option<Millis>,
    pub untold: Option<Millis>,
}

/// A message's line.
#[derive(Debug, Serialize, Deserialize)]
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
    pub at_ms: Millis,
    /// Grants so far, the present one not among them.
    #[serde(default, skip_serializing_if = "is_default")]
    attempts: i64,
    /// Those that count against max_attempts.
    #[serde(default, skip_serializing_if = "is_default")]
    counted: i64,
    /// Its options.
    #[serde(flatten)]
    options: MessageOptions,
    /// Its TTL ended while it was leased.
    #[serde(default, skip_serializing_if = "is_default")]
    ttl_over: bool,
    /// Its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// How long it holds its key: `d` until it is done, `g` until it is granted, `f` no longer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    key_hold: String,
    /// Its place in the group, hex.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    group_order: String,
    /// When its own TTL ends, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_ms: Option<Millis>,
    /// When it first fell due, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) first_due_ms: Option<Millis>,
    /// When it died, ms, if that is still to be published to the dead topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) untold_ms: Option<Millis>,
    /// Its events, as Redis has them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) events: String,
    /// Content type, headers, callback and trace, as Redis has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) header: Option<Box<RawValue>>,
    /// The payload, byte for byte.
    pub(super) payload: Content,
}

/// Scores of ready messages with a priority, and of leases: see `migrations-lua/README.md`.
const RANK_BITS: i64 = 1 << 45;
const EPOCH_BITS: i64 = 11;

impl Stored {
    pub(super) fn read(fields: &mut Fields) -> Result<Self, CallError> {
        Ok(Self {
            member: fields.bytes()?,
            body: fields.bytes()?,
            set: fields.int()?,
            score: fields.int()?,
            extra: fields.bytes()?,
            events: fields.bytes()?,
            expires: optional(fields)?,
            first_due: optional(fields)?,
            untold: optional(fields)?,
        })
    }
}

fn optional(fields: &mut Fields) -> Result<Option<Millis>, CallError> {
    let value = fields.bytes()?;
    Ok(std::str::from_utf8(&value).ok().and_then(|at| at.parse().ok()))
}

impl Message {
    /// The line of a message as it was at `now`, ms; `None` where it is damaged.
    pub(super) fn of(stored: &Stored, partition: &Partition, now: Millis) -> Option<Self> {
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
        let header = header.map(|header| String::from_utf8(header.to_vec())).transpose().ok()?;
        // A line break would end the line.
        if header.as_ref().is_some_and(|header| header.contains(['\n', '\r'])) {
            return None;
        }
        let extra = Extra::read(std::str::from_utf8(&stored.extra).ok()?)?;
        let Extra { attempts, counted, options, ttl_over, key, key_hold, group_order } = extra;
        let message = Self {
            id: MessageId::from_member(&member, partition.route).to_string(),
            topic: partition.topic.name.to_string(),
            state: state.to_owned(),
            at_ms,
            attempts,
            counted,
            options,
            ttl_over,
            key,
            key_hold,
            group_order,
            expires_ms: stored.expires,
            first_due_ms: stored.first_due,
            untold_ms: stored.untold,
            events: String::from_utf8(stored.events.to_vec()).ok()?,
            header: header.map(RawValue::from_string).transpose().ok()?,
            payload: Content::of(payload),
        };
        message.check().is_ok().then_some(message)
    }

    /// Its `extra` as Redis keeps it.
    pub(super) fn extra(&self) -> String {
        let Self { attempts, counted, ttl_over, .. } = *self;
        let Self { options, key, key_hold, group_order, .. } = self;
        let (options, key) = (MessageOptions { ends: self.ends(), ..options.clone() }, key.clone());
        let (key_hold, group_order) = (key_hold.clone(), group_order.clone());
        Extra { attempts, counted, options, ttl_over, key, key_hold, group_order }.write()
    }

    /// Which of its ends are to be published, as its body says.
    pub(super) fn ends(&self) -> Ends {
        let body = self.body().ok().and_then(|body| Body::decode(body).ok());
        body.as_ref().map(Ends::of).unwrap_or_default()
    }

    /// Has its header name what a copy names. Returns whether a URL to be called at its end was left out.
    ///
    /// Errors: the header cannot be read; those of [`Prefix::name`].
    pub(super) fn rename(&mut self, prefix: &Prefix<'_>) -> Result<bool, ExportError> {
        let Some(header) = &self.header else { return Ok(false) };
        let seen: Body = serde_json::from_str(header.get()).map_err(ExportError::other)?;
        let mut body = seen.clone();
        let is_silenced = prefix.body(&mut body)?;
        if body != seen {
            let header = serde_json::value::to_raw_value(&body).map_err(ExportError::other)?;
            self.header = Some(header).filter(|header| header.get() != "{}");
        }
        Ok(is_silenced)
    }

    /// Its body as Redis keeps it. Errors: the payload is not base64.
    pub(super) fn body(&self) -> Result<Bytes, &'static str> {
        let payload = self.payload.bytes().ok_or("its payload is not base64")?;
        Ok(Body::join(self.header.as_ref().map(|header| header.get().as_bytes()), &payload))
    }

    /// The state as `load_messages` knows it.
    pub(super) fn place(&self) -> &str {
        if matches!(&*self.state, "delayed" | "ready") { "waiting" } else { &self.state }
    }

    /// Its id, and the partition that the id names. Errors: it is no id of dueq.
    pub(super) fn id(&self) -> Result<(MessageId, Route), &'static str> {
        id_of(&self.id)
    }

    /// Checks that Redis can keep it. Errors: the reason why not.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        const STATES: [&str; 7] =
            ["delayed", "ready", "blocked", "leased", "dead", "acked", "untold"];
        let Self { options, key, key_hold, group_order, .. } = self;
        // Scores are whole numbers below 2^53, and those of leases hold an epoch too.
        let packed = matches!(&*self.state, "leased" | "acked");
        let first = if packed { self.at_ms.saturating_mul(1 << EPOCH_BITS) } else { self.at_ms };
        let mut instants =
            [Some(first), self.expires_ms, self.first_due_ms, self.untold_ms, options.ttl_ms]
                .into_iter()
                .flatten();
        let is_hex = |text: &str| text.len() == 12 && text.bytes().all(|b| b.is_ascii_hexdigit());
        self.id()?;
        let is_grouped = options.group.is_some();
        let is_count = |count: &i64| (0..=i64::from(u32::MAX)).contains(count);
        for (is_right, reason) in [
            (STATES.contains(&&*self.state), "its state is unknown"),
            (instants.all(|at| (0..1 << 53).contains(&at)), "an instant of it is out of range"),
            ([self.attempts, self.counted].iter().all(is_count), "its attempts are out of range"),
            (
                ["", "d", "g", "f"].contains(&&**key_hold) && key_hold.is_empty() == key.is_none(),
                "its key and how it is held do not fit",
            ),
            (
                if is_grouped { is_hex(group_order) } else { group_order.is_empty() }
                    && (is_grouped || self.state != "blocked"),
                "its group and its place there do not fit",
            ),
            (
                self.events.is_empty() || self.events.ends_with('\n'),
                "its events do not end with a line",
            ),
        ] {
            if !is_right {
                return Err(reason);
            }
        }
        let body = Body::decode(self.body()?).map_err(|_| "its header cannot be read")?;
        // A dead letter holds another message.
        if body.content.payload().len() as u64 > MAX_PAYLOAD_BYTES && !body.dead_letter {
            return Err("its payload is larger than 1 MiB");
        }
        Ok(())
    }

    /// A digest of its parts that time does not change. Sums of digests do not depend on the order.
    pub(super) fn digest(&self) -> u128 {
        let mut digest = Context::new(&SHA256);
        if let Ok((id, route)) = self.id() {
            digest.update(&id.member());
            digest.update(&route.partition.0.to_be_bytes());
        }
        let options = (&self.options, &self.key);
        digest.update(&serde_json::to_vec(&options).unwrap_or_default());
        digest.update(&self.body().unwrap_or_default());
        let digest = digest.finish();
        u128::from_be_bytes(digest.as_ref().first_chunk().copied().unwrap_or_default())
    }
}

/// An id, and the partition that it names. Errors: it is no id of dueq.
pub(super) fn id_of(text: &str) -> Result<(MessageId, Route), &'static str> {
    let id = MessageId::parse(text).map_err(|_| "its id is no UUID")?;
    Ok((id, id.route().ok_or("its id is not one of dueq")?))
}

#[cfg(test)]
mod tests;
