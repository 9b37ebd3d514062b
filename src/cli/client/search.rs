//! `dueq search`: finds messages. The server looks at a part of them per request; the command asks on until it has found
//! enough or has seen all, the dead first.

use super::{api::path, bulk, context::Context, failure::Failure, messages::LIMIT, view, warn};
use clap::{Args, builder::PossibleValuesParser};
use std::num::NonZeroUsize;

/// The states in the order in which they are searched: whoever searches wonders mostly why something failed or is late.
const STATES: [&str; 6] = ["dead", "ready", "blocked", "leased", "delayed", "acked"];

const EXAMPLES: &str = "Terms, of which all must hold:
  error:timeout           the last error contains this; * stands for any characters
  reason:\"no such *\"      the last error as `dueq dead` groups it
  key:cart/*  group:x     key and group
  header.tenant:42        a header
  payload:text            the payload's text
  payload.$.order.id:42   a field of a JSON payload
  attempts:>3  priority:0
  at:>2026-11-20          due, or end of the lease, or death, or ack
  published:2026-11-20

Examples:
  dueq search orders 'error:timeout attempts:>3'
  dueq search orders 'payload.$.order:42' --state dead,delayed
  dueq search orders key:cart/* --json | jq -r .id";

/// Arguments of `dueq search`.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Search {
    /// The topic's name.
    topic: String,
    /// Terms, separated by spaces; see below.
    query: String,
    /// States to search, separated by commas, in this order.
    #[arg(long = "state", value_name = "STATE", value_delimiter = ',', default_values = STATES,
        value_parser = PossibleValuesParser::new(STATES))]
    states: Vec<String>,
    /// List at most this many messages (default 100).
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,
}

impl Search {
    pub async fn run(&self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let path = path(&["topics", &self.topic, "messages"]);
        let limit = self.limit.map_or(LIMIT, NonZeroUsize::get);
        let (mut items, mut found, mut scanned) = (Vec::new(), 0, 0);
        let mut progress = cx.progress("looked at");
        'states: for state in &self.states {
            let filter = [("state", &**state), ("q", &self.query)];
            let mut cursor = None;
            loop {
                if found >= limit {
                    break 'states;
                }
                let page = cx.page(&path, &filter, limit - found, cursor, &mut items).await?;
                found += page.items.len();
                scanned += page.scanned;
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
                if progress.appears() {
                    let states: Vec<&str> = self.states.iter().map(|state| &**state).collect();
                    if let Ok(total) = bulk::count(cx.client, &self.topic, &states).await {
                        progress.set_total(total.unsigned_abs());
                    }
                }
                progress.set(scanned);
            }
        }
        drop(progress);
        if !cx.json {
            let list = if items.is_empty() { String::new() } else { view::messages(&items) + "\n" };
            cx.say(&format!("{list}found {found}, looked at {scanned}\n"))?;
        }
        if found >= limit && self.limit.is_none() {
            warn(&format!("the search ended with the first {LIMIT}; --limit goes on"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{asked, asked_in_turn, ok, unparsed};

    #[tokio::test]
    async fn a_search_goes_through_pages_and_states_and_counts_what_it_looked_at() {
        let pages = [
            ok(r#"{"items":[],"scanned":10000,"next_cursor":"c"}"#),
            ok(r#"{"items":[{"id":"1","state":"dead"}],"scanned":7}"#),
            ok(r#"{"items":[{"id":"2","state":"ready"}],"scanned":2}"#),
        ];
        let words = ["search", "a", "error:\"b c\"", "--state", "dead,ready", "--limit", "5"];
        let sent = asked_in_turn(&words, &pages).await;
        let asked_for: Vec<&str> = sent.iter().map(|sent| &*sent.head).collect();
        let route = "GET /topics/a/messages";
        let q = "q=error%3A%22b+c%22";
        assert_eq!(
            asked_for,
            [
                format!("{route}?limit=5&state=dead&{q}"),
                format!("{route}?limit=5&state=dead&{q}&cursor=c"),
                format!("{route}?limit=4&state=ready&{q}"),
            ]
        );
        let table = "ID  STATE  ATTEMPTS\n1   dead          0\n2   ready         0\n";
        assert_eq!(sent[0].shown, format!("{table}\nfound 2, looked at 10009\n"));
    }

    #[tokio::test]
    async fn a_search_ends_at_its_limit() {
        let page = ok(r#"{"items":[{"id":"1"}],"scanned":1,"next_cursor":"c"}"#);
        let sent = asked(&["search", "a", "key:b", "--limit", "1", "--json"], page).await;
        assert_eq!(sent.lines(), ("GET /topics/a/messages?limit=1&state=dead&q=key%3Ab", ""));
        assert_eq!(sent.shown, "{\"id\":\"1\"}\n");
    }

    #[tokio::test]
    async fn a_search_that_finds_nothing_says_how_much_it_saw() {
        let page = ok(r#"{"items":[],"scanned":4}"#);
        let sent = asked(&["search", "a", "key:b", "--state", "acked"], page).await;
        assert_eq!(sent.shown, "found 0, looked at 4\n");
    }

    #[test]
    fn wrong_states_and_limits_are_refused() {
        for words in [
            &["search"][..],
            &["search", "a"],
            &["search", "a", "b", "c"],
            &["search", "a", "b", "--state", "done"],
            &["search", "a", "b", "--limit", "0"],
        ] {
            assert!(unparsed(words), "{words:?}");
        }
    }
}
