//! A JSON object or a query string, taken apart field by field.

use super::{
    Request, Wrong,
    json::{Items, MAX_FIELDS, Object, Text, depth},
    wrong,
};
use crate::problem::{Code, FieldError, Problem};
use bytes::Bytes;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Nesting of a body, at most; its object is level 1.
pub const MAX_DEPTH: usize = 64;

/// Errors in one answer, and characters of a field's name in each: an answer does not grow with what was sent.
pub const MAX_ERRORS: usize = 64;
const MAX_NAME_CHARS: usize = 256;

/// A name that was sent, as errors have it: the empty one in quotes, because an error without a name is about the object
/// as a whole.
fn shown(name: &str) -> &str {
    if name.is_empty() { "\"\"" } else { name }
}

/// A value before it is looked at.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// Of a JSON body, and the body, so that parts of it need not be copied.
    Json(&'a RawValue, &'a Bytes),
    /// Of a query, or of a header.
    Text(&'a str),
}

impl<'a> Value<'a> {
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Json(raw, _) if raw.get() == "null")
    }

    /// The value if it is not null.
    pub fn present(self) -> Result<Self, Wrong> {
        if self.is_null() { Err(wrong("cannot be null")) } else { Ok(self) }
    }

    /// The value if it is a string.
    pub fn text(self) -> Option<Cow<'a, str>> {
        match self {
            Self::Json(raw, _) => serde_json::from_str(raw.get()).map(|Text(text)| text).ok(),
            Self::Text(text) => Some(Cow::Borrowed(text)),
        }
    }

    /// The fields of the value if it is an object.
    pub fn object(self) -> Result<Fields<'a>, Wrong> {
        match self {
            Self::Json(raw, body) => serde_json::from_str(raw.get())
                .map(|object| Fields::of(object, body))
                .map_err(|_| wrong("must be an object")),
            Self::Text(_) => Err(wrong("must be an object")),
        }
    }

    /// The items of the value if it is an array.
    pub fn items(self) -> Result<Vec<Value<'a>>, Wrong> {
        let Self::Json(raw, body) = self else { return Err(wrong("must be an array")) };
        let array: Items<&RawValue> =
            serde_json::from_str(raw.get()).map_err(|_| wrong("must be an array"))?;
        Ok(array.0.into_iter().map(|item| Value::Json(item, body)).collect())
    }

    /// The items of the value if it is an array of objects.
    pub fn objects(self) -> Option<Vec<Fields<'a>>> {
        let Self::Json(raw, body) = self else { return None };
        let array: Items<Object<'a>> = serde_json::from_str(raw.get()).ok()?;
        Some(array.0.into_iter().map(|object| Fields::of(object, body)).collect())
    }
}

/// The named values of a request, or of an object within it; each to be taken once.
#[derive(Debug)]
pub struct Fields<'a> {
    entries: Vec<(Cow<'a, str>, Value<'a>)>,
    /// Fields are named relative to this object; the reader of the object around it adds the path.
    errors: Vec<FieldError>,
    /// They change something that is there: null means more than absent.
    pub(super) are_changes: bool,
}

impl<'a> Fields<'a> {
    /// The fields of a JSON body. Errors: 400 where it is no JSON, 422 where it is no object.
    pub fn of_json(body: &'a Bytes) -> Result<Self, Problem> {
        let malformed = |detail| Problem::new(Code::MalformedJson, detail);
        let text = std::str::from_utf8(body)
            .map_err(|error| malformed(format!("the body is not UTF-8: {error}")))?;
        if depth(body) > MAX_DEPTH {
            return Err(malformed(format!("the body is nested deeper than {MAX_DEPTH} levels")));
        }
        if let Ok(object) = serde_json::from_str(text) {
            return Ok(Self::of(object, body));
        }
        // Broken JSON comes before JSON that is no object.
        serde_json::from_str::<&RawValue>(text)
            .map_err(|error| malformed(format!("the body is not JSON: {error}")))?;
        Err(Problem::invalid(wrong("must be an object")))
    }

    /// No fields at all: a body that was left out.
    pub fn none() -> Self {
        Self { entries: Vec::new(), errors: Vec::new(), are_changes: false }
    }

    /// Query parameters, decoded.
    pub fn of_query(pairs: &'a [(Cow<'a, str>, Cow<'a, str>)]) -> Self {
        let mut fields = Self::none();
        if pairs.len() > MAX_FIELDS {
            fields.refuse("", format!("has more than {MAX_FIELDS} fields"));
        }
        for (name, value) in pairs.iter().take(MAX_FIELDS) {
            fields.push(Cow::Borrowed(name), Value::Text(value));
        }
        fields
    }

