//! The types of fields that hold other values, and how fields may be absent.

use super::{
    Input, Request, Wrong,
    fields::{Fields, MAX_ERRORS, Value},
    wrong,
};
use crate::{
    openapi::AnyJson,
    openapi::describe::{Declared, Described, Description, Property, described, strings_by_name},
    problem::FieldError,
};
use axum::http::{HeaderName, HeaderValue};
use bytes::Bytes;
use dueq_model::{MAX_HEADERS, MAX_HEADERS_BYTES, is_own_header};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    ops::{Deref, RangeInclusive},
};
use utoipa::openapi::{ArrayBuilder, RefOr, Schema};

/// Any JSON value, null included, as a slice of the request's body so that it is not copied; `None` where it is absent.
#[derive(Clone, Debug)]
pub struct AnyValue(pub Option<Bytes>);

impl Input for AnyValue {
    fn read(value: Value<'_>) -> Result<Self, Wrong> {
        match value {
            Value::Json(raw, body) => Ok(Self(Some(body.slice_ref(raw.get().as_bytes())))),
            Value::Text(_) => Err(wrong("cannot be given as a query parameter")),
        }
    }

    fn take(fields: &mut Fields<'_>, name: &str) -> Option<Self> {
        match fields.take_any(name) {
            Some(value) => fields.keep(name, Self::read(value)),
            None => Some(Self(None)),
        }
    }
}

impl Described for AnyValue {
    fn schema(document: &mut Description) -> RefOr<Schema> {
        document.component::<AnyJson>()
    }

    fn describe(property: Property, object: &mut Description) {
        let schema = Self::schema(object);
        object.properties.push(Property { schema, ..property });
    }
}

/// Headers of a message or a call.
#[derive(Clone, Debug, Default)]
pub struct Headers(pub BTreeMap<String, String>);

impl Input for Headers {
    fn read(value: Value<'_>) -> Result<Self, Wrong> {
        let mut fields = value.object()?;
        let mut headers = BTreeMap::new();
        let mut bytes = 0;
        let all = fields.take_all();
        let count = all.len();
        for (name, value) in all {
            let reason = match value.text() {
                None => "must be a string",
                Some(_) if HeaderName::from_bytes(name.as_bytes()).is_err() => {
                    "is not a valid HTTP header name"
                }
                Some(text) if HeaderValue::from_bytes(text.as_bytes()).is_err() => {
                    "is not a valid value of an HTTP header"
                }
                Some(text) => {
                    bytes += name.len() + text.len();
                    headers.insert(name.into_owned(), text.into_owned());
                    continue;
                }
            };
            fields.refuse(&name, reason);
        }
        if count > MAX_HEADERS || bytes > MAX_HEADERS_BYTES {
            fields.refuse("", "must be at most 32 headers of 8192 bytes together");
        }
        fields.close_within(Some(Self(headers)))
    }
}

described!(Headers: |_| strings_by_name(););

/// Headers of a call, without those that dueq sets itself.
#[derive(Clone, Debug)]
pub struct CallHeaders(BTreeMap<String, String>);

impl From<CallHeaders> for BTreeMap<String, String> {
    fn from(headers: CallHeaders) -> Self {
        headers.0
    }
}

impl Input for CallHeaders {
    fn read(value: Value<'_>) -> Result<Self, Wrong> {
        let Headers(headers) = Headers::read(value)?;
        let own = headers.keys().filter(|name| is_own_header(name));
        let own: Wrong = own.map(|name| own_header(format!(".{name}"))).collect();
        if own.is_empty() { Ok(Self(headers)) } else { Err(own) }
    }
}

/// The refusal of a header that is not the user's to set.
pub fn own_header(field: String) -> FieldError {
    FieldError { field, reason: "is set by dueq itself on every call".into() }
}

described!(CallHeaders: |_| strings_by_name(););

/// An array of `LOW` to `HIGH` items.
#[derive(Clone, Debug)]
pub struct List<T, const LOW: usize, const HIGH: usize>(pub Vec<T>);

impl<T: Input, const LOW: usize, const HIGH: usize> Input for List<T, LOW, HIGH> {
    fn read(value: Value<'_>) -> Result<Self, Wrong> {
        T::read_items(value, LOW..=HIGH).map(Self)
    }
}

impl<T, const LOW: usize, const HIGH: usize> From<List<T, LOW, HIGH>> for Vec<T> {
    fn from(list: List<T, LOW, HIGH>) -> Self {
        list.0
    }
}

