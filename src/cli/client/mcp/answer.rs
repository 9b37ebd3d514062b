//! The answers: short JSON, with words for what an agent would have to guess.

use super::call::plain;
use serde_json::{Map, Value, value::RawValue};
use std::collections::BTreeMap;

/// The longest texts and payloads, in bytes; the shorter ones apply to answers that are too long otherwise.
const TEXT_BYTES: [usize; 4] = [4_000, 1_000, 200, 40];
/// The longest answer, in bytes, unless its texts are short anyway.
const ANSWER_BYTES: usize = 40_000;
/// The most reasons of dead letters, those of the most messages: so few that they can be told apart.
const MAX_REASONS: usize = 50;
/// Fields whose JSON is cut as a text.
const OPAQUE: [&str; 4] = ["payload", "payload_base64", "result", "headers"];

/// Fields that are arguments of the next call, so they stay whole. None is long.
const WHOLE: [&str; 4] = ["next_cursor", "topic", "name", "key"];

/// Reads an answer. A number that cannot be held, such as 1E400 in a payload, becomes text.
///
/// Errors: it is not JSON.
pub fn read(json: &str) -> serde_json::Result<Value> {
    let error = match serde_json::from_str(json) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let text = |raw: Box<RawValue>| read(raw.get());
    if let Ok(fields) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(json) {
        let fields = fields.into_iter().map(|(name, raw)| Ok((name, text(raw)?)));
        return fields.collect::<serde_json::Result<Map<_, _>>>().map(Value::Object);
    }
    if let Ok(items) = serde_json::from_str::<Vec<Box<RawValue>>>(json) {
        return items.into_iter().map(text).collect::<serde_json::Result<_>>().map(Value::Array);
    }
    serde_json::from_str::<&RawValue>(json).map(|raw| raw.get().into()).map_err(|_| error)
}

/// Adds what the API has no words for.
pub fn add_words(tool: &str, answer: &mut Value) {
    if tool == "list_dead_reasons"
        && let Some(items) = answer["items"].as_array_mut()
        && items.len() > MAX_REASONS
    {
        let left_out = items.len() - MAX_REASONS;
        items.truncate(MAX_REASONS);
        answer["left_out"] = left_out.into();
    }
    let words = match tool {
        "explain_message" => Some(("explanation", explain(answer))),
        "schedule_callback" | "publish_message" => gone(answer).map(|words| ("note", words)),
        _ => None,
    };
    if let Some((name, words)) = words {
        answer[name] = words.into();
    }
}

/// What to know where the message that answers for a repeat is no longer to come.
fn gone(answer: &Value) -> Option<String> {
    let state = answer["state"].as_str().unwrap_or_default();
    let is_over =
        answer["duplicate"] == true && ["dead", "acked", "expired", "gone"].contains(&state);
    is_over.then(|| {
        format!(
            "Nothing was scheduled now: this call was made before, and its message is {state} (gone: done, cancelled or expired). If it \
             shall happen again, call with a new once_key."
        )
    })
}

/// What each reason to wait means, and what would change that. Names in braces are fields of `waiting_for`.
const REASONS: [(&str, &str); 12] = [
    (
        "lease",
        "A consumer has it, or dueq is calling it, until {until} at the latest. If that consumer died, it comes back then.",
    ),
    ("topic_paused", "Its topic is paused. Resume the topic."),
    (
        "backoff",
        "It failed (see last_error and events). Its next attempt is at {until}. Repair what fails; move_message makes it due sooner.",
    ),
    ("due", "It is due at {until}. Wait, or change that with move_message."),
    ("host_paused", "Calls to its host are paused. Resume the host: dueq hosts resume."),
    (
        "host_failing",
        "Calls to its host fail, and the next probe is at {until}. Repair it: list_callback_hosts shows the last error.",
    ),
    ("group_paused", "Its group is paused. Resume the group: dueq groups resume."),
    (
        "group",
        "{ahead} messages of its group come first, {message_id} before all others. Explain that message.",
    ),
    (
        "limit",
        "As many messages of its topic are leased as max_leased allows. Raise that, or make consumers faster.",
    ),
    ("rate", "The rate of its group or topic is used up until {until}. Wait, or raise the rate."),
    (
        "no_place",
        "As many calls are under way as may be, by {place}. Make the receiver faster, or raise max_in_flight_per_host or max_in_flight.",
    ),
    (
        "consumer",
        "Nothing holds it up: it waits for a consumer, or for dueq to call it. Start consumers, or look which topic they lease from.",
    ),
];

