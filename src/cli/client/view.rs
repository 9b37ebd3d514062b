//! Formats answers by the names of their fields, in the order of the answer. Unknown fields are shown too.

use super::{
    durations::{exact, when},
    object::{Object, plain},
    table::{clean, columns, cut, fields, list, quoted},
};

/// How many characters of a called URL's answer, or of an error in a list, are shown; `--json` shows all.
const SHOWN_CHARS: usize = 120;

/// The states of messages.
pub const STATES: [&str; 6] = ["delayed", "ready", "blocked", "leased", "dead", "acked"];

/// Formats a message, or the answer of an operation on it.
pub fn message(object: &Object) -> String {
    let mut text = fields(rows(object, &["events"]));
    let events = object.objects("events");
    if !events.is_empty() {
        text.push('\n');
        text.push_str(&columns(&["at", "event", "more"], &[], events.iter().map(event).collect()));
    }
    text
}

/// Formats leased messages, each as a block of its own.
pub fn leased(object: &Object) -> String {
    let messages: Vec<String> = object.objects("messages").iter().map(message).collect();
    if messages.is_empty() { "no message is due\n".to_owned() } else { messages.join("\n") }
}

/// Formats a list of messages.
pub fn messages(items: &[Object]) -> String {
    let row = |item: &Object| {
        let at = |name| item.get::<String>(name).map(|at| when(&at)).unwrap_or_default();
        vec![
            item.text("id"),
            item.text("state"),
            at("due_at"),
            at("lease_expires_at"),
            item.number("attempts").to_string(),
            item.text("key"),
            shortened(&clean(&item.text("url"))),
            at("died_at"),
            item.raw("last_status").unwrap_or_default().to_owned(),
            shortened(&item.text("last_error")),
            item.object("waiting_for").text("reason").replace('_', " "),
        ]
    };
    let head = [
        "id",
        "state",
        "due",
        "lease ends",
        "attempts",
        "key",
        "url",
        "died",
        "status",
        "last error",
        "waiting for",
    ];
    list("messages", &head, &["attempts"], items, row)
}

/// Formats a list of topics.
pub fn topics(items: &[Object]) -> String {
    let row = |item: &Object| {
        let mut row = vec![item.text("name")];
        row.extend(numbers(&item.object("counts")));
        row.push(paused(item));
        row
    };
    let mut head = vec!["topic"];
    head.extend(STATES);
    head.push("");
    list("topics", &head, &STATES, items, row)
}

/// Formats a topic: totals, counts, configuration.
pub fn topic(object: &Object) -> String {
    let mut about = rows(object, &["config", "counts", "totals"]);
    let config = object.object("config");
    if config.raw("push").is_some() {
        let url = config.object("push").text("url");
        let to = if url.is_empty() { "each message's own callback".to_owned() } else { url };
        about.push(("pushed to".to_owned(), to));
    }
    let happened = numbered(&object.object("totals"), |name, count| format!("{name} {count}"));
    about.push(("so far".to_owned(), happened));
    let counts = numbers(&object.object("counts")).collect();
    let config = fields(rows(&config, &[]));
    format!("{}\n{}\n{config}", fields(about), columns(&STATES, &STATES, vec![counts]))
}

/// Formats a list of schedules.
pub fn schedules(items: &[Object]) -> String {
    let row = |schedule: &Object| {
        let ticks = match schedule.get("every_ms") {
            Some(every) => format!("every {}", exact(every)),
            None => format!("{} ({})", schedule.text("cron"), schedule.text("timezone")),
        };
        let to = schedule.get("topic").unwrap_or_else(|| schedule.object("callback").text("url"));
        let next = match schedule.get::<String>("next_at") {
            Some(next) => when(&next),
            None if is_paused(schedule) => "paused".to_owned(),
            None => "never".to_owned(),
        };
        vec![schedule.text("name"), ticks, to, next, schedule.text("last_error")]
    };
    list("schedules", &["schedule", "ticks", "to", "next", ""], &[], items, row)
}

