//! Every `code` that a problem may have: its status and its meaning. Operations name theirs (`problems!`), and the
//! document is made from that.

use axum::http::StatusCode;
use std::collections::BTreeMap;
use utoipa::openapi::{RefOr, Response};

macro_rules! codes {
    ($($status:literal $scope:ident $($Code:ident $word:literal)* : $meaning:literal;)*) => {
        /// What a program can go by where a request is refused or fails.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code {
            $($(#[doc = $meaning] $Code,)*)*
        }

        impl Code {
            /// All of them, by status.
            pub const ALL: &[Self] = &[$($(Self::$Code,)*)*];

            /// The stable word.
            pub fn word(self) -> &'static str {
                match self {
                    $($(Self::$Code => $word,)*)*
                }
            }

            /// The status that comes with it.
            pub fn status(self) -> StatusCode {
                let status = match self {
                    $($(Self::$Code => $status,)*)*
                };
                StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }

            /// What it means, for the document.
            pub fn meaning(self) -> &'static str {
                match self {
                    $($(Self::$Code => $meaning,)*)*
                }
            }

            /// Which operations answer with it.
            pub fn scope(self) -> Scope {
                match self {
                    $($(Self::$Code => Scope::$scope,)*)*
                }
            }
        }
    };
}

/// Which operations answer with a code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// All.
    Any,
    /// Those that read a body.
    Body,
    /// Those that name it (`problems!`).
    Own,
}

codes! {
    400 Any
        MalformedPath "malformed_path"
        InvalidMessageId "invalid_message_id"
        InvalidTopicName "invalid_topic_name"
        InvalidScheduleName "invalid_schedule_name"
        InvalidKey "invalid_key"
        InvalidHost "invalid_host": "the path cannot be parsed";
    400 Body
        MalformedBody "malformed_body"
        MalformedJson "malformed_json": "the body cannot be parsed";
    400 Own Refused "refused": "the request was refused";
    401 Any Unauthorized "unauthorized": "the server has API keys, and the request has none of them";
    403 Any HostNotAllowed "host_not_allowed":
        "the server has no API keys, and Host or Origin is neither loopback nor allowed";
    403 Any NotAllowed "not_allowed": "the API key may not do this; `detail` names the scope that it lacks";
    403 Own TopicReserved "topic_reserved": "the topic is dueq's own";
    404 Own RouteNotFound "route_not_found": "there is no such route";
    404 Own MessageNotFound "message_not_found": "there is no such message";
    404 Own TopicNotFound "topic_not_found": "there is no such topic";
    404 Own ScheduleNotFound "schedule_not_found": "there is no such schedule";
    404 Own CallbackHostNotFound "callback_host_not_found": "no calls to the host are known, and it is not paused";
    405 Any MethodNotAllowed "method_not_allowed": "the route does not take this method";
    408 Body RequestTimeout "request_timeout": "the body was not sent in time";
    409 Own LeaseLost "lease_lost": "the token is stale, expired or forged; nothing changed";
    409 Own DuplicateKey "duplicate_key": "another live message has the key";
    409 Own MessageLeased "message_leased": "the message is leased, so it cannot be changed, replaced or deleted";
    409 Own MessageDead "message_dead": "the message is dead and has no due time";
    409 Own MessageNotDead "message_not_dead": "the message is not dead";
    409 Own MessageAcked "message_acked": "the message is acknowledged and cannot be changed";
    409 Own TopicIsPushed "topic_is_pushed": "dueq sends the topic's messages itself, so they cannot be leased";
    409 Own TopicNotEmpty "topic_not_empty": "the topic holds messages";
    409 Own NamesInUse "names_in_use":
        "the topic cannot get more partitions while keys, idempotency keys or groups are in use";
    409 Own TooManyPausedHosts "too_many_paused_hosts": "as many hosts of callbacks are paused as may be";
    409 Own TooManyGroups "too_many_groups": "as many groups have settings of their own as may";
    412 Own RevisionMismatch "revision_mismatch":
        "the topic has none of the revisions in If-Match, or does not exist";
    413 Body BodyTooLarge "body_too_large": "the body is larger than the server accepts";
    413 Own PayloadTooLarge "payload_too_large": "the payload is larger than the topic's `max_payload_bytes`";
    414 Any UriTooLong "uri_too_long": "the URI is longer than 8 KiB";
    415 Body UnsupportedMediaType "unsupported_media_type":
        "the Content-Type is missing or not supported here";
    422 Any InvalidInput "invalid_input":
        "an unknown or repeated field or query parameter, or a value that is not allowed";
    422 Own IdempotencyKeyReused "idempotency_key_reused": "the idempotency key was used with a different message";
    422 Own GroupChanged "group_changed": "the message that has the key is in another group";
    422 Own CallbackUrlMissing "callback_url_missing": "neither the message nor its pushed topic has a URL";
    422 Own TopicNotPushed "topic_not_pushed": "the message has a callback, but the topic is not pushed";
    422 Own CallbackAddressRefused "callback_address_refused": "dueq may not call this address";
    422 Own SecretRequired "secret_required": "a stored secret belongs to another origin or topic: send the value \
        itself";
    422 Own DurabilityUnavailable "durability_unavailable": "Redis has no replica";
    429 Any TooManyAttempts "too_many_attempts": "too many wrong API keys came from this address";
    429 Own RateLimited "rate_limited": "the API key has published as many messages a second as it may";
    429 Own TooManyTopics "too_many_topics": "the API key has made as many topics as it may";
    429 Own TooManyMessages "too_many_messages":
        "the topics that the API key may publish to hold as many messages as it may store";
    429 Own TooManyBytes "too_many_bytes":
        "the topics that the API key may publish to hold as many bytes as it may store";
    429 Own TopicFull "topic_full": "the topic is full: it holds max_messages messages";
    431 Any HeadersTooLarge "headers_too_large": "a hundred headers or more, or more than 16 KiB of them";
    500 Any Internal "internal": "a bug in dueq, logged with the request's id";
    503 Own RedisUnavailable "redis_unavailable": "nothing happened";
    503 Own OutcomeUnknown "outcome_unknown": "it may have happened";
    503 Own Overloaded "overloaded":
        "requests and answers in flight use all the memory they may, and nothing happened";
    503 Own UpgradePending "upgrade_pending":
        "an older instance of dueq still runs that could not read this, and nothing happened";
    503 Own NotReady "not_ready": "the server cannot serve, for the reason in `detail`";
    507 Own TopicsExhausted "topics_exhausted": "no more topics can be created in this Redis";
}