/// Why the message is not being worked on. The words are dueq's alone: what was published is not in them.
fn explain(message: &Value) -> String {
    let waits = message["waiting_for"].as_object().cloned().unwrap_or_default();
    let reason = waits.get("reason").and_then(Value::as_str).unwrap_or_default();
    if let Some((_, words)) = REASONS.iter().find(|(known, _)| *known == reason) {
        return waits.iter().fold((*words).to_owned(), |words, (name, value)| {
            words.replace(&format!("{{{name}}}"), &plain(value))
        });
    }
    match message["state"].as_str() {
        Some("dead") => {
            "dueq has given up (see last_error and events). Repair what failed, then redrive_dead."
                .to_owned()
        }
        Some("acked") => "It is done: it was acknowledged, and is kept for a while.".to_owned(),
        _ => format!("It waits for: {reason}."),
    }
}

/// A refusal, of limited length.
pub fn refusal(reason: &str) -> String {
    cut(reason, TEXT_BYTES[0])
}

/// The answer as text of limited length.
pub fn text(answer: Value) -> String {
    let mut text = String::new();
    for most in TEXT_BYTES {
        let mut answer = answer.clone();
        cut_fields(&mut answer, most);
        text = answer.to_string();
        if text.len() <= ANSWER_BYTES {
            break;
        }
    }
    text
}

/// Cuts what is longer than this many bytes, and says so.
fn cut_fields(value: &mut Value, most: usize) {
    match value {
        Value::String(text) => *text = cut(text, most),
        Value::Array(items) => items.iter_mut().for_each(|item| cut_fields(item, most)),
        Value::Object(fields) => {
            for (name, field) in
                fields.iter_mut().filter(|(name, _)| !WHOLE.contains(&name.as_str()))
            {
                let json = || field.to_string();
                match OPAQUE.contains(&name.as_str()) && !field.is_string() && json().len() > most {
                    true => *field = cut(&json(), most).into(),
                    false => cut_fields(field, most),
                }
            }
        }
        _ => {}
    }
}

fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
    format!("{}… (cut: {end} of {} bytes)", &text[..end], text.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_long_is_cut_and_says_so() {
        let long = "ä".repeat(3_000);
        let shown = text(json!({"id": "1", "payload": {"a": [long]}, "last_error": long}));
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["id"], "1");
        for field in ["payload", "last_error"] {
            let text = shown[field].as_str().unwrap();
            assert!(text.len() < 4_100 && text.contains("(cut: "), "{text}");
        }
        assert!(shown["last_error"].as_str().unwrap().ends_with("… (cut: 4000 of 6000 bytes)"));
        let (cursor, key) = ("c".repeat(384), "k".repeat(255));
        let items: Vec<_> = (0..50)
            .map(|n| json!({"id": n, "last_error": long, "url": long, "key": key}))
            .collect();
        let shown = text(json!({"items": items, "next_cursor": cursor}));
        assert!(shown.len() <= ANSWER_BYTES, "{}", shown.len());
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(
            (&shown["items"][49]["key"], &shown["next_cursor"]),
            (&json!(key), &json!(cursor))
        );
        let short = json!({"payload": {"n": 1}});
        assert_eq!(text(short.clone()), short.to_string());
    }

    #[test]
    fn a_number_that_cannot_be_held_is_text() {
        let shown =
            read(r#"{"items": [{"payload": {"n": 1E400, "m": 1.5}, "key": "k"}]}"#).unwrap();
        assert_eq!(shown, json!({"items": [{"payload": {"n": "1E400", "m": 1.5}, "key": "k"}]}));
        assert!(read("{").is_err() && read("<html>").is_err());
    }

    #[test]
    fn every_reason_of_the_api_has_words() {
        let document = dueq_http::document(dueq_http::openapi::Version::default(), "").unwrap();
        let document: Value = serde_json::from_str(&document).unwrap();
        let reasons =
            document["components"]["schemas"]["WaitingReason"]["enum"].as_array().unwrap();
        assert!(reasons.len() > 10);
        for reason in reasons {
            let words = explain(
                &json!({"waiting_for": {"reason": reason, "until": "then", "place": "host", "ahead": 2, "message_id": "m"}}),
            );
            assert!(
                !words.contains('{') && !words.starts_with("It waits for: "),
                "{reason}: {words}"
            );
        }
        assert!(explain(&json!({"state": "dead"})).contains("redrive_dead"));
    }

    #[test]
    fn a_repeat_whose_message_is_over_says_so() {
        assert!(gone(&json!({"duplicate": true, "state": "gone"})).is_some());
        assert!(gone(&json!({"duplicate": true, "state": "delayed"})).is_none());
        assert!(gone(&json!({"duplicate": false, "state": "ready"})).is_none());
    }
}
