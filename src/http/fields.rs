//! Strict input. A JSON object or a query string is taken apart field by field: each field is named once, each value
//! has its type and range, and what nobody asked for is refused, so that a typo never silently means the default. The
//! types of values are in `values.rs`.

use super::{
    problem::{FieldError, Problem},
    syntax::{MAX_FIELDS, Object, depth},
};
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Nesting of a body, at most; its object is level 1.
const MAX_DEPTH: usize = 64;

/// Errors in one answer, and characters of a field's name in each: an answer does not grow with what was sent.
const MAX_ERRORS: usize = 64;
const MAX_NAME_CHARS: usize = 256;

/// A value before it is looked at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Value<'a> {
    /// Of a JSON body.
    Json(&'a RawValue),
    /// Of a query.
    Text(&'a str),
}

impl Value<'_> {
    pub(super) fn is_null(&self) -> bool {
        matches!(self, Self::Json(raw) if raw.get() == "null")
    }
}

/// The named values of a request, or of an object within it; each to be taken once.
#[derive(Debug)]
pub struct Fields<'a> {
    entries: Vec<(Cow<'a, str>, Value<'a>)>,
    /// Fields are named as seen from this object: whoever reads the object around it knows where it stands, and says so
    /// only when something is wrong.
    errors: Vec<FieldError>,
}

impl<'a> Fields<'a> {
    /// The fields of a JSON body. Errors: 400 where it is no JSON, 422 where it is no object.
    pub fn of_json(body: &'a [u8]) -> Result<Self, Problem> {
        let malformed = |detail| Problem::malformed("malformed_json", detail);
        let text = std::str::from_utf8(body)
            .map_err(|error| malformed(format!("the body is no UTF-8: {error}")))?;
        if depth(body) > MAX_DEPTH {
            return Err(malformed(format!("the body is nested deeper than {MAX_DEPTH} levels")));
        }
        if let Ok(object) = serde_json::from_str(text) {
            return Ok(Self::of(object));
        }
        // Broken JSON comes before JSON that is no object.
        serde_json::from_str::<&RawValue>(text)
            .map_err(|error| malformed(format!("the body is no JSON: {error}")))?;
        let reason = "must be an object".into();
        Err(Problem::invalid(vec![FieldError { field: String::new(), reason }]))
    }

    /// No fields at all: a body that was left out.
    pub fn none() -> Self {
        Self { entries: Vec::new(), errors: Vec::new() }
    }

    /// Query parameters, decoded.
    pub fn of_query(pairs: &'a [(String, String)]) -> Self {
        let mut fields = Self::none();
        for (name, value) in pairs {
            fields.push(Cow::Borrowed(name), Value::Text(value));
        }
        fields
    }

    /// The fields of an object.
    pub(super) fn of(object: Object<'a>) -> Self {
        let mut fields = Self::none();
        fields.entries.reserve_exact(object.fields.len());
        if object.overflows {
            fields.refuse("", format!("has more than {MAX_FIELDS} fields"));
        }
        for (name, value) in object.fields {
            fields.push(name, Value::Json(value));
        }
        fields
    }

    fn push(&mut self, name: Cow<'a, str>, value: Value<'a>) {
        if self.entries.iter().any(|(known, _)| *known == name) {
            self.refuse(&name, "is given more than once");
        } else {
            self.entries.push((name, value));
        }
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

    /// Reads an object that stands at `place` within this one, and takes over what is wrong with it.
    pub(super) fn within<T>(
        &mut self,
        mut inner: Fields<'a>,
        place: impl Fn() -> String,
        read: impl FnOnce(&mut Fields<'a>) -> T,
    ) -> T {
        let value = read(&mut inner);
        for FieldError { field, reason } in inner.close() {
            let place = place();
            let field = if field.is_empty() { place } else { format!("{place}.{field}") };
            self.refuse(&field, reason);
        }
        value
    }

    /// Is the field there and not null?
    pub fn has(&self, name: &str) -> bool {
        self.entries.iter().any(|(known, value)| known == name && !value.is_null())
    }

    /// Is the field there and null?
    pub(super) fn has_null(&self, name: &str) -> bool {
        self.entries.iter().any(|(known, value)| known == name && value.is_null())
    }

    /// The value of a field, whatever it is.
    pub(super) fn take(&mut self, name: &str) -> Option<Value<'a>> {
        let at = self.entries.iter().position(|(known, _)| known == name)?;
        Some(self.entries.swap_remove(at).1)
    }

    /// The value of a field; null is absent.
    pub(super) fn take_value(&mut self, name: &str) -> Option<Value<'a>> {
        self.take(name).filter(|value| !value.is_null())
    }

    /// What is left, in no order.
    pub(super) fn take_all(&mut self) -> Vec<(Cow<'a, str>, Value<'a>)> {
        std::mem::take(&mut self.entries)
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
        for (name, _) in self.take_all() {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_and_repeated_fields_are_refused_by_name() {
        let mut fields = Fields::of_json(br#"{"a":1,"b":2,"\u0061":3}"#).unwrap();
        fields.integer("a", 0..=9);
        let Err(problem) = fields.finish() else { panic!("taken") };
        let named: Vec<_> =
            problem.body("").errors.into_iter().map(|e| (e.field, e.reason)).collect();
        let expected = [("a", "is given more than once"), ("b", "is not known here")];
        assert_eq!(named, expected.map(|(f, r)| (f.to_owned(), Cow::Borrowed(r))));
    }

    #[test]
    fn syntax_is_400_before_anything_else_is_looked_at() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(64), "]".repeat(64));
        for bad in
            ["", "{", "{}x", "{\"a\":1,}", "[1,2", "{\"a\":\"\n\"}", "nul", "\u{feff}{}", &deep]
        {
            let problem = Fields::of_json(bad.as_bytes()).unwrap_err();
            assert_eq!(problem.body("").status, 400, "{bad}");
        }
        assert_eq!(Fields::of_json(b"{\"a\":\"\xff\"}").unwrap_err().body("").status, 400);
        for other in ["[]", "1", "null", "\"x\""] {
            assert_eq!(
                Fields::of_json(other.as_bytes()).unwrap_err().body("").status,
                422,
                "{other}"
            );
        }
        let fine = format!("{{\"a\":{}1{}}}", "[".repeat(63), "]".repeat(63));
        assert!(Fields::of_json(fine.as_bytes()).is_ok());
    }

    #[test]
    fn an_object_of_too_many_fields_is_refused_under_its_own_name_in_a_short_answer() {
        let many: Vec<_> = (0..1000).map(|i| format!("\"f{i}\":1")).collect();
        let body = format!("{{\"headers\":{{{}}}}}", many.join(","));
        let mut fields = Fields::of_json(body.as_bytes()).unwrap();
        fields.string_map("headers");
        let errors = fields.finish().unwrap_err().body("").errors;
        assert_eq!((errors[0].field.as_str(), errors.len()), ("headers", MAX_ERRORS));

        let items = vec!["1"; 1000].join(",");
        let body = format!("{{\"acks\":[{items}]}}");
        let mut fields = Fields::of_json(body.as_bytes()).unwrap();
        fields.objects("acks", 1000, |_| Some(()));
        let errors = fields.finish().unwrap_err().body("").errors;
        assert_eq!((errors[1].field.as_str(), errors.len()), ("acks[1]", MAX_ERRORS));
    }
}
