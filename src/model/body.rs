//! How a message's body lies in Redis: bytes that no script parses.
//!
//! A plain JSON payload is the tag 0 and the payload as it was sent. Anything with a content type, headers, a callback or a
//! trace is the tag 1, the length of a JSON header (two bytes, big endian), the header, the payload. The tag 2 is the same with
//! four bytes of length, for attributes of SQS that two do not hold. One byte is what the common case pays; the payload's size
//! is known without reading it (`payload_bytes` in `includes/message.lua`). Members of the header that this version does not know stay
//! when the message is changed.

use super::{
    Callback, Completion, MessageId, Origin, Own, SecretHeaders, SqsParts, TraceContext, Unknown,
};
use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

const PLAIN: u8 = 0;
const WITH_HEADER: u8 = 1;
const WITH_LONG_HEADER: u8 = 2;

/// What a payload is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// A JSON value, byte for byte as it was sent.
    Json(Bytes),
    /// Bytes of some media type.
    Bytes {
        /// The bytes.
        data: Bytes,
        /// Their media type.
        content_type: String,
    },
}

/// The media type of bytes that came without one.
pub const OCTETS: &str = "application/octet-stream";

impl Content {
    /// What a callback has that was scheduled without a payload: no bytes, and of no type.
    pub fn nothing() -> Self {
        Self::Bytes { data: Bytes::new(), content_type: String::new() }
    }

    /// The media type; none of JSON, and of nothing.
    pub fn content_type(&self) -> Option<&str> {
        match self {
            Self::Json(_) => None,
            Self::Bytes { content_type, .. } => {
                Some(content_type.as_str()).filter(|t| !t.is_empty())
            }
        }
    }

    /// Whether what is stored as JSON is JSON.
    pub fn is_sound(&self) -> bool {
        match self {
            Self::Json(json) => serde_json::from_slice::<&RawValue>(json).is_ok(),
            Self::Bytes { .. } => true,
        }
    }

    /// The payload, JSON or not.
    pub fn payload(&self) -> &Bytes {
        let (Self::Json(payload) | Self::Bytes { data: payload, .. }) = self;
        payload
    }
}

/// A message's content and what is said of it. All but the payload is stored as JSON in front of it, under short names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Body {
    /// The payload, of which the JSON has the media type.
    #[serde(rename = "c", with = "media_type", default = "json", skip_serializing_if = "is_json")]
    pub content: Content,
    /// The publisher's headers, names as sent.
    #[serde(rename = "h", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Where dueq sends it, in place of its topic's URL.
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    pub callback: Option<Callback>,
    /// It tells of another message's death; its own goes nowhere further.
    #[serde(rename = "d", default, skip_serializing_if = "std::ops::Not::not")]
    pub dead_letter: bool,
    /// Which of the headers are secrets; marked where a pushed topic takes them.
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    pub secrets: Option<SecretHeaders>,
    /// What it was published in. Kept only if the trace is recorded: nothing can be linked to one that is not.
    #[serde(rename = "t", default, skip_serializing_if = "is_unrecorded")]
    pub trace: Option<TraceContext>,
    /// Where it died, if it is here as a dead letter in its own form.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// What it said for itself there.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub own: Option<Box<Own>>,
    /// What only clients of SQS know.
    #[serde(rename = "q", default, skip_serializing_if = "Option::is_none")]
    pub sqs: Option<Box<SqsParts>>,
    /// The API key that published a callback, by its name: empty for one without a name, and where there are no keys. `None`
    /// outside `_callbacks`, and of callbacks from before this was noted.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    /// Where its ack is published.
    #[serde(rename = "a", default, skip_serializing_if = "Option::is_none")]
    pub on_done: Option<Box<Completion>>,
    /// Where its death is published.
    #[serde(rename = "x", default, skip_serializing_if = "Option::is_none")]
    pub on_dead: Option<Box<Completion>>,
    /// The message whose end this one is about; its own end is published nowhere.
    #[serde(rename = "e", default, skip_serializing_if = "Option::is_none")]
    pub completes: Option<MessageId>,
    /// Members that a later version has written.
    #[serde(flatten)]
    pub unknown: Unknown,
    /// What is stored, where that cannot be read: it stays as it is, and shows as empty, since there may be secrets in it.
    #[serde(skip)]
    pub damaged: Option<Bytes>,
}