impl Code {
    /// The key of an operation's response until the document is completed: there may be others of its status.
    pub fn key(self) -> String {
        format!("{} {}", self.status().as_u16(), self.word())
    }
}

/// Names the codes that operations can answer with besides, in groups that their `responses` list.
macro_rules! problems {
    ($($(#[doc = $doc:expr])* $Name:ident: $($Code:ident),+;)*) => {$(
        $(#[doc = $doc])*
        pub struct $Name;

        impl utoipa::IntoResponses for $Name {
            fn responses() -> BTreeMap<String, RefOr<Response>> {
                [$(Code::$Code),+].map(|code| (code.key(), Response::default().into())).into()
            }
        }
    )*};
}

problems! {
    /// What routes can answer that ask Redis.
    RedisProblems: RedisUnavailable, OutcomeUnknown, Overloaded;
    /// What publishing can answer.
    PublishProblems: TopicReserved, DuplicateKey, MessageLeased, PayloadTooLarge, IdempotencyKeyReused, GroupChanged,
        CallbackUrlMissing, TopicNotPushed, CallbackAddressRefused, TopicFull, RateLimited, TooManyTopics, TooManyMessages, TooManyBytes, TopicsExhausted,
        UpgradePending;
    /// What publishing many messages at once can answer.
    PublishBatchProblems: TopicReserved, PayloadTooLarge, CallbackUrlMissing, TopicNotPushed, CallbackAddressRefused,
        RateLimited, TooManyTopics, TooManyMessages, TooManyBytes, TopicsExhausted;
    /// What scheduling a callback can answer.
    CallbackProblems: DuplicateKey, MessageLeased, PayloadTooLarge, CallbackAddressRefused, IdempotencyKeyReused,
        GroupChanged, RateLimited, TooManyTopics, TopicsExhausted, UpgradePending;
    /// What routes can answer that change the settings of a group.
    GroupProblems: TooManyGroups, UpgradePending;
    /// What pausing a host can answer.
    PauseHostProblems: TooManyPausedHosts;
    /// What resuming a host can answer.
    ResumeHostProblems: CallbackHostNotFound;
    /// What routes of one message can answer.
    MessageProblems: MessageNotFound;
    /// What routes of one message by its key can answer.
    KeyProblems: TopicNotFound, MessageNotFound;
    /// What deleting a message can answer.
    DeleteProblems: MessageLeased;
    /// What changing a message can answer.
    UpdateProblems: MessageLeased, MessageDead, MessageAcked, PayloadTooLarge, CallbackUrlMissing, TopicNotPushed,
        CallbackAddressRefused, SecretRequired;
    /// What making a dead message live again can answer.
    RedriveProblems: MessageNotDead, DuplicateKey, TopicFull;
    /// What leasing can answer of a topic whose messages dueq sends itself.
    PushedProblems: TopicIsPushed;
    /// What routes can answer that need a lease.
    LeaseProblems: MessageNotFound, LeaseLost;
    /// What routes of one topic can answer.
    TopicProblems: TopicNotFound;
    /// What routes can answer that configure a topic.
    ConfigProblems: TopicReserved, RevisionMismatch, NamesInUse, CallbackAddressRefused, SecretRequired,
        DurabilityUnavailable, UpgradePending;
    /// What deleting a topic can answer.
    DeleteTopicProblems: TopicReserved, TopicNotEmpty;
    /// What making a topic can answer.
    NewTopicProblems: TopicsExhausted, TooManyTopics;
    /// What routes of one schedule can answer.
    ScheduleProblems: ScheduleNotFound;
    /// What putting a schedule can answer.
    ScheduleConfigProblems: PayloadTooLarge, CallbackAddressRefused, SecretRequired, TooManyTopics, TopicsExhausted,
        UpgradePending;
    /// What triggering a schedule can answer.
    TriggerProblems: DuplicateKey, MessageLeased, PayloadTooLarge, CallbackUrlMissing, TopicNotPushed, TopicFull,
        RateLimited, TooManyTopics, TooManyMessages, TooManyBytes, TopicsExhausted, UpgradePending;
    /// What a server can answer that is not ready.
    ReadinessProblems: NotReady;
}
