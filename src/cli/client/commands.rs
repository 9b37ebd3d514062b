//! The client commands as a table: each is a request, its arguments, and how its answer is shown.
//!
//! A new field of the API is an argument in one of these lists. Arguments that the path names go there; of a POST, PUT or
//! PATCH the others are fields of the body, else of the query.

use super::{
    object::Object,
    request::{Arg, arg},
    view,
};

/// A client command.
pub struct Command {
    /// Its words, such as `schedules put`.
    pub name: &'static str,
    /// Its help: a line, and perhaps a paragraph.
    pub about: &'static str,
    pub examples: &'static str,
    pub method: &'static str,
    /// The path is the first of these that has an argument for each name in braces.
    pub paths: &'static [&'static str],
    pub args: &'static [&'static [Arg]],
    pub view: View,
}

/// How an answer is shown.
#[derive(Clone, Copy)]
pub enum View {
    /// As this text.
    Object(fn(&Object) -> String),
    /// As this text, of a list that is read to its end.
    List(fn(&[Object]) -> String),
    /// In a line, in which names in braces are arguments or fields of the answer.
    Line(&'static str),
    /// By the command itself.
    Own,
}

const fn get(name: &'static str, about: &'static str, paths: &'static [&'static str]) -> Command {
    let view = View::Object(view::message);
    Command { name, about, examples: "", method: "GET", paths, args: &[], view }
}

const fn post(name: &'static str, about: &'static str, paths: &'static [&'static str]) -> Command {
    Command { method: "POST", ..get(name, about, paths) }
}

/// A command that is more than a request and its answer.
const fn own(name: &'static str, about: &'static str) -> Command {
    Command { view: View::Own, ..get(name, about, &[]) }
}

impl Command {
    const fn by(self, method: &'static str) -> Self {
        Self { method, ..self }
    }

    const fn args(self, args: &'static [&'static [Arg]]) -> Self {
        Self { args, ..self }
    }

    const fn show(self, view: View) -> Self {
        Self { view, ..self }
    }

    const fn examples(self, examples: &'static str) -> Self {
        Self { examples, ..self }
    }
}

const NAMED: &[Arg] = &[arg("<topic>", "The topic's name.")];
const SCHEDULE: &[Arg] = &[arg("<name>", "The schedule's name.")];
const GROUP: &[Arg] = &[arg("<group>", "The group's name.")];
const HOST: &[Arg] = &[arg("<host>", "The host as listed, such as example.com:443.")];
const LEASED: &[Arg] =
    &[arg("<id>", "The message's id."), arg("<token>", "The lease token.").field("lease_token")];
const PREFIX: Arg = arg("--prefix TEXT", "Only topics whose names start with this.");
const FILE: Arg =
    arg("--file PATH", "Read the payload from this file.").field("payload").not("payload");
const KEY: Arg = arg(
    "--key KEY",
    "A name for the message in its topic; only one live message has it at a time.",
);
const DRY_RUN: Arg = arg("--dry-run", "Change nothing; only say how many messages match.");
const STATES: &str = "--state delayed|ready|blocked|leased|dead|acked,";
const LIMIT: Arg = arg("--limit COUNT", "List at most this many messages (default 100).");

/// A message by its id or by its key.
const MESSAGE: &[Arg] = &[
    arg("[id]", "The message's id.").unless("key"),
    arg("--topic TOPIC", "Topic of --key, instead of an id.").needs("key").not("id"),
    arg("--key KEY", "Key of the message in --topic, instead of an id.").needs("topic").not("id"),
];

/// The options that can be changed after the publish, besides the payload.
const CHANGES: &[Arg] = &[
    arg("--delay DURATION", "Due this long from now, such as 10m."),
    arg("--at INSTANT", "Due at this instant, such as 2026-11-20T18:15:00Z.")
        .field("deliver_at")
        .not("delay"),
    arg(
        "--priority N",
        "Priority from 0 to 255; of the messages that are due, higher ones go first.",
    ),
    arg("--header NAME=VALUE", "Header of the message, repeatable.").field("headers"),
    arg("--ttl DURATION", "Time to live, counted from the due time."),
    arg("--max-attempts N", "Attempts before the message is dead."),
];