fn is_unrecorded(trace: &Option<TraceContext>) -> bool {
    !trace.is_some_and(|trace| trace.is_sampled())
}

fn is_json(content: &Content) -> bool {
    matches!(content, Content::Json(_))
}

fn json() -> Content {
    Content::Json(Bytes::new())
}

/// A content as its media type.
mod media_type {
    use super::*;
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(content: &Content, serializer: S) -> Result<S::Ok, S::Error> {
        match content {
            Content::Json(_) => serializer.serialize_none(),
            Content::Bytes { content_type, .. } => serializer.serialize_str(content_type),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Content, D::Error> {
        let content_type = Option::deserialize(deserializer)?;
        let bytes = |content_type| Content::Bytes { data: Bytes::new(), content_type };
        Ok(content_type.map_or_else(json, bytes))
    }
}

/// What is changed of a body. `None` leaves a part as it is.
#[derive(Clone, Debug, Default)]
pub struct BodyChange {
    /// Another payload.
    pub content: Option<Content>,
    /// Other headers, all of them.
    pub headers: Option<BTreeMap<String, String>>,
    /// Another callback; `Some(None)`: the topic's URL.
    pub callback: Option<Option<Callback>>,
}

impl BodyChange {
    /// Does nothing change?
    pub fn is_nothing(&self) -> bool {
        self.content.is_none() && self.headers.is_none() && self.callback.is_none()
    }

    /// The body with another payload and callback. Headers are put in by who knows which of them are secrets.
    pub fn applied_to(&self, body: &Body) -> Body {
        let mut changed = body.clone();
        if let Some(content) = &self.content {
            changed.content.clone_from(content);
            changed.damaged = None;
        }
        if let Some(callback) = &self.callback {
            changed.callback.clone_from(callback);
        }
        changed
    }
}

/// What was read from Redis is no body.
#[derive(Debug, thiserror::Error)]
#[error("a stored message body cannot be read")]
pub struct BrokenBody;

impl Body {
    /// A body of nothing but this payload and these headers.
    pub fn new(content: Content, headers: BTreeMap<String, String>) -> Self {
        Self {
            content,
            headers,
            callback: None,
            dead_letter: false,
            secrets: None,
            trace: None,
            origin: None,
            own: None,
            sqs: None,
            publisher: None,
            on_done: None,
            on_dead: None,
            completes: None,
            damaged: None,
            unknown: Unknown::new(),
        }
    }

    /// The body of a message whose stored one cannot be read.
    pub fn damaged(stored: Bytes) -> Self {
        Self { damaged: Some(stored), ..Self::new(Content::nothing(), BTreeMap::new()) }
    }

    /// The bytes that Redis keeps.
    pub fn encode(&self) -> Bytes {
        if let Some(stored) = &self.damaged {
            return stored.clone();
        }
        let header = match self.is_plain() {
            true => None,
            // Maps of strings always serialize.
            false => Some(serde_json::to_vec(self).unwrap_or_default()),
        };
        Self::join(header.as_deref(), self.content.payload())
    }

    /// Is there nothing but a JSON payload to store?
    fn is_plain(&self) -> bool {
        let Self { content, headers, callback, dead_letter, trace, origin, sqs, .. } = self;
        let said = callback.is_some() || *dead_letter || !is_unrecorded(trace) || origin.is_some();
        let said = said
            || sqs.is_some()
            || self.own.is_some()
            || self.publisher.is_some()
            || !self.unknown.is_empty();
        let said =
            said || self.on_done.is_some() || self.on_dead.is_some() || self.completes.is_some();
        is_json(content) && headers.is_empty() && !said
    }

    /// The bytes that Redis keeps of a header, if there is one, and a payload.
    pub fn join(header: Option<&[u8]>, payload: &[u8]) -> Bytes {
        let mut out = BytesMut::with_capacity(header.map_or(0, <[u8]>::len) + payload.len() + 5);
        match header {
            None => out.put_u8(PLAIN),
            Some(header) => {
                // 8 KiB of headers, each byte escaped, stay below 64 KiB; attributes of SQS and what is unknown need not.
                match u16::try_from(header.len()) {
                    Ok(length) => {
                        out.put_u8(WITH_HEADER);
                        out.put_u16(length);
                    }
                    Err(_) => {
                        out.put_u8(WITH_LONG_HEADER);
                        out.put_u32(header.len() as u32);
                    }
                }
                out.put_slice(header);
            }
        }
        out.put_slice(payload);
        out.freeze()
    }

    /// Takes apart what [`Body::join`] made.
    pub fn split(stored: &[u8]) -> Result<(Option<&[u8]>, &[u8]), BrokenBody> {
        let (length, rest) = match stored {
            [PLAIN, payload @ ..] => return Ok((None, payload)),
            [WITH_HEADER, a, b, rest @ ..] => (usize::from(u16::from_be_bytes([*a, *b])), rest),
            [WITH_LONG_HEADER, a, b, c, d, rest @ ..] => {
                (u32::from_be_bytes([*a, *b, *c, *d]) as usize, rest)
            }
            _ => return Err(BrokenBody),
        };
        let (header, payload) = rest.split_at_checked(length).ok_or(BrokenBody)?;
        Ok((Some(header), payload))
    }

    /// Reads what [`Body::encode`] wrote; the payload is not copied.
    pub fn decode(stored: Bytes) -> Result<Self, BrokenBody> {
        let (header, payload) = Self::split(&stored)?;
        let payload = stored.slice_ref(payload);
        let Some(header) = header else {
            return Ok(Self::new(Content::Json(payload), BTreeMap::new()));
        };
        let mut body: Self = serde_json::from_slice(header).map_err(|_| BrokenBody)?;
        match &mut body.content {
            Content::Json(data) | Content::Bytes { data, .. } => *data = payload,
        }
        Ok(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CallUrl, Push, Retry, SqsAttribute, TopicName};

    #[test]
    fn bodies_come_back_as_they_were() {
        let headers = BTreeMap::from([("X-Trace".to_owned(), "é\"\\".to_owned())]);
        let json = Content::Json(Bytes::from_static(b"{ \"a\" : 1E400 }"));
        let raw = Content::Bytes {
            data: Bytes::from_static(&[0, 255, 1]),
            content_type: "image/png".into(),
        };
        for (content, headers) in [
            (json.clone(), BTreeMap::new()),
            (json, headers.clone()),
            (raw.clone(), BTreeMap::new()),
            (raw, headers),
        ] {
            let body = Body::new(content, headers);
            assert_eq!(Body::decode(body.encode()).unwrap(), body);
            let url = CallUrl::parse("http://example.com/é").unwrap();
            let secret_headers = vec!["x-trace".to_owned()];
            let retry =
                Retry { on: Some(Vec::new()), never: vec!["5xx".to_owned()], ..Retry::default() };
            let (timeout_ms, connect_timeout_ms, retry) = (Some(5), Some(6), Some(retry));
            let auth = serde_json::json!({"kind": "basic", "name": "a", "secret": "b", "later": 1});
            let callback = Callback {
                timeout_ms,
                connect_timeout_ms,
                retry,
                auth: serde_json::from_value(auth).unwrap(),
                secret_headers,
                ..Callback::to(url)
            };
            let mut body = Body { callback: Some(callback), dead_letter: true, ..body };
            body.mark_secrets(&Push::default());
            assert_eq!(Body::decode(body.encode()).unwrap(), body);
            body.trace = Some(TraceContext { trace: [1; 16], span: [2; 8], flags: 1 });
            assert_eq!(Body::decode(body.encode()).unwrap(), body);
            let id = MessageId::parse("019ab000-0000-8000-8000-000000000000").unwrap();
            let topic = TopicName::parse("orders").unwrap();
            body.origin = Some(Origin { id, topic, attempts: 3 });
            body.publisher = Some("billing".to_owned());
            let url = CallUrl::parse("http://example.com/done").ok();
            let publisher = "billing".to_owned();
            body.on_done = Some(Box::new(Completion { url, publisher, ..Completion::default() }));
            let topic = TopicName::parse("failed").ok();
            body.on_dead = Some(Box::new(Completion { topic, ..Completion::default() }));
            body.completes = Some(id);
            let (callback, on_done) = (body.callback.clone(), body.on_done.clone());
            let own = Own { callback, on_done, ttl_ms: Some(5), ..Own::default() };
            body.own = Some(Box::new(own));
            let mut parts = SqsParts { group: Some("g".to_owned()), ..SqsParts::default() };
            for length in [1, 100_000] {
                let value = SqsAttribute { kind: "Number".to_owned(), value: "1".repeat(length) };
                parts.attributes.insert("n".to_owned(), value);
                body.sqs = Some(Box::new(parts.clone()));
                let stored = body.encode();
                assert_eq!(stored[0], if length == 1 { WITH_HEADER } else { WITH_LONG_HEADER });
                assert_eq!(Body::decode(stored).unwrap(), body);
            }
        }
    }

    #[test]
    fn a_plain_payload_costs_one_byte() {
        let body = Body::new(Content::Json(Bytes::from_static(b"[1]")), BTreeMap::new());
        assert_eq!(&body.encode()[..], b"\0[1]");
    }

    #[test]
    fn a_trace_costs_44_bytes_and_what_later_versions_say_is_kept() {
        let plain = Body::new(Content::Json(Bytes::from_static(b"[1]")), BTreeMap::new());
        let trace = Some(TraceContext { trace: [1; 16], span: [2; 8], flags: 1 });
        let traced = Body { trace, ..plain.clone() };
        assert_eq!(traced.encode().len(), plain.encode().len() + 44);
        // As versions see it that do not know the member.
        let stored = b"\x01\0\x0e{\"zz\":[\"new\"]}[1]";
        let mut later = Body::decode(Bytes::from_static(stored)).unwrap();
        assert_eq!(&later.encode()[..], stored, "it is written back");
        later.unknown.insert("long".to_owned(), "x".repeat(1 << 16).into());
        assert_eq!(Body::decode(later.encode()).unwrap(), later);
        later.unknown.clear();
        assert_eq!(later, plain);
    }

    #[test]
    fn a_moved_message_that_said_nothing_for_itself_keeps_where_it_died_only() {
        let mut body = Body::new(Content::Json(Bytes::from_static(b"1")), BTreeMap::new());
        let id = MessageId::parse("019ab000-0000-8000-8000-000000000000").unwrap();
        let topic = TopicName::parse("orders").unwrap();
        body.origin = Some(Origin { id, topic, attempts: 3 });
        let header = format!("{{\"o\":{{\"i\":\"{id}\",\"t\":\"orders\",\"n\":3}}}}");
        assert_eq!(body.encode(), Body::join(Some(header.as_bytes()), b"1"));
    }

    #[test]
    fn bytes_that_are_no_body_are_refused() {
        for broken in
            [&b""[..], b"\x07", b"\x01", b"\x01\0", b"\x01\0\x09{}", b"\x01\0\x02{x", b"\x02\0\0\0"]
        {
            assert!(Body::decode(Bytes::copy_from_slice(broken)).is_err());
        }
        for broken in
            [&b"\0"[..], b"\0{\"a\":", b"\0x", b"\0\"\xff\"", b"\0[1] 2", b"\x01\0\x02{}1,"]
        {
            let body = Body::decode(Bytes::copy_from_slice(broken)).unwrap();
            assert!(!body.content.is_sound(), "{broken:?}");
        }
    }
}
