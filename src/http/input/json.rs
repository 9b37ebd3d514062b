//! JSON as it was written: objects whose names may repeat, values that stay text, nesting that is counted.

use memchr::memchr2;
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt, marker::PhantomData};

/// Levels of nesting, counted without recursion. Most of a body is in its strings, so these are leapt over.
pub fn depth(body: &[u8]) -> usize {
    let (mut depth, mut deepest, mut at) = (0_usize, 0, 0);
    while let Some(byte) = body.get(at) {
        at += 1;
        match byte {
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => at = end_of_string(body, at),
            _ => {}
        }
    }
    deepest
}

/// The place after the string that begins before `at`.
pub fn end_of_string(text: &[u8], mut at: usize) -> usize {
    while let Some(found) = memchr2(b'"', b'\\', text.get(at..).unwrap_or_default()) {
        at += found + 1;
        if text[at - 1] == b'"' {
            return at;
        }
        // What is escaped is no end.
        at += 1;
    }
    text.len()
}

/// Fields of an object that are looked at: each is compared with the others, so their number is bounded.
pub const MAX_FIELDS: usize = 256;

/// An object's fields in order, duplicates kept.
pub struct Object<'a> {
    /// The first of them, at most [`MAX_FIELDS`].
    pub fields: Vec<(Cow<'a, str>, &'a RawValue)>,
    /// There are more.
    pub overflows: bool,
}

/// Items of an array that are looked at: one more than any list may have, so that it is seen to have too many.
const MAX_ITEMS: usize = 1_001;

/// The first [`MAX_ITEMS`] of an array, whose cost does not grow with what was sent.
pub struct Items<T>(pub Vec<T>);

/// A string, borrowed where it has no escapes.
#[derive(Deserialize)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

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

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Array<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Array<T> {
            type Value = Items<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while items.len() < MAX_ITEMS
                    && let Some(item) = array.next_element()?
                {
                    items.push(item);
                }
                while array.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Items(items))
            }
        }
        deserializer.deserialize_seq(Array(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use super::{Items, depth};

    #[test]
    fn brackets_in_strings_are_no_levels() {
        for (text, levels) in [
            ("1", 0),
            ("{}", 1),
            (r#"{"a":[[1],{}],"b":{}}"#, 3),
            (r#"{"[[[[":"]]\"[[\\"}"#, 1),
            (r#"["\\",[]]"#, 2),
            (r#"["a"#, 1),
            (r#"["a\"#, 1),
        ] {
            assert_eq!(depth(text.as_bytes()), levels, "{text}");
        }
    }

    #[test]
    fn an_array_is_kept_up_to_its_bound() {
        for (count, kept) in [(0, 0), (1_000, 1_000), (1_001, 1_001), (1_003, 1_001)] {
            let text = format!("[{}]", vec!["7"; count].join(","));
            let array: Items<u8> = serde_json::from_str(&text).unwrap();
            assert_eq!(array.0.len(), kept, "{count}");
        }
        assert!(serde_json::from_str::<Items<u8>>("{}").is_err());
    }
}