/// The other options of a new message.
const NEW: &[Arg] = &[
    arg("--debounce KEY", "One message in place of many: each publish with this key replaces its content and moves it.")
        .field("debounce.key")
        .needs("quiet"),
    arg("--quiet DURATION", "With --debounce: due this long after the latest publish, such as 10s.")
        .field("debounce.delay_ms")
        .needs("debounce"),
    arg("--max-wait DURATION", "With --debounce: but due no later than this long after the first publish.")
        .field("debounce.max_wait_ms")
        .needs("debounce"),
    arg(
        "--throttle KEY",
        "One message per interval and key: the first at once, the latest content at the interval's end.",
    )
    .field("throttle.key")
    .needs("every"),
    arg("--every DURATION", "With --throttle: the interval, such as 1m.")
        .field("throttle.every_ms")
        .needs("throttle"),
    arg("--once KEY", "A repeated publish with this key gets the first answer, whatever its content.")
        .field("once.key")
        .needs("for"),
    arg("--for DURATION", "With --once: for this long, such as 1d.").field("once.for_ms").needs("once"),
    KEY,
    arg(
        "--on-duplicate return|reject|replace",
        "What to do if the key is taken: answer with the existing message, refuse, or replace its content.",
    )
    .needs("key"),
    arg("--group GROUP", "A group, whose messages are leased in the order in which they were published."),
    arg("--idempotency-key KEY", "A repeated publish with this key gets the first answer."),
    DONE_URL,
    DONE_TOPIC,
    DEAD_URL,
    DEAD_TOPIC,
];

const DONE_URL: Arg =
    arg("--done-url URL", "URL to call with the result once the message is done.")
        .field("on_done.url")
        .not("done-topic");
const DONE_TOPIC: Arg =
    arg("--done-topic TOPIC", "Topic in which the result is published.").field("on_done.topic");
const DEAD_URL: Arg = arg("--dead-url URL", "URL to call if the message dies.")
    .field("on_dead.url")
    .not("dead-topic");
const DEAD_TOPIC: Arg =
    arg("--dead-topic TOPIC", "Topic in which its death is published.").field("on_dead.topic");

const METHODS: &str = "--method GET|POST|PUT|PATCH|DELETE";
const CONNECT: Arg =
    arg("--connect-timeout DURATION", "How long connecting may take, TLS included, such as 2s.");
const RETRY_ON: Arg = arg(
    "--retry-on CAUSE,",
    "Which failures are retried, and no others: 429, 5xx, timeout, connect; separated by commas.",
);
const RETRY_NEVER: Arg =
    arg("--retry-never CAUSE,", "Which failures are not retried, such as 400,422.");
const CERT: Arg = arg(
    "--callback-cert NAME",
    "The server's client certificate (--callback-client-cert) to call with.",
);
const AUTH: Arg = arg(
    "--auth NAME=VALUE",
    "How the call proves who is calling, repeatable: kind=basic, username=, password=; or kind=oauth2, token_url=, client_id=, client_secret=, \
     scope=, audience=.",
);

/// Which messages of a topic a bulk command changes.
const CHOICE: &[Arg] = &[
    arg("--query QUERY", "Only messages that it finds, as in `dueq search`; `--query=-error:timeout` if it begins with a minus.")
        .field("q")
        .alias("q"),
    DRY_RUN,
];

/// How many messages become due, and over how long; or ids in place of a topic.
const PACE: &[Arg] = &[
    arg("--max COUNT", "At most this many messages.").field("max_messages"),
    arg("--spread DURATION", "Spread the due times evenly over this time, such as 10m."),
    arg(
        "--id ID...",
        "Only these messages, instead of a topic; `-` reads ids from standard input, one per line.",
    )
    .not("topic")
    .not("max")
    .not("spread")
    .not("query")
    .not("dry-run"),
];