    /// The fields of an object.
    fn of(object: Object<'a>, body: &'a Bytes) -> Self {
        let mut fields = Self::none();
        fields.entries.reserve_exact(object.fields.len());
        if object.overflows {
            fields.refuse("", format!("has more than {MAX_FIELDS} fields"));
        }
        for (name, value) in object.fields {
            fields.push(name, Value::Json(value, body));
        }
        fields
    }

    fn push(&mut self, name: Cow<'a, str>, value: Value<'a>) {
        if self.entries.iter().any(|(known, _)| *known == name) {
            self.refuse(shown(&name), "is given more than once");
        } else {
            self.entries.push((name, value));
        }
    }

    /// The value of a field, which stays; null is absent.
    pub fn peek(&self, name: &str) -> Option<Value<'a>> {
        let (_, value) = self.entries.iter().find(|(known, _)| known == name)?;
        Some(*value).filter(|value| !value.is_null())
    }

    /// Is the field given as null?
    pub fn is_null(&self, name: &str) -> bool {
        self.entries.iter().any(|(known, value)| known == name && value.is_null())
    }

    /// Adds a field that another part of the request may say too. Where both do, they must say the same.
    pub fn also(&mut self, name: &'static str, text: &'a str, source: &str) {
        match self.peek(name) {
            None => {
                self.take_any(name);
                self.entries.push((Cow::Borrowed(name), Value::Text(text)));
            }
            Some(value) if value.text().is_some_and(|said| said != text) => {
                self.refuse(name, format!("differs from {source}"));
            }
            Some(_) => {}
        }
    }

    /// Gives the field called `other` its own name. A request has one of both.
    pub fn rename(&mut self, other: &str, own: &'static str) {
        let Some(value) = self.take_value(other) else { return };
        if self.peek(own).is_some() {
            self.refuse(other, format!("cannot be given together with {own}"));
            return;
        }
        self.take_any(own);
        self.entries.push((Cow::Borrowed(own), value));
    }

    /// Notes that a field cannot be taken as it is; the first reason stays.
    pub fn refuse(&mut self, field: &str, reason: impl Into<Cow<'static, str>>) {
        let field = match field.char_indices().nth(MAX_NAME_CHARS) {
            Some((end, _)) => format!("{}…", &field[..end]),
            None => field.to_owned(),
        };
        if self.errors.len() < MAX_ERRORS && !self.errors.iter().any(|error| error.field == field) {
            self.errors.push(FieldError { field, reason: reason.into() });
        }
    }

    /// The value of the field if it could be read; otherwise notes why not.
    pub fn keep<T>(&mut self, name: &str, read: Result<T, Wrong>) -> Option<T> {
        let errors = match read {
            Ok(value) => return Some(value),
            Err(errors) => errors,
        };
        for FieldError { field, reason } in errors {
            self.refuse(&format!("{name}{field}"), reason);
        }
        None
    }

    /// The value of a field, whatever it is.
    pub fn take_any(&mut self, name: &str) -> Option<Value<'a>> {
        let at = self.entries.iter().position(|(known, _)| known == name)?;
        Some(self.entries.swap_remove(at).1)
    }

    /// The value of a field; null is absent.
    pub fn take_value(&mut self, name: &str) -> Option<Value<'a>> {
        self.take_any(name).filter(|value| !value.is_null())
    }

    /// What is left, in no order.
    pub fn take_all(&mut self) -> Vec<(Cow<'a, str>, Value<'a>)> {
        std::mem::take(&mut self.entries)
    }

    /// What is wrong, what nobody took included.
    fn close(&mut self) -> Vec<FieldError> {
        for (name, _) in self.take_all() {
            self.refuse(shown(&name), "is unknown");
        }
        std::mem::take(&mut self.errors)
    }

    /// Ends the reading of an object within another one.
    pub fn close_within<T>(mut self, value: Option<T>) -> Result<T, Wrong> {
        let mut errors = self.close();
        match value {
            Some(value) if errors.is_empty() => Ok(value),
            _ => {
                for error in errors.iter_mut().filter(|error| !error.field.is_empty()) {
                    error.field.insert(0, '.');
                }
                Err(errors)
            }
        }
    }

    /// Reads an object within another one.
    pub fn read_within<T: Request>(mut self) -> Result<T, Wrong> {
        let value = T::take_from(&mut self);
        self.close_within(value)
    }

    /// Reads the whole request. Errors: 422 with all that is wrong.
    pub fn read<T: Request>(mut self) -> Result<T, Problem> {
        let value = T::take_from(&mut self);
        let errors = self.close();
        value.filter(|_| errors.is_empty()).ok_or_else(|| Problem::invalid(errors))
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{Bounded, Changes, Headers, List, Resettable, request},
        *,
    };

    request! {
        /// An object.
        pub struct Numbers {
            /// A number.
            pub n: Option<Bounded<0, 10>>,
            /// Headers.
            pub headers: Option<Headers>,
            /// Objects.
            pub list: Option<List<Numbers, 0, 1_000>>,
            /// A number that null sets back.
            pub m: Resettable<Bounded<1, 2>>,
        }
    }

    request! {
        /// Changes of one.
        pub struct Change {
            pub numbers: Changes<Numbers>,
        }
    }

    fn errors<T: Request>(body: &str) -> Vec<(String, String)> {
        let body = Bytes::copy_from_slice(body.as_bytes());
        let problem = Fields::of_json(&body).and_then(Fields::read::<T>).map(drop).err();
        let errors = problem.map(|problem| problem.body("").errors).into_iter().flatten();
        errors.map(|e| (e.field, e.reason.into_owned())).collect()
    }

    fn names<T: Request>(body: &str) -> Vec<String> {
        errors::<T>(body).into_iter().map(|(field, _)| field).collect()
    }

    #[test]
    fn unknown_and_repeated_fields_are_refused_by_name() {
        let expected = [("n", "is given more than once"), ("b", "is unknown")];
        let expected = expected.map(|(field, reason)| (field.to_owned(), reason.to_owned()));
        assert_eq!(errors::<Numbers>(r#"{"n":1,"b":2,"\u006e":3}"#), expected);
    }

    #[test]
    fn syntax_is_400_before_anything_else_is_looked_at() {
        let status = |body: &[u8]| {
            let body = Bytes::copy_from_slice(body);
            Fields::of_json(&body).map(drop).map_err(|problem| problem.body("").status)
        };
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(64), "]".repeat(64));
        for bad in
            ["", "{", "{}x", "{\"a\":1,}", "[1,2", "{\"a\":\"\n\"}", "nul", "\u{feff}{}", &deep]
        {
            assert_eq!(status(bad.as_bytes()), Err(400), "{bad}");
        }
        assert_eq!(status(b"{\"a\":\"\xff\"}"), Err(400));
        for other in ["[]", "1", "null", "\"x\""] {
            assert_eq!(status(other.as_bytes()), Err(422), "{other}");
        }
        let fine = format!("{{\"a\":{}1{}}}", "[".repeat(63), "]".repeat(63));
        assert_eq!(status(fine.as_bytes()), Ok(()));
    }

    #[test]
    fn too_many_fields_or_items_are_refused_in_a_short_answer() {
        let many: Vec<_> = (0..1000).map(|i| format!("\"f{i}\":1")).collect();
        let all = names::<Numbers>(&format!("{{\"headers\":{{{}}}}}", many.join(",")));
        assert_eq!((all[0].as_str(), all.len()), ("headers", MAX_ERRORS));
        let items = |count| format!("{{\"list\":[{}]}}", vec!["1"; count].join(","));
        let all = names::<Numbers>(&items(1_000));
        assert_eq!((all[1].as_str(), all.len()), ("list[1]", MAX_ERRORS));
        assert_eq!(names::<Numbers>(&items(1_001)), ["list"]);
    }

    #[test]
    fn what_is_wrong_within_is_named_by_its_place() {
        let text = r#"{"list":[{"n":1},7,{"n":{}},{},null,{"list":[{"m":0}],"more":1}],"n":11}"#;
        let expected =
            ["n", "list[1]", "list[2].n", "list[4]", "list[5].list[0].m", "list[5].more"];
        assert_eq!(names::<Numbers>(text), expected);
    }

    #[test]
    fn integers_are_taken_by_value_and_refused_by_type_and_range() {
        for good in ["5", "5.0", "1e1", "-0", "null"] {
            assert!(names::<Numbers>(&format!("{{\"n\":{good}}}")).is_empty(), "{good}");
        }
        for bad in ["11", "-1", "1.5", "1e999", "\"5\"", "true", "[]", "18446744073709551616"] {
            assert_eq!(names::<Numbers>(&format!("{{\"n\":{bad}}}")), ["n"], "{bad}");
        }
    }

    #[test]
    fn null_is_absent_but_among_changes_sets_back_or_is_refused() {
        assert!(names::<Numbers>(r#"{"n":null,"m":null}"#).is_empty());
        assert_eq!(names::<Change>(r#"{"n":null,"m":null}"#), ["n"]);
        let body = Bytes::from_static(br#"{"m":null}"#);
        let change = Fields::of_json(&body).unwrap().read::<Change>().unwrap();
        let Numbers { n, headers, list, m } = change.numbers.0;
        assert!(n.is_none() && headers.is_none() && list.is_none());
        assert!(matches!(m, Resettable(Some(None))));
    }
}
