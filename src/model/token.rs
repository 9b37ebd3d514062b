//! Lease tokens: what proves to dueq that a client holds a lease. A token is sealed with a secret that all instances
//! share, so that any of them can check it and nobody can guess one; a forged token never reaches Redis.

use super::{MessageId, Millis};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::hmac;
use siphasher::sip::SipHasher24;
use std::{fmt, hash::Hasher};

/// The contract's bound on a token's text.
pub const TOKEN_MAX_CHARS: usize = 64;

const FACTS: usize = 4 + 6 + 6 + 1;
const TAG: usize = 8;
/// Tokens of schema version 1 carried 32 bits of a hash of Redis's `run_id` in place of the epoch. A lease that outlived
/// the upgrade knows them as an epoch whose upper 16 bits are 0.
const FACTS_OF_VERSION_1: usize = FACTS - 2;

/// The time between two restarts or promotions of Redis, by the first 48 bits of its replication ID; 0: Redis does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch(u64);

impl Epoch {
    /// The epoch that an ID begins with, in hex; `None` where it does not.
    pub fn parse(id: &str) -> Option<Self> {
        u64::from_str_radix(id.get(..12)?, 16).ok().map(Self)
    }

    /// What tokens of schema version 1 said of the run of Redis with this `run_id`.
    pub fn of_run(run_id: &str) -> Self {
        let mut hasher = SipHasher24::new();
        hasher.write(run_id.as_bytes());
        Self(hasher.finish() & 0xffff_ffff)
    }

    /// Does it say anything?
    pub fn is_known(self) -> bool {
        self.0 != 0
    }

    /// Its bits, for an atomic.
    pub fn bits(self) -> u64 {
        self.0
    }
}

/// 12 hex digits.
impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:012x}", self.0)
    }
}

/// What a token says about the grant that it proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseClaims {
    /// Number of the grant, 1 for the first; never used twice for one message, but where dueq gave back the first unused.
    pub attempt: u32,
    /// In which epoch of Redis it was granted: after a power loss or a failover Redis may have forgotten a grant and give
    /// the same attempt to another consumer, but never in the same epoch.
    pub epoch: Epoch,
    /// The grant's instant; an extended lease ends at most 12 h after it.
    pub granted_at: Millis,
    /// The grant that uses up the attempts; its lease is kept in a place of its own.
    pub last: bool,
}

/// The shared secret, kept in Redis.
#[derive(Clone)]
pub struct TokenKey([u8; 16]);

impl TokenKey {
    /// A key from 16 secret bytes.
    pub fn new(secret: [u8; 16]) -> Self {
        Self(secret)
    }

