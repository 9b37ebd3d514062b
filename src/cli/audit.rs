//! `dueq audit`: reports damage in the data in Redis while the queue works, and repairs it on request.

use super::{data::DataArgs, fail, progress::Progress};
use clap::Args as ClapArgs;
use dueq_store::audit::{Audit, Audited, Finding, Subject, escaped, quoted};
use serde_json::{Value, json};
use std::{io::Write, process::ExitCode};

/// Arguments of `dueq audit`.
#[derive(ClapArgs)]
pub struct Args {
    #[command(flatten)]
    data: DataArgs,
    /// Repair what is found.
    #[arg(long)]
    repair: bool,
    /// Print one JSON object per line: one for each finding, then a summary.
    #[arg(long)]
    json: bool,
}

/// Exit code 0: nothing was found; 1: something was found, repaired or not; 2: the data could not be audited.
pub async fn run(args: Args) -> ExitCode {
    let Args { data, repair, json } = args;
    if let Err(error) = data.exist() {
        return fail(&error);
    }
    let data = match data.open(false, false).await {
        Ok(data) => data,
        Err(error) => return fail(&error),
    };
    let (mut found, mut mended) = (0, 0);
    let mut progress = if json { Progress::hidden() } else { Progress::new("looked at", None) };
    let bar = progress.bar();
    let mut tell = |finding: Finding| {
        found += 1;
        mended += u64::from(finding.mended.is_some());
        let line = if json { as_json(&finding).to_string() } else { line(&finding) };
        bar.suspend(|| print(&line));
    };
    let mut add = |looked| progress.add(looked);
    let audit = Audit { store: &data.store, repair, tell: &mut tell, progress: &mut add };
    let audited = audit.run().await;
    drop(progress);
    data.close().await;
    match audited {
        Ok(Audited { topics, messages }) => {
            print(&if json {
                json!({"topics": topics, "messages": messages, "found": found, "mended": mended})
                    .to_string()
            } else {
                summary(topics, messages, found, mended)
            });
            ExitCode::from(u8::from(found > 0))
        }
        Err(error) => fail(&error),
    }
}

/// Prints a line. A closed pipe (`| head`) does not stop a repair.
fn print(line: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{line}");
}

fn line(finding: &Finding) -> String {
    let topic = quoted(finding.topic.as_bytes());
    let about = match &finding.subject {
        Subject::Topic => String::new(),
        Subject::Message { member, id: Some(id) } => format!(" {id} \"{}\"", escaped(member)),
        Subject::Message { member, id: None } => format!(" \"{}\"", quoted(member)),
        Subject::Key(key) => format!(" key \"{}\"", quoted(key)),
        Subject::IdempotencyKey(key) => format!(" idempotency key \"{}\"", quoted(key)),
    };
    let detail = match quoted(finding.detail.as_bytes()) {
        detail if detail.is_empty() => detail,
        detail => format!(" ({detail})"),
    };
    let mended = finding.mended.map(|done| format!("; {done}")).unwrap_or_default();
    format!("{topic}{about} {}: {}{detail}{mended}", finding.defect, finding.meaning())
}

fn as_json(finding: &Finding) -> Value {
    let mut object = json!({
        "topic": finding.topic,
        "defect": finding.defect,
        "meaning": finding.meaning(),
    });
    let mut put = |name: &str, value: String| object[name] = value.into();
    match &finding.subject {
        Subject::Topic => {}
        Subject::Message { member, id } => {
            put("member", escaped(member));
            id.iter().for_each(|id| put("message_id", id.to_string()));
        }
        Subject::Key(key) => put("key", String::from_utf8_lossy(key).into_owned()),
        Subject::IdempotencyKey(key) => {
            put("idempotency_key", String::from_utf8_lossy(key).into_owned());
        }
    }
    if !finding.detail.is_empty() {
        put("detail", finding.detail.clone());
    }
    if let Some(mended) = finding.mended {
        put("mended", mended.to_owned());
    }
    object
}

fn summary(topics: u64, messages: i64, found: u64, mended: u64) -> String {
    let of = |n: i64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let looked = format!("{} in {}", of(messages, "message"), of(topics as i64, "topic"));
    match (found, mended) {
        (0, _) => format!("{looked}: no problems found"),
        (found, 0) => format!("{looked}: {found} found; --repair fixes them"),
        (found, mended) => format!("{looked}: {found} found, {mended} repaired"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dueq_model::{MessageId, PartitionNumber, Route, TopicNumber};

    fn finding(subject: Subject) -> Finding {
        let (defect, detail) = ("no_place", String::new());
        Finding { topic: "orders".to_owned(), subject, defect, detail, mended: None }
    }

    #[test]
    fn a_line_says_which_message_and_how_redis_has_it() {
        let route = Route { topic: TopicNumber(3), partition: PartitionNumber(0) };
        let id = MessageId::new(1_763_700_000_123, route, 7);
        let subject = Subject::Message { member: id.member().to_vec(), id: Some(id) };
        let mut finding = finding(subject);
        finding.mended = Some("it is ready");
        assert_eq!(
            line(&finding),
            format!(
                "orders {id} \"{}\" no_place: its body is there, but it is in no place; it is ready",
                escaped(&id.member())
            )
        );
        let object = as_json(&finding);
        assert_eq!(object["message_id"], id.to_string());
        assert_eq!(
            (&object["defect"], &object["mended"]),
            (&json!("no_place"), &json!("it is ready"))
        );
    }

    #[test]
    fn control_characters_in_keys_are_escaped() {
        let text = line(&finding(Subject::Key(b"a\"\n\xff".to_vec())));
        assert!(text.starts_with("orders key \"a\\\"\\n\\xff\" no_place: "), "{text}");
    }

    #[test]
    fn the_summary_counts() {
        assert_eq!(summary(1, 0, 0, 0), "0 messages in 1 topic: no problems found");
        assert_eq!(summary(2, 1, 3, 0), "1 message in 2 topics: 3 found; --repair fixes them");
        assert_eq!(summary(2, 5, 3, 2), "5 messages in 2 topics: 3 found, 2 repaired");
    }
}
