//! The tools as a table: each is a request of the API, with parameters that are fields of it.

use super::params::{ANY, INSTANT, PAIRS, Param, TEXT, may, must, schema};
use serde_json::{Value, json};

/// A tool.
pub struct Tool {
    pub name: &'static str,
    title: &'static str,
    about: &'static str,
    pub effect: Effect,
    /// Method and path. The first counts that has an argument for each name in its braces.
    pub routes: &'static [&'static str],
    /// One of these arguments must be given, or nothing says what to do.
    pub one_of: &'static [&'static str],
    pub params: &'static [Param],
}

/// What a tool does to the data.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Reads,
    /// Adds something, or what can be taken back. A repeat changes nothing.
    Adds,
    /// Changes or removes what is there. A repeat changes nothing.
    Changes,
    /// Changes what is there, and a repeat more of it.
    ChangesMore,
}

impl Tool {
    /// The tool as the protocol describes it.
    pub fn described(&self) -> Value {
        let hints = json!({
            "readOnlyHint": self.effect == Effect::Reads,
            "destructiveHint": matches!(self.effect, Effect::Changes | Effect::ChangesMore),
            "idempotentHint": self.effect != Effect::ChangesMore,
        });
        json!({"name": self.name, "title": self.title, "description": self.about,
            "inputSchema": schema(self.params), "annotations": hints})
    }
}

/// The tools of a server that may write, or of one that may not.
pub fn all(may_write: bool) -> impl Iterator<Item = &'static Tool> {
    TOOLS.iter().filter(move |tool| may_write || tool.effect == Effect::Reads)
}

macro_rules! tools {
    ($($effect:ident $name:literal $title:literal [$($route:literal),*] [$($one:literal),*] $about:literal [$($param:expr),* $(,)?];)*) => {
        &[$(Tool {
            name: $name,
            title: $title,
            about: $about,
            effect: Effect::$effect,
            routes: &[$($route),*],
            one_of: &[$($one),*],
            params: &[$($param),*],
        }),*]
    };
}

const STATES: &str =
    r#"{"type": "string", "enum": ["delayed", "ready", "blocked", "leased", "dead", "acked"]}"#;
const METHODS: &str = r#"{"type": "string", "enum": ["GET", "POST", "PUT", "PATCH", "DELETE"]}"#;
const CATCH_UP: &str = r#"{"type": "string", "enum": ["none", "one", "all"]}"#;
const IDS: &str = r#"{"type": "array", "items": {"type": "string"}, "maxItems": 100}"#;
const ITEMS: &str = r#"{"type": "integer", "minimum": 1, "maximum": 50, "default": 20}"#;
const COUNT: &str = r#"{"type": "integer", "minimum": 1, "maximum": 1000000}"#;
const PRIORITY: &str = r#"{"type": "integer", "minimum": 0, "maximum": 255}"#;
const ON: &str = r#"{"type": "boolean", "default": true}"#;

const TOPIC: Param =
    must("topic", TEXT, "The topic. Callbacks are messages of the topic _callbacks.");
const LIMIT: Param = may("limit", ITEMS, "Items per page.");
const CURSOR: Param = may("cursor", TEXT, "The next_cursor of the answer before, to go on.");
const QUERY: Param = may(
    "query",
    TEXT,
    "Only messages for which all terms hold: error:timeout, reason:\"no such *\", key:cart/*, group:x, host:example.com, status:5xx, \
     header.tenant:42, payload:text, payload.$.order.id:42, attempts:>3, published:2026-11-20. -term negates, OR alternates, * is any \
     characters. A word alone is searched in error, key, headers and payload.",
)
.field("q");
const ID: Param = may("id", TEXT, "The message's id; or give topic and key.");
const OF_KEY: Param = may("topic", TEXT, "With key: the topic, _callbacks for callbacks.");
const BY_KEY: Param = may("key", TEXT, "With topic: the key that the message was published with.");
const DELAY: Param =
    may("delay", TEXT, "Due this long from now, such as 90s, 10m or 2h30m.").field("delay_ms");
const AT: Param =
    may("at", INSTANT, "Or due at this instant, such as 2030-01-01T09:00:00Z.").field("deliver_at");
const KEY: Param = may(
    "key",
    TEXT,
    "A name to move, cancel or look it up by. While a message with it is there, that one is the answer.",
);
const ONCE: Param = may(
    "once_key",
    TEXT,
    "Calls with the same once_key are one message. By default it is made of all arguments.",
)
.field("");
const HEADERS: Param = may("headers", PAIRS, "Headers of the message.");
const METHOD: Param = may("method", METHODS, "HTTP method, by default POST.");
const SCHEDULE: Param = must("name", TEXT, "The schedule's name.");

