//! `dueq schedules put`: when, where to, and what.

use super::{
    Out, Run,
    api::{Client, path},
    durations,
    failure::Failure,
    payload::{Payload, as_map, header},
    schedules::schedule,
};
use clap::{Args, ValueEnum};
use serde::Serialize;

/// Arguments of `dueq schedules put`.
#[derive(Args, Clone, Debug)]
pub struct Put {
    /// The schedule's name.
    name: String,
    /// JSON is sent as it is, other text as a string; `-` reads standard input. A callback can do without.
    #[arg(allow_negative_numbers = true, required_unless_present = "callback")]
    payload: Option<String>,
    /// When: minute, hour, day, month, weekday, such as "0 9 * * MON-FRI"; with a sixth field before them also seconds.
    #[arg(
        long,
        value_name = "EXPRESSION",
        required_unless_present = "every",
        conflicts_with = "every"
    )]
    cron: Option<String>,
    /// The time zone of --cron, such as Europe/Berlin (UTC unless told).
    #[arg(long, value_name = "ZONE", conflicts_with = "every")]
    timezone: Option<String>,
    /// In place of --cron: so far apart, such as 10s.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    every: Option<u64>,
    /// Where the messages go.
    #[arg(
        long,
        value_name = "TOPIC",
        required_unless_present = "callback",
        conflicts_with = "callback"
    )]
    topic: Option<String>,
    /// In place of a topic: dueq itself sends the messages to this URL.
    #[arg(long, value_name = "URL")]
    callback: Option<String>,
    /// By which method (POST unless told).
    #[arg(long, conflicts_with = "topic")]
    method: Option<String>,
    /// How long a call may take, such as 15s.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse, conflicts_with = "topic")]
    timeout: Option<u64>,
    /// The messages' own name in their topic, for one live message at a time.
    #[arg(long)]
    key: Option<String>,
    /// A header that goes with the messages; can be repeated.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// From 0 to 255; among messages that are due, higher goes first.
    #[arg(long, value_name = "N")]
    priority: Option<u64>,
    /// Which missed ticks are published late: the latest one unless you say otherwise.
    #[arg(long, value_enum)]
    catch_up: Option<CatchUp>,
}

#[derive(Clone, Copy, Debug, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum CatchUp {
    One,
    None,
    All,
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    every_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    callback: Option<Callback<'a>>,
    message: Message<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    catch_up: Option<CatchUp>,
}

#[derive(Serialize)]
struct Callback<'a> {
    url: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
}

#[derive(Serialize)]
struct Message<'a> {
    #[serde(flatten)]
    payload: Option<Payload>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    #[serde(skip_serializing_if = "<[_]>::is_empty", serialize_with = "as_map")]
    headers: &'a [(String, String)],
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u64>,
}

impl Run for Put {
    async fn run(&self, client: &Client, out: &mut Out<'_>) -> Result<(), Failure> {
        let callback = self.callback.as_deref().map(|url| Callback {
            url,
            method: self.method.as_deref(),
            timeout_ms: self.timeout,
        });
        let message = Message {
            payload: Payload::read(self.payload.as_deref(), None)?,
            key: self.key.as_deref(),
            headers: &self.headers,
            priority: self.priority,
        };
        let body = Body {
            cron: self.cron.as_deref(),
            timezone: self.timezone.as_deref(),
            every_ms: self.every,
            topic: self.topic.as_deref(),
            callback,
            message,
            catch_up: self.catch_up,
        };
        let answer = client.put(&path(&["schedules", &self.name]), &body).await?;
        out.show(&answer, schedule)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{asked, ok};

    #[tokio::test]
    async fn a_schedule_is_put_as_its_words_say() {
        let words = [
            "schedules",
            "put",
            "a",
            "{\"b\": 1.50}",
            "--cron",
            "0 9 * * MON-FRI",
            "--timezone",
            "Europe/Berlin",
            "--topic",
            "t",
            "--key",
            "k",
            "--header",
            "x=y",
            "--priority",
            "7",
            "--catch-up",
            "none",
        ];
        let sent = asked(&words, &ok(r#"{"name":"a"}"#)).await;
        let body = r#"{"cron":"0 9 * * MON-FRI","timezone":"Europe/Berlin","topic":"t","message":{"payload":{"b": 1.50},"key":"k","headers":{"x":"y"},"priority":7},"catch_up":"none"}"#;
        assert_eq!(sent.lines(), ("PUT /schedules/a", body));
    }

    #[tokio::test]
    async fn a_callback_needs_no_payload() {
        let words = [
            "schedules",
            "put",
            "a",
            "--every",
            "10s",
            "--callback",
            "https://example.com/x",
            "--method",
            "PUT",
            "--timeout",
            "15s",
        ];
        let sent = asked(&words, &ok(r#"{"name":"a"}"#)).await;
        let body = r#"{"every_ms":10000,"callback":{"url":"https://example.com/x","method":"PUT","timeout_ms":15000},"message":{}}"#;
        assert_eq!(sent.lines(), ("PUT /schedules/a", body));
    }
}
