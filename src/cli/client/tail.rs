//! `dueq tail`: what happens in a topic, told from its counts and totals, so that watching takes nothing away and costs
//! the server one look a second.

use super::{
    Out, Run,
    api::{Answer, Client, path},
    durations::now,
    failure::Failure,
    object::Object,
    table::clean,
};
use crate::model::format_instant;
use clap::Args;
use std::{
    io::{self, Write as _},
    time::Duration,
};
use tokio::{signal, time::sleep};

/// Between two looks.
const INTERVAL: Duration = Duration::from_secs(1);

/// Arguments of `dueq tail`.
#[derive(Args, Clone, Debug)]
pub struct Tail {
    /// The topic's name; if it does not exist yet, waits for it.
    topic: String,
}

impl Run for Tail {
    /// Until Ctrl-C, which ends it well.
    async fn run(&self, client: &Client, out: &mut Out<'_>) -> Result<(), Failure> {
        tokio::select! {
            end = self.watch(client, out, INTERVAL) => end,
            pressed = signal::ctrl_c() => Ok(pressed?),
        }
    }
}

impl Tail {
    /// Looks again and again; ends with the first refusal, but bears a server that is away for a while once it answered.
    async fn watch(
        &self,
        client: &Client,
        out: &mut Out<'_>,
        interval: Duration,
    ) -> Result<(), Failure> {
        let path = path(&["topics", &self.topic]);
        let (mut last, mut answered, mut told) = (None, false, String::new());
        loop {
            let trouble = match client.get(&path).await {
                Ok(answer) => {
                    last = Some(tell(out, &answer, last)?);
                    String::new()
                }
                Err(failure) if failure.is_not_found("topic_not_found") => {
                    last = None;
                    format!("there is no topic {} yet; waiting for it", clean(&self.topic))
                }
                Err(failure) if answered && failure.may_pass() => failure.message(),
                Err(failure) => return Err(failure),
            };
            answered = true;
            if trouble != told {
                // Nobody to tell is no reason to end.
                let _ = if trouble.is_empty() {
                    Ok(())
                } else {
                    writeln!(io::stderr(), "dueq: {trouble}")
                };
                told = trouble;
            }
            sleep(interval).await;
        }
    }
}

/// What a look shows of a topic.
#[derive(Debug, PartialEq, Eq)]
struct Look {
    paused: bool,
    counts: Vec<(String, i64)>,
    totals: Vec<(String, i64)>,
}

impl Look {
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

    /// What happened since `last`; a topic that was deleted and made anew counts from 0.
    fn since(&self, last: &Self) -> String {
        let before = |name: &str| {
            last.totals.iter().find(|(known, _)| known == name).map_or(0, |(_, count)| *count)
        };
        let anew = self.totals.iter().any(|(name, count)| *count < before(name));
        let grown = self
            .totals
            .iter()
            .map(|(name, count)| (name, if anew { *count } else { count - before(name) }));
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

/// Prints a line where something changed; gives back the look to compare the next one with.
fn tell(out: &mut Out<'_>, answer: &Answer, last: Option<Look>) -> Result<Look, Failure> {
    let look = Look::of(&answer.object()?);
    if last.as_ref() == Some(&look) {
        return Ok(look);
    }
    if out.json {
        out.as_it_came(answer)?;
    } else {
        out.say(&look.line(&format_instant(now()), last.as_ref()))?;
    }
    Ok(look)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(text: &str) -> Look {
        Look::of(&serde_json::from_str(text).unwrap())
    }

    #[test]
    fn the_first_line_says_what_is_there() {
        let now =
            look(r#"{"paused":true,"counts":{"delayed":1,"ready":0},"totals":{"published":1}}"#);
        assert_eq!(now.line("12:00", None), "12:00  delayed 1      ready 0      paused\n");
    }

    #[test]
    fn the_next_says_what_happened() {
        let before =
            look(r#"{"counts":{"ready":2},"totals":{"published":2,"granted":0,"acked":0}}"#);
        let now = look(r#"{"counts":{"ready":3},"totals":{"published":4,"granted":1,"acked":0}}"#);
        let line = now.line("12:01", Some(&before));
        assert_eq!(line, "12:01  ready 3      published +2, granted +1\n");
    }

    #[test]
    fn a_topic_made_anew_counts_from_nothing() {
        let before = look(r#"{"counts":{},"totals":{"published":5,"acked":1}}"#);
        let now = look(r#"{"counts":{},"totals":{"published":2,"acked":1}}"#);
        assert_eq!(now.since(&before), "published +2, acked +1");
    }
}