    /// Another secret that all instances share, for this purpose.
    pub fn derive(&self, purpose: &str) -> [u8; 32] {
        let mut derived = [0; 32];
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.0);
        derived.copy_from_slice(hmac::sign(&key, purpose.as_bytes()).as_ref());
        derived
    }

    /// The token (34 characters) for a grant of `id`.
    pub fn seal(&self, id: &MessageId, claims: &LeaseClaims) -> String {
        let mut bytes = [0; FACTS + TAG];
        bytes[..4].copy_from_slice(&claims.attempt.to_be_bytes());
        bytes[4..10].copy_from_slice(&claims.epoch.0.to_be_bytes()[2..]);
        bytes[10..16].copy_from_slice(&claims.granted_at.to_be_bytes()[2..]);
        bytes[16] = claims.last.into();
        let tag = self.tag(id, &bytes[..FACTS]);
        bytes[FACTS..].copy_from_slice(&tag.to_be_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// What `token` says, if it was sealed for `id` with this key.
    pub fn open(&self, id: &MessageId, token: &str) -> Option<LeaseClaims> {
        let mut bytes = [0; FACTS + TAG];
        let decoded = URL_SAFE_NO_PAD.decode_slice(token, &mut bytes).ok()?;
        let facts = decoded.checked_sub(TAG)?;
        let epoch_bytes = match facts {
            FACTS => 6,
            FACTS_OF_VERSION_1 => 4,
            _ => return None,
        };
        let (facts, tag) = bytes[..decoded].split_at(facts);
        // One comparison of two words: nothing for a clock to measure.
        if tag != self.tag(id, facts).to_be_bytes() {
            return None;
        }
        let (attempt, rest) = facts.split_at(4);
        let (epoch, rest) = rest.split_at(epoch_bytes);
        let number = |bytes: &[u8]| bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte));
        Some(LeaseClaims {
            attempt: number(attempt) as u32,
            epoch: Epoch(number(epoch)),
            granted_at: number(&rest[..6]) as Millis,
            last: rest[6] == 1,
        })
    }

    /// SipHash-2-4 (Aumasson, Bernstein 2012) over the id and the facts: 64 bits, made for short input and a secret key.
    fn tag(&self, id: &MessageId, facts: &[u8]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(id.as_bytes());
        hasher.write(facts);
        hasher.finish()
    }
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PartitionNumber, Route, TopicNumber};

    fn id(tail: u64) -> MessageId {
        let route = Route { topic: TopicNumber(1), partition: PartitionNumber(0) };
        MessageId::new(1_763_700_000_123, route, tail)
    }

    const CLAIMS: LeaseClaims = LeaseClaims {
        attempt: 70_000,
        epoch: Epoch(0xdead_beef_cafe),
        granted_at: 1_763_700_000_456,
        last: true,
    };

    #[test]
    fn a_token_opens_for_its_own_message_and_key_only() {
        let key = TokenKey::new([7; 16]);
        let token = key.seal(&id(1), &CLAIMS);
        assert!(token.len() <= TOKEN_MAX_CHARS);
        assert_eq!(key.open(&id(1), &token), Some(CLAIMS));
        assert_eq!(key.open(&id(2), &token), None);
        assert_eq!(TokenKey::new([8; 16]).open(&id(1), &token), None);
    }

    #[test]
    fn a_token_of_version_1_opens_as_one_of_the_epoch_that_its_run_became() {
        let key = TokenKey::new([7; 16]);
        let mut bytes =
            [&CLAIMS.attempt.to_be_bytes()[..], &0xdead_beef_u32.to_be_bytes()].concat();
        bytes.extend_from_slice(&CLAIMS.granted_at.to_be_bytes()[2..]);
        bytes.push(1);
        bytes.extend_from_slice(&key.tag(&id(1), &bytes).to_be_bytes());
        let token = URL_SAFE_NO_PAD.encode(bytes);
        assert_eq!(token.len(), 31);
        let epoch = Epoch(0xdead_beef);
        assert_eq!(key.open(&id(1), &token), Some(LeaseClaims { epoch, ..CLAIMS }));
        assert_eq!(key.open(&id(2), &token), None);
    }

    #[test]
    fn an_epoch_is_what_an_id_begins_with() {
        let epoch = Epoch::parse("90072ceeff115a0e4f6a5f0d2a6c4c3c2a1b0c9d").unwrap();
        assert_eq!(epoch.to_string(), "90072ceeff11");
        assert!(epoch.is_known());
        assert!(!Epoch::parse(&"0".repeat(40)).unwrap().is_known());
        for none in ["", "90072ceeff1", "90072ceeff1x", "é0072ceeff11"] {
            assert_eq!(Epoch::parse(none), None, "{none}");
        }
        assert_eq!(Epoch::of_run("abc").to_string().get(..4), Some("0000"));
    }

    #[test]
    fn a_token_with_any_character_changed_is_refused() {
        let key = TokenKey::new([7; 16]);
        let token = key.seal(&id(1), &CLAIMS);
        for at in 0..token.len() {
            let mut forged = token.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            let forged = String::from_utf8(forged).unwrap();
            assert_eq!(key.open(&id(1), &forged), None, "{forged}");
        }
        for forged in ["", "x", &token[1..], &format!("{token}A"), &"A".repeat(64)] {
            assert_eq!(key.open(&id(1), forged), None);
        }
    }
}