/// Formats a list of groups.
pub fn groups(items: &[Object]) -> String {
    const LIMITS: [(&str, &str); 4] = [
        ("concurrency", " at a time"),
        ("rate_per_s", "/s"),
        ("burst", " at once"),
        ("weight", " turns"),
    ];
    let row = |group: &Object| {
        let limit = |(name, unit)| Some(format!("{}{unit}", group.raw(name)?));
        let own: Vec<String> = LIMITS.into_iter().filter_map(limit).collect();
        let count = |name| group.number(name).to_string();
        vec![
            clean(&group.text("group")),
            count("leased"),
            count("waiting"),
            count("blocked"),
            group.get::<String>("next_at").map(|at| when(&at)).unwrap_or_default(),
            paused(group),
            own.join(", "),
        ]
    };
    let counts = ["leased", "waiting", "blocked"];
    list(
        "groups",
        &["group", "leased", "waiting", "blocked", "next", "", "its own"],
        &counts,
        items,
        row,
    )
}

/// Formats a schedule and the message that it publishes.
pub fn schedule(object: &Object) -> String {
    let about = fields(rows(object, &["message"]));
    format!("{about}\n{}", fields(rows(&object.object("message"), &[])))
}

/// Formats a list of the hosts that callbacks go to.
pub fn hosts(items: &[Object]) -> String {
    let row = |host: &Object| {
        let outcomes = numbered(&host.object("outcomes"), |name, count| format!("{count} {name}"));
        vec![
            host.text("host"),
            paused(host),
            host.number("in_flight").to_string(),
            host.number("waiting").to_string(),
            outcomes,
            host.get("p99_ms").map(exact).unwrap_or_default(),
            shortened(&clean(&host.text("last_error"))),
        ]
    };
    let head = ["host", "", "in flight", "waiting", "last 5 min", "p99", "last error"];
    list("hosts", &head, &["in flight", "waiting", "p99"], items, row)
}

/// Formats why a topic's messages died, and the commands that deal with the most frequent reason.
pub fn dead(topic: &str, reasons: &Object) -> String {
    let items = reasons.objects("items");
    let Some(first) = items.first() else { return "no dead messages\n".to_owned() };
    let row = |item: &Object| {
        let reason = item.get("reason").unwrap_or_else(|| "(none given)".to_owned());
        let at = |name| when(&item.text(name));
        let count = item.number("count").to_string();
        vec![count, at("first_at"), at("last_at"), item.text("example_id"), reason]
    };
    let head = ["count", "first", "last", "example", "reason"];
    let table = columns(&head, &["count"], items.iter().map(row).collect());
    let reason = first.text("reason").replace('\\', "\\\\").replace('"', "\\\"");
    let (topic, query) = (quoted(topic), quoted(&format!("reason:\"{reason}\"")));
    format!(
        "{table}\nlooked at {}, the newest. The first reason:\n\
         \x20 dueq search {topic} {query} --state dead\n\
         \x20 dueq redrive {topic} --query {query} --spread 10m --dry-run\n\
         \x20 dueq purge {topic} --state dead --query {query} --dry-run\n",
        reasons.number("scanned"),
    )
}

fn is_paused(object: &Object) -> bool {
    object.get("paused") == Some(true)
}

fn paused(object: &Object) -> String {
    if is_paused(object) { "paused" } else { "" }.to_owned()
}

/// Formats the non-zero numbers of an object in one line, each by `write`.
fn numbered(object: &Object, write: impl Fn(&str, i64) -> String) -> String {
    let known = object.iter().map(|(name, _)| (name, object.number(name)));
    let words: Vec<String> =
        known.filter(|(_, count)| *count != 0).map(|(name, count)| write(name, count)).collect();
    words.join(", ")
}

fn numbers(counts: &Object) -> impl Iterator<Item = String> {
    STATES.iter().map(|state| counts.number(state).to_string())
}

