//! One field of a payload, as it was written. Other fields are skipped and not kept: a payload of a megabyte may
//! have half a million values, and numbers that no machine can hold.

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::{borrow::Cow, fmt};

/// The value at the end of a path in a JSON text: names in objects, numbers in arrays. Of a name that is doubled, the last.
pub(super) fn find<'a>(json: &'a [u8], path: &[String]) -> Option<&'a str> {
    let json: &RawValue = serde_json::from_slice(json).ok()?;
    path.iter().try_fold(json.get(), |json, name| {
        let mut json = serde_json::Deserializer::from_str(json);
        Part(name).deserialize(&mut json).ok()?.map(RawValue::get)
    })
}

/// The part of an object or an array that has this name or number.
struct Part<'p>(&'p str);

impl<'a> DeserializeSeed<'a> for Part<'_> {
    type Value = Option<&'a RawValue>;

    // What is neither an object nor an array has no parts, which is an error of its type.
    fn deserialize<D: Deserializer<'a>>(self, value: D) -> Result<Self::Value, D::Error> {
        value.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Part<'_> {
    type Value = Option<&'a RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(Name(name)) = map.next_key()? {
            match name == self.0 {
                true => found = Some(map.next_value()?),
                false => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let Ok(wanted) = self.0.parse::<usize>() else { return Ok(None) };
        for _ in 0..wanted {
            if items.next_element::<IgnoredAny>()?.is_none() {
                return Ok(None);
            }
        }
        let found = items.next_element()?;
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }
}

/// The name of a field, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