const TOOLS: &[Tool] = tools! {
    Reads "get_access" "Show what you may do" ["GET /session"] []
        "The name and scopes of the API key. A scope is verb:topics; verbs are read, publish, consume, operate, configure."
        [];
    Reads "list_topics" "List topics" ["GET /topics"] []
        "The topics, with the number of messages in each state and whether they are paused."
        [may("prefix", TEXT, "Only topics whose names start with this."), LIMIT, CURSOR];
    Reads "get_topic" "Show a topic" ["GET /topics/{topic}"] []
        "A topic: counts, totals so far, age of the oldest ready message, configuration."
        [TOPIC];
    Reads "find_messages" "List or search messages" ["GET /topics/{topic}/messages"] []
        "Messages of a topic in one state, all or those that a query finds, without payloads. With a query, a page may hold fewer than \
         there are: go on while there is a next_cursor."
        [TOPIC, must("state", STATES, "delayed: not due, or waiting after a failure; ready: due; blocked: behind others of its group; \
         leased: being worked on; dead: given up; acked: done and kept."), QUERY, LIMIT, CURSOR];
    Reads "explain_message" "Show a message and why it waits" ["GET /messages/{id}", "GET /topics/{topic}/keys/{key}"] []
        "A message with payload and history, and in words why it is not being worked on now, until when, and what would change that."
        [ID, OF_KEY, BY_KEY];
    Reads "list_dead_reasons" "Group dead letters by reason" ["GET /topics/{topic}/dead/reasons"] []
        "Why messages of a topic died: each reason with count, first and last instant, and an example. A query for reason:\"…\" finds them; \
         where a reason is cut, give its beginning and a *."
        [TOPIC];
    Reads "list_schedules" "List schedules" ["GET /schedules"] []
        "The schedules: their last and next tick, what they publish or call, and what went wrong."
        [LIMIT, CURSOR];
    Reads "list_callback_hosts" "List hosts of callbacks" ["GET /callbacks/hosts"] []
        "The hosts that callbacks go to: failing or not, paused or not, what waits for them, the last error."
        [LIMIT, CURSOR];
    Adds "schedule_callback" "Schedule a callback" ["POST /callbacks"] ["delay", "at"]
        "Has dueq call a URL once, after a delay or at an instant, and retry until it answers 2xx. Safe to repeat: until a day after the \
         due time first given, a call with the same arguments or once_key answers with the first callback (duplicate: true) and schedules \
         no second one; with a key, while the callback is there, and within the topic's idempotency_window_ms (10 minutes) of the first \
         call."
        [must("url", TEXT, "URL to call, http or https."), may("payload", ANY, "Body of the call, any JSON value."), METHOD, DELAY, AT, KEY,
         ONCE, HEADERS];
    Adds "publish_message" "Publish a message" ["POST /topics/{topic}/messages"] []
        "Publishes a message for the consumers of a topic, due now, after a delay or at an instant. Safe to repeat: until a day after the \
         due time first given, a call with the same arguments or once_key answers with the first message (duplicate: true) and publishes \
         no second one; with a key, while the message is there, and within the topic's idempotency_window_ms (10 minutes) of the first \
         call."
        [TOPIC, must("payload", ANY, "Any JSON value."), DELAY, AT, KEY, ONCE, HEADERS,
         may("priority", PRIORITY, "Of the messages that are due, higher ones go first.")];
    Changes "put_schedule" "Create or replace a schedule" ["PUT /schedules/{name}"] ["cron", "every"]
        "Publishes a message to a topic, or calls a URL, by cron expression or at an interval. Replaces the schedule of that name: what is \
         not given gets its default."
        [SCHEDULE, may("cron", TEXT, "Minute, hour, day, month, weekday, such as 0 9 * * MON-FRI."),
         may("timezone", TEXT, "Time zone of cron, such as Europe/Berlin; by default UTC."),
         may("every", TEXT, "Or the time between ticks, such as 1h.").field("every_ms"), may("topic", TEXT, "The topic to publish to."),
         may("url", TEXT, "Or the URL to call.").field("callback.url"), METHOD.field("callback.method"),
         may("payload", ANY, "What to publish, any JSON value; required with topic.").field("message.payload"),
         HEADERS.field("message.headers"), may("priority", PRIORITY, "Of the message, with topic.").field("message.priority"),
         may("catch_up", CATCH_UP, "What is published of ticks that were missed while no dueq ran.")];
    Changes "delete_schedule" "Delete a schedule" ["DELETE /schedules/{name}"] []
        "Ends a schedule. Messages that it has published stay."
        [SCHEDULE];
    Changes "cancel_messages" "Cancel messages" ["DELETE /topics/{topic}/keys/{key}", "POST /messages/delete"] ["ids", "key"]
        "Deletes messages, such as callbacks that should not happen, by ids or by topic and key. What is being worked on is not deleted. \
         By ids, the answer has a status for each."
        [may("ids", IDS, "Ids of messages; or give topic and key."), OF_KEY, BY_KEY];
    ChangesMore "move_message" "Change when a message is due" ["PATCH /messages/{id}", "PATCH /topics/{topic}/keys/{key}"] ["delay", "at"]
        "Changes the due time of a message that is delayed or ready. With delay 0s it is due now."
        [ID, OF_KEY, BY_KEY, DELAY, AT];
    ChangesMore "redrive_dead" "Redrive dead letters" ["POST /topics/{topic}/redrive"] []
        "Makes dead messages of a topic ready again, all or those that a query finds. By default it changes nothing and says how many it \
         would redrive (matched): look at that first, and have repaired what made them fail. It looks at up to 10,000 messages a call: \
         go on while there is a next_cursor."
        [TOPIC, QUERY, may("dry_run", ON, "Change nothing, only count."),
         may("max_messages", COUNT, "Redrive up to this many."),
         may("spread", TEXT, "Spread their due times over this time, such as 10m.").field("spread_ms"), CURSOR];
    Adds "pause_topic" "Pause a topic" ["POST /topics/{topic}/pause"] []
        "Nothing of the topic is leased or called until it is resumed. Publishing goes on."
        [TOPIC];
    Adds "resume_topic" "Resume a topic" ["POST /topics/{topic}/resume"] []
        "Ends the pause of a topic."
        [TOPIC];
};
