//! `dueq messages`: lists what is in a topic, state by state.

use super::{
    api::path,
    context::Context,
    failure::Failure,
    view::{self, STATES},
    warn,
};
use clap::{Args, builder::PossibleValuesParser};
use std::num::NonZeroUsize;

/// How many messages are listed unless told.
pub const LIMIT: usize = 100;

const EXAMPLES: &str = "Examples:
  dueq messages orders
  dueq messages orders --state dead
  dueq messages orders --state delayed,ready --limit 1000 --json | jq -r .id";

/// Arguments of `dueq messages`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Messages {
    /// The topic's name.
    topic: String,
    /// States to list, separated by commas. Ready messages are in the order of leasing, dead ones oldest first.
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',', default_values = STATES,
        value_parser = PossibleValuesParser::new(STATES))]
    states: Vec<String>,
    /// List at most this many messages (default 100).
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,
}

impl Messages {
    pub async fn run(&self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let path = path(&["topics", &self.topic, "messages"]);
        let mut items = Vec::new();
        let mut left = self.limit.map_or(LIMIT, NonZeroUsize::get);
        let mut more = false;
        for state in &self.states {
            if left > 0 {
                let filter = [("state", &**state)];
                let (found, rest) = cx.pages(&path, &filter, left, &mut items).await?;
                left = left.saturating_sub(found);
                more |= rest;
            } else if self.limit.is_none() && !more {
                let next = cx.client.get(&format!("{path}?limit=1&state={state}")).await?;
                more = !next.object()?.objects("items").is_empty();
            }
        }
        if !cx.json {
            cx.say(&view::messages(&items))?;
        }
        if more && self.limit.is_none() {
            warn(&format!("these are the first {LIMIT}; --limit lists more"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{asked, asked_in_turn, ok, unparsed};

    #[tokio::test]
    async fn dead_messages_show_when_and_why_they_died() {
        let long = "x".repeat(200);
        let page = ok(&format!(
            r#"{{"items":[
                {{"id":"1","state":"dead","attempts":10,"died_at":"y","last_error":"no such\norder"}},
                {{"id":"2","state":"dead","attempts":1,"key":"k","died_at":"z","last_error":"{long}"}}]}}"#
        ));
        let sent = asked(&["messages", "a", "--state", "dead"], page).await;
        assert_eq!(sent.lines(), ("GET /topics/a/messages?limit=100&state=dead", ""));
        let cut = "x".repeat(120);
        assert_eq!(
            sent.shown,
            format!(
                "ID  STATE  ATTEMPTS  KEY  DIED  LAST ERROR\n\
                 1   dead         10       y     no such order\n\
                 2   dead          1  k    z     {cut}…\n"
            )
        );
    }

    #[tokio::test]
    async fn all_states_are_listed_up_to_the_limit() {
        let pages = [
            ok(r#"{"items":[{"id":"1","state":"delayed","due_at":"x"}],"next_cursor":"c"}"#),
            ok(r#"{"items":[{"id":"2","state":"delayed","due_at":"y"}]}"#),
            ok(r#"{"items":[{"id":"3","state":"ready","due_at":"z"}],"next_cursor":"d"}"#),
        ];
        let sent = asked_in_turn(&["messages", "a", "--limit", "3"], &pages).await;
        let asked_for: Vec<&str> = sent.iter().map(|sent| &*sent.head).collect();
        let route = "GET /topics/a/messages";
        assert_eq!(
            asked_for,
            [
                format!("{route}?limit=3&state=delayed"),
                format!("{route}?limit=2&state=delayed&cursor=c"),
                format!("{route}?limit=1&state=ready"),
            ]
        );
        assert_eq!(sent[0].shown.lines().count(), 4, "{}", sent[0].shown);
    }

    #[tokio::test]
    async fn json_is_one_message_per_line() {
        let page = ok("{\"items\":[{\"id\" :\n\"1\"},{\"n\":1E400}]}");
        let sent = asked(&["messages", "a", "--state", "ready", "--json"], page).await;
        assert_eq!(sent.shown, "{\"id\" : \"1\"}\n{\"n\":1E400}\n");
    }

    #[tokio::test]
    async fn an_empty_state_says_so() {
        let words = ["messages", "a", "--state", "dead"];
        assert_eq!(asked(&words, ok(r#"{"items":[]}"#)).await.shown, "no messages\n");
    }

    #[test]
    fn wrong_states_and_limits_are_refused() {
        for words in [&["--state", "done"][..], &["--state", ""], &["--limit", "0"], &["b"]] {
            assert!(unparsed(&[&["messages", "a"], words].concat()), "{words:?}");
        }
        assert!(unparsed(&["messages"]));
    }
}
