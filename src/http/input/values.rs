//! The types of fields that are one value.

use super::{Input, List, Wrong, fields::Value, wrong};
use crate::openapi::describe::{
    Described, Description, described, formatted, integer, number, string,
};
use axum::http::{HeaderName, HeaderValue};
use base64::{Engine, display::Base64Display, engine::general_purpose::STANDARD};
use bytes::Bytes;
use dueq_model::{
    AuthKind, CallMethod, CallUrl, CatchUp, DeadForm, Durability, GroupOrder, Instant,
    LEASE_CAP_MS, MASK, MAX_CALL_TIMEOUT_MS, MAX_DELAY_MS, MAX_KEY_CHARS, MAX_MESSAGES_LIMIT,
    MAX_PAGE, MAX_URL_CHARS, MIN_CALL_TIMEOUT_MS, MIN_LEASE_MS, MessageId, MessageQuery, Millis,
    OnFull, SigningSecret, State, TOKEN_MAX_CHARS, TopicName, TraceContext, parse_instant,
};
use dueq_store::{KeyUntil, OnDuplicate};
use serde::{
    Deserialize, Serialize, Serializer,
    de::{IntoDeserializer, value::StrDeserializer},
};
use std::{borrow::Cow, ops::Deref};
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{KnownFormat, RefOr, Schema, SchemaFormat},
};

/// An integer from `LOW` to `HIGH`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Bounded<const LOW: u64, const HIGH: u64>(u64);

/// A delay, ms.
pub type DelayMs = Bounded<0, MAX_DELAY_MS>;
/// A time that is longer than nothing, ms.
pub type DurationMs = Bounded<1, MAX_DELAY_MS>;
/// How long a lease lasts, ms.
pub type LeaseMs = Bounded<MIN_LEASE_MS, LEASE_CAP_MS>;
/// How long a call may take, ms.
pub type CallTimeoutMs = Bounded<MIN_CALL_TIMEOUT_MS, MAX_CALL_TIMEOUT_MS>;
/// Items on a page.
pub type PageSize = Bounded<1, MAX_PAGE>;
/// What one request does to many messages.
pub type Batch<T> = List<T, 1, { MAX_MESSAGES_LIMIT as usize }>;
/// A key of a message.
pub type Key = Text<1, MAX_KEY_CHARS>;
/// The token of a lease.
pub type LeaseToken = Text<1, TOKEN_MAX_CHARS>;

impl<const LOW: u64, const HIGH: u64> Bounded<LOW, HIGH> {
    /// A number of the program, within the bounds.
    pub const fn new(number: u64) -> Self {
        assert!(LOW <= number && number <= HIGH);
        Self(number)
    }

    pub fn get(self) -> u64 {
        self.0
    }

    pub fn millis(self) -> Millis {
        self.0 as Millis
    }

    /// As the settings have counts.
    pub fn count(self) -> i64 {
        self.0 as i64
    }
}

/// Numbers of the model that are bounded in requests.
macro_rules! numbers {
    ($($Number:ty),*) => {$(
        impl<const LOW: u64, const HIGH: u64> From<Bounded<LOW, HIGH>> for $Number {
            fn from(bounded: Bounded<LOW, HIGH>) -> Self {
                const { assert!(HIGH <= Self::MAX as u64) }
                bounded.0 as Self
            }
        }

        impl<const LOW: u64, const HIGH: u64> From<Bounded<LOW, HIGH>> for Option<$Number> {
            fn from(bounded: Bounded<LOW, HIGH>) -> Self {
                Some(bounded.into())
            }
        }
    )*};
}

numbers!(u8, u16, u32, i64);

impl<const LOW: u64, const HIGH: u64> Input for Bounded<LOW, HIGH> {
    fn read(value: Value<'_>) -> Result<Self, Wrong> {
        let number = match value {
            Value::Json(raw, _) => integer_of(raw.get()),
            Value::Text(text) if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
            Value::Text(_) => None,
        };
        let number = number.and_then(|number| u64::try_from(number).ok());
        let number = number.filter(|number| (LOW..=HIGH).contains(number));
        number.map(Self).ok_or_else(|| wrong(format!("must be an integer from {LOW} to {HIGH}")))
    }
}

impl<const LOW: u64, const HIGH: u64> Described for Bounded<LOW, HIGH> {
    fn schema(_: &mut Description) -> RefOr<Schema> {
        integer().minimum(Some(LOW)).maximum(Some(HIGH)).into()
    }
}

/// A JSON number without a fraction, also when it is spelled `1.0` or `1e3`, as JSON Schema has it.
fn integer_of(text: &str) -> Option<i128> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    if !text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i128)
}

/// A number from `LOW` to `HIGH`, both in hundredths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decimal<const LOW: u64, const HIGH: u64>(f64);

impl<const LOW: u64, const HIGH: u64> Decimal<LOW, HIGH> {
    const LOW: f64 = LOW as f64 / 100.0;
    const HIGH: f64 = HIGH as f64 / 100.0;

