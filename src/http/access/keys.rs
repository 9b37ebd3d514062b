//! The API keys that are let in: where they come from, and which of them a request has. A key is known by its SHA-256
//! alone. It is looked up in a map whose hash has a secret of this process, so nobody can choose what is compared, the time
//! tells nothing of the keys, and ten thousand cost no more than one.

use super::{
    AccessError,
    key_file::{Digest, Entry, KeyFile, SHORT, bare},
    quota::Quota,
    room::Room,
    scopes::Scopes,
};
use crate::sqs;
use axum::http::{HeaderMap, header};
use dueq_base::files::Content;
use dueq_model::Secret;
use dueq_store::Maker;
use ring::digest::SHA256;
use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock, atomic::AtomicBool},
};
use tokio_util::sync::CancellationToken;

/// How many topics a key may make whose line does not say it, unless it may do everything.
const DEFAULT_TOPICS: i64 = 1_000;

/// SHA-256 of a key.
pub fn digest(key: &[u8]) -> Digest {
    let mut digest = Digest::default();
    digest.copy_from_slice(ring::digest::digest(&SHA256, key).as_ref());
    digest
}

/// A key that is let in.
#[derive(Debug)]
pub struct Key {
    /// As it is configured.
    pub entry: Entry,
    /// What it may publish now, if that is limited.
    pub quota: Option<Quota>,
    /// How many topics it may make, if that is limited.
    pub maker: Option<Maker>,
    /// What it may store, if that is limited.
    pub room: Option<Arc<Room>>,
    /// Cancelled once the key is not let in any more, or its scopes change.
    pub revoked: CancellationToken,
}

impl Key {
    fn new(entry: Entry) -> Arc<Self> {
        let quota = entry.rate.map(Quota::new);
        let [topics, messages, bytes] = entry.quotas.0;
        let topics = topics.or((!entry.scopes.is_admin()).then_some(DEFAULT_TOPICS));
        let maker = topics.map(|topics| Maker { key: entry.name.clone(), topics });
        let room = Room::new([messages, bytes]);
        Arc::new(Self { entry, quota, maker, room, revoked: CancellationToken::new() })
    }

    /// Who needs none, where there are none.
    pub fn anonymous() -> Arc<Self> {
        Self::new(Entry::new("anonymous".to_owned(), Digest::default(), Scopes::admin()))
    }
}

/// The keys that are let in. A reload replaces them as a whole.
#[derive(Debug)]
pub struct Keys {
    known: RwLock<HashMap<Digest, Arc<Key>>>,
    /// Those of the flag.
    given: Vec<Arc<Key>>,
    /// Where the others come from.
    pub file: Option<PathBuf>,
    /// That file can be read more than once.
    pub is_regular: bool,
    /// The file has become one that cannot be used.
    pub is_behind: AtomicBool,
    short: usize,
    bare: usize,
}

/// Why a request has no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoKey {
    /// It says none, or several.
    Missing,
    /// It says something else.
    Malformed,
    /// There is no such key.
    Wrong,
    /// Its session was not made by this server.
    Forged,
    /// Its session has ended, by time or with its key.
    Ended,
    /// Its session, or the key to log in with, was sent by a page from elsewhere.
    Foreign,
}

impl NoKey {
    /// For the metric.
    pub fn word(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Malformed => "malformed",
            Self::Wrong => "wrong",
            Self::Forged => "forged",
            Self::Ended => "ended",
            Self::Foreign => "foreign",
        }
    }

    /// May it be one of many tries?
    pub fn is_guess(self) -> bool {
        matches!(self, Self::Wrong | Self::Forged)
    }

    /// For the client.
    pub fn detail(self) -> &'static str {
        match self {
            Self::Missing => "an API key is required, in one header `Authorization: Bearer <key>`",
            Self::Malformed => "the Authorization header is not `Bearer <key>`",
            Self::Wrong => "the API key is not valid",
            Self::Forged | Self::Ended => "the session is not valid: log in again",
            Self::Foreign => "the request comes from a page of another origin",
        }
    }
}

