//! `dueq redrive`, `run` and `purge`: what is done to many messages of a topic, to all of them or to those that a query
//! finds.

mod repeat;

use super::{
    api::path,
    by_ids::{self, Ids},
    context::Context,
    durations,
    failure::Failure,
    view,
};
use clap::{Args, builder::PossibleValuesParser};
pub use repeat::count;
use repeat::{Bulk, named};
use serde::Serialize;

const REDRIVE_EXAMPLES: &str = "Examples:
  dueq redrive orders --max 10
  dueq redrive orders --spread 10m
  dueq redrive orders --query error:timeout --dry-run
  dueq search orders error:timeout --state dead --json | jq -r .id | dueq redrive --id -";

/// The messages that a command is about, and whether it changes them; serialized as the API's fields.
#[derive(Args, Clone, Serialize)]
struct Choice {
    /// Only messages for which all terms hold, as in `dueq search`.
    #[arg(long, visible_alias = "q", value_name = "QUERY")]
    #[serde(rename = "q", skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    /// Change nothing; only say how many messages match.
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
}

/// How many messages become due, and over how long; serialized as the API's fields.
#[derive(Args, Clone, Copy, Default, Serialize)]
struct Pace {
    /// At most this many messages.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    #[serde(rename = "max_messages", skip_serializing_if = "Option::is_none")]
    max: Option<u64>,
    /// Spread the due times evenly over this time, such as 10m.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    #[serde(rename = "spread_ms", skip_serializing_if = "Option::is_none")]
    spread: Option<u64>,
}

/// Arguments of `dueq redrive`.
#[derive(Args)]
#[command(after_help = REDRIVE_EXAMPLES)]
pub struct Redrive {
    /// The topic; messages that have been dead longest come first.
    #[arg(required_unless_present = "id")]
    topic: Option<String>,
    #[command(flatten)]
    ids: Ids,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    pace: Pace,
}

/// Arguments of `dueq run`.
#[derive(Args)]
pub struct Run {
    /// The topic; messages that are due first come first.
    #[arg(required_unless_present = "id")]
    topic: Option<String>,
    #[command(flatten)]
    ids: Ids,
    /// Only messages in these states, separated by commas. Blocked ones go on waiting for earlier ones of their group.
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',', conflicts_with = "id",
        value_parser = PossibleValuesParser::new(["delayed", "blocked"]))]
    states: Vec<String>,
    #[command(flatten)]
    choice: Choice,
    #[command(flatten)]
    pace: Pace,
}

/// Arguments of `dueq purge`.
#[derive(Args)]
pub struct Purge {
    /// The topic's name.
    topic: String,
    /// States to purge, separated by spaces or commas. Leased messages stay.
    #[arg(long = "state", value_name = "STATE", required = true, num_args = 1.., value_delimiter = ',',
        value_parser = PossibleValuesParser::new(["ready", "delayed", "blocked", "dead"]))]
    states: Vec<String>,
    #[command(flatten)]
    choice: Choice,
}

impl Redrive {
    pub async fn run(&self, cx: &mut Context<'_>) -> Result<(), Failure> {
        if let [id] = &self.ids.id[..]
            && id != "-"
        {
            let answer = cx.client.act(&path(&["messages", id, "redrive"])).await?;
            return cx.show(&answer, view::message);
        }
        let Some(topic) = &self.topic else {
            return by_ids::change(cx, "redrive", "redriven", &self.ids.read()?).await;
        };
        Bulk { topic, verb: "redrive", done: "redriven", counted: &["dead"] }
            .carry_out(cx, &[], &self.choice, self.pace)
            .await
    }
}

impl Run {
    pub async fn run(&self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let Some(topic) = &self.topic else {
            return by_ids::change(cx, "run", "made due", &self.ids.read()?).await;
        };
        let states = named(&self.states);
        let counted = if states.is_empty() { &["delayed", "blocked"][..] } else { &states };
        Bulk { topic, verb: "run", done: "made due", counted }
            .carry_out(cx, &states, &self.choice, self.pace)
            .await
    }
}

