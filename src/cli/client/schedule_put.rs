//! `dueq schedules put`.

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
    /// JSON is sent as it is, other text as a string; `-` reads standard input. Optional for a callback.
    #[arg(allow_negative_numbers = true, required_unless_present = "callback")]
    payload: Option<String>,
    /// Cron expression: minute, hour, day, month, weekday, such as "0 9 * * MON-FRI"; an optional field before them is
    /// seconds.
    #[arg(
        long,
        value_name = "EXPRESSION",
        required_unless_present = "every",
        conflicts_with = "every"
    )]
    cron: Option<String>,
    /// Time zone of --cron, such as Europe/Berlin; by default UTC.
    #[arg(long, value_name = "ZONE", conflicts_with = "every")]
    timezone: Option<String>,
    /// Time between ticks, such as 10s; instead of --cron.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    every: Option<u64>,
    /// Topic to publish to.
    #[arg(
        long,
        value_name = "TOPIC",
        required_unless_present = "callback",
        conflicts_with = "callback"
    )]
    topic: Option<String>,
    /// URL to call; instead of --topic.
    #[arg(long, value_name = "URL")]
    callback: Option<String>,
    /// HTTP method, by default POST.
    #[arg(long, conflicts_with = "topic")]
    method: Option<String>,
    /// How long one call may take, such as 15s.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse, conflicts_with = "topic")]
    timeout: Option<u64>,
    /// A name for the messages in their topic; only one live message has it at a time.
    #[arg(long)]
    key: Option<String>,
    /// Header of the messages, repeatable.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Priority from 0 to 255; of the messages that are due, higher ones go first.
    #[arg(long, value_name = "N")]
    priority: Option<u64>,
    /// Which missed ticks are published late; by default the latest one.
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
    async fn every_option_has_its_field() {
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
