//! The trace that a message belongs to: W3C's `traceparent` (<https://www.w3.org/TR/trace-context/>). Of a context only what
//! `traceparent` says is kept, not `tracestate`, which may be half a kilobyte.

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{borrow::Cow, fmt};

/// The flag of a trace that is recorded.
const SAMPLED: u8 = 1;
/// Length of version 00, and of what later versions begin with.
const CHARS: usize = 55;

/// A span that another may belong to or link to. Neither of its ids is all zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace: [u8; 16],
    /// The span in it.
    pub span: [u8; 8],
    /// Bit 0: the trace is recorded.
    pub flags: u8,
}

impl TraceContext {
    /// Reads a `traceparent`, of a later version too. `None` where it is malformed.
    pub fn parse(text: &str) -> Option<Self> {
        let (known, rest) = text.as_bytes().split_at_checked(CHARS)?;
        let [a, b, b'-', ids @ .., b'-', c, d] = known else { return None };
        let version = lower_hex::<1>(&[*a, *b])?[0];
        let rest_is_good = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => matches!(rest, [] | [b'-', ..]),
        };
        let (trace, span) = ids.split_at_checked(32)?;
        let context = Self {
            trace: lower_hex(trace)?,
            span: lower_hex(span.strip_prefix(b"-")?)?,
            flags: lower_hex::<1>(&[*c, *d])?[0],
        };
        let has_ids = context.trace != [0; 16] && context.span != [0; 8];
        (rest_is_good && has_ids).then_some(context)
    }

    /// Is the trace recorded?
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }
}

/// Bytes of hexadecimal digits, of which capital ones are none.
fn lower_hex<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let is_lower = !text.iter().any(u8::is_ascii_uppercase);
    (is_lower && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(bytes)
}

/// As a `traceparent` of version 00.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace, span, flags } = self;
        write!(f, "00-{}-{}-{flags:02x}", hex::encode(trace), hex::encode(span))
    }
}

/// As it lies in a message's body: 25 bytes in base64.
impl Serialize for TraceContext {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut bytes = [0; 25];
        bytes[..16].copy_from_slice(&self.trace);
        bytes[16..24].copy_from_slice(&self.span);
        bytes[24] = self.flags;
        serializer.serialize_str(&STANDARD_NO_PAD.encode(bytes))
    }
}

impl<'de> Deserialize<'de> for TraceContext {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        let bytes = STANDARD_NO_PAD.decode(text.as_bytes()).ok();
        let context = bytes.as_deref().and_then(|bytes| {
            let (trace, rest) = bytes.split_first_chunk()?;
            let (span, [flags]) = rest.split_first_chunk()? else { return None };
            Some(Self { trace: *trace, span: *span, flags: *flags })
        });
        let context = context.filter(|it| it.trace != [0; 16] && it.span != [0; 8]);
        context.ok_or_else(|| de::Error::custom("not a trace context"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_context_is_read_and_written() {
        let context = TraceContext::parse(GOOD).unwrap();
        assert!(context.is_sampled());
        assert_eq!(context.to_string(), GOOD);
        let stored = serde_json::to_string(&context).unwrap();
        assert_eq!(stored.len(), 36, "34 characters and their quotes");
        assert_eq!(serde_json::from_str::<TraceContext>(&stored).unwrap(), context);
        assert!(serde_json::from_str::<TraceContext>("\"AAAA\"").is_err());
        let unsampled = TraceContext::parse(&GOOD.replace("-01", "-00")).unwrap();
        assert!(!unsampled.is_sampled());
    }

    #[test]
    fn later_versions_say_more_and_what_is_malformed_says_nothing() {
        let later = GOOD.replacen("00", "cc", 1);
        for good in [later.clone(), format!("{later}-what-comes"), GOOD.replace("-01", "-03")] {
            assert!(TraceContext::parse(&good).is_some(), "{good}");
        }
        for bad in [
            String::new(),
            "00".to_owned(),
            GOOD.to_uppercase(),
            format!("{GOOD}-more"),
            format!("{later}more"),
            GOOD.replacen("00", "ff", 1),
            GOOD.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            GOOD.replace("b7ad6b7169203331", &"0".repeat(16)),
            GOOD.replace("b7ad", "x7ad"),
            GOOD.replace('-', "_"),
            format!(" {GOOD}"),
            GOOD.replace("0af7", "é"),
        ] {
            assert!(TraceContext::parse(&bad).is_none(), "{bad}");
        }
    }
}
