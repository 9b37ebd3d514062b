//! Lease tokens: what proves to dueq that a client holds a lease. A token is sealed with a secret that all instances
//! share, so that any of them can check it and nobody can guess one; a forged token never reaches Redis.

use super::{MessageId, Millis};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

/// The contract's bound on a token's text.
pub const TOKEN_MAX_CHARS: usize = 64;

const FACTS: usize = 4 + 4 + 6 + 1;
const BYTES: usize = FACTS + 8;

/// What a token says about the grant that it proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Number of the grant, 1 for the first; never used twice for one message.
    pub attempt: u32,
    /// Short hash of the `run_id` of the Redis process that granted it: after a power loss Redis may have forgotten a
    /// grant and give the same attempt to somebody else, but never in the same run.
    pub run: u32,
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

    /// The token (31 characters) for a grant of `id`.
    pub fn seal(&self, id: &MessageId, seal: &Seal) -> String {
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&seal.attempt.to_be_bytes());
        bytes[4..8].copy_from_slice(&seal.run.to_be_bytes());
        bytes[8..14].copy_from_slice(&seal.granted_at.to_be_bytes()[2..]);
        bytes[14] = seal.last.into();
        let tag = self.tag(id, &bytes[..FACTS]);
        bytes[FACTS..].copy_from_slice(&tag.to_be_bytes());
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// What `token` says, if it was sealed for `id` with this key.
    pub fn open(&self, id: &MessageId, token: &str) -> Option<Seal> {
        let mut bytes = [0; BYTES];
        let decoded = URL_SAFE_NO_PAD.decode_slice(token, &mut bytes).ok()?;
        let (facts, tag) = bytes.split_at(FACTS);
        // One comparison of two words: nothing for a clock to measure.
        if decoded != BYTES || tag != self.tag(id, facts).to_be_bytes() {
            return None;
        }
        let word = |at: usize| {
            u32::from_be_bytes([facts[at], facts[at + 1], facts[at + 2], facts[at + 3]])
        };
        let mut granted_at = [0; 8];
        granted_at[2..].copy_from_slice(&facts[8..14]);
        Some(Seal {
            attempt: word(0),
            run: word(4),
            granted_at: Millis::from_be_bytes(granted_at),
            last: facts[14] == 1,
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
    use crate::model::{Partition, Route, TopicNumber};

    fn id(tail: u64) -> MessageId {
        let route = Route { topic: TopicNumber(1), partition: Partition(0) };
        MessageId::new(1_763_700_000_123, route, tail)
    }

    const SEAL: Seal =
        Seal { attempt: 70_000, run: 0xdead_beef, granted_at: 1_763_700_000_456, last: true };

    #[test]
    fn a_token_opens_for_its_own_message_and_key_only() {
        let key = TokenKey::new([7; 16]);
        let token = key.seal(&id(1), &SEAL);
        assert!(token.len() <= TOKEN_MAX_CHARS);
        assert_eq!(key.open(&id(1), &token), Some(SEAL));
        assert_eq!(key.open(&id(2), &token), None);
        assert_eq!(TokenKey::new([8; 16]).open(&id(1), &token), None);
    }

    #[test]
    fn a_token_with_any_character_changed_is_refused() {
        let key = TokenKey::new([7; 16]);
        let token = key.seal(&id(1), &SEAL);
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
