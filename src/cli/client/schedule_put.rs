//! `dueq schedules put`. The arguments are serialized as the API's fields.

use super::{
    api::path,
    context::Context,
    durations,
    failure::Failure,
    payload::{Payload, WithPayload, as_map, header},
    schedules::schedule,
};
use clap::{Args, ValueEnum};
use dueq_store::is_default;
use serde::Serialize;

/// Arguments of `dueq schedules put`.
#[derive(Args, Serialize)]
pub struct Put {
    /// The schedule's name.
    #[serde(skip)]
    name: String,
    /// JSON is sent as it is, other text as a string; `-` reads standard input. Optional for a callback.
    #[arg(allow_negative_numbers = true, required_unless_present = "callback")]
    #[serde(skip)]
    payload: Option<String>,
    /// Cron expression: minute, hour, day, month, weekday, such as "0 9 * * MON-FRI"; an optional field before them is
    /// seconds.
    #[arg(
        long,
        value_name = "EXPRESSION",
        required_unless_present = "every",
        conflicts_with = "every"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    /// Time zone of --cron, such as Europe/Berlin; by default UTC.
    #[arg(long, value_name = "ZONE", conflicts_with = "every")]
    #[serde(skip_serializing_if = "Option::is_none")]
    timezone: Option<String>,
    /// Time between ticks, such as 10s; instead of --cron.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    #[serde(rename = "every_ms", skip_serializing_if = "Option::is_none")]
    every: Option<u64>,
    /// Topic to publish to.
    #[arg(
        long,
        value_name = "TOPIC",
        required_unless_present = "callback",
        conflicts_with = "callback"
    )]
    #[serde(skip_serializing_if = "Option::is_none")]
    topic: Option<String>,
    #[command(flatten)]
    #[serde(skip_serializing_if = "is_default")]
    callback: Callback,
    #[command(flatten)]
    #[serde(skip)]
    message: Message,
    /// Which missed ticks are published late; by default the latest one.
    #[arg(long, value_enum)]
    #[serde(skip_serializing_if = "Option::is_none")]
    catch_up: Option<CatchUp>,
}

#[derive(Args, Default, PartialEq, Serialize)]
struct Callback {
    /// URL to call; instead of --topic.
    #[arg(long = "callback", id = "callback", value_name = "URL")]
    url: Option<String>,
    /// HTTP method, by default POST.
    #[arg(long, conflicts_with = "topic")]
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    /// How long one call may take, such as 15s.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse, conflicts_with = "topic")]
    #[serde(rename = "timeout_ms", skip_serializing_if = "Option::is_none")]
    timeout: Option<u64>,
}

#[derive(Args, Serialize)]
struct Message {
    /// A name for the messages in their topic; only one live message has it at a time.
    #[arg(long)]
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// Header of the messages, repeatable.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = header)]
    #[serde(skip_serializing_if = "<[_]>::is_empty", serialize_with = "as_map")]
    headers: Vec<(String, String)>,
    /// Priority from 0 to 255; of the messages that are due, higher ones go first.
    #[arg(long, value_name = "N")]
    #[serde(skip_serializing_if = "Option::is_none")]
    priority: Option<u64>,
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
    #[serde(flatten)]
    schedule: &'a Put,
    message: WithPayload<&'a Message>,
}

impl Put {
    pub async fn run(&self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let payload = Payload::read(self.payload.as_deref(), None)?;
        let message = WithPayload { payload, fields: &self.message };
        let body = Body { schedule: self, message };
        cx.show(&cx.client.put(&path(&["schedules", &self.name]), &body, None).await?, schedule)
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
        let body = r#"{"cron":"0 9 * * MON-FRI","timezone":"Europe/Berlin","topic":"t","catch_up":"none","message":{"payload":{"b": 1.50},"key":"k","headers":{"x":"y"},"priority":7}}"#;
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
