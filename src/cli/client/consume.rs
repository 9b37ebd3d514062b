//! `dueq lease`, `ack` and `nack`.

use super::{
    Out, Run,
    api::{Client, path},
    durations,
    failure::Failure,
    view,
};
use clap::Args;
use serde::Serialize;

const EXAMPLES: &str = r#"Examples:
  dueq lease orders --wait 20s
  dueq lease urgent bulk --max 10 --lease 5m
  dueq lease orders --json | jq -r '.messages[] | "dueq ack \(.id) \(.lease_token)"'"#;

/// Arguments of `dueq lease`.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Lease {
    /// Topics to lease from, in order of preference.
    #[arg(value_name = "TOPIC", required = true)]
    topics: Vec<String>,
    /// Lease at most this many messages.
    #[arg(long, value_name = "N")]
    max: Option<u64>,
    /// Wait this long for a message to become due, at most 60s.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    wait: Option<u64>,
    /// Duration of the lease, such as 5m.
    #[arg(long = "lease", value_name = "DURATION", value_parser = durations::parse)]
    lease: Option<u64>,
}

#[derive(Serialize)]
struct LeaseBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    topics: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_messages: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    wait_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u64>,
}

impl Run for Lease {
    async fn run(&self, client: &Client, out: &mut Out<'_>) -> Result<(), Failure> {
        let (path, topics) = match &*self.topics {
            [topic] => (path(&["topics", topic, "lease"]), None),
            topics => (path(&["lease"]), Some(topics)),
        };
        let body =
            LeaseBody { topics, max_messages: self.max, wait_ms: self.wait, lease_ms: self.lease };
        let answer = client.post_waiting(&path, &body, self.wait.unwrap_or(0)).await?;
        out.show(&answer, view::leased)
    }
}

/// A leased message.
#[derive(Args, Clone, Debug)]
struct Held {
    /// The message's id.
    id: String,
    /// The lease token.
    token: String,
}

/// Arguments of `dueq ack`.
#[derive(Args, Clone, Debug)]
pub struct Ack {
    #[command(flatten)]
    held: Held,
}

#[derive(Serialize)]
struct AckBody<'a> {
    lease_token: &'a str,
}

impl Run for Ack {
    async fn run(&self, client: &Client, out: &mut Out<'_>) -> Result<(), Failure> {
        let body = AckBody { lease_token: &self.held.token };
        let answer = client.post(&path(&["messages", &self.held.id, "ack"]), &body).await?;
        out.done(&answer, &format!("acknowledged {}", self.held.id))
    }
}

/// Arguments of `dueq nack`.
#[derive(Args, Clone, Debug)]
pub struct Nack {
    #[command(flatten)]
    held: Held,
    /// Make it due again after this time; by default the message's backoff decides.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse, conflicts_with = "dead")]
    delay: Option<u64>,
    /// Reason, recorded in the message's events.
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Make it dead at once, even if attempts are left.
    #[arg(long, conflicts_with = "release")]
    dead: bool,
    /// Give it back unprocessed: this attempt does not count.
    #[arg(long)]
    release: bool,
}

#[derive(Serialize)]
struct NackBody<'a> {
    lease_token: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    delay_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dead: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    release: bool,
}

impl Run for Nack {
    async fn run(&self, client: &Client, out: &mut Out<'_>) -> Result<(), Failure> {
        let body = NackBody {
            lease_token: &self.held.token,
            delay_ms: self.delay,
            reason: self.reason.as_deref(),
            dead: self.dead,
            release: self.release,
        };
        let answer = client.post(&path(&["messages", &self.held.id, "nack"]), &body).await?;
        out.show(&answer, view::message)
    }
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
