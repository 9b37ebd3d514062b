//! Values that are never read back: they show as `***`, and `***` put back keeps what is stored, as long as it goes where
//! it was stored for.

use super::{Body, Millis, Push, SigningSecret};
use serde::{Deserialize, Serialize};
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

/// What is shown in place of a value that is not read back.
pub const MASK: &str = "***";

/// Bytes of the names and values of a message's headers, or of a push's, at most.
pub const MAX_HEADERS_BYTES: usize = 8 * 1024;

/// Headers that a message has, or names as secrets, at most.
pub const MAX_HEADERS: usize = 32;

/// Why headers cannot be kept as they were put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaskError {
    /// Nothing is stored for the header of this name.
    Nothing(String),
    /// What is stored for the header of this name belongs to another origin.
    Elsewhere(String),
    /// With what is stored they are larger than [`MAX_HEADERS_BYTES`]: each spelling of a name gets the value.
    TooLarge,
}

/// Which headers of a message are secrets, and whom they were stored for. A mark of the message's own: what becomes of
/// its topic does not unmask it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecretHeaders {
    /// Their names, in lower case.
    #[serde(rename = "n")]
    pub names: BTreeSet<String>,
    /// The only origin that they are sent to; `None`: there is none.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
}

impl SecretHeaders {
    /// Is the header of this name one of them?
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(&name.to_ascii_lowercase())
    }
}

/// What a topic remembers of a header that was a secret by its push, which is another by now, for the sake of messages
/// that have no mark: they were published before it was one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnceSecret {
    /// The only origin that it is sent to; `None`: there is none, or there were several.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// It is one of messages that were published before this instant.
    #[serde(rename = "u")]
    pub until: Millis,
}

/// Headers whose values are secrets by their names alone.
pub const CREDENTIALS: [&str; 2] = ["authorization", "cookie"];

/// Is the value of this header a secret by its name alone?
pub fn is_credential(name: &str) -> bool {
    CREDENTIALS.iter().any(|credential| name.eq_ignore_ascii_case(credential))
}

/// Is one of these names, whatever the case, the header's?
pub fn names_header(names: &[String], name: &str) -> bool {
    names.iter().any(|secret| secret.eq_ignore_ascii_case(name))
}

/// Headers as they are shown.
pub fn masked(
    headers: &BTreeMap<String, String>,
    is_secret: impl Fn(&str) -> bool,
) -> BTreeMap<String, String> {
    let shown = |(name, value): (&String, &String)| {
        let value = if is_secret(name) { MASK } else { value };
        (name.clone(), value.to_owned())
    };
    headers.iter().map(shown).collect()
}

/// Headers as they were put, `***` replaced by what is stored. `elsewhere`: what is stored belongs to another origin.
pub fn unmasked(
    put: &BTreeMap<String, String>,
    stored: &BTreeMap<String, String>,
    is_secret: impl Fn(&str) -> bool,
    elsewhere: bool,
) -> Result<BTreeMap<String, String>, MaskError> {
    let kept = |(name, value): (&String, &String)| {
        if !is_secret(name) || value != MASK {
            return Ok((name.clone(), value.clone()));
        }
        let alike = || stored.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        // A name may be there in several spellings, each with its own value.
        let same = stored.get_key_value(name).or_else(alike);
        let (_, value) = same.ok_or_else(|| MaskError::Nothing(name.clone()))?;
        if elsewhere {
            Err(MaskError::Elsewhere(name.clone()))
        } else {
            Ok((name.clone(), value.clone()))
        }
    };
    let all: BTreeMap<_, _> = put.iter().map(kept).collect::<Result<_, _>>()?;
    let bytes: usize = all.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes <= MAX_HEADERS_BYTES || all == *put { Ok(all) } else { Err(MaskError::TooLarge) }
}

impl Body {
    /// The origin that it is sent to from a topic that is pushed so.
    pub fn origin(&self, push: &Push) -> Option<String> {
        self.callback.as_ref().map_or_else(|| push.origin(), |callback| callback.url.origin())
    }

    /// Is the value of this header a secret, whatever its topic says of it?
    pub fn is_secret(&self, name: &str) -> bool {
        // Also those that its callback named before it moved here.
        let before = self.own.as_ref().and_then(|own| own.callback.as_ref());
        let mut callbacks = self.callback.iter().chain(before);
        callbacks.any(|callback| names_header(&callback.secret_headers, name))
            || self.secrets.as_ref().is_some_and(|secrets| secrets.has(name))
    }

