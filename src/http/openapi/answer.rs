//! Answers, each declared once: [`answer!`] turns the declaration of a struct into the struct, how it is written, and its
//! description in the OpenAPI document.

use super::{
    AnyJson,
    describe::{
        Described, Description, Property, described, integer, number, string, strings_by_name,
    },
};
use crate::{messages::fields::MaxAttempts, topics::backoff::BackoffPolicy};
use dueq_model::{Backoff, EventKind, ScheduleName, State, TopicName};
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

        $crate::openapi::describe::declared! {
            $Name $(<$life>)?, [$($shown,)? stringify!($Name)][0], [$($about),*], None, false;
            $($field: $Type, [$($doc),*], $crate::openapi::describe::sample!($($example)?), None;)*
        }
    };
}

pub(crate) use answer;

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