    pub fn get(self) -> f64 {
        self.0
    }
}

impl<const LOW: u64, const HIGH: u64> From<Decimal<LOW, HIGH>> for Option<f64> {
    fn from(decimal: Decimal<LOW, HIGH>) -> Self {
        Some(decimal.0)
    }
}

impl<const LOW: u64, const HIGH: u64> Input for Decimal<LOW, HIGH> {
    fn read(value: Value<'_>) -> Result<Self, Wrong> {
        let number = match value {
            Value::Json(raw, _) => raw.get().parse().ok(),
            Value::Text(_) => None,
        };
        let number = number.filter(|number| (Self::LOW..=Self::HIGH).contains(number));
        let reason = || wrong(format!("must be a number from {} to {}", Self::LOW, Self::HIGH));
        number.map(Self).ok_or_else(reason)
    }
}

impl<const LOW: u64, const HIGH: u64> Described for Decimal<LOW, HIGH> {
    fn schema(_: &mut Description) -> RefOr<Schema> {
        number().minimum(Some(Self::LOW)).maximum(Some(Self::HIGH)).into()
    }
}

impl Input for bool {
    fn read(value: Value<'_>) -> Result<Self, Wrong> {
        let text = match value {
            Value::Json(raw, _) => raw.get(),
            Value::Text(text) => text,
        };
        text.parse().map_err(|_| wrong("must be true or false"))
    }
}

/// A string of `LOW` to `HIGH` characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Text<const LOW: usize, const HIGH: usize>(String);

impl<const LOW: usize, const HIGH: usize> Text<LOW, HIGH> {
    /// A text of the program, within the bounds.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    pub fn into_string(self) -> String {
        self.0
    }
}

impl<const LOW: usize, const HIGH: usize> From<Text<LOW, HIGH>> for Option<String> {
    fn from(text: Text<LOW, HIGH>) -> Self {
        Some(text.0)
    }
}

impl<const LOW: usize, const HIGH: usize> Deref for Text<LOW, HIGH> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl<const LOW: usize, const HIGH: usize> Input for Text<LOW, HIGH> {
    fn read(value: Value<'_>) -> Result<Self, Wrong> {
        // Counting characters is not needed where the bytes are few enough.
        let fits = |text: &Cow<'_, str>| {
            text.len() >= LOW && (text.len() <= HIGH || text.chars().count() <= HIGH)
        };
        match value.text().filter(fits) {
            Some(text) => Ok(Self(text.into_owned())),
            None => Err(wrong(format!("must be a string of {LOW} to {HIGH} characters"))),
        }
    }
}

impl<const LOW: usize, const HIGH: usize> Described for Text<LOW, HIGH> {
    fn schema(_: &mut Description) -> RefOr<Schema> {
        let low = Some(LOW).filter(|low| *low > 0);
        string().min_length(low).max_length(Some(HIGH)).into()
    }
}

/// Reads a string by a function that says why one cannot be taken.
macro_rules! parsed {
    ($($Type:ty: $parse:expr, $schema:expr;)*) => {$(
        impl Input for $Type {
            fn read(value: Value<'_>) -> Result<Self, Wrong> {
                let text = value.text().ok_or_else(|| wrong("must be a string"))?;
                $parse(&text).map_err(|error| wrong(error.to_string()))
            }
        }

        described!($Type: |_| $schema;);
    )*};
}

parsed! {
    Base64: Self::parse, string().content_encoding("base64");
    CallUrl: Self::parse, string().format(Some(SchemaFormat::Custom("uri".to_owned()))).max_length(Some(MAX_URL_CHARS));
    Instant: |text: &str| parse_instant(text).map(Self), formatted(KnownFormat::DateTime);
    MediaType: |text: &str| Self::parse(text).ok_or("must be a media type such as image/png, of at most 255 characters"),
        string().max_length(Some(Self::MAX_CHARS));
    MessageId: Self::parse, formatted(KnownFormat::Uuid);
    MessageQuery: Self::parse, string().max_length(Some(Self::MAX_CHARS));
    RetryCause: Self::parse, string().pattern(Some("^([345]([0-9]{2}|xx)|connect|timeout)$"));
    SecretHeader: Self::parse, string();
    SigningSecret: |text: &str| if text == MASK { Ok(Self::kept()) } else { Self::parse(text) }, string();
    TopicName: Self::parse, string().max_length(Some(128));
    TraceContext: |text: &str| Self::parse(text).ok_or("must be a W3C traceparent"), string();
}

/// Bytes in standard base64 with padding.
#[derive(Clone, Debug)]
pub struct Base64(pub Bytes);

impl Serialize for Base64 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&Base64Display::new(&self.0, &STANDARD))
    }
}

