//! Strict input. A JSON object or a query string is taken apart field by field: each field is named once, each value
//! has its type and range, and what nobody asked for is refused, so that a typo never silently means the default.

use super::{
    problem::{FieldError, Problem},
    syntax::{MAX_FIELDS, Object, Text, depth},
};
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap, ops::RangeInclusive};

/// Nesting of a body, at most; its object is level 1.
const MAX_DEPTH: usize = 64;

/// Errors in one answer, and characters of a field's name in each: an answer does not grow with what was sent.
const MAX_ERRORS: usize = 64;
const MAX_NAME_CHARS: usize = 256;

/// A value before it is looked at.
#[derive(Clone, Copy, Debug)]
enum Value<'a> {
    Json(&'a RawValue),
    Text(&'a str),
}

/// The named values of a request, each to be taken once.
#[derive(Debug)]
pub struct Fields<'a> {
    entries: Vec<(Cow<'a, str>, Value<'a>)>,
    /// Of the object within the request, such as `acks[3].`.
    path: String,
    errors: Vec<FieldError>,
}

impl<'a> Fields<'a> {
    /// The fields of a JSON body. Errors: 400 where it is no JSON, 422 where it is no object.
    pub fn of_json(body: &'a [u8]) -> Result<Self, Problem> {
        let malformed = |error: serde_json::Error| {
            Problem::malformed("malformed_json", format!("the body is no JSON: {error}"))
        };
        if depth(body) > MAX_DEPTH {
            let detail = format!("the body is nested deeper than {MAX_DEPTH} levels");
            return Err(Problem::malformed("malformed_json", detail));
        }
        // The whole text is checked for its syntax before any of it is looked at.
        let whole: &RawValue = serde_json::from_slice(body).map_err(malformed)?;
        Self::of_object(whole, String::new()).ok_or_else(|| {
            Problem::invalid(vec![FieldError {
                field: String::new(),
                reason: "must be an object".into(),
            }])
        })
    }

    /// No fields at all: a body that was left out.
    pub fn none() -> Self {
        Self { entries: Vec::new(), path: String::new(), errors: Vec::new() }
    }

    /// Query parameters, decoded.
    pub fn of_query(pairs: &'a [(String, String)]) -> Self {
        let mut fields = Self::none();
        for (name, value) in pairs {
            fields.push(Cow::Borrowed(name), Value::Text(value));
        }
        fields
    }

    fn of_object(value: &'a RawValue, path: String) -> Option<Self> {
        let object: Object<'a> = serde_json::from_str(value.get()).ok()?;
        let mut fields =
            Self { entries: Vec::with_capacity(object.fields.len()), path, errors: Vec::new() };
        if object.overflows {
            fields.refuse("", format!("has more than {MAX_FIELDS} fields"));
        }
        for (name, value) in object.fields {
            fields.push(name, Value::Json(value));
        }
        Some(fields)
    }

    fn push(&mut self, name: Cow<'a, str>, value: Value<'a>) {
        if self.entries.iter().any(|(known, _)| *known == name) {
            self.refuse(&name, "is given more than once");
        } else {
            self.entries.push((name, value));
        }
    }

    /// Notes that a field cannot be taken as it is.
    pub fn refuse(&mut self, field: &str, reason: impl Into<Cow<'static, str>>) {
        let mut field = match field {
            "" => self.path.trim_end_matches('.').to_owned(),
            field => format!("{}{field}", self.path),
        };
        if let Some((end, _)) = field.char_indices().nth(MAX_NAME_CHARS) {
            field.truncate(end);
            field.push('…');
        }
        if self.errors.len() < MAX_ERRORS && !self.errors.iter().any(|error| error.field == field) {
            self.errors.push(FieldError { field, reason: reason.into() });
        }
    }

    /// Takes over what is wrong with a part of this object.
    fn absorb(&mut self, errors: Vec<FieldError>) {
        self.errors.extend(errors);
        self.errors.truncate(MAX_ERRORS);
    }