impl Purge {
    pub async fn run(&self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let states = named(&self.states);
        Bulk { topic: &self.topic, verb: "purge", done: "purged", counted: &states }
            .carry_out(cx, &states, &self.choice, Pace::default())
            .await
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{answer, asked, asked_in_turn, ok, tried, unparsed};

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
    async fn a_redrive_is_repeated_for_those_that_were_dead_at_first() {
        let answers =
            [ok(r#"{"redriven":2,"remaining":3}"#), ok(r#"{"redriven":3,"remaining":1}"#)];
        let sent = asked_in_turn(&["redrive", "a"], &answers).await;
        assert_eq!(sent[1].lines(), ("POST /topics/a/redrive", "{}"));
        assert_eq!(sent[1].shown, "redriven 5, still dead 1\n");
    }

    #[tokio::test]
    async fn a_query_is_followed_to_its_end() {
        let answers = [
            ok(r#"{"redriven":0,"remaining":9,"matched":0,"scanned":10000,"next_cursor":"c"}"#),
            ok(r#"{"redriven":2,"remaining":7,"matched":3,"scanned":70}"#),
        ];
        let words = ["redrive", "a", "--q", "error:x", "--max", "5", "--spread", "10m"];
        let sent = asked_in_turn(&words, &answers).await;
        let body = r#"{"max_messages":5,"spread_ms":600000,"q":"error:x","cursor":"c"}"#;
        assert_eq!(sent[1].lines(), ("POST /topics/a/redrive", body));
        assert_eq!(sent[1].shown, "redriven 2 of 3, still dead 7, looked at 10070\n");
    }

    #[tokio::test]
    async fn a_limit_holds_over_all_requests() {
        let page =
            |n: u64| ok(&format!(r#"{{"run":{n},"matched":{n},"scanned":9,"next_cursor":"c"}}"#));
        let sent = asked_in_turn(&["run", "a", "--max", "5"], &[page(3), page(2)]).await;
        assert_eq!(sent[1].lines(), ("POST /topics/a/run", r#"{"max_messages":2,"cursor":"c"}"#));
        assert_eq!(sent[1].shown, "made due 5, looked at 18\n");
    }

    #[tokio::test]
    async fn a_dry_run_changes_nothing_and_counts() {
        let page = ok(r#"{"purged":0,"remaining":9,"matched":4,"scanned":9}"#);
        let sent = asked(&["purge", "a", "--state", "dead", "--dry-run"], &page).await;
        assert_eq!(sent.lines(), ("POST /topics/a/purge", r#"{"states":["dead"],"dry_run":true}"#));
        assert_eq!(sent.shown, "would be purged 4, looked at 9\n");
    }

    #[tokio::test]
    async fn what_was_done_before_a_failure_is_said() {
        let first = ok(r#"{"run":2,"matched":2,"scanned":9,"next_cursor":"c"}"#);
        let broken = answer("503 Service Unavailable", r#"{"detail":"gone","code":"x"}"#);
        let (outcome, sent) = tried(&["run", "a"], &[first, broken]).await;
        assert_eq!(outcome.unwrap_err().message(), "gone (503 x)");
        assert_eq!(sent[1].shown, "made due 2, looked at 9\n");
    }

    #[tokio::test]
    async fn each_answer_in_json_is_a_line() {
        let pages =
            [ok(r#"{"run":0,"next_cursor":"c","scanned":1}"#), ok(r#"{"run":1,"scanned":1}"#)];
        let sent = asked_in_turn(&["run", "a", "--json"], &pages).await;
        assert_eq!(sent[1].shown.lines().count(), 2, "{}", sent[1].shown);
    }

    #[test]
    fn contradictory_or_invalid_arguments_are_refused() {
        for words in [
            &["redrive"][..],
            &["redrive", "a", "--id", "1"],
            &["redrive", "--id", "1", "--query", "error:x"],
            &["redrive", "--id", "1", "--dry-run"],
            &["redrive", "a", "--max", "0"],
            &["redrive", "a", "--spread", "10"],
            &["redrive", "a", "b"],
            &["run"],
            &["run", "a", "--state", "dead"],
            &["run", "--id", "1", "--state", "delayed"],
            &["purge", "a", "--query", "error:x"],
            &["purge", "a", "--state", "leased"],
            &["purge", "a", "--state", "dead", "--max", "1"],
        ] {
            assert!(unparsed(words), "{words:?}");
        }
    }
}