impl Base64 {
    fn parse(text: &str) -> Result<Self, &'static str> {
        let data = STANDARD.decode(text).map_err(|_| "must be standard base64 with padding")?;
        Ok(Self(data.into()))
    }
}

/// How a call fails: a status, a class of them, `timeout` or `connect`.
#[derive(Clone, Debug, PartialEq)]
pub struct RetryCause(pub String);

impl RetryCause {
    fn parse(text: &str) -> Result<Self, &'static str> {
        match text.as_bytes() {
            b"timeout"
            | b"connect"
            | [b'3'..=b'5', b'x', b'x']
            | [b'3'..=b'5', b'0'..=b'9', b'0'..=b'9'] => Ok(Self(text.to_owned())),
            _ => Err(
                "must be a status from 300 to 599, such as 429, or 3xx, 4xx, 5xx, timeout or connect",
            ),
        }
    }
}

/// The name of a header that is to be masked.
#[derive(Clone, Debug)]
pub struct SecretHeader(pub String);

impl SecretHeader {
    fn parse(text: &str) -> Result<Self, &'static str> {
        match HeaderName::from_bytes(text.as_bytes()) {
            Ok(_) if text.len() <= 128 => Ok(Self(text.to_owned())),
            _ => Err("must be an HTTP header name of at most 128 characters"),
        }
    }
}

impl<const LOW: usize, const HIGH: usize> From<List<SecretHeader, LOW, HIGH>> for Vec<String> {
    fn from(names: List<SecretHeader, LOW, HIGH>) -> Self {
        names.0.into_iter().map(|name| name.0).collect()
    }
}

/// A media type.
#[derive(Clone, Debug)]
pub struct MediaType(pub String);

impl MediaType {
    const MAX_CHARS: usize = 255;

    /// `type/subtype`, maybe with parameters, in visible ASCII.
    pub fn parse(text: &str) -> Option<Self> {
        let (essence, _) = text.split_once(';').unwrap_or((text, ""));
        let is_token = |token: &str| HeaderName::from_bytes(token.as_bytes()).is_ok();
        let (kind, subtype) = essence.trim().split_once('/')?;
        let good = text.len() <= Self::MAX_CHARS
            && HeaderValue::from_str(text).is_ok()
            && is_token(kind)
            && is_token(subtype);
        good.then(|| Self(text.to_owned()))
    }
}

/// Words, as the types have them that derive how they are read and described.
macro_rules! words {
    ($($Word:ty),* $(,)?) => {$(
        impl $crate::input::Input for $Word {
            fn read(
                value: $crate::input::fields::Value<'_>,
            ) -> Result<Self, $crate::input::Wrong> {
                $crate::input::word(value)
            }
        }

        $crate::openapi::describe::described!($Word: |document| document.component::<$Word>(););
    )*};
}

pub(crate) use words;

words!(
    AuthKind,
    CallMethod,
    CatchUp,
    DeadForm,
    Durability,
    GroupOrder,
    KeyUntil,
    OnDuplicate,
    OnFull
);

/// States that a request may name, as words.
macro_rules! states {
    ($($(#[doc = $about:expr])* $Name:ident: $($Word:ident),+;)*) => {$(
        $(#[doc = $about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $Name {
            $($Word),+
        }

        words!($Name);

        impl From<$Name> for State {
            fn from(state: $Name) -> Self {
                match state {
                    $($Name::$Word => Self::$Word),+
                }
            }
        }
    )*};
}

states! {
    /// A state to list messages by. `delayed`: not due yet. `ready`: due. `leased`: held by consumers. `dead`: attempts
    /// used up. `acked`: kept after their ack. `blocked`: waiting for earlier messages of their group.
    ListedState: Delayed, Ready, Leased, Dead, Acked, Blocked;
    /// A state to purge. `ready`: due. `delayed`: not due yet, and also what is `blocked`. `dead`: attempts used up.
    /// `blocked`: waiting for earlier messages of their group. `leased`: held by consumers; only with `force`.
    PurgedState: Ready, Delayed, Dead, Blocked, Leased;
    /// A state of messages that can be made due.
    RunState: Delayed, Blocked;
}

/// Reads a word.
pub fn word<T: for<'de> Deserialize<'de> + PartialSchema>(value: Value<'_>) -> Result<T, Wrong> {
    let read = |text: Cow<'_, str>| {
        let text: StrDeserializer<'_, serde::de::value::Error> = text.as_ref().into_deserializer();
        T::deserialize(text).ok()
    };
    value.text().and_then(read).ok_or_else(|| {
        let words = match T::schema() {
            RefOr::T(Schema::Object(object)) => object.enum_values.unwrap_or_default(),
            _ => Vec::new(),
        };
        let words: Vec<_> = words.iter().filter_map(|word| word.as_str()).collect();
        wrong(match words.split_last() {
            Some((last, others)) => format!("must be {} or {last}", others.join(", ")),
            None => "is unknown".to_owned(),
        })
    })
}
