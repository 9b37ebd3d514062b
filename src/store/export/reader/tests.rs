//! What is wrong with a dump, by line and reason.

use super::*;

/// What is wrong with a dump of these lines, to which the last is added unless it is there.
fn read(lines: &[&str]) -> Result<u64, String> {
    let mut text = String::new();
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    if lines.last().is_none_or(|last| !last.starts_with("{\"end\"")) {
        let count = |what: &str| lines.iter().filter(|l| l.starts_with(what)).count() as u64;
        let end = End {
            topics: count("{\"topic\""),
            schedules: count("{\"schedule\""),
            idempotency_keys: count("{\"idempotency_key\""),
            messages: count("{\"message\""),
            sha256: hex::encode(ring::digest::digest(&SHA256, text.as_bytes()).as_ref()),
            ..End::default()
        };
        text.push_str(&serde_json::to_string(&Line::End(end)).unwrap());
        text.push('\n');
    }
    read_text(&text)
}

fn read_text(text: &str) -> Result<u64, String> {
    let mut reader = Reader::new(text.as_bytes());
    while reader.next_line().map_err(|error| error.to_string())?.is_some() {}
    Ok(reader.number)
}

const HEAD: &str =
    r#"{"dump":{"format":1,"schema":2,"dueq":"0.1.0","id":"00","at":"","from":"","instances":1}}"#;
const TOPIC: &str = r#"{"topic":{"name":"a","number":5}}"#;
const KEY: &str = r#"{"idempotency_key":{"topic":"a","key":{"text":"k"},"until_ms":5,"answer":"0f,ready,5","id":"019ab000-0001-8000-8005-006162636465"}}"#;
const MESSAGE: &str = r#"{"message":{"id":"019ab000-0001-8000-8005-006162636465","topic":"a","state":"ready","at_ms":5,"payload":{"text":"1"}}}"#;

#[test]
fn a_dump_is_read_to_its_end() {
    assert_eq!(read(&[HEAD]), Ok(2));
    assert_eq!(read(&[HEAD, TOPIC, MESSAGE, KEY]), Ok(5));
}

#[test]
fn what_is_wrong_is_told_by_line_and_reason() {
    let with = |from: &str, to: &str| MESSAGE.replace(from, to);
    let zeros = format!("{}0000", "\\u0000".repeat(100_000));
    for (lines, reason) in [
        (vec!["{}"], "line 1: this is no dump of dueq"),
        (vec![HEAD, HEAD], "line 2: this is another dump"),
        (vec![HEAD, "{\"what\":1}"], "line 2: it is no line of a dump: unknown variant `what`"),
        (vec![HEAD, TOPIC, TOPIC], "line 3: the topic a is there twice"),
        (
            vec![HEAD, r#"{"topic":{"name":"a b","number":5}}"#],
            "line 2: a topic name must have 1 to 128 of the characters",
        ),
        (vec![HEAD, MESSAGE], "its topic is not in the dump"),
        (vec![HEAD, TOPIC, MESSAGE, TOPIC], "line 4: a topic comes after what is in topics"),
        (vec![HEAD, TOPIC, &with("8005", "8006")], "its id is not of its topic"),
        (vec![HEAD, TOPIC, &with("-006", "-016")], "its id is not of its topic"),
        (vec![HEAD, TOPIC, &with("ready", "sold")], "its state is unknown"),
        (
            vec![HEAD, TOPIC, &with("\"at_ms\":5", "\"at_ms\":-5")],
            "an instant of it is out of range",
        ),
        (
            vec![HEAD, TOPIC, r#"{"group":{"topic":"other","group":"g"}}"#],
            "line 3: its topic is not in the dump",
        ),
        (
            vec![HEAD, TOPIC, r#"{"group":{"topic":"a","group":"g","limits":{"weight":101}}}"#],
            "the group g: its weight is out of range",
        ),
        (
            vec![HEAD, TOPIC, &with("\"text\":\"1\"", "\"base64\":\"*\"")],
            "its payload is not base64",
        ),
        (
            vec![HEAD, TOPIC, &with("\"at_ms\"", "\"attempts\":4294967296,\"at_ms\"")],
            "its attempts are out of range",
        ),
        (vec![HEAD, TOPIC, &KEY.replace("0f,ready,5", "0f,ready")], "its answer cannot be read"),
        (vec![HEAD, TOPIC, &KEY.replace("0f,", "0g,")], "its answer cannot be read"),
        (vec![HEAD, TOPIC, &KEY.replace("ready", "dead")], "its answer cannot be read"),
        (vec![HEAD, TOPIC, &KEY.replace(":5,", ":-5,")], "its answer cannot be read"),
        (
            vec![HEAD, TOPIC, &with("\"at_ms\"", "\"as_ms\":5,\"at_ms\"")],
            "line 3: it is no line of a dump: unknown field `as_ms`",
        ),
        (
            vec![
                HEAD,
                TOPIC,
                &with("\"text\":\"1\"", &format!("\"text\":\"{}\"", zeros.repeat(11))),
            ],
            "its payload is larger than 1 MiB",
        ),
        (
            vec![
                HEAD,
                r#"{"end":{"topics":0,"paused_hosts":0,"schedules":0,"messages":1,"idempotency_keys":0,"damaged":0,"changed":[],"sha256":""}}"#,
            ],
            "line 2: the dump was edited: it has 0 messages, not 1",
        ),
        (
            vec![
                HEAD,
                r#"{"end":{"topics":0,"paused_hosts":0,"schedules":0,"messages":0,"idempotency_keys":0,"damaged":0,"changed":[],"sha256":"00"}}"#,
            ],
            "line 2: the dump was edited: its lines do not have this hash",
        ),
        (
            vec![&HEAD.replace("\"format\":1", "\"format\":3,\"new\":[]"), "?"],
            "line 1: the dump has format 3, as dueq 0.1.0 writes it",
        ),
        (vec![&HEAD.replace("\"schema\":2", "\"schema\":99")], "line 1: the dump is of schema 99"),
    ] {
        let told = read(&lines).unwrap_err();
        assert!(told.contains(reason), "{told}, not {reason}");
    }
}

#[test]
fn a_dump_that_was_cut_is_told_wherever_that_was() {
    let whole = format!("{HEAD}\n{TOPIC}\n");
    for (at, reason) in [
        (0, "line 1: this is no dump: it is empty"),
        (HEAD.len(), "line 1: the dump is cut: it ends within this line"),
        (HEAD.len() + 1, "line 1: the dump is cut: it ends here, without its last line"),
        (whole.len() - 2, "line 2: the dump is cut: it ends within this line"),
        (whole.len(), "line 2: the dump is cut: it ends here, without its last line"),
    ] {
        assert_eq!(read_text(&whole[..at]).unwrap_err(), reason);
    }
}
