//! Answers, each declared once: [`answer!`] turns the declaration of a struct into the struct, how it is written, and its
//! description in the OpenAPI document.

use super::{
    AnyJson,
    describe::{
        Described, Description, Property, described, integer, number, string, strings_by_name,
    },
};
use crate::{input::Flat, messages::fields::MaxAttempts, topics::backoff::BackoffPolicy};
use dueq_model::{Backoff, EventKind, Instant, MessageId, ScheduleName, State, TopicName};
use serde::Serialize;
use serde_json::value::RawValue;
use std::{borrow::Cow, collections::BTreeMap};
use utoipa::openapi::{ArrayBuilder, ObjectBuilder, RefOr, Schema, Type};

/// Declares an answer, or an object within one.
///
/// ```ignore
/// answer! {
///     /// A message.
///     pub struct Example<'a> {
///         /// Its id.
///         id: MessageId,
///         /// An `Option` that is `None` is left out.
///         #[example = "order-42"]
///         key: Option<&'a str>,
///         #[serde(flatten)]
///         content: Flat<Content<'a>>, // the fields of another answer
///     }
/// }
/// ```
macro_rules! answer {
    (
        $(#[doc = $about:expr])*
        $(#[name = $shown:literal])?
        $(#[derive($Derive:ident)])?
        $vis:vis struct $Name:ident $(<$life:lifetime>)? {
            $(
                $(#[doc = $doc:expr])*
                $(#[example = $example:expr])?
                $(#[serde($how:ident)])?
                $see:vis $field:ident: $Type:ty,
            )*
        }
    ) => {
        $(#[doc = $about])*
        #[derive(serde::Serialize)]
        $(#[derive($Derive)])?
        $vis struct $Name $(<$life>)? {
            $(
                $(#[doc = $doc])*
                $(#[serde($how)])?
                #[serde(skip_serializing_if = "crate::openapi::describe::Described::is_absent")]
                $see $field: $Type,
            )*
        }

        impl $(<$life>)? $crate::openapi::answer::Written for $Name $(<$life>)? {
            fn write(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
                #[allow(unused_imports, reason = "not all have fields for it")]
                use $crate::openapi::answer::BySerde as _;
                let start = out.len();
                $($crate::openapi::answer::write_field!(
                    self.$field, concat!(",\"", stringify!($field), "\":"), out $(, $how)?
                )?;)*
                // Each field begins with a comma; that of the first is the object's beginning.
                match out.get_mut(start) {
                    Some(comma) => *comma = b'{',
                    None => out.push(b'{'),
                }
                out.push(b'}');
                Ok(())
            }
        }

        $crate::openapi::describe::declared! {
            $Name $(<$life>)?, [$($shown,)? stringify!($Name)][0], [$($about),*], None, false;
            $($field: $Type, [$($doc),*], $crate::openapi::describe::sample!($($example)?), None;)*
        }
    };
}

/// Writes a field of [`answer!`], or those of another answer.
macro_rules! write_field {
    ($value:expr, $name:expr, $out:ident) => {
        $crate::openapi::answer::Field(&$value).write($name, $out)
    };
    ($value:expr, $name:expr, $out:ident, flatten) => {
        $crate::openapi::answer::Written::write_field(&$value, $name, $out)
    };
}

pub(crate) use {answer, write_field};

/// What writes itself as serde_json would. That looks at each byte of a name, an id and a time for what must be escaped.
pub(crate) trait Written {
    /// Appends it.
    fn write(&self, out: &mut Vec<u8>) -> serde_json::Result<()>;

    /// Appends it as a field, unless it is absent. `name`: as `,"name":`.
    fn write_field(&self, name: &str, out: &mut Vec<u8>) -> serde_json::Result<()> {
        out.extend_from_slice(name.as_bytes());
        self.write(out)
    }
}

/// A field of an answer.
pub(crate) struct Field<'a, T>(pub &'a T);

impl<T: Written> Field<'_, T> {
    /// As [`Written::write_field`].
    pub fn write(self, name: &str, out: &mut Vec<u8>) -> serde_json::Result<()> {
        self.0.write_field(name, out)
    }
}

/// The same for all other fields: the compiler takes a type's own method first.
pub(crate) trait BySerde {
    /// As [`Written::write_field`].
    fn write(self, name: &str, out: &mut Vec<u8>) -> serde_json::Result<()>;
}

impl<T: Serialize + Described> BySerde for Field<'_, T> {
    fn write(self, name: &str, out: &mut Vec<u8>) -> serde_json::Result<()> {
        if self.0.is_absent() {
            return Ok(());
        }
        out.extend_from_slice(name.as_bytes());
        serde_json::to_writer(out, self.0)
    }
}

/// Values of which each is a text, in quotes where there are some, that needs no escapes.
macro_rules! plain {
    ($($Type:ty: |$value:ident| $($part:expr),+;)*) => {$(
        impl Written for $Type {
            fn write(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
                let $value = self;
                $(out.extend_from_slice($part.as_ref());)+
                Ok(())
            }
        }
    )*};
}

plain! {
    bool: |is| if *is { "true" } else { "false" };
    Instant: |at| "\"", at.text(), "\"";
    MessageId: |id| "\"", id.text(&mut [0; 36]), "\"";
    &TopicName: |name| "\"", name.as_str(), "\"";
}

impl<T: Written> Written for Option<T> {
    fn write(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        self.iter().try_for_each(|value| value.write(out))
    }

    fn write_field(&self, name: &str, out: &mut Vec<u8>) -> serde_json::Result<()> {
        self.iter().try_for_each(|value| value.write_field(name, out))
    }
}

impl<T: Written> Written for Vec<T> {
    fn write(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        for (at, item) in self.iter().enumerate() {
            out.push(if at == 0 { b'[' } else { b',' });
            item.write(out)?;
        }
        out.extend_from_slice(if self.is_empty() { b"[]" } else { b"]" });
        Ok(())
    }
}

impl<T: Written> Written for Flat<T> {
    fn write(&self, out: &mut Vec<u8>) -> serde_json::Result<()> {
        self.0.write(out)
    }

    fn write_field(&self, _: &str, out: &mut Vec<u8>) -> serde_json::Result<()> {
        let start = out.len();
        self.0.write(out)?;
        // The braces go, and a comma comes for the first of them.
        out.pop();
        out[start] = b',';
        out.truncate(if out.len() == start + 1 { start } else { out.len() });
        Ok(())
    }
}

described! {
    bool: |_| ObjectBuilder::new().schema_type(Type::Boolean);
    i64: |_| integer();
    f64: |_| number();
    // A priority.
    u8: |_| integer().minimum(Some(0)).maximum(Some(255));
    // A limit of attempts.
    u16: MaxAttempts::schema;
    // Number of an attempt.
    u32: |_| integer().minimum(Some(1));
    String: |_| string();
    &str: |_| string();
    Cow<'_, str>: |_| string();
    &TopicName: |_| string();
    &ScheduleName: |_| string();
    &Vec<String>: <Vec<String>>::schema;
    BTreeMap<String, String>: |_| strings_by_name();
    Cow<'_, BTreeMap<String, String>>: |_| strings_by_name();
    &RawValue: |document| document.component::<AnyJson>();
    Box<RawValue>: |document| document.component::<AnyJson>();
    State: |document| document.component::<State>();
    &Backoff: |document| document.component::<BackoffPolicy>();
    EventKind: |document| document.component::<EventKind>();
}

impl<T: Described> Described for Vec<T> {
    fn schema(document: &mut Description) -> RefOr<Schema> {
        ArrayBuilder::new().items(T::schema(document)).into()
    }
}

/// May be left out. In a request, null is the same.
impl<T: Described> Described for Option<T> {
    fn schema(document: &mut Description) -> RefOr<Schema> {
        T::schema(document)
    }

    fn describe(property: Property, object: &mut Description) {
        let schema = T::schema(object);
        object.properties.push(Property { schema, nullable: true, ..property });
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}