impl<T: Described, const LOW: usize, const HIGH: usize> Described for List<T, LOW, HIGH> {
    fn schema(document: &mut Description) -> RefOr<Schema> {
        let low = Some(LOW).filter(|low| *low > 0);
        let items = T::schema(document);
        ArrayBuilder::new().items(items).min_items(low).max_items(Some(HIGH)).into()
    }
}

/// Reads each of so many items, or says what is wrong with them.
pub(super) fn read_each<I, T>(
    items: Vec<I>,
    count: RangeInclusive<usize>,
    read: impl Fn(I) -> Result<T, Wrong>,
) -> Result<Vec<T>, Wrong> {
    if !count.contains(&items.len()) {
        return Err(wrong(format!("must have {} to {} items", count.start(), count.end())));
    }
    let (mut all, mut errors) = (Vec::with_capacity(items.len()), Wrong::new());
    for (i, item) in items.into_iter().enumerate() {
        match read(item) {
            Ok(item) => all.push(item),
            Err(_) if errors.len() >= MAX_ERRORS => {}
            Err(wrong) => errors.extend(wrong.into_iter().map(|error| FieldError {
                field: format!("[{i}]{}", error.field),
                reason: error.reason,
            })),
        }
    }
    if errors.is_empty() { Ok(all) } else { Err(errors) }
}

/// May be left out; null is the same, but among changes.
impl<T: Input> Input for Option<T> {
    fn read(value: Value<'_>) -> Result<Self, Wrong> {
        T::read(value).map(Some)
    }

    fn take(fields: &mut Fields<'_>, name: &str) -> Option<Self> {
        match fields.take_any(name) {
            None => Some(None),
            Some(value) if value.is_null() && !fields.are_changes => Some(None),
            Some(value) => fields.keep(name, value.present().and_then(T::read)).map(Some),
        }
    }
}

/// May be left out. Null is the same where something is made, and sets it back where something is changed.
#[derive(Clone, Debug)]
pub struct Resettable<T>(pub Option<Option<T>>);

impl<T> Resettable<T> {
    /// The value if there is one.
    pub fn value(self) -> Option<T> {
        self.0.flatten()
    }

    /// The same of one that is kept.
    pub fn as_value(&self) -> Option<&T> {
        self.0.as_ref()?.as_ref()
    }

    /// The value, or null, by `map`.
    pub fn map<U>(self, map: impl FnOnce(T) -> U) -> Option<Option<U>> {
        self.0.map(|value| value.map(map))
    }
}

impl<T: Input> Input for Resettable<T> {
    fn read(value: Value<'_>) -> Result<Self, Wrong> {
        T::read(value).map(|value| Self(Some(Some(value))))
    }

    fn take(fields: &mut Fields<'_>, name: &str) -> Option<Self> {
        match fields.take_any(name) {
            None => Some(Self(None)),
            Some(value) if value.is_null() => Some(Self(Some(None))),
            Some(value) => fields.keep(name, Self::read(value)),
        }
    }
}

impl<T: Described> Described for Resettable<T> {
    fn schema(document: &mut Description) -> RefOr<Schema> {
        T::schema(document)
    }

    fn describe(property: Property, object: &mut Description) {
        <Option<T>>::describe(Property { resettable: true, ..property }, object);
    }
}

/// The fields of another struct, among those of this one.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Flat<T, const CHANGES: bool = false>(pub T);

/// The same as changes: null is refused, or sets back what is [`Resettable`].
pub type Changes<T> = Flat<T, true>;

impl<T, const CHANGES: bool> Deref for Flat<T, CHANGES> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Request, const CHANGES: bool> Input for Flat<T, CHANGES> {
    fn read(value: Value<'_>) -> Result<Self, Wrong> {
        T::read(value).map(Self)
    }

    fn take(fields: &mut Fields<'_>, _: &str) -> Option<Self> {
        fields.are_changes |= CHANGES;
        T::take_from(fields).map(Self)
    }
}

impl<T: Declared, const CHANGES: bool> Described for Flat<T, CHANGES> {
    fn schema(document: &mut Description) -> RefOr<Schema> {
        <T as Described>::schema(document)
    }

    fn describe(_: Property, object: &mut Description) {
        let before = object.properties.len();
        T::describe_fields(object);
        for field in &mut object.properties[before..] {
            field.nullable &= field.resettable || !CHANGES;
        }
    }
}

/// Was the field of a request given, be it that it was refused? For the contradictions of [`super::request!`].
pub fn given<T>(field: &Option<Option<T>>) -> bool {
    !matches!(field, Some(None))
}
