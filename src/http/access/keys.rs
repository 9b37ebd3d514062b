//! API keys: where they come from, and whether a request has one, without telling by its time how near it came.

use super::AccessError;
use crate::config::Secret;
use axum::http::{HeaderMap, header};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::{fs, hash::Hasher, path::Path};
use subtle::{Choice, ConstantTimeEq};

const MAX_CHARS: usize = 256;
/// Shorter ones are warned of: 16 random characters of base64 are 96 bits.
pub(super) const SHORT: usize = 16;

type Tag = [u8; 16];

/// The keys that are let in, kept as their tags only.
pub struct Keys {
    secret: [u8; 16],
    tags: Vec<Tag>,
    short: usize,
}

impl Keys {
    /// The keys given and those of the file, if there are any.
    ///
    /// Errors: a key that is none, a file that cannot be read or holds no key.
    pub fn read(given: &[Secret], file: Option<&Path>) -> Result<Option<Self>, AccessError> {
        let mut keys = Self { secret: [0; 16], tags: Vec::new(), short: 0 };
        getrandom::fill(&mut keys.secret)?;
        for (at, key) in (1..).zip(given) {
            keys.add(key.reveal(), || format!("key {at} of --api-key (or DUEQ_API_KEYS)"))?;
        }
        if let Some(path) = file {
            let text = fs::read_to_string(path)
                .map_err(|source| AccessError::File { path: path.to_owned(), source })?;
            let lines = (1..).zip(text.lines().map(str::trim));
            let mut lines =
                lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')).peekable();
            if lines.peek().is_none() {
                return Err(AccessError::NoKey(path.to_owned()));
            }
            for (at, line) in lines {
                keys.add(line, || format!("line {at} of {}", path.display()))?;
            }
        }
        Ok((!keys.tags.is_empty()).then_some(keys))
    }

    fn add(&mut self, key: &str, place: impl Fn() -> String) -> Result<(), AccessError> {
        let good = |byte: u8| byte.is_ascii_graphic() && byte != b',';
        if !(1..=MAX_CHARS).contains(&key.len()) || !key.bytes().all(good) {
            return Err(AccessError::Key(place()));
        }
        self.short += usize::from(key.len() < SHORT);
        self.tags.push(self.tag(key.as_bytes()));
        Ok(())
    }

    /// How many of them are so short that they may be guessed.
    pub fn short(&self) -> usize {
        self.short
    }

    /// What is wrong with the request's key, if anything. Several `Authorization` headers are none: which of them
    /// counts would be anyone's guess.
    pub fn refuse(&self, headers: &HeaderMap) -> Option<&'static str> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Some("an API key is required, in one header `Authorization: Bearer <key>`");
        };
        let Some(key) = bearer(value.as_bytes()) else {
            return Some("the Authorization header is not `Bearer <key>`");
        };
        (!self.knows(key)).then_some("the API key is not valid")
    }

    /// Looks at every key and at all of each tag, so that time tells neither which key matched nor how far. Tags
    /// rather than keys are compared for their one length: a key's own would show. And since they are hashes under a
    /// secret of this process, nobody can choose what is compared, so nothing could be learned from it bit by bit.
    fn knows(&self, key: &[u8]) -> bool {
        let tag = self.tag(key);
        self.tags.iter().fold(Choice::from(0), |found, known| found | known.ct_eq(&tag)).into()
    }

    /// SipHash-2-4 with 128 bits (Aumasson, Bernstein 2012); its time depends on the length of what was sent alone.
    fn tag(&self, key: &[u8]) -> Tag {
        let mut hasher = SipHasher24::new_with_key(&self.secret);
        hasher.write(key);
        hasher.finish128().as_bytes()
    }
}

/// The key of `Bearer <key>` (RFC 6750; the scheme in any case, one or more blanks).
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(b"bearer".len())?;
    let key = rest.trim_ascii_start();
    (scheme.eq_ignore_ascii_case(b"bearer") && key.len() < rest.len() && !key.is_empty())
        .then_some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_is_read_in_any_case_and_nothing_else_is() {
        for value in ["Bearer k", "bearer k", "BEARER   k"] {
            assert_eq!(bearer(value.as_bytes()), Some(&b"k"[..]), "{value}");
        }
        for value in ["", "Bearer", "Bearer ", "Bearerk", "Basic k", "k", "Bear k", " Bearer k"] {
            assert_eq!(bearer(value.as_bytes()), None, "{value}");
        }
        assert_eq!(bearer(b"Bearer k k"), Some(&b"k k"[..]), "which is no key");
    }

    #[test]
    fn each_key_is_known_and_no_part_or_extension_of_one() {
        let given: Vec<Secret> =
            ["first-key", "second"].map(|key| Secret::from(key.to_owned())).into();
        let keys = Keys::read(&given, None).unwrap().unwrap();
        assert!(keys.knows(b"first-key") && keys.knows(b"second"));
        for wrong in ["", "first-ke", "first-key ", "first-keysecond", "First-key", "\0"] {
            assert!(!keys.knows(wrong.as_bytes()), "{wrong:?}");
        }
    }
}