/// All client commands.
pub const COMMANDS: &[Command] = &[
    post("publish", "Publish a message.", &["/topics/{topic}/messages"])
        .args(&[
            &[
                arg("<topic>", "The topic; created by its first message."),
                arg("[payload] PAYLOAD", "JSON is sent as it is, other text as a string; `-` reads standard input.")
                    .unless("file"),
                FILE,
            ],
            CHANGES,
            NEW,
            &[arg("--callback URL", "In a pushed topic: send this message to this URL, not to the topic's.")
                .field("callback.url")],
        ])
        .examples(
            r#"Examples:
  dueq publish orders '{"order": 42}' --delay 30m
  dueq publish orders hello --at 2030-01-01T09:00:00Z --priority 9
  dueq publish orders '{"order": 42}' --delay 1h --key order/42 --on-duplicate replace
  dueq publish reindex '{"article": 7}' --debounce article/7 --quiet 10s --max-wait 1m
  dueq publish orders '{"order": 42}' --group customer-7
  echo '[1, 2]' | dueq publish orders -"#,
        ),
    post("callback", "Call a URL later, and retry until it answers 2xx.", &["/callbacks"]).args(&[
        &[
            arg("<url>", "URL to call, such as https://example.com/hook."),
            arg(
                "[payload] PAYLOAD",
                "JSON is sent as it is, other text as a string; `-` reads standard input. Without a payload the body is empty.",
            ),
            FILE,
            arg(METHODS, "HTTP method, by default POST."),
            arg("--timeout DURATION", "How long one call may take, such as 15s."),
            CONNECT,
            RETRY_ON.field("retry.on"),
            RETRY_NEVER.field("retry.never"),
            AUTH,
            CERT.field("client_cert"),
        ],
        CHANGES,
        NEW,
    ]),
    post(
        "lease",
        "Lease messages that are due, and show them with their tokens.",
        &["/topics/{topics}/lease", "/lease"],
    )
    .args(&[&[
        arg("<topics> TOPIC...", "Topics to lease from, in order of preference."),
        arg("--max N", "Lease at most this many messages.").field("max_messages"),
        arg("--wait DURATION", "Wait this long for a message to become due, at most 60s."),
        arg("--lease DURATION", "Duration of the lease, such as 5m."),
    ]])
    .show(View::Object(view::leased))
    .examples(
        r#"Examples:
  dueq lease orders --wait 20s
  dueq lease urgent bulk --max 10 --lease 5m
  dueq lease orders --json | jq -r '.messages[] | "dueq ack \(.id) \(.lease_token)"'"#,
    ),
    post("ack", "Acknowledge a leased message.", &["/messages/{id}/ack"])
        .args(&[LEASED, &[arg("--result JSON", "What came of it, kept and published with the message.")]])
        .show(View::Line("acknowledged {id}")),
    post("nack", "Give a leased message back as failed.", &["/messages/{id}/nack"]).args(&[
        LEASED,
        &[
            arg("--delay DURATION", "Make it due again after this time; by default the message's backoff decides.")
                .not("dead"),
            arg("--reason TEXT", "Reason, recorded in the message's events."),
            arg("--dead", "Make it dead at once, even if attempts are left.").not("release"),
            arg("--release", "Give it back unprocessed: this attempt does not count."),
        ],
    ]),
    get("get", "Show a message.", &["/messages/{id}", "/topics/{topic}/keys/{key}"])
        .args(&[MESSAGE]),
    post(
        "update",
        "Change a message in place: due time, payload, priority, headers, limits.\n\n\
         Options that are not given stay. --header replaces all headers. A leased message cannot be changed, and a dead one \
         has no due time.",
        &["/messages/{id}", "/topics/{topic}/keys/{key}"],
    )
    .by("PATCH")
    .args(&[
        MESSAGE,
        &[
            arg("--payload PAYLOAD", "New payload: JSON is sent as it is, other text as a string; `-` reads standard input."),
            FILE,
        ],
        CHANGES,
        &[arg("--reset ttl|max-attempts|backoff,", "Options to reset to the topic's, separated by commas.")
            .field("null")],
    ]),
    get("delete", "Delete messages.", &["/messages/{ids}", "/topics/{topic}/keys/{key}"])
        .by("DELETE")
        .args(&[&[
            arg("[ids] ID...", "Ids of messages; `-` reads ids from standard input, one per line.")
                .unless("key"),
            arg("--topic TOPIC", "Topic of --key, instead of an id.").needs("key").not("ids"),
            arg("--key KEY", "Key of the message in --topic, instead of an id.")
                .needs("topic")
                .not("ids"),
            arg("--force", "Delete the message even while it is leased; the consumer's ack then finds nothing."),
        ]])
        .show(View::Line("deleted {ids}{key}")),
    own("messages", "List a topic's messages by state, without their payloads.")
        .args(&[
            NAMED,
            &[
                arg(
                    STATES,
                    "States to list, separated by commas. Ready messages are in the order of leasing, dead ones oldest first.",
                ),
                LIMIT,
            ],
        ])
        .examples(
            "Examples:
  dueq messages orders
  dueq messages orders --state dead
  dueq messages orders --state delayed,ready --limit 1000 --json | jq -r .id",
        ),
    get("topics", "List the topics with their counts.", &["/topics"])
        .args(&[&[PREFIX]])
        .show(View::List(view::topics)),
    get("topic", "Show a topic (counts, totals, configuration), or change its settings.", &["/topics/{name}"])
        .args(&[&[arg("<name>", "The topic's name.")]])
        .show(View::Object(view::topic)),
    post(
        "topic set",
        "Change settings of a topic; the others stay. backoff, retention and push are replaced as a whole.",
        &["/topics/{topic}"],
    )
    .by("PATCH")
    .args(&[
        NAMED,
        &[arg(
            "<settings> NAME=JSON...",
            "Settings as the API names them, such as max_attempts=5, lease_ms=1m or dead_topic=failed; null resets one.",
        )
        .field("")],
    ])
    .show(View::Object(view::topic)),
    own("search", "Find messages by what they are and why they failed.")
        .args(&[
            NAMED,
            &[
                arg("<query>", "Terms, separated by spaces; see below."),
                arg(STATES, "States to search, separated by commas, in this order."),
                LIMIT,
            ],
        ])
        .examples(
            "Terms, of which all must hold; `a b OR c` finds what has a and b, or c, and -term what the term does not:
  refused                 the last error, the key, a header or the payload contains this
  error:timeout           the last error contains this; * matches any characters
  reason:\"no such *\"      the last error as `dueq dead` groups it
  key:cart/*  group:x     key and group
  url:/hooks  host:a.com  where its call goes
  status:5xx              the status of its last call's answer
  id:019ab000-*
  header.tenant:42        a header
  payload:text            the payload's text
  payload.$.order.id:42   a field of a JSON payload
  attempts:>3  priority:0
  at:>2026-11-20          due, or end of the lease, or death, or ack
  published:2026-11-20

Examples:
  dueq search orders 'error:timeout attempts:>3'
  dueq search orders 'payload.$.order:42' --state dead,delayed
  dueq search orders 'host:example.com -status:404' --state dead
  dueq search orders -- -error:timeout
  dueq search orders key:cart/* --json | jq -r .id",
        ),
    get(
        "dead",
        "Show why a topic's dead messages died, the most frequent reason first.",
        &["/topics/{topic}/dead/reasons"],
    )
    .args(&[NAMED])
    .show(View::Own),
    post("redrive", "Redrive dead messages: make them ready again.", &["/topics/{topic}/redrive"])
        .args(&[
            &[arg("[topic]", "The topic; messages that have been dead longest come first.")
                .unless("id")],
            CHOICE,
            PACE,
        ])
        .show(View::Own)
        .examples(
            "Examples:
  dueq redrive orders --max 10
  dueq redrive orders --spread 10m
  dueq redrive orders --query error:timeout --dry-run
  dueq search orders error:timeout --state dead --json | jq -r .id | dueq redrive --id -",
        ),
    post("run", "Make delayed messages due.", &["/topics/{topic}/run"])
        .args(&[
            &[
                arg("[topic]", "The topic; messages that are due first come first.").unless("id"),
                arg(
                    "--state delayed|blocked,",
                    "Only messages in these states, separated by commas. Blocked ones go on waiting for earlier ones of their group.",
                )
                .field("states")
                .not("id"),
            ],
            CHOICE,
            PACE,
        ])
        .show(View::Own),
    post("purge", "Remove a topic's messages in the given states.", &["/topics/{topic}/purge"])
        .args(&[
            NAMED,
            &[arg(
                "--state ready|delayed|blocked|dead,...",
                "States to purge, separated by spaces or commas. Leased messages stay.",
            )
            .field("states")
            .required()],
            CHOICE,
        ])
        .show(View::Own),
    post(
        "pause",
        "Pause a topic: leasing stops, publishing and acknowledging continue.",
        &["/topics/{topic}/pause"],
    )
    .args(&[NAMED])
    .show(View::Line("{topic} is paused")),
    post("resume", "Resume a paused topic.", &["/topics/{topic}/resume"])
        .args(&[NAMED])
        .show(View::Line("{topic} is not paused")),
    get(
        "groups",
        "List the groups of a topic that have messages or settings of their own; change, pause or resume one.",
        &["/topics/{topic}/groups"],
    )
    .args(&[NAMED])
    .show(View::List(view::groups)),
    get("groups get", "Show a group.", &["/topics/{topic}/groups/{group}"])
        .args(&[NAMED, GROUP])
        .show(View::Object(view::message)),
    post(
        "groups put",
        "Change the limits of a group; those that are not given are the topic's again.",
        &["/topics/{topic}/groups/{group}"],
    )
    .by("PUT")
    .args(&[
        NAMED,
        GROUP,
        &[
            arg("--paused", "Pause the group, too."),
            arg("--concurrency COUNT", "Lease at most this many of its messages at a time."),
            arg("--rate NUMBER", "Grant at most this many of its messages per second.").field("rate_per_s"),
            arg("--burst COUNT", "Grant at most this many of them at once."),
            arg("--weight COUNT", "Lease this many of its messages for one of another group, 1 to 100."),
        ],
    ])
    .show(View::Object(view::message)),
    get("groups reset", "Take a group's own settings away.", &["/topics/{topic}/groups/{group}"])
        .by("DELETE")
        .args(&[NAMED, GROUP])
        .show(View::Line("{group} has no settings of its own")),
    post("groups pause", "Pause a group: none of its messages is leased.", &["/topics/{topic}/groups/{group}/pause"])
        .args(&[NAMED, GROUP])
        .show(View::Line("{group} is paused")),
    post("groups resume", "Resume a paused group.", &["/topics/{topic}/groups/{group}/resume"])
        .args(&[NAMED, GROUP])
        .show(View::Line("{group} is not paused")),
    get("schedules", "List, create and control schedules.", &["/schedules"])
        .show(View::List(view::schedules)),
    get("schedules list", "List the schedules.", &["/schedules"])
        .show(View::List(view::schedules)),
    get("schedules get", "Show a schedule.", &["/schedules/{name}"])
        .args(&[SCHEDULE])
        .show(View::Object(view::schedule)),
    post("schedules put", "Create or replace a schedule.", &["/schedules/{name}"])
        .by("PUT")
        .args(&[
            SCHEDULE,
            &[
                arg(
                    "[payload] PAYLOAD",
                    "JSON is sent as it is, other text as a string; `-` reads standard input. Optional for a callback.",
                )
                .field("message.payload")
                .unless("callback"),
                arg(
                    "--cron EXPRESSION",
                    "Cron expression: minute, hour, day, month, weekday, such as \"0 9 * * MON-FRI\"; an optional field before \
                     them is seconds.",
                )
                .unless("every")
                .not("every"),
                arg("--timezone ZONE", "Time zone of --cron, such as Europe/Berlin; by default UTC.").not("every"),
                arg("--every DURATION", "Time between ticks, such as 10s; instead of --cron."),
                arg("--topic TOPIC", "Topic to publish to.").unless("callback").not("callback"),
                arg("--callback URL", "URL to call; instead of --topic.").field("callback.url"),
                arg(METHODS, "HTTP method, by default POST.").field("callback.method").not("topic"),
                arg("--timeout DURATION", "How long one call may take, such as 15s.")
                    .field("callback.timeout_ms")
                    .not("topic"),
                CONNECT.field("callback.connect_timeout_ms").not("topic"),
                RETRY_ON.field("callback.retry.on").not("topic"),
                RETRY_NEVER.field("callback.retry.never").not("topic"),
                AUTH.field("callback.auth").not("topic"),
                CERT.field("callback.client_cert").not("topic"),
                KEY.field("message.key"),
                arg("--header NAME=VALUE", "Header of the messages, repeatable.").field("message.headers"),
                arg("--priority N", "Priority from 0 to 255; of the messages that are due, higher ones go first.")
                    .field("message.priority"),
                DONE_URL.field("message.on_done.url"),
                DONE_TOPIC.field("message.on_done.topic"),
                DEAD_URL.field("message.on_dead.url"),
                DEAD_TOPIC.field("message.on_dead.topic"),
                arg("--catch-up one|none|all", "Which missed ticks are published late; by default the latest one."),
            ],
        ])
        .show(View::Object(view::schedule)),
    get("schedules delete", "Delete a schedule; its published messages stay.", &["/schedules/{name}"])
        .by("DELETE")
        .args(&[SCHEDULE])
        .show(View::Line("deleted {name}")),
    post("schedules pause", "Pause a schedule.", &["/schedules/{name}/pause"])
        .args(&[SCHEDULE])
        .show(View::Line("{name} is paused")),
    post("schedules resume", "Resume a paused schedule.", &["/schedules/{name}/resume"])
        .args(&[SCHEDULE])
        .show(View::Line("{name} ticks next {next_at}")),
    post("schedules trigger", "Publish a schedule's message now.", &["/schedules/{name}/trigger"])
        .args(&[SCHEDULE])
        .show(View::Line("{name} published {last_message_id}")),
    own("apply", "Make topics and schedules as a file says: what differs is shown and put.").args(&[&[
        arg(
            "-f --file FILE",
            "File in YAML (or JSON) with topics and schedules, each with the fields that a PUT of it takes; `-` reads standard \
             input.",
        )
        .required(),
        arg("--prune", "Delete the topics and schedules that the file does not name. Topics with messages stay."),
        arg("--dry-run", "Show what would change, and change nothing."),
    ]]),
    get("hosts", "Show the hosts that callbacks go to, or pause and resume one.", &["/callbacks/hosts"])
        .show(View::List(view::hosts)),
    get("hosts list", "List the hosts.", &["/callbacks/hosts"]).show(View::List(view::hosts)),
    post("hosts pause", "Pause a host: no call to it begins, in any topic.", &["/callbacks/hosts/{host}/pause"])
        .args(&[HOST])
        .show(View::Line("{host} is paused")),
    post("hosts resume", "Resume a paused host.", &["/callbacks/hosts/{host}/resume"])
        .args(&[HOST])
        .show(View::Line("{host} is not paused")),
    own("top", "Watch all topics in the terminal: what is in them, rates, lateness.")
        .args(&[&[
            PREFIX,
            arg("--once", "Print one table and end, as where standard output is no terminal."),
        ]])
        .examples(
            "Keys: q quits, p stops and goes on, s or left and right choose the order, up, down, page up and page down scroll.",
        ),
    own("tail", "Watch a topic without taking anything from it, until Ctrl-C.")
        .args(&[&[arg("<topic>", "The topic's name; if it does not exist yet, waits for it.")]]),
    own("healthcheck", "Check that a server is ready: exit code 0 if it is, otherwise 1."),
];