    /// Is the field there and not null?
    pub fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|(known, value)| known == name && !is_null(value))
    }

    fn take(&mut self, name: &str) -> Option<Value<'a>> {
        let at = self.entries.iter().position(|(known, _)| known == name)?;
        Some(self.entries.swap_remove(at).1)
    }

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

    /// An integer within `range`; null is absent.
    pub fn integer(&mut self, name: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let value = self.take(name).filter(|value| !is_null(value))?;
        let number = match value {
            Value::Json(raw) => integer_of(raw.get()),
            Value::Text(text) if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
            Value::Text(_) => None,
        };
        let number =
            number.and_then(|number| u64::try_from(number).ok()).filter(|n| range.contains(n));
        if number.is_none() {
            let (low, high) = (range.start(), range.end());
            self.refuse(name, format!("must be an integer from {low} to {high}"));
        }
        number
    }

    /// A string of so many characters; null is absent.
    pub fn string(&mut self, name: &str, chars: RangeInclusive<usize>) -> Option<Cow<'a, str>> {
        let value = self.take(name).filter(|value| !is_null(value))?;
        let text = match value {
            Value::Json(raw) => text_of(raw),
            Value::Text(text) => Some(Cow::Borrowed(text)),
        };
        let text = text.filter(|text| {
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

    /// A map of strings; null is absent.
    pub fn string_map(&mut self, name: &str) -> Option<BTreeMap<String, String>> {
        let raw = self.raw(name).filter(|raw| raw.get() != "null")?;
        let Some(object) = Self::of_object(raw, format!("{}{name}.", self.path)) else {
            self.refuse(name, "must be an object of strings");
            return None;
        };
        let mut map = BTreeMap::new();
        self.absorb(object.errors);
        for (key, value) in object.entries {
            let Value::Json(raw) = value else { continue };
            match text_of(raw) {
                Some(text) => {
                    map.insert(key.into_owned(), text.into_owned());
                }
                None => self.refuse(&format!("{name}.{key}"), "must be a string"),
            }
        }
        Some(map)
    }

    /// An array of objects, each read by `read`; null is absent.
    pub fn objects<T>(
        &mut self,
        name: &str,
        most: usize,
        read: impl Fn(&mut Fields<'a>) -> Option<T>,
    ) -> Option<Vec<T>> {
        let items = self.items(name)?;
        if items.len() > most {
            self.refuse(name, format!("must have at most {most} items"));
            return None;
        }
        let mut all = Vec::with_capacity(items.len());
        for (i, item) in items.into_iter().enumerate() {
            let path = format!("{}{name}[{i}]", self.path);
            match Self::of_object(item, format!("{path}.")) {
                Some(mut fields) => {
                    all.extend(read(&mut fields));
                    self.absorb(fields.close());
                }
                None => self.refuse(&format!("{name}[{i}]"), "must be an object"),
            }
        }
        Some(all)
    }

    /// An array of so many strings, each read by `read`, which says why one cannot be taken; null is absent.
    pub fn strings<T>(
        &mut self,
        name: &str,
        count: RangeInclusive<usize>,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Option<Vec<T>> {
        let items = self.items(name)?;
        if !count.contains(&items.len()) {
            self.refuse(name, format!("must have {} to {} items", count.start(), count.end()));
            return None;
        }
        let mut all = Vec::with_capacity(items.len());
        for (i, item) in items.into_iter().enumerate() {
            let text = text_of(item).ok_or_else(|| "must be a string".to_owned());
            match text.and_then(|text| read(&text)) {
                Ok(value) => all.push(value),
                Err(reason) => self.refuse(&format!("{name}[{i}]"), reason),
            }
        }
        Some(all)
    }

    /// An array; null is absent.
    fn items(&mut self, name: &str) -> Option<Vec<&'a RawValue>> {
        let raw = self.raw(name).filter(|raw| raw.get() != "null")?;
        let items = serde_json::from_str(raw.get()).ok();
        if items.is_none() {
            self.refuse(name, "must be an array");
        }
        items
    }

    /// Marks a field that must be there.
    pub fn required<T>(&mut self, name: &str, value: Option<T>) -> Option<T> {
        // A value that was refused is missing too; the first reason stays.
        if value.is_none() {
            self.refuse(name, "is required");
        }
        value
    }

    /// What is wrong, what nobody took included.
    fn close(mut self) -> Vec<FieldError> {
        for (name, _) in std::mem::take(&mut self.entries) {
            self.refuse(&name, "is not known here");
        }
        self.errors
    }

    /// Ends the reading. Errors: 422 with all that is wrong.
    pub fn finish(self) -> Result<(), Problem> {
        let errors = self.close();
        if errors.is_empty() { Ok(()) } else { Err(Problem::invalid(errors)) }
    }
}

fn is_null(value: &Value<'_>) -> bool {
    matches!(value, Value::Json(raw) if raw.get() == "null")
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

fn text_of(raw: &RawValue) -> Option<Cow<'_, str>> {
    serde_json::from_str(raw.get()).map(|Text(text)| text).ok()
}

#[cfg(test)]
mod tests;