impl Keys {
    /// The keys given and those of the file, if there are any.
    ///
    /// Errors: a key that is none, a file that cannot be read, has a wrong line or holds no key.
    pub fn read(given: &[Secret], file: Option<&Path>) -> Result<Option<Self>, AccessError> {
        let entry = |(at, key): (usize, &Secret)| {
            bare(key.reveal(), format!("(--api-key {at})")).map_err(|_| AccessError::Key(at))
        };
        let entries: Result<Vec<_>, _> = (1..).zip(given).map(entry).collect();
        let short = given.iter().filter(|key| key.reveal().len() < SHORT).count();
        let given = entries?.into_iter().map(Key::new).collect();
        let mut keys = Self {
            known: RwLock::default(),
            given,
            file: file.map(Path::to_owned),
            is_regular: false,
            is_behind: AtomicBool::new(false),
            short,
            bare: 0,
        };
        let mut read = KeyFile::default();
        if let Some(path) = file {
            let content = Content::read(path).map_err(AccessError::File)?;
            read = keys.parse(path, &content.bytes)?;
            if read.entries.is_empty() {
                return Err(AccessError::NoKey(path.to_owned()));
            }
            content.warn_if_public(path);
            keys.is_regular = content.is_regular;
        }
        (keys.short, keys.bare) = (short + read.short, read.bare);
        Ok(keys.take(read).then_some(keys))
    }

    /// What the text of the file at this path says. Errors: its wrong lines.
    pub fn parse(&self, path: &Path, text: &[u8]) -> Result<KeyFile, AccessError> {
        let given: Vec<_> = self.given.iter().map(|key| key.entry.digest).collect();
        KeyFile::parse(text, &given)
            .map_err(|lines| AccessError::Lines { path: path.to_owned(), lines })
    }

    /// Lets these keys in besides those of the flag, and no others. Returns whether that changes anything. Keys that stay as
    /// they are notice nothing.
    pub fn take(&self, file: KeyFile) -> bool {
        let old = self.known.read().unwrap_or_else(PoisonError::into_inner).clone();
        let key = |entry: Entry| match old.get(&entry.digest) {
            Some(known) if known.entry == entry => known.clone(),
            _ => Key::new(entry),
        };
        let keys = file.entries.into_iter().map(key).chain(self.given.iter().cloned());
        let new: HashMap<_, _> = keys.map(|key| (key.entry.digest, key)).collect();
        let stays = |key: &Arc<Key>| {
            new.get(&key.entry.digest).is_some_and(|other| Arc::ptr_eq(key, other))
        };
        let gone: Vec<_> = old.values().filter(|key| !stays(key)).cloned().collect();
        let is_changed = !gone.is_empty() || new.len() != old.len();
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        // What was known is dropped without the lock, for which requests wait.
        let replaced = std::mem::replace(&mut *known, new);
        drop(known);
        drop(replaced);
        gone.iter().for_each(|key| key.revoked.cancel());
        is_changed
    }

    /// Warns of keys that are hardly meant for long.
    pub fn warn(&self) {
        if self.short > 0 {
            tracing::warn!("API keys of fewer than {SHORT} characters: {}", self.short);
        }
        if self.bare > 0 {
            tracing::warn!(
                "API keys without a name in the key file: {}; each may do everything (`dueq keys new` makes named ones)",
                self.bare
            );
        }
    }

    /// The key that the request's headers say; of a request of SQS's also the access key ID of its signature. Several
    /// `Authorization` headers are none: which of them counts would be anyone's guess.
    pub fn of(&self, headers: &HeaderMap, is_sqs: bool) -> Result<Arc<Key>, NoKey> {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return Err(NoKey::Missing);
        };
        let signed = || sqs::credential(value.as_bytes()).map(|(key, _)| key.as_bytes());
        let key = bearer(value.as_bytes()).or_else(|| signed().filter(|_| is_sqs));
        let key = key.ok_or(NoKey::Malformed)?;
        self.find(&digest(key)).ok_or(NoKey::Wrong)
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<Arc<Key>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let mut all: Vec<_> = known.values().cloned().collect();
        all.sort_by(|a, b| a.entry.name.cmp(&b.entry.name));
        all
    }

    /// The key of this digest.
    pub fn find(&self, digest: &Digest) -> Option<Arc<Key>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(digest).cloned()
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
        let knows = |key: &str| keys.find(&digest(key.as_bytes())).is_some();
        assert!(knows("first-key") && knows("second"));
        for wrong in ["", "first-ke", "first-key ", "first-keysecond", "First-key", "\0"] {
            assert!(!knows(wrong), "{wrong:?}");
        }
    }
}
