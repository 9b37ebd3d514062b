//! The types of a field that is one value: each method reads one field of [`Fields`] and notes what is wrong with it.
//! Arrays and objects are in `lists.rs`.

use super::{
    fields::{Fields, Value},
    syntax::Text,
};
use crate::model::MessageId;
use serde_json::value::RawValue;
use std::{borrow::Cow, ops::RangeInclusive};

impl<'a> Fields<'a> {
    /// A value of any kind, as it was sent; null is a value here.
    pub fn raw(&mut self, name: &str) -> Option<&'a RawValue> {
        match self.take(name)? {
            Value::Json(raw) => Some(raw),
            Value::Text(_) => {
                self.refuse(name, "cannot be given as a query parameter");
                None
            }
        }
    }

    /// A value of any kind but null.
    pub(super) fn raw_value(&mut self, name: &str) -> Option<&'a RawValue> {
        self.raw(name).filter(|raw| raw.get() != "null")
    }

    /// An integer within `range`; null is absent.
    pub fn integer(&mut self, name: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.take_value(name)?;
        let number = match value {
            Value::Json(raw) => integer_of(raw.get()),
            Value::Text(text) if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
            Value::Text(_) => None,
        };
        let number = number.and_then(|number| in_range(number, &range));
        if number.is_none() {
            let (low, high) = (range.start(), range.end());
            self.refuse(name, format!("must be an integer from {low} to {high}"));
        }
        number
    }

    /// A number within `range`; null is absent.
    pub fn number(&mut self, name: &str, range: RangeInclusive<f64>) -> Option<f64> {
        let number = self
            .raw_value(name)?
            .get()
            .parse()
            .ok()
            .filter(|number: &f64| number.is_finite() && range.contains(number));
        if number.is_none() {
            let (low, high) = (range.start(), range.end());
            self.refuse(name, format!("must be a number from {low} to {high}"));
        }
        number
    }

    /// true or false; null is absent.
    pub fn boolean(&mut self, name: &str) -> Option<bool> {
        let text = match self.take_value(name)? {
            Value::Json(raw) => raw.get(),
            Value::Text(text) => text,
        };
        let value = text.parse().ok();
        if value.is_none() {
            self.refuse(name, "must be true or false");
        }
        value
    }

    /// A string of so many characters; null is absent.
    pub fn string(&mut self, name: &str, chars: RangeInclusive<usize>) -> Option<Cow<'a, str>> {
        let text = self.take_value(name)?.text().filter(|text| {
            // Counting characters is not needed where the bytes are few enough.
            text.len() >= *chars.start()
                && (text.len() <= *chars.end() || text.chars().count() <= *chars.end())
        });
        if text.is_none() {
            let (low, high) = (chars.start(), chars.end());
            let reason = match (*low, *high) {
                (_, usize::MAX) => "must be a string".to_owned(),
                (low, high) => format!("must be a string of {low} to {high} characters"),
            };
            self.refuse(name, reason);
        }
        text
    }

    /// One of the words of `choices`; null is absent.
    pub fn choice<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> Option<T> {
        let text = self.take_value(name)?.text();
        let choice = text.and_then(|text| choices.iter().find(|(word, _)| *word == text));
        if choice.is_none() {
            self.refuse(name, format!("must be {}", words(choices)));
        }
        choice.map(|(_, value)| *value)
    }

    /// The id of a message; it must be there.
    pub fn message_id(&mut self, name: &str) -> Option<MessageId> {
        let text = self.string(name, 0..=usize::MAX);
        match MessageId::parse(&self.required(name, text)?) {
            Ok(id) => Some(id),
            Err(error) => {
                self.refuse(name, error.to_string());
                None
            }
        }
    }

    /// A field of a PATCH that null sets back: `Some(None)` for null, `None` where it is absent.
    pub fn or_null<T>(
        &mut self,
        name: &str,
        read: impl FnOnce(&mut Self, &str) -> Option<T>,
    ) -> Option<Option<T>> {
        if self.has_null(name) {
            self.take(name);
            return Some(None);
        }
        read(self, name).map(Some)
    }

    /// Refuses null for these fields of a PATCH.
    pub fn no_nulls(&mut self, names: &[&str]) {
        for name in names {
            if self.has_null(name) {
                self.refuse(name, "cannot be null");
            }
        }
    }
}

