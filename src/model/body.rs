//! How a message's body lies in Redis: bytes that no script parses.
//!
//! A plain JSON payload is the tag 0 and the payload as it was sent. Anything with a content type, headers, a callback or a
//! trace is the tag 1, the length of a JSON header (two bytes, big endian), the header, the payload. The tag 2 is the same with
//! four bytes of length, for attributes of SQS that two do not hold. One byte is what the common case pays; the payload's size
//! can be told without reading it (`payload_bytes` in `includes/message.lua`). Members of the header that this version does not know stay
//! when the message is changed.

use super::{Callback, MessageId, SecretHeaders, SqsParts, TopicName, TraceContext, Unknown};
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

/// A message's content and headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    /// The payload.
    pub content: Content,
    /// The publisher's headers, names as sent.
    pub headers: BTreeMap<String, String>,
    /// Where dueq sends it, in place of its topic's URL.
    pub callback: Option<Callback>,
    /// It tells of another message's death; its own goes nowhere further.
    pub dead_letter: bool,
    /// Which of the headers are secrets; marked where a pushed topic takes them.
    pub secrets: Option<SecretHeaders>,
    /// What it was published in. Kept only if the trace is recorded.
    pub trace: Option<TraceContext>,
    /// What a later version says of it.
    pub unknown: Unknown,
    /// Where it died, if it is here as a dead letter in its own form.
    pub origin: Option<Origin>,
    /// What only clients of SQS know.
    pub sqs: Option<Box<SqsParts>>,
    /// The API key that published a callback, by its name: empty for one without a name, and where there are no keys. `None`
    /// outside `_callbacks`, and of callbacks from before this was noted.
    pub publisher: Option<String>,
    /// What is stored, where that cannot be read: it stays as it is, and shows as empty, since there may be secrets in it.
    pub damaged: Option<Bytes>,
}

/// The message that moved here when it died.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// Its first id.
    #[serde(rename = "i")]
    pub id: MessageId,
    /// The topic that it died in last.
    #[serde(rename = "t")]
    pub topic: TopicName,
    /// Grants until then.
    #[serde(rename = "n")]
    pub attempts: i64,
}

/// What was read from Redis is no body.
#[derive(Debug, thiserror::Error)]
#[error("a stored message body cannot be read")]
pub struct BrokenBody;

#[derive(Serialize, Deserialize)]
struct Header<'a> {
    #[serde(rename = "c", default, skip_serializing_if = "Option::is_none", borrow)]
    content_type: Option<std::borrow::Cow<'a, str>>,
    #[serde(rename = "h", default, skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    #[serde(rename = "u", default, skip_serializing_if = "Option::is_none")]
    callback: Option<Callback>,
    #[serde(rename = "d", default, skip_serializing_if = "std::ops::Not::not")]
    dead_letter: bool,
    #[serde(rename = "s", default, skip_serializing_if = "Option::is_none")]
    secrets: Option<SecretHeaders>,
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    trace: Option<TraceContext>,
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    origin: Option<Origin>,
    #[serde(rename = "q", default, skip_serializing_if = "Option::is_none")]
    sqs: Option<Box<SqsParts>>,
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    publisher: Option<String>,
    #[serde(flatten)]
    unknown: Unknown,
}

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
            sqs: None,
            publisher: None,
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
        let (payload, content_type) = match &self.content {
            Content::Json(json) => (json, None),
            Content::Bytes { data, content_type } => (data, Some(content_type.as_str().into())),
        };
        // Nothing can be linked to a trace that is not recorded.
        let trace = self.trace.filter(TraceContext::is_sampled);
        let said = self.callback.is_some() || self.dead_letter || trace.is_some();
        let said = said || self.origin.is_some() || self.sqs.is_some() || self.publisher.is_some();
        if content_type.is_none() && self.headers.is_empty() && !said && self.unknown.is_empty() {
            return Self::join(None, payload);
        }
        let (headers, callback) = (self.headers.clone(), self.callback.clone());
        let (dead_letter, secrets) = (self.dead_letter, self.secrets.clone());
        let (origin, sqs) = (self.origin.clone(), self.sqs.clone());
        let (publisher, unknown) = (self.publisher.clone(), self.unknown.clone());
        let header = Header {
            content_type,
            headers,
            callback,
            dead_letter,
            secrets,
            trace,
            origin,
            sqs,
            publisher,
            unknown,
        };
        // Maps of strings always serialize.
        Self::join(Some(&serde_json::to_vec(&header).unwrap_or_default()), payload)
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
        let header: Header<'_> = serde_json::from_slice(header).map_err(|_| BrokenBody)?;
        let content = match header.content_type {
            None => Content::Json(payload),
            Some(content_type) => {
                Content::Bytes { data: payload, content_type: content_type.into_owned() }
            }
        };
        let Header { headers, callback, dead_letter, secrets, trace, origin, sqs, .. } = header;
        let Header { publisher, unknown, .. } = header;
        let body = Self::new(content, headers);
        Ok(Self { callback, dead_letter, secrets, trace, origin, sqs, publisher, unknown, ..body })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CallUrl, Push, SqsAttribute};

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
            let callback = Callback { timeout_ms: Some(5), secret_headers, ..Callback::to(url) };
            let mut body = Body { callback: Some(callback), dead_letter: true, ..body };
            body.mark_secrets(&Push::default());
            assert_eq!(Body::decode(body.encode()).unwrap(), body);
            body.trace = Some(TraceContext { trace: [1; 16], span: [2; 8], flags: 1 });
            assert_eq!(Body::decode(body.encode()).unwrap(), body);
            let id = MessageId::parse("019ab000-0000-8000-8000-000000000000").unwrap();
            let topic = TopicName::parse("orders").unwrap();
            body.origin = Some(Origin { id, topic, attempts: 3 });
            body.publisher = Some("billing".to_owned());
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
