//! JSON as it was written: objects whose names may repeat, values that stay text, nesting that is counted.

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// Levels of nesting, counted without recursion.
pub(super) fn depth(body: &[u8]) -> usize {
    let (mut depth, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in body {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// Fields of an object that are looked at: each is compared with the others, so their number is bounded.
pub(super) const MAX_FIELDS: usize = 256;

/// An object's fields in order, duplicates kept.
pub(super) struct Object<'a> {
    /// The first of them, at most [`MAX_FIELDS`].
    pub fields: Vec<(Cow<'a, str>, &'a RawValue)>,
    /// There are more.
    pub overflows: bool,
}

/// A string, borrowed where it has no escapes.
pub(super) struct Text<'a>(pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Object<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while fields.len() < MAX_FIELDS
                    && let Some(Text(name)) = map.next_key()?
                {
                    fields.push((name, map.next_value()?));
                }
                let mut overflows = false;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {
                    overflows = true;
                }
                Ok(Object { fields, overflows })
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Borrow;
        impl<'de> Visitor<'de> for Borrow {
            type Value = Text<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }
            fn visit_borrowed_str<E: serde::de::Error>(
                self,
                text: &'de str,
            ) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
            fn visit_bytes<E: serde::de::Error>(self, _: &[u8]) -> Result<Self::Value, E> {
                Err(E::custom("a string with a lone surrogate"))
            }
        }
        deserializer.deserialize_str(Borrow).map_err(D::Error::custom)
    }
}