/// Formats each field of the object except those in `without`, as name and value.
fn rows(object: &Object, without: &[&str]) -> Vec<(String, String)> {
    let shown = object.iter().filter(|(name, _)| !without.contains(name));
    shown.filter_map(|(name, raw)| row(object, name, raw)).collect()
}

fn row(object: &Object, name: &str, raw: &str) -> Option<(String, String)> {
    let row = match name {
        // Shown together with another field, or implied by it.
        "attempts_left" | "content_type" | "lease_ms" if object.raw("id").is_some() => return None,
        "payload" => (name.to_owned(), raw.to_owned()),
        "payload_base64" => {
            let kind = object.text("content_type");
            ("payload".to_owned(), format!("{} (base64 of {kind})", plain(raw)))
        }
        "headers" => {
            let headers: Object = object.object(name);
            let lines = headers.iter().map(|(name, value)| format!("{name}: {}", plain(value)));
            (name.to_owned(), lines.collect::<Vec<_>>().join(", "))
        }
        "attempt" | "attempts" => {
            let left: Option<i64> = object.get("attempts_left");
            let left = left.map(|left| format!(" ({left} left)")).unwrap_or_default();
            (name.to_owned(), format!("{raw}{left}"))
        }
        "callback" => (name.to_owned(), callback(&object.object(name))),
        "waiting_for" => ("waiting for".to_owned(), waiting_for(&object.object(name))),
        "until" => (name.to_owned(), when(&plain(raw))),
        "lease_expires_at" => ("lease ends".to_owned(), when(&plain(raw))),
        _ => named(object, name, raw),
    };
    Some(row)
}

/// Formats a callback: `PUT https://example.com/hook, within 15s`.
fn callback(callback: &Object) -> String {
    let within = callback.get("timeout_ms").map(|millis| format!(", within {}", exact(millis)));
    let words = [callback.text("method"), callback.text("url")];
    format!("{}{}", words.join(" ").trim(), within.unwrap_or_default())
}

fn named(object: &Object, name: &str, raw: &str) -> (String, String) {
    let words = |name: &str| name.replace('_', " ");
    if let Some(short) = name.strip_suffix("_at") {
        return (words(short), when(&plain(raw)));
    }
    if let (Some(short), Some(millis)) = (name.strip_suffix("_ms"), object.get(name)) {
        return (words(short), exact(millis));
    }
    let value = match raw {
        "true" => "yes".to_owned(),
        "false" => "no".to_owned(),
        raw => plain(raw),
    };
    (words(name), value)
}

/// Why a message is not being worked on: the reason, then what belongs to it.
fn waiting_for(waits: &Object) -> String {
    let mut words = vec![waits.text("reason").replace('_', " ")];
    let more = rows(waits, &["reason"]);
    words.extend(more.iter().map(|(name, value)| format!("{name} {}", clean(value))));
    shortened(&words.join(", "))
}

fn event(event: &Object) -> Vec<String> {
    let more = rows(event, &["at", "kind", "answer"]);
    let mut more: Vec<String> =
        more.iter().map(|(name, value)| format!("{name} {value}")).collect();
    if let Some(answer) = event.get::<String>("answer") {
        more.push(format!("answer {}", shortened(&answer)));
    }
    vec![when(&event.text("at")), event.text("kind"), more.join(", ")]
}

