//! What users configure, made of the tables in which the model declares it: for each noun the request, as a change that can be
//! applied to any, and the answer that shows it.

use crate::{input::*, openapi::describe::Described};
use dueq_model::{
    Backoff, CallMethod, CallUrl, DeadForm, Durability, GroupOrder, MASK, OnFull, SigningSecret,
    TopicName,
};
use serde::Serialize;
use std::{borrow::Cow, collections::BTreeMap};

impl<P> Resettable<P> {
    /// The setting that becomes of the present one: absent it stays, and null sets it back to the default.
    pub fn onto<T: Clone>(&self, present: &T, default: &T) -> T
    where
        P: Said<T>,
    {
        match &self.0 {
            None => present.clone(),
            Some(None) => default.clone(),
            Some(Some(said)) => said.stored(default),
        }
    }
}

/// A value of a request that is stored as `T`.
pub trait Said<T> {
    /// As it is stored; what it leaves open is as in the default.
    fn stored(&self, default: &T) -> T;
}

impl<T, P: Clone + Into<T>> Said<T> for P {
    fn stored(&self, _: &T) -> T {
        self.clone().into()
    }
}

/// A setting that answers show.
pub trait Shown {
    /// As what they show it.
    type As<'a>: Described + Serialize
    where
        Self: 'a;

    /// Shows it.
    fn shown(&self) -> Self::As<'_>;
}

impl<T: Shown> Shown for Option<T> {
    type As<'a>
        = Option<T::As<'a>>
    where
        T: 'a;

    fn shown(&self) -> Self::As<'_> {
        self.as_ref().map(T::shown)
    }
}

/// How types are shown.
macro_rules! shown {
    ($($Type:ty as $As:ty: $shown:expr;)*) => {$(
        impl $crate::topics::settings::Shown for $Type {
            type As<'a> = $As;

            fn shown(&self) -> Self::As<'_> {
                let shown: fn(&Self) -> Self::As<'_> = $shown;
                shown(self)
            }
        }
    )*};
}

pub(crate) use shown;

shown! {
    i64 as i64: |it| *it;
    u32 as i64: |it| i64::from(*it);
    f64 as f64: |it| *it;
    Backoff as &'a Backoff: |it| it;
    BTreeMap<String, String> as Cow<'a, BTreeMap<String, String>>: |it| Cow::Borrowed(it);
    CallMethod as CallMethod: |it| *it;
    CallUrl as &'a str: CallUrl::as_str;
    DeadForm as DeadForm: |it| *it;
    Durability as Durability: |it| *it;
    GroupOrder as GroupOrder: |it| *it;
    OnFull as OnFull: |it| *it;
    String as &'a str: |it| it;
    TopicName as &'a TopicName: |it| it;
    Vec<SigningSecret> as Vec<&'static str>: |it| vec![MASK; it.len()];
    Vec<String> as Option<&'a Vec<String>>: |it| Some(it).filter(|all| !all.is_empty());
}

/// Makes the request and the answer of a noun from its table.
macro_rules! configured {
    (
        $Noun:ident
        $(#[$($request_note:tt)*])*
        request $Request:ident
        $(#[doc = $answer_about:expr])*
        $(#[name = $shown:literal])?
        answer $Answer:ident
        $(
            $(#[doc = $doc:expr])*
            $(#[serde($($how:tt)*)])?
            $name:ident: $Type:ty = $default:expr;
            $(#[$($put_note:tt)*])*
            put $Put:ty $(, $reserved:ident)?;
        )*
    ) => {
        request! {
            $(#[$($request_note)*])*
            pub struct $Request {
                $($(#[$($put_note)*])* pub $name: Resettable<$Put>,)*
            }
        }

        impl $Request {
            /// The configuration that becomes of the present one; null sets back to the default.
            fn applied_to(&self, present: &$Noun, default: &$Noun) -> $Noun {
                let mut changed = present.clone();
                $(changed.$name = self.$name.onto(&present.$name, &default.$name);)*
                changed
            }

            /// A setting among them that the topic `_callbacks` does not take.
            #[allow(dead_code, reason = "some nouns have none")]
            pub fn reserved(&self) -> Option<&'static str> {
                $($(
                    if stringify!($reserved) == "reserved" && self.$name.0.is_some() {
                        return Some(stringify!($name));
                    }
                )?)*
                None
            }
        }

        answer! {
            $(#[doc = $answer_about])*
            $(#[name = $shown])?
            pub struct $Answer<'a> {
                $($(#[doc = $doc])* $name: <$Type as $crate::topics::settings::Shown>::As<'a>,)*
            }
        }

        impl<'a> From<&'a $Noun> for $Answer<'a> {
            fn from(noun: &'a $Noun) -> Self {
                Self { $($name: $crate::topics::settings::Shown::shown(&noun.$name),)* }
            }
        }
    };
}

pub(crate) use configured;
