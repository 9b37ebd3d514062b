//! The defects that an audit can find, in the words of its report.

use dueq_model::{MEMBER_BYTES, Member, MessageId, Route};

/// Every defect by its name in the report, and what it means.
const DEFECTS: [(&str, &str); 34] = [
    ("no_place", "its body is there, but it is in no place"),
    ("no_body", "it is in a place, but has no body"),
    ("many_places", "it is in more than one place"),
    ("wrong_place", "it is in a place that does not fit its priority"),
    (
        "wrong_time",
        "when its lease ends, or when it died or was acknowledged, is no time that can be",
    ),
    ("leftover", "it belongs to no topic that there is"),
    ("bad_id", "this member is part of no message id"),
    ("bad_body", "its body cannot be read"),
    ("bad_extra", "its extra cannot be read"),
    ("stray_extra", "an extra without a message"),
    ("stray_events", "events without a message"),
    ("stray_expires", "a time to live without a live message that has one"),
    ("stray_first_due", "a first due time without a live message"),
    ("no_expires", "it has a time to live, but nothing says when that is over"),
    ("lost_key", "it lives, but does not hold its key"),
    ("stray_key", "a key that no live message holds"),
    ("wrong_line", "its place in the line of its group does not fit its state"),
    ("stuck_group", "no message of its group can be leased, and so none goes after it"),
    ("stray_heads", "the group has a head that is not there"),
    ("stray_queued", "a message that is not there waits in the line of a group"),
    ("bad_idem", "the answer to this idempotency key cannot be read"),
    ("no_idem_due", "nothing says rightly when this idempotency key is over"),
    ("stray_idem_due", "the end of an idempotency key that is not there"),
    ("counts", "bodies and places are not as many"),
    ("totals", "a total does not agree with what is there and what is gone"),
    ("partition", "the partition takes itself for another topic's than the registry does"),
    ("bad_name", "this is no name of a topic"),
    ("bad_entry", "the topic's entry in the registry cannot be read"),
    ("no_number", "the topic's number does not lead to its name"),
    ("taken_number", "another topic has the same number"),
    ("second_number", "a number leads to a topic that has another"),
    ("not_in_index", "the topic is missing in the list of topics"),
    ("not_in_registry", "the topic is missing in the registry"),
    ("late_counter", "a counter would give out again what this topic has"),
];

/// What a finding is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    /// The topic itself.
    Topic,
    /// A member of the topic's partition, and the id that it is part of.
    Message {
        /// As Redis has it.
        member: Vec<u8>,
        /// `None` where it is part of none.
        id: Option<MessageId>,
    },
    /// A message's key.
    Key(Vec<u8>),
    /// An idempotency key.
    IdempotencyKey(Vec<u8>),
}

impl Subject {
    /// A member of the partition `route`.
    pub fn message(member: &[u8], route: Route) -> Self {
        let id =
            <Member>::try_from(member).ok().map(|member| MessageId::from_member(&member, route));
        debug_assert!(id.is_some() == (member.len() == MEMBER_BYTES));
        Self::Message { member: member.to_vec(), id }
    }
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Finding {
    /// The topic; may be no valid name where that is what is wrong.
    pub topic: String,
    /// What it is about.
    pub subject: Subject,
    /// Its name.
    pub defect: &'static str,
    /// More about it, or empty.
    pub detail: String,
    /// What was done about it, where it was.
    pub mended: Option<&'static str>,
}

impl Finding {
    /// One about a topic as a whole, which is not mended yet.
    pub fn of_topic(topic: &str, defect: &str, detail: String) -> Self {
        let (topic, defect) = (topic.to_owned(), known(defect));
        Self { topic, subject: Subject::Topic, defect, detail, mended: None }
    }

    /// What the defect means.
    pub fn meaning(&self) -> &'static str {
        DEFECTS.iter().find(|(name, _)| *name == self.defect).map_or("", |(_, meaning)| meaning)
    }
}

/// The name of a defect, as a script says it.
pub fn known(defect: &str) -> &'static str {
    DEFECTS.iter().find(|(name, _)| *name == defect).map_or("unknown", |(name, _)| name)
}

/// What `audit_mend` says became of a message, in words.
pub fn became(word: &str) -> &'static str {
    match word {
        "dropped" => "what was left of it is dropped",
        "ready" => "it is ready",
        "kept" => "it is in one place only",
        "sound" => "it had become right by itself",
        _ => "put right",
    }
}

/// Bytes as redis-cli reads them between double quotes.
pub fn quoted(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string().replace("\\'", "'")
}

/// All bytes of a member as `\x..`, as `migrations-lua/README.md` writes it.
pub fn escaped(member: &[u8]) -> String {
    member.iter().map(|byte| format!("\\x{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use dueq_model::{PartitionNumber, TopicNumber};

    #[test]
    fn a_member_is_told_with_its_id() {
        let route = Route { topic: TopicNumber(3), partition: PartitionNumber(0) };
        let id = MessageId::new(1_763_700_000_123, route, 0xab_cdef_0123);
        let member = id.member();
        let subject = Subject::message(&member, route);
        assert_eq!(subject, Subject::Message { member: member.to_vec(), id: Some(id) });
        assert_eq!(
            Subject::message(b"x", route),
            Subject::Message { member: b"x".to_vec(), id: None }
        );
    }

    #[test]
    fn members_and_keys_can_be_given_to_redis_cli() {
        assert_eq!(escaped(&[0, 0x7f, 0xff]), "\\x00\\x7f\\xff");
        assert_eq!(quoted(b"it's \"7\"\n\xff"), "it's \\\"7\\\"\\n\\xff");
    }

    #[test]
    fn every_defect_that_a_script_names_has_a_meaning() {
        let scripts = [
            include_str!("../../../migrations-lua/includes/audit.lua"),
            include_str!("../../../migrations-lua/scripts/audit_messages.lua"),
            include_str!("../../../migrations-lua/scripts/audit_keys.lua"),
            include_str!("../../../migrations-lua/scripts/audit_registry.lua"),
        ];
        let mut seen = 0;
        for script in scripts {
            for call in script.split(['(', '{']).skip(1) {
                let defect = call.split('\'').nth(1).unwrap_or_default();
                let says = call.contains("', ''") || call.contains("wrong_place");
                if says && !defect.contains(['%', ' ']) && defect.contains('_') {
                    assert_eq!(known(defect), defect);
                    seen += 1;
                }
            }
        }
        assert!(seen >= 8, "only {seen} were found");
    }
}