/// Cuts text that is too long for a line.
fn shortened(text: &str) -> String {
    cut(text, SHOWN_CHARS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        anstream::adapter::strip_str(text).to_string()
    }

    fn object(text: &str) -> Object {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_message_is_shown_with_what_happened_to_it() {
        let shown = message(&object(
            r#"{"id":"1","payload":{"n": 1.50},"attempts":2,"attempts_left":8,"headers":{"a":"b"},"ttl_ms":90000,
                "new_thing":true,"events":[{"at":"x","kind":"nacked","attempt":1,"reason":"no luck"}]}"#,
        ));
        assert_eq!(
            plain(&shown),
            "id         1\npayload    {\"n\": 1.50}\nattempts   2 (8 left)\nheaders    a: b\nttl        1m 30s\n\
             new thing  yes\n\nAT  EVENT   MORE\nx   nacked  attempt 1, reason no luck\n"
        );
    }

    #[test]
    fn a_message_is_shown_with_its_callback_and_its_calls() {
        let long = "x".repeat(1_024);
        let shown = message(&object(&format!(
            r#"{{"id":"1","callback":{{"url":"http://a/b","method":"PUT","timeout_ms":15000}},"events":[
                {{"at":"x","kind":"called","attempt":1,"status":500,"duration_ms":12,"answer":"no\nluck"}},
                {{"at":"x","kind":"called","attempt":2,"error":"timeout","duration_ms":15000}},
                {{"at":"x","kind":"called","attempt":3,"answer":"{long}"}}]}}"#,
        )));
        let shown = plain(&shown);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[1], "callback  PUT http://a/b, within 15s");
        assert_eq!(lines[4], "x   called  attempt 1, status 500, duration 12ms, answer no luck");
        assert_eq!(lines[5], "x   called  attempt 2, error timeout, duration 15s");
        assert_eq!(lines[6], format!("x   called  attempt 3, answer {}…", "x".repeat(120)));
        assert_eq!(callback(&object(r#"{"url":"http://a/b"}"#)), "http://a/b");
    }

    #[test]
    fn a_message_says_what_it_waits_for() {
        let shown = |waits| {
            let text = message(&object(&format!(r#"{{"id":"1","waiting_for":{waits}}}"#)));
            plain(&text).lines().nth(1).unwrap_or_default().to_owned()
        };
        let group = shown(r#"{"reason":"group","message_id":"2","ahead":3}"#);
        assert_eq!(group, "waiting for  group, message id 2, ahead 3");
        let backoff = shown(r#"{"reason":"backoff","until":"soon","error":"no\nluck"}"#);
        assert_eq!(backoff, "waiting for  backoff, until soon, error no luck");
        let waits = r#"{"id":"1","state":"ready","waiting_for":{"reason":"topic_paused"}}"#;
        let list = plain(&messages(&[object(waits)]));
        assert!(list.lines().nth(1).is_some_and(|line| line.ends_with("topic paused")), "{list}");
    }

    #[test]
    fn a_topic_says_that_it_is_pushed_and_where_to() {
        let shown =
            |push| plain(&topic(&object(&format!(r#"{{"name":"a","config":{{"push":{push}}}}}"#))));
        let named = shown(r#"{"url":"http://a/b"}"#);
        assert!(named.contains("\npushed to  http://a/b\n"), "{named}");
        assert!(shown("{}").contains("\npushed to  each message's own callback\n"));
    }

    #[test]
    fn an_empty_lease_says_so() {
        assert_eq!(leased(&object(r#"{"messages":[],"acks":[]}"#)), "no message is due\n");
    }

    #[test]
    fn topics_are_a_table() {
        let items = [
            object(r#"{"name":"a","paused":true,"counts":{"ready":12}}"#),
            object(r#"{"name":"b"}"#),
        ];
        assert_eq!(
            plain(&topics(&items)),
            "TOPIC  DELAYED  READY  BLOCKED  LEASED  DEAD  ACKED\n\
             a            0     12        0       0     0      0  paused\n\
             b            0      0        0       0     0      0\n"
        );
    }

    #[test]
    fn a_topic_shows_counts_totals_and_configuration() {
        let shown = topic(&object(
            r#"{"name":"a","paused":false,"counts":{"ready":1},"totals":{"published":3,"acked":0,"granted":2},
                "config":{"lease_ms":30000,"retention":{"acked_ms":0}}}"#,
        ));
        assert_eq!(
            plain(&shown),
            "name    a\npaused  no\nso far  published 3, granted 2\n\n\
             DELAYED  READY  BLOCKED  LEASED  DEAD  ACKED\n      0      1        0       0     0      0\n\n\
             lease      30s\nretention  {\"acked_ms\":0}\n"
        );
    }
}