    /// Is the value of this header never shown, in a topic that is pushed so, if it is?
    pub fn masks(&self, name: &str, push: Option<&Push>) -> bool {
        self.is_secret(name) || push.is_some_and(|push| push.is_secret(name))
    }

    /// Its headers as they are shown there.
    pub fn shown_headers(&self, push: Option<&Push>) -> Cow<'_, BTreeMap<String, String>> {
        let names_none = self.secrets.is_none() && self.callback.is_none() && self.own.is_none();
        if push.is_none() && names_none {
            return Cow::Borrowed(&self.headers);
        }
        Cow::Owned(masked(&self.headers, |name| self.masks(name, push)))
    }

    /// Marks its secret headers as those of a topic that is pushed so. What was marked before stays so, and whom it is
    /// for too.
    pub fn mark_secrets(&mut self, push: &Push) {
        let secret = |name: &&String| self.masks(name, Some(push));
        let names: BTreeSet<String> =
            self.headers.keys().filter(secret).map(|name| name.to_ascii_lowercase()).collect();
        let origin = match self.secrets.take() {
            Some(marked) => marked.origin,
            None => self.origin(push),
        };
        self.secrets = (!names.is_empty()).then_some(SecretHeaders { names, origin });
    }

    /// Marks those of its headers that were secrets `once`, after it was published. A body without a mark was for where its
    /// callback goes, or where its topic went when they became secrets.
    pub fn recall(&mut self, published: Millis, once: &BTreeMap<String, OnceSecret>) {
        if once.is_empty() {
            return;
        }
        let found = |name: &String| {
            let known = once.get_key_value(&name.to_ascii_lowercase());
            known.filter(|(_, once)| published < once.until)
        };
        let found: BTreeMap<_, _> = self.headers.keys().filter_map(found).collect();
        let mut origins = found.values().map(|once| &once.origin);
        let Some(first) = origins.next() else { return };
        let of_topic = first.clone().filter(|_| origins.all(|origin| origin == first));
        let own = self.callback.as_ref().map(|callback| callback.url.origin());
        let unmarked = || SecretHeaders { names: BTreeSet::new(), origin: own.unwrap_or(of_topic) };
        let marked = self.secrets.get_or_insert_with(unmarked);
        marked.names.extend(found.into_keys().cloned());
    }

    /// This body takes the place of `stored`: puts what is stored in place of each `***`, if it is of the same API key, and marks
    /// what is secret. `push`: how its topic is pushed now; `moved`: it was stored for another topic.
    pub fn keep_headers_of(
        &mut self,
        stored: &Self,
        push: Option<&Push>,
        is_secret: impl Fn(&str) -> bool,
        moved: bool,
    ) -> Result<(), MaskError> {
        let origin = push.and_then(|push| self.origin(push));
        let elsewhere = match (&stored.secrets, push) {
            (Some(_), None) => true,
            (Some(marked), Some(_)) => marked.origin != origin,
            // What older versions stored has no mark.
            (None, push) => push.and_then(|push| stored.origin(push)) != origin,
        };
        let elsewhere = elsewhere || moved || !self.is_by_publisher_of(stored);
        let is_secret =
            |name: &str| is_secret(name) || stored.is_secret(name) || self.is_secret(name);
        self.headers = unmasked(&self.headers, &stored.headers, is_secret, elsewhere)?;
        let names = stored.secrets.as_ref().map(|marked| marked.names.clone());
        self.secrets = names.map(|names| SecretHeaders { names, origin });
        match push {
            Some(push) => self.mark_secrets(push),
            None => self.secrets = None,
        }
        Ok(())
    }

    /// Is it of the same API key as the stored one?
    pub fn is_by_publisher_of(&self, stored: &Self) -> bool {
        let [own, its] = [self, stored].map(|body| body.publisher.as_deref().unwrap_or_default());
        own == its
    }

    /// The header that says who is calling although its callback's `auth` does, if there is one.
    pub fn clashes_with_auth(&self) -> Option<&String> {
        self.callback.as_ref()?.auth.as_ref()?;
        self.headers.keys().find(|name| name.eq_ignore_ascii_case("authorization"))
    }

    /// The same with the secrets of its callback, if it is of the same API key.
    pub fn keep_secret_of(&mut self, stored: &Self, moved: bool) -> Result<(), MaskError> {
        let is_another = !self.is_by_publisher_of(stored);
        let Some(callback) = &mut self.callback else { return Ok(()) };
        let known = stored.callback.as_ref();
        let is_other = known.is_some_and(|known| known.url.origin() != callback.url.origin());
        let elsewhere = moved || is_another || is_other;
        if let Some(auth) = &mut callback.auth {
            auth.keep(known.and_then(|known| known.auth.as_deref()), elsewhere)?;
        }
        if !callback.secret.as_ref().is_some_and(SigningSecret::is_kept) {
            return Ok(());
        }
        let name = || "secret".to_owned();
        let known = known.filter(|known| known.secret.is_some());
        let known = known.ok_or_else(|| MaskError::Nothing(name()))?;
        if elsewhere {
            return Err(MaskError::Elsewhere(name()));
        }
        callback.secret.clone_from(&known.secret);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn secret_headers_are_shown_masked_and_kept_when_the_mask_comes_back() {
        let stored = map(&[("Authorization", "Bearer x"), ("COOKIE", "a=b"), ("x-a", "***")]);
        let shown = map(&[("Authorization", "***"), ("COOKIE", "***"), ("x-a", "***")]);
        assert_eq!(masked(&stored, is_credential), shown);
        let unmasked = |put: &_, stored: &_| unmasked(put, stored, is_credential, false);
        assert_eq!(unmasked(&shown, &stored), Ok(stored.clone()));
        assert_eq!(unmasked(&map(&[("cookie", "***")]), &stored), Ok(map(&[("cookie", "a=b")])));
        assert_eq!(unmasked(&map(&[("cookie", "new")]), &stored), Ok(map(&[("cookie", "new")])));
        let nothing = MaskError::Nothing("Authorization".to_owned());
        assert_eq!(unmasked(&shown, &map(&[])), Err(nothing));
    }

    #[test]
    fn what_belongs_to_another_origin_is_not_kept() {
        let (stored, put) = (map(&[("cookie", "a=b")]), map(&[("Cookie", "***")]));
        let refused = unmasked(&put, &stored, is_credential, true);
        assert_eq!(refused, Err(MaskError::Elsewhere("Cookie".to_owned())));
        let new = map(&[("cookie", "new"), ("x-a", "***")]);
        assert_eq!(unmasked(&new, &stored, is_credential, true), Ok(new.clone()));
    }

    #[test]
    fn what_became_a_secret_later_is_for_where_it_became_one() {
        let once =
            |origin: Option<&str>| OnceSecret { origin: origin.map(str::to_owned), until: 9 };
        let known = |x_a: Option<&str>| {
            let names = [("cookie", once(Some("http://o"))), ("x-a", once(x_a))];
            names.map(|(name, once)| (name.to_owned(), once)).into()
        };
        let of = |headers: &[(&str, &str)], published, known: &BTreeMap<_, _>| {
            let mut body = Body::new(crate::Content::nothing(), map(headers));
            body.recall(published, known);
            body.secrets.map(|marked| (Vec::from_iter(marked.names), marked.origin))
        };
        let (same, other) = (known(Some("http://o")), known(None));
        let both = [("Cookie", "1"), ("X-A", "2"), ("x-b", "3")];
        let names = vec!["cookie".to_owned(), "x-a".to_owned()];
        assert_eq!(of(&both, 8, &same), Some((names.clone(), Some("http://o".to_owned()))));
        assert_eq!(of(&both, 8, &other), Some((names, None)), "they are for different ones");
        assert_eq!(of(&both, 9, &same), None, "published after that");
        assert_eq!(of(&[("x-b", "3")], 8, &same), None);
    }

    #[test]
    fn a_value_that_is_kept_under_many_names_is_not_kept_beyond_the_limit() {
        let value = |value: &str| value.to_owned();
        let stored = BTreeMap::from([(value("cookie"), "x".repeat(MAX_HEADERS_BYTES / 2))]);
        let stars = ["cookie", "Cookie"].map(|name| (value(name), value(MASK)));
        let unmasked = |put: &_| unmasked(put, &stored, is_credential, false);
        assert_eq!(unmasked(&BTreeMap::from(stars.clone())), Err(MaskError::TooLarge));
        let one = BTreeMap::from_iter(stars.into_iter().take(1));
        assert_eq!(unmasked(&one), Ok(stored.clone()));
    }
}
