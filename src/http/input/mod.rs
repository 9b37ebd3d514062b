//! Requests, each declared once: [`request!`] turns the declaration of a struct into the struct, its reader and its
//! description in the OpenAPI document. The types of its fields (`values`, `members`) read themselves.
//!
//! Input is strict: every field is named once, has its type and range, and what nobody asked for is refused, so that a
//! typo never silently means the default. A refusal lists all fields that are wrong, not only the first. That is why serde's
//! derive is not enough: it stops at the first error, and names neither the range nor the path of a field. It also cannot
//! read one declaration from a body and from a query, nor keep a payload as a slice of the body.

pub mod fields;
pub mod json;
mod members;
mod values;

use super::{
    openapi::describe::{Declared, Described},
    problem::FieldError,
};
use fields::Value;
use std::ops::RangeInclusive;

pub use fields::Fields;
pub use members::*;
pub use values::*;

/// What is wrong with a value: the places within it (empty for the value itself, `[2]`, `.name`) and the reasons.
pub type Wrong = Vec<FieldError>;

/// The value itself is wrong.
pub fn wrong(reason: impl Into<std::borrow::Cow<'static, str>>) -> Wrong {
    vec![FieldError { field: String::new(), reason: reason.into() }]
}

/// The type of a field: it reads itself from a request.
pub trait Input: Described + Sized {
    /// Reads a value that is not null.
    fn read(value: Value<'_>) -> Result<Self, Wrong>;

    /// Takes the field of this name from an object. `None` where it is refused.
    fn take(fields: &mut Fields<'_>, name: &str) -> Option<Self> {
        match fields.take_value(name) {
            Some(value) => fields.keep(name, Self::read(value)),
            None => {
                fields.refuse(name, "is required");
                None
            }
        }
    }

    /// Reads an array of so many items.
    fn read_items(array: Value<'_>, count: RangeInclusive<usize>) -> Result<Vec<Self>, Wrong> {
        members::read_each(array.items()?, count, |item| item.present().and_then(Self::read))
    }
}

/// A struct that [`request!`] declares.
pub trait Request: Declared + Sized {
    /// Takes its fields. `None` where one is refused.
    fn take_from(fields: &mut Fields<'_>) -> Option<Self>;
}

/// Within another request it is an object.
impl<T: Request> Input for T {
    fn read(value: Value<'_>) -> Result<Self, Wrong> {
        value.object()?.read_within()
    }

    fn read_items(array: Value<'_>, count: RangeInclusive<usize>) -> Result<Vec<Self>, Wrong> {
        // Mostly all is well, and then the text is gone over once.
        match array.objects() {
            Some(objects) => members::read_each(objects, count, Fields::read_within),
            None => members::read_each(array.items()?, count, Self::read),
        }
    }
}

/// Declares a request: a body, an object within one, or a query.
///
/// ```ignore
/// request! {
///     /// A message to acknowledge.
///     #[example = json!({"id": "…", "attempts": 7})]
///     pub struct Example {
///         /// The message.
///         pub id: MessageId,
///         /// A field with a default may be left out, as one that is an `Option`.
///         #[example = 7]
///         pub attempts: Bounded<0, 10> = Bounded::new(5),
///         pub due: Flat<DueFields>, // the fields of another request
///     }
///     also("tries", "attempts") // the first is the second's other name, which the document leaves out
///     check(fields) {
///         // Sees each field as `Option`, `None` where it was refused, and refuses contradictions by `fields.refuse`.
///     }
/// }
/// ```
macro_rules! request {
    (
        $(#[doc = $about:expr])*
        $(#[example = $example:expr])?
        $vis:vis struct $Name:ident {
            $(
                $(#[doc = $doc:expr])*
                $(#[example = $sample:expr])?
                $see:vis $field:ident: $Type:ty $(= $default:expr)?,
            )*
        }
        $(also($other:literal, $own:literal))?
        $(check($fields:ident) $check:block)?
    ) => {
        $(#[doc = $about])*
        #[derive(Clone, Debug)]
        $vis struct $Name {
            $($(#[doc = $doc])* $see $field: $Type,)*
        }

        impl $crate::input::Request for $Name {
            #[allow(unused_variables, reason = "there are requests without fields")]
            fn take_from(fields: &mut $crate::input::Fields<'_>) -> Option<Self> {
                $(fields.rename($other, $own);)?
                $(let $field = $crate::input::take!(fields, $field, $Type $(, $default)?);)*
                $(let $fields = fields; $check)?
                Some(Self { $($field: $field?,)* })
            }
        }

        $crate::openapi::describe::declared! {
            $Name, stringify!($Name), [$($about),*], $crate::openapi::describe::sample!($($example)?), true;
            $(
                $field: $crate::input::given_as!($Type $(, $default)?), [$($doc),*],
                $crate::openapi::describe::sample!($($sample)?),
                $crate::openapi::describe::sample!($($Type, $default)?);
            )*
        }

        impl utoipa::IntoParams for $Name {
            fn into_params(
                _: impl Fn() -> Option<utoipa::openapi::path::ParameterIn>,
            ) -> Vec<utoipa::openapi::path::Parameter> {
                let properties = $crate::openapi::describe::Description::of::<Self>().properties;
                properties.into_iter().map($crate::openapi::describe::Property::into_parameter).collect()
            }
        }
    };
}

/// Takes a field of [`request!`].
macro_rules! take {
    ($fields:ident, $field:ident, $Type:ty) => {
        <$Type as $crate::input::Input>::take($fields, stringify!($field))
    };
    ($fields:ident, $field:ident, $Type:ty, $default:expr) => {
        $crate::input::take!($fields, $field, Option<$Type>).map(|value| value.unwrap_or($default))
    };
}

/// The type as which a field of [`request!`] is given.
macro_rules! given_as {
    ($Type:ty) => { $Type };
    ($Type:ty, $default:expr) => { Option<$Type> };
}

pub(super) use {given_as, request, take};
