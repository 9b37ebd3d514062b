//! What each operation needs of the key: the one place that says it. The OpenAPI document shows it, and the test of the
//! whole matrix is made from there.

use super::scopes::Verb::{self, *};

/// What an operation needs of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Nothing: it tells nothing of the queue.
    Nothing,
    /// Nothing, since the request brings a key to log in with. Without keys, its host is looked at as any other's.
    Login,
    /// Any key.
    Key,
    /// `admin`.
    Admin,
    /// The verb on all topics.
    All(Verb),
    /// `metrics:*`, or to read all topics.
    Metrics,
    /// The verb on some topic; the answer shows those.
    Some(Verb),
    /// The verb on the `{topic}` of the path.
    Topic(Verb),
    /// The verb on the topic that the `{id}` of the path is of.
    Message(Verb),
    /// The verb on dueq's own topic of callbacks.
    Callbacks(Verb),
    /// The verb on the topics that the body names.
    Body(Verb),
    /// The verb on the topic of each id in the body.
    Ids(Verb),
    /// The verb on the topic that the schedule publishes to.
    Schedule(Verb),
    /// `configure` and `publish` on that topic.
    Publisher,
    /// `configure` on the `{topic}` of the path; for dueq's own of callbacks `publish` does.
    Secret,
}

/// By operationId.
const RULES: &[(Need, &[&str])] = &[
    (Need::Topic(Publish), &["publishMessage", "publishRaw", "publishBatch"]),
    (Need::Callbacks(Publish), &["scheduleCallback"]),
    (
        Need::Topic(Read),
        &[
            "listMessages",
            "listDeadReasons",
            "getMessageByKey",
            "getTopic",
            "forecastTopic",
            "getTopicHistory",
            "listGroups",
            "getGroup",
        ],
    ),
    (Need::Message(Read), &["getMessage", "getMessagePayload"]),
    (Need::Some(Read), &["listTopics", "listSchedules", "listCallbackHosts"]),
    (Need::Schedule(Read), &["getSchedule"]),
    (Need::All(Read), &["listInstances"]),
    (Need::Metrics, &["getMetrics"]),
    // A pause is one for all topics.
    (Need::All(Operate), &["pauseCallbackHost", "resumeCallbackHost"]),
    (Need::Topic(Consume), &["leaseMessages"]),
    (Need::Body(Consume), &["leaseFromTopics"]),
    (Need::Message(Consume), &["ackMessage", "nackMessage", "extendLease"]),
    (Need::Ids(Consume), &["ackBatch", "nackBatch", "extendBatch"]),
    (Need::Ids(Operate), &["redriveBatch", "deleteBatch", "runBatch"]),
    (Need::Message(Operate), &["updateMessage", "deleteMessage", "redriveMessage"]),
    (
        Need::Topic(Operate),
        &[
            "updateMessageByKey",
            "deleteMessageByKey",
            "pauseTopic",
            "resumeTopic",
            "pauseGroup",
            "resumeGroup",
            "purgeTopic",
            "redriveTopic",
            "runTopic",
        ],
    ),
    (Need::Secret, &["getPushSecret"]),
    (
        Need::Topic(Configure),
        &["putTopic", "updateTopic", "deleteTopic", "putGroup", "deleteGroup"],
    ),
    (Need::Schedule(Configure), &["deleteSchedule", "pauseSchedule", "resumeSchedule"]),
    // Who has dueq publish, publishes.
    (Need::Publisher, &["putSchedule", "triggerSchedule"]),
    (
        Need::Key,
        &[
            "getSession",
            "deleteSession",
            "previewSchedule",
            "getCallbackPublicKey",
            "getOpenapi",
            "getOpenapi30",
        ],
    ),
    (Need::Admin, &["listKeys"]),
    (Need::Login, &["createSession"]),
    (Need::Nothing, &["getHealth", "getReadiness"]),
];

