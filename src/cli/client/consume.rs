//! `dueq lease`, `ack` and `nack`. The arguments are serialized as the API's fields.

use super::{api::path, context::Context, durations, failure::Failure, view};
use clap::Args;
use serde::Serialize;

const EXAMPLES: &str = r#"Examples:
  dueq lease orders --wait 20s
  dueq lease urgent bulk --max 10 --lease 5m
  dueq lease orders --json | jq -r '.messages[] | "dueq ack \(.id) \(.lease_token)"'"#;

/// Arguments of `dueq lease`.
#[derive(Args, Serialize)]
#[command(after_help = EXAMPLES)]
pub struct Lease {
    /// Topics to lease from, in order of preference.
    #[arg(value_name = "TOPIC", required = true)]
    #[serde(skip_serializing_if = "is_one")]
    topics: Vec<String>,
    /// Lease at most this many messages.
    #[arg(long = "max", value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    max_messages: Option<u64>,
    /// Wait this long for a message to become due, at most 60s.
    #[arg(long = "wait", value_name = "DURATION", value_parser = durations::parse)]
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_ms: Option<u64>,
    /// Duration of the lease, such as 5m.
    #[arg(long = "lease", value_name = "DURATION", value_parser = durations::parse)]
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u64>,
}

/// One topic is named by the path.
fn is_one(topics: &[String]) -> bool {
    topics.len() == 1
}

impl Lease {
    pub async fn run(&self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let path = match &*self.topics {
            [topic] => path(&["topics", topic, "lease"]),
            _ => path(&["lease"]),
        };
        let wait_ms = self.wait_ms.unwrap_or(0);
        cx.show(&cx.client.post_waiting(&path, self, wait_ms).await?, view::leased)
    }
}

/// A leased message: the arguments of `dueq ack`.
#[derive(Args, Serialize)]
pub struct Held {
    /// The message's id.
    #[serde(skip)]
    pub id: String,
    /// The lease token.
    #[serde(rename = "lease_token")]
    token: String,
}

impl Held {
    /// The path of what is done to the message.
    pub fn path(&self, verb: &str) -> String {
        path(&["messages", &self.id, verb])
    }
}

/// Arguments of `dueq nack`.
#[derive(Args, Serialize)]
pub struct Nack {
    #[command(flatten)]
    #[serde(flatten)]
    pub held: Held,
    /// Make it due again after this time; by default the message's backoff decides.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse, conflicts_with = "dead")]
    #[serde(rename = "delay_ms", skip_serializing_if = "Option::is_none")]
    delay: Option<u64>,
    /// Reason, recorded in the message's events.
    #[arg(long, value_name = "TEXT")]
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// Make it dead at once, even if attempts are left.
    #[arg(long, conflicts_with = "release")]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dead: bool,
    /// Give it back unprocessed: this attempt does not count.
    #[arg(long)]
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    release: bool,
}

#[cfg(test)]
mod tests {
    use super::super::testing::{NO_CONTENT, asked, ok};

    #[tokio::test]
    async fn one_topic_is_leased_from_by_its_own_route() {
        let words = ["lease", "a", "--max", "3", "--wait", "20s", "--lease", "5m"];
        let sent = asked(&words, &ok(r#"{"messages":[]}"#)).await;
        let body = r#"{"max_messages":3,"wait_ms":20000,"lease_ms":300000}"#;
        assert_eq!(sent.lines(), ("POST /topics/a/lease", body));
        assert_eq!(sent.shown, "no message is due\n");
    }

    #[tokio::test]
    async fn several_topics_are_leased_from_in_one_request() {
        let sent = asked(&["lease", "a", "b"], &ok(r#"{"messages":[]}"#)).await;
        assert_eq!(sent.lines(), ("POST /lease", r#"{"topics":["a","b"]}"#));
    }

    #[tokio::test]
    async fn an_ack_says_what_was_done_and_nothing_in_json() {
        let sent = asked(&["ack", "1-2", "t"], NO_CONTENT).await;
        assert_eq!(sent.lines(), ("POST /messages/1-2/ack", r#"{"lease_token":"t"}"#));
        assert_eq!(sent.shown, "acknowledged 1-2\n");
        assert_eq!(asked(&["ack", "1-2", "t", "--json"], NO_CONTENT).await.shown, "");
    }

    #[tokio::test]
    async fn a_nack_says_how() {
        for (words, body) in [
            (
                &["--delay", "10s", "--reason", "no luck"][..],
                r#","delay_ms":10000,"reason":"no luck""#,
            ),
            (&["--dead"], r#","dead":true"#),
            (&["--release", "--delay", "0s"], r#","delay_ms":0,"release":true"#),
            (&[], ""),
        ] {
            let words = [&["nack", "1", "t"], words].concat();
            let sent = asked(&words, &ok(r#"{"id":"1","state":"ready","attempt":1}"#)).await;
            assert_eq!(
                sent.lines(),
                ("POST /messages/1/nack", &*format!(r#"{{"lease_token":"t"{body}}}"#))
            );
            assert_eq!(sent.shown, "id       1\nstate    ready\nattempt  1\n");
        }
    }
}
