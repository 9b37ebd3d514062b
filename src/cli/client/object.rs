//! A JSON object of an answer, read leniently. It keeps unknown fields, the order of fields, and every value as it was
//! written, because a number such as 1E400 would not survive parsing.

use indexmap::IndexMap;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};

/// A JSON object.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(transparent)]
pub struct Object(IndexMap<String, Box<RawValue>>);

impl Object {
    /// The field as it was written, if present.
    pub fn raw(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.get())
    }

    /// The field, if it is present and of this type.
    pub fn get<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        serde_json::from_str(self.raw(name)?).ok()
    }

    /// Sets a field.
    pub fn put(&mut self, name: &str, value: impl Serialize) {
        self.0.extend(to_raw_value(&value).map(|value| (name.to_owned(), value)));
    }

    /// The field as text; the empty string by default.
    pub fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default()
    }

    /// The field as a whole number; 0 by default.
    pub fn number(&self, name: &str) -> i64 {
        self.get(name).unwrap_or_default()
    }

    /// The field as an object; empty by default.
    pub fn object(&self, name: &str) -> Self {
        self.get(name).unwrap_or_default()
    }

    /// The field as a list of objects; empty by default.
    pub fn objects(&self, name: &str) -> Vec<Self> {
        self.get(name).unwrap_or_default()
    }

    /// All fields as they were written.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.get()))
    }
}

/// Formats a value for people: a string without its quotes, anything else as it was written.
pub fn plain(raw: &str) -> String {
    serde_json::from_str(raw).unwrap_or_else(|_| raw.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_kept_as_they_were_written() {
        let object: Object =
            serde_json::from_str(r#"{"z": 1E400, "a": "b\u0041", "o": {"n": 2}, "l": [{}]}"#)
                .unwrap();
        assert_eq!(object.raw("z"), Some("1E400"));
        assert_eq!(object.text("a"), "bA");
        assert_eq!(object.object("o").number("n"), 2);
        assert_eq!(object.objects("l").len(), 1);
        let names: Vec<&str> = object.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["z", "a", "o", "l"]);
    }

    #[test]
    fn a_missing_field_or_one_of_another_type_is_empty() {
        let object: Object = serde_json::from_str(r#"{"a": [1]}"#).unwrap();
        assert_eq!((object.text("a"), object.number("b")), (String::new(), 0));
        assert!(object.objects("a").is_empty());
    }
}
