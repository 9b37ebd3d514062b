//! `dueq tail`: shows the activity in a topic from its counts and totals. So watching leases no messages, and costs the
//! server one request a second.

use super::{
    api::{Answer, path},
    context::Context,
    durations::now,
    failure::Failure,
    object::Object,
    table::clean,
    warn,
};
use dueq_model::format_instant;
use std::time::Duration;
use tokio::{signal, time::sleep};

/// The interval of the requests.
const INTERVAL: Duration = Duration::from_secs(1);

/// Watches the topic until Ctrl-C, which ends it successfully.
pub async fn run(cx: &mut Context<'_>, topic: &str) -> Result<(), Failure> {
    tokio::select! {
        end = watch(cx, topic) => end,
        pressed = signal::ctrl_c() => Ok(pressed?),
    }
}

/// Polls the topic. Ends with the first refusal, but tolerates an unreachable server once it has answered.
async fn watch(cx: &mut Context<'_>, topic: &str) -> Result<(), Failure> {
    let path = path(&["topics", topic]);
    let (mut last, mut answered, mut shown) = (None, false, String::new());
    loop {
        let trouble = match cx.client.get(&path).await {
            Ok(answer) => {
                last = Some(print_changes(cx, &answer, last)?);
                String::new()
            }
            Err(failure) if failure.is_not_found("topic_not_found") => {
                last = None;
                format!("there is no topic {} yet; waiting for it", clean(topic))
            }
            Err(failure) if answered && failure.is_transient() => failure.message(),
            Err(failure) => return Err(failure),
        };
        answered = true;
        if trouble != shown {
            if !trouble.is_empty() {
                warn(&trouble);
            }
            shown = trouble;
        }
        sleep(INTERVAL).await;
    }
}

/// The state of a topic at one poll.
#[derive(Debug, PartialEq, Eq)]
struct Snapshot {
    paused: bool,
    counts: Vec<(String, i64)>,
    totals: Vec<(String, i64)>,
}

impl Snapshot {
    fn of(topic: &Object) -> Self {
        let numbers = |name| {
            let object = topic.object(name);
            object.iter().map(|(name, _)| (name.to_owned(), object.number(name))).collect()
        };
        Self {
            paused: topic.get("paused") == Some(true),
            counts: numbers("counts"),
            totals: numbers("totals"),
        }
    }

    /// The growth of the totals since `last`. A topic that was deleted and created again counts from 0.
    fn since(&self, last: &Self) -> String {
        let before = |name: &str| {
            last.totals.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count)
        };
        let is_new = self.totals.iter().any(|(name, count)| *count < before(name));
        let grown = self
            .totals
            .iter()
            .map(|(name, count)| (name, if is_new { *count } else { count - before(name) }));
        let words: Vec<String> =
            grown.filter(|(_, by)| *by != 0).map(|(name, by)| format!("{name} +{by}")).collect();
        words.join(", ")
    }

    fn line(&self, at: &str, last: Option<&Self>) -> String {
        let mut line = at.to_owned();
        for (name, count) in &self.counts {
            line.push_str(&format!("  {} {count:<5}", clean(name)));
        }
        if self.paused {
            line.push_str("  paused");
        }
        if let Some(happened) = last.map(|last| self.since(last)).filter(|words| !words.is_empty())
        {
            line.push_str(&format!("  {}", clean(&happened)));
        }
        format!("{}\n", line.trim_end())
    }
}

/// Prints a line if the topic has changed. Returns the snapshot to compare the next one with.
fn print_changes(
    cx: &mut Context<'_>,
    answer: &Answer,
    last: Option<Snapshot>,
) -> Result<Snapshot, Failure> {
    let snapshot = Snapshot::of(&answer.object()?);
    if last.as_ref() == Some(&snapshot) {
        return Ok(snapshot);
    }
    if cx.json {
        cx.as_it_came(answer)?;
    } else {
        cx.say(&snapshot.line(&format_instant(now()), last.as_ref()))?;
    }
    Ok(snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(text: &str) -> Snapshot {
        Snapshot::of(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn the_first_line_shows_the_counts() {
        let now = snapshot(
            r#"{"paused":true,"counts":{"delayed":1,"ready":0},"totals":{"published":1}}"#,
        );
        assert_eq!(now.line("12:00", None), "12:00  delayed 1      ready 0      paused\n");
    }

    #[test]
    fn later_lines_show_the_changes() {
        let before =
            snapshot(r#"{"counts":{"ready":2},"totals":{"published":2,"granted":0,"acked":0}}"#);
        let now =
            snapshot(r#"{"counts":{"ready":3},"totals":{"published":4,"granted":1,"acked":0}}"#);
        let line = now.line("12:01", Some(&before));
        assert_eq!(line, "12:01  ready 3      published +2, granted +1\n");
    }

    #[test]
    fn a_topic_that_was_created_again_counts_from_0() {
        let before = snapshot(r#"{"counts":{},"totals":{"published":5,"acked":1}}"#);
        let now = snapshot(r#"{"counts":{},"totals":{"published":2,"acked":1}}"#);
        assert_eq!(now.since(&before), "published +2, acked +1");
    }
}
