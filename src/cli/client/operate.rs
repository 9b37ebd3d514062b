//! `dueq redrive`, `purge`, `pause` and `resume`.

use super::{
    Out, Run,
    api::{Client, path},
    durations,
    failure::Failure,
    view,
};
use clap::{Args, ValueEnum};
use serde::Serialize;

/// Arguments of `dueq redrive`.
#[derive(Args, Clone, Debug)]
pub struct Redrive {
    /// The topic; messages that have been dead longest come first.
    #[arg(required_unless_present = "id")]
    topic: Option<String>,
    /// Redrive only this dead message, instead of a topic.
    #[arg(long, conflicts_with_all = ["topic", "max", "spread"])]
    id: Option<String>,
    /// Redrive at most this many messages (default 10000).
    #[arg(long, value_name = "N")]
    max: Option<u64>,
    /// Spread the due times evenly over this time, such as 10m.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    spread: Option<u64>,
}

#[derive(Serialize)]
struct RedriveBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    max_messages: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spread_ms: Option<u64>,
}

impl Run for Redrive {
    async fn run(&self, client: &Client, out: &mut Out<'_>) -> Result<(), Failure> {
        let body = RedriveBody { max_messages: self.max, spread_ms: self.spread };
        if let Some(id) = &self.id {
            let answer = client.post(&path(&["messages", id, "redrive"]), &body).await?;
            return out.show(&answer, view::message);
        }
        let topic = self.topic.as_deref().unwrap_or_default();
        let answer = client.post(&path(&["topics", topic, "redrive"]), &body).await?;
        out.show(&answer, |done| {
            format!(
                "redriven {}, still dead {}\n",
                done.number("redriven"),
                done.number("remaining")
            )
        })
    }
}

/// Arguments of `dueq purge`.
#[derive(Args, Clone, Debug)]
pub struct Purge {
    /// The topic's name.
    topic: String,
    /// States to purge, separated by spaces or commas. Leased messages stay.
    #[arg(long = "state", value_name = "STATE", value_enum, required = true, num_args = 1.., value_delimiter = ',')]
    states: Vec<State>,
}

/// A state in which messages can be purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum State {
    /// Due.
    Ready,
    /// Not due yet.
    Delayed,
    /// Their attempts are used up.
    Dead,
}

#[derive(Serialize)]
struct PurgeBody {
    states: Vec<State>,
}

impl Run for Purge {
    /// One request removes a limited number of messages. Repeats it until none are left, or none were removed.
    async fn run(&self, client: &Client, out: &mut Out<'_>) -> Result<(), Failure> {
        let mut states = self.states.clone();
        let mut seen = Vec::new();
        states.retain(|state| {
            !seen.contains(state) && {
                seen.push(*state);
                true
            }
        });
        let (path, body) = (path(&["topics", &self.topic, "purge"]), PurgeBody { states });
        let mut purged = 0;
        loop {
            let answer = client.post(&path, &body).await?;
            let done = answer.object()?;
            purged += done.number("purged");
            if out.json {
                out.as_it_came(&answer)?;
            }
            let remaining = done.number("remaining");
            if remaining == 0 || done.number("purged") == 0 {
                let summary = format!("purged {purged}, still there {remaining}\n");
                return if out.json { Ok(()) } else { out.say(&summary) };
            }
        }
    }
}

/// Arguments of `dueq pause`.
#[derive(Args, Clone, Debug)]
pub struct Pause {
    /// The topic's name.
    topic: String,
}

impl Run for Pause {
    async fn run(&self, client: &Client, out: &mut Out<'_>) -> Result<(), Failure> {
        set_paused(client, out, &self.topic, "pause").await
    }
}

/// Arguments of `dueq resume`.
#[derive(Args, Clone, Debug)]
pub struct Resume {
    /// The topic's name.
    topic: String,
}

impl Run for Resume {
    async fn run(&self, client: &Client, out: &mut Out<'_>) -> Result<(), Failure> {
        set_paused(client, out, &self.topic, "resume").await
    }
}

async fn set_paused(
    client: &Client,
    out: &mut Out<'_>,
    topic: &str,
    verb: &str,
) -> Result<(), Failure> {
    let answer = client.post(&path(&["topics", topic, verb]), &serde_json::json!({})).await?;
    out.show(&answer, |after| {
        let state = if after.get("paused") == Some(true) { "paused" } else { "not paused" };
        format!("{topic} is {state}\n")
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{asked, asked_in_turn, ok};

    #[tokio::test]
    async fn a_topic_is_redriven_within_bounds() {
        let answer = ok(r#"{"redriven":3,"remaining":4}"#);
        let sent = asked(&["redrive", "a", "--max", "3", "--spread", "10m"], &answer).await;
        let body = r#"{"max_messages":3,"spread_ms":600000}"#;
        assert_eq!(sent.lines(), ("POST /topics/a/redrive", body));
        assert_eq!(sent.shown, "redriven 3, still dead 4\n");
    }

    #[tokio::test]
    async fn one_message_is_redriven_by_its_id() {
        let sent = asked(&["redrive", "--id", "1-2"], &ok(r#"{"id":"1-2"}"#)).await;
        assert_eq!(
            (sent.lines(), &*sent.shown),
            (("POST /messages/1-2/redrive", "{}"), "id  1-2\n")
        );
    }

    #[tokio::test]
    async fn a_purge_is_repeated_until_nothing_is_left() {
        let answers = [ok(r#"{"purged":5,"remaining":2}"#), ok(r#"{"purged":2,"remaining":0}"#)];
        let sent = asked_in_turn(&["purge", "a", "--state", "dead", "ready,dead"], &answers).await;
        for sent in &sent {
            assert_eq!(sent.lines(), ("POST /topics/a/purge", r#"{"states":["dead","ready"]}"#));
        }
        assert_eq!(sent[1].shown, "purged 7, still there 0\n");
    }

    #[tokio::test]
    async fn a_purge_that_removes_nothing_ends() {
        let sent =
            asked(&["purge", "a", "--state", "dead"], &ok(r#"{"purged":0,"remaining":2}"#)).await;
        assert_eq!(sent.shown, "purged 0, still there 2\n");
    }

    #[tokio::test]
    async fn pause_and_resume_show_the_new_state() {
        let sent = asked(&["pause", "a"], &ok(r#"{"paused":true}"#)).await;
        assert_eq!((sent.lines(), &*sent.shown), (("POST /topics/a/pause", "{}"), "a is paused\n"));
        let sent = asked(&["resume", "a"], &ok(r#"{"paused":false}"#)).await;
        assert_eq!(
            (sent.lines(), &*sent.shown),
            (("POST /topics/a/resume", "{}"), "a is not paused\n")
        );
    }
}
