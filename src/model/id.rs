//! Message ids that route themselves: an id alone says in which partition of which topic its message lives, so no
//! look-up table is needed between `POST /messages/{id}/ack` and the message.
//!
//! Layout of the UUID (version 8, RFC 9562), as its text shows it:
//!
//! ```text
//! mmmmmmmm-mmmm-8ttt-vttt-ppiiiiieCCCC      v: two bits of variant, then two of the topic number
//! ```
//!
//! m: ms since 1970 on Redis's clock when it was published; t: topic number (26 bits); p: partition; i: number that the
//! instance drew from Redis; e: era, counted up when the clock steps back; C: counter within the millisecond. Within an
//! instance ids grow strictly. In a partition the topic and partition are known, so Redis keeps only the *member*: 11
//! bytes, the first 12 and the last 10 hex digits.

use super::Millis;
use uuid::Uuid;

/// Bytes of a member.
pub const MEMBER_BYTES: usize = 11;

/// The part of an id that is not implied by its partition; what Redis keeps.
pub type Member = [u8; MEMBER_BYTES];

/// Number of a topic, given out once and never again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TopicNumber(pub u32);

impl TopicNumber {
    /// How many topics there can ever be in one Redis.
    pub const MOST: u32 = (1 << 26) - 1;
}

/// Index of a partition within its topic. Most topics have one, number 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionNumber(pub u8);

/// Where an id's message lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Route {
    /// Number of the topic.
    pub topic: TopicNumber,
    /// Partition within it.
    pub partition: PartitionNumber,
}

/// Id of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MessageId(Uuid);

/// The text is no UUID.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("a message id must be a UUID of 36 characters")]
pub struct InvalidMessageId;

impl MessageId {
    /// Joins what an id is made of; `tail` is the instance, era and counter (40 bits).
    pub fn new(published: Millis, route: Route, tail: u64) -> Self {
        let mut member = [0; MEMBER_BYTES];
        member[..6].copy_from_slice(&published.to_be_bytes()[2..]);
        member[6..].copy_from_slice(&tail.to_be_bytes()[3..]);
        Self::from_member(&member, route)
    }

    /// The id of a member of the partition `route`.
    pub fn from_member(member: &Member, route: Route) -> Self {
        let topic = route.topic.0;
        let mut bytes = [0; 16];
        bytes[..6].copy_from_slice(&member[..6]);
        bytes[6] = 0x80 | (topic >> 22 & 0x0f) as u8;
        bytes[7] = (topic >> 14) as u8;
        bytes[8] = 0x80 | (topic >> 8 & 0x3f) as u8;
        bytes[9] = topic as u8;
        bytes[10] = route.partition.0;
        bytes[11..].copy_from_slice(&member[6..]);
        Self(Uuid::from_bytes(bytes))
    }

    /// Reads any UUID in its usual text form. Ids that dueq never made are valid too; they are simply not found.
    pub fn parse(text: &str) -> Result<Self, InvalidMessageId> {
        if text.len() != 36 {
            return Err(InvalidMessageId);
        }
        Uuid::try_parse(text).map(Self).map_err(|_| InvalidMessageId)
    }

    /// Where its message lives; `None` for a UUID that is none of dueq's.
    pub fn route(&self) -> Option<Route> {
        let b = self.0.as_bytes();
        if b[6] >> 4 != 8 || b[8] >> 6 != 0b10 {
            return None;
        }
        let topic = u32::from(b[6] & 0x0f) << 22
            | u32::from(b[7]) << 14
            | u32::from(b[8] & 0x3f) << 8
            | u32::from(b[9]);
        Some(Route { topic: TopicNumber(topic), partition: PartitionNumber(b[10]) })
    }

    /// What Redis keeps of the id.
    pub fn member(&self) -> Member {
        let b = self.0.as_bytes();
        let mut member = [0; MEMBER_BYTES];
        member[..6].copy_from_slice(&b[..6]);
        member[6..].copy_from_slice(&b[11..]);
        member
    }

    /// The id as text, which is written to `place`.
    pub fn text<'a>(&self, place: &'a mut [u8; 36]) -> &'a str {
        self.0.hyphenated().encode_lower(place)
    }

    /// When it was published: ms since 1970 on Redis's clock as the instance knew it.
    pub fn published(&self) -> Millis {
        let b = self.0.as_bytes();
        i64::from_be_bytes([0, 0, b[0], b[1], b[2], b[3], b[4], b[5]])
    }

    /// Some 64 bits of it that hardly any two messages share.
    pub fn hash(&self) -> u64 {
        let (high, low) = self.0.as_u64_pair();
        high.rotate_left(32) ^ low
    }

    /// All 16 bytes, for sealing a token to the id.
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }
}

impl std::fmt::Display for MessageId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text(&mut [0; 36]))
    }
}

impl serde::Serialize for MessageId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.text(&mut [0; 36]))
    }
}

impl<'de> serde::Deserialize<'de> for MessageId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_gives_back_what_it_was_made_of() {
        let route =
            Route { topic: TopicNumber(TopicNumber::MOST - 12345), partition: PartitionNumber(7) };
        let id = MessageId::new(1_763_700_000_123, route, 0xab_cdef_0123);
        assert_eq!(id.route(), Some(route));
        assert_eq!(id.published(), 1_763_700_000_123);
        assert_eq!(MessageId::from_member(&id.member(), route), id);
        assert_eq!(MessageId::parse(&id.to_string()), Ok(id));
        assert_eq!(id.0.get_version_num(), 8);
    }

    #[test]
    fn the_member_is_the_first_12_and_the_last_10_hex_digits() {
        let route = Route { topic: TopicNumber(3), partition: PartitionNumber(0) };
        let id = MessageId::new(1_763_700_000_123, route, 0xab_cdef_0123);
        let digits = id.to_string().replace('-', "");
        assert_eq!(hex::encode(id.member()), format!("{}{}", &digits[..12], &digits[22..]));
    }

    #[test]
    fn foreign_uuids_have_no_route_and_other_text_is_no_id() {
        let foreign = MessageId::parse("5f0c2b0e-9a53-4d0e-8a57-3a6c1f0e9d11");
        assert_eq!(foreign.map(|id| id.route()), Ok(None));
        for bad in
            ["", "x", "5f0c2b0e9a534d0e8a573a6c1f0e9d11", "{5f0c2b0e-9a53-4d0e-8a57-3a6c1f0e9d}"]
        {
            assert_eq!(MessageId::parse(bad), Err(InvalidMessageId), "{bad}");
        }
    }
}