impl Need {
    /// That of the operation with this id; of one that is not listed, `admin`.
    pub fn of(operation: &str) -> Self {
        let listed = RULES.iter().find(|(_, operations)| operations.contains(&operation));
        listed.map_or(Self::Admin, |(need, _)| *need)
    }

    /// The verb, if it is about topics; the first of several.
    pub fn verb(self) -> Option<Verb> {
        match self {
            Self::Nothing | Self::Login | Self::Key | Self::Admin => None,
            Self::All(verb)
            | Self::Some(verb)
            | Self::Topic(verb)
            | Self::Message(verb)
            | Self::Callbacks(verb)
            | Self::Body(verb)
            | Self::Ids(verb)
            | Self::Schedule(verb) => Some(verb),
            Self::Publisher | Self::Secret => Some(Configure),
            Self::Metrics => Some(Read),
        }
    }

    /// The verbs, if it is about topics.
    pub fn verbs(self) -> impl Iterator<Item = Verb> {
        self.verb().into_iter().chain((self == Self::Publisher).then_some(Publish))
    }

    /// As the document has it for programs: `verb:` and where the topic is, for each verb. `None` where no scope is needed.
    pub fn scope(self) -> Option<String> {
        let place = match self {
            Self::Nothing | Self::Login | Self::Key => return None,
            Self::Admin => return Some("admin".to_owned()),
            Self::All(_) | Self::Metrics => "*",
            Self::Some(_) => "{some}",
            Self::Topic(_) | Self::Secret => "{topic}",
            Self::Message(_) => "{id}",
            Self::Callbacks(_) => "_callbacks",
            Self::Body(_) => "{body}",
            Self::Ids(_) => "{ids}",
            Self::Schedule(_) | Self::Publisher => "{schedule}",
        };
        Some(
            self.verbs()
                .map(|verb| format!("{}:{place}", verb.word()))
                .collect::<Vec<_>>()
                .join(" "),
        )
    }

    /// As the document has it for people.
    pub fn sentence(self) -> Option<String> {
        let place = match self {
            Self::Nothing | Self::Login | Self::Key => return None,
            Self::Admin => return Some("Needs a key with the scope `admin`.".to_owned()),
            Self::All(_) => "all topics",
            Self::Metrics => "all topics, or `metrics:*`",
            Self::Some(_) => "some topic, and shows what belongs to those",
            Self::Topic(_) => "the topic",
            Self::Secret => "the topic; for `_callbacks`, `publish` is enough",
            Self::Message(_) => "the message's topic",
            Self::Callbacks(_) => "`_callbacks`",
            Self::Body(_) => "all topics that it names",
            Self::Ids(_) => "the topic of each message; otherwise its `status` is `not_allowed`",
            Self::Schedule(_) | Self::Publisher => {
                "the schedule's topic (`_callbacks` for a callback)"
            }
        };
        let verbs: Vec<_> = self.verbs().map(|verb| format!("`{}`", verb.word())).collect();
        let scopes = if verbs.len() == 1 { "scope" } else { "scopes" };
        Some(format!("Needs the {scopes} {} on {place}.", verbs.join(" and ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{document, openapi::Version};
    use std::collections::BTreeSet;

    #[test]
    fn every_operation_has_one_rule_and_no_rule_is_left_over() {
        let document: serde_json::Value =
            serde_json::from_str(&document(Version::V3_1, "").unwrap()).unwrap();
        let paths = document["paths"].as_object().unwrap().values();
        let operations = paths.flat_map(|path| path.as_object().unwrap().values());
        let ids = operations.filter_map(|operation| operation["operationId"].as_str());
        let listed: Vec<_> = RULES.iter().flat_map(|(_, ids)| ids.iter().copied()).collect();
        let unique: BTreeSet<_> = listed.iter().copied().collect();
        assert_eq!((unique.len(), unique), (listed.len(), ids.collect()));
        assert_eq!(Need::of("someNewOperation"), Need::Admin);
    }
}
