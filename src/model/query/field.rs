//! One field of a payload, as it was written. What is beside its path is passed over and not kept: a payload of a megabyte may
//! have half a million values, and numbers that no machine can hold.

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::fmt;

/// The value at the end of a path in a JSON text: names in objects, numbers in arrays. Of a name that is doubled, the last.
pub(super) fn find<'a>(json: &'a [u8], path: &[String]) -> Option<&'a str> {
    let mut json = serde_json::Deserializer::from_slice(json);
    Path(path).deserialize(&mut json).ok().flatten()
}

#[derive(Clone, Copy)]
struct Path<'p>(&'p [String]);

impl<'a> DeserializeSeed<'a> for Path<'_> {
    type Value = Option<&'a str>;

    fn deserialize<D: Deserializer<'a>>(self, value: D) -> Result<Self::Value, D::Error> {
        if self.0.is_empty() {
            let raw: &RawValue = serde::Deserialize::deserialize(value)?;
            return Ok(Some(raw.get()));
        }
        value.deserialize_any(self)
    }
}

impl<'a> Visitor<'a> for Path<'_> {
    type Value = Option<&'a str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    // What is neither an object nor an array has no fields.
    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Some((name, rest)) = self.0.split_first() else { return Ok(None) };
        let mut found = None;
        while let Some(is_it) = map.next_key_seed(Name(name))? {
            match is_it {
                true => found = map.next_value_seed(Path(rest))?,
                false => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let Some((index, rest)) = self.0.split_first() else { return Ok(None) };
        let wanted = index.parse::<usize>().ok();
        let (mut at, mut found) = (0, None);
        loop {
            let more = match wanted == Some(at) {
                true => {
                    let item = items.next_element_seed(Path(rest))?;
                    found = item.flatten();
                    item.is_some()
                }
                false => items.next_element::<IgnoredAny>()?.is_some(),
            };
            if !more {
                return Ok(found);
            }
            at += 1;
        }
    }
}

/// Is the name of a field this one?
struct Name<'n>(&'n str);

impl<'a> DeserializeSeed<'a> for Name<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'a>>(self, name: D) -> Result<bool, D::Error> {
        name.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}