impl<'a> Value<'a> {
    /// The value if it is a string.
    pub(super) fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Json(raw) => serde_json::from_str(raw.get()).map(|Text(text)| text).ok(),
            Self::Text(text) => Some(Cow::Borrowed(text)),
        }
    }
}

/// The words as a sentence has them.
pub(super) fn words<T>(choices: &[(&str, T)]) -> String {
    let words: Vec<_> = choices.iter().map(|(word, _)| *word).collect();
    match words.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

pub(super) fn in_range(number: i128, range: &RangeInclusive<u64>) -> Option<u64> {
    u64::try_from(number).ok().filter(|number| range.contains(number))
}

/// A JSON number without a fraction, also when it is spelled `1.0` or `1e3`, as JSON Schema has it.
pub(super) fn integer_of(text: &str) -> Option<i128> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    if !text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        return None;
    }
    let number: f64 = text.parse().ok()?;
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i128)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn integers_are_taken_by_value_and_refused_by_type_and_range() {
        for (text, number) in [("5", Some(5)), ("5.0", Some(5)), ("1e1", Some(10)), ("-0", Some(0))]
        {
            let body = format!("{{\"n\":{text}}}");
            let mut fields = Fields::of_json(body.as_bytes()).unwrap();
            assert_eq!(fields.integer("n", 0..=10), number, "{text}");
            assert!(fields.finish().is_ok());
        }
        for text in ["11", "-1", "1.5", "1e999", "\"5\"", "true", "[]", "18446744073709551616"] {
            let body = format!("{{\"n\":{text}}}");
            let mut fields = Fields::of_json(body.as_bytes()).unwrap();
            assert_eq!(fields.integer("n", 0..=10), None, "{text}");
            assert!(fields.finish().is_err(), "{text}");
        }
    }

    /// What `read` makes of `{"v": text}`, and what is wrong with it.
    pub(in crate::http) fn read<T>(
        text: &str,
        read: impl Fn(&mut Fields<'_>) -> T,
    ) -> (T, Vec<(String, String)>) {
        let body = format!("{{\"v\":{text}}}");
        let mut fields = Fields::of_json(body.as_bytes()).unwrap();
        let value = read(&mut fields);
        let errors = fields.finish().err().map(|problem| problem.body("").errors);
        let named = errors.into_iter().flatten().map(|e| (e.field, e.reason.into_owned()));
        (value, named.collect())
    }

    #[test]
    fn numbers_booleans_and_words_are_taken_by_type() {
        assert_eq!(read("1.5", |f| f.number("v", 1.0..=100.0)), (Some(1.5), vec![]));
        for bad in ["0.5", "1e999", "\"2\"", "true", "[]"] {
            assert_eq!(read(bad, |f| f.number("v", 1.0..=100.0)).1.len(), 1, "{bad}");
        }
        assert_eq!(read("false", |f| f.boolean("v")), (Some(false), vec![]));
        assert_eq!(read("\"true\"", |f| f.boolean("v")).1.len(), 1);
        let words = [("a", 1), ("b", 2), ("c", 3)];
        assert_eq!(read("\"\\u0062\"", |f| f.choice("v", &words)), (Some(2), vec![]));
        let (_, errors) = read("\"d\"", |f| f.choice("v", &words));
        assert_eq!(errors[0].1, "must be a, b or c");
    }

    #[test]
    fn null_is_seen_where_it_means_something() {
        let nullable = |fields: &mut Fields<'_>| fields.or_null("v", |f, n| f.integer(n, 0..=9));
        assert_eq!(read("null", nullable), (Some(None), vec![]));
        assert_eq!(read("7", nullable), (Some(Some(7)), vec![]));
        assert_eq!(read("77", nullable).1.len(), 1);
        assert_eq!(read("null", |f| f.integer("v", 0..=9)), (None, vec![]));
        assert_eq!(read("null", |f| f.no_nulls(&["v"])).1.len(), 1);
    }
}
