//! `dueq topic`: shows a topic, and `dueq topic set` changes its configuration.

use super::{
    api::path,
    context::Context,
    durations,
    failure::Failure,
    payload::{as_map, json_or_string},
    view,
};
use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::value::RawValue;

/// Arguments of `dueq topic`.
#[derive(Args)]
#[command(
    subcommand_negates_reqs = true,
    disable_help_subcommand = true,
    override_usage = "dueq topic [OPTIONS] <NAME>\n       dueq topic [OPTIONS] <COMMAND>"
)]
pub struct Topic {
    #[command(subcommand)]
    action: Option<Action>,
    /// The topic's name.
    #[arg(required = true)]
    name: Option<String>,
}

#[derive(Subcommand)]
enum Action {
    /// Change settings of a topic; the others stay. backoff, retention and push are replaced as a whole.
    Set(Set),
}

impl Topic {
    pub async fn run(self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let answer = match (self.action, self.name) {
            (None, name) => {
                let name = name.unwrap_or_default();
                cx.client.get(&path(&["topics", &name])).await?
            }
            (Some(Action::Set(set)), None) => {
                cx.client.patch(&path(&["topics", &set.topic]), &set).await?
            }
            // Options may stand before `set`, a name may not.
            (Some(_), Some(_)) => {
                let see = "too many words: see dueq topic --help and dueq topic set --help";
                return Err(Failure::Usage(see.to_owned()));
            }
        };
        cx.show(&answer, view::topic)
    }
}

/// Arguments of `dueq topic set`.
#[derive(Args, Clone, Debug, Serialize)]
#[serde(transparent)]
struct Set {
    /// The topic's name.
    #[serde(skip)]
    topic: String,
    /// Settings as the API names them, such as max_attempts=5, lease_ms=1m or dead_topic=failed; null resets one.
    #[arg(value_name = "NAME=VALUE", required = true, value_parser = setting)]
    #[serde(serialize_with = "as_map")]
    settings: Vec<(String, Box<RawValue>)>,
}

/// Parses `name=value`. The value is JSON or else a string, and that of a name in `_ms` can be a duration.
fn setting(text: &str) -> Result<(String, Box<RawValue>), String> {
    let (name, value) = text
        .split_once('=')
        .filter(|(name, _)| !name.is_empty())
        .ok_or("a setting is written name=value")?;
    let json = json_or_string(value).map_err(|error| error.to_string())?;
    if !name.ends_with("_ms") || serde_json::from_str::<&RawValue>(value).is_ok() {
        return Ok((name.to_owned(), json));
    }
    let millis = serde_json::value::to_raw_value(&durations::parse(value)?);
    Ok((name.to_owned(), millis.map_err(|error| error.to_string())?))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{asked, ok, tried, unparsed};

    #[tokio::test]
    async fn a_topic_in_json_is_the_answer_as_it_came() {
        let sent = asked(&["topic", "a", "--json"], &ok(r#"{"name" : "a"}"#)).await;
        assert_eq!((sent.lines(), &*sent.shown), (("GET /topics/a", ""), "{\"name\" : \"a\"}\n"));
    }

    #[tokio::test]
    async fn settings_are_sent_by_name() {
        let settings = [
            "max_attempts=5",
            "lease_ms=1m30s",
            "ttl_ms=null",
            "dead_topic=a=b",
            r#"retention={"dead_ms": 1}"#,
        ];
        let sent = asked(&[&["topic", "set", "a"], &settings[..]].concat(), &ok("{}")).await;
        let body = r#"{"max_attempts":5,"lease_ms":90000,"ttl_ms":null,"dead_topic":"a=b","retention":{"dead_ms": 1}}"#;
        assert_eq!(sent.lines(), ("PATCH /topics/a", body));
    }

    #[tokio::test]
    async fn options_may_stand_before_the_subcommand() {
        let words = ["topic", "--json", "--api-key", "k", "set", "a", "max_attempts=5"];
        let sent = asked(&words, &ok(r#"{"name" : "a"}"#)).await;
        assert_eq!(sent.lines(), ("PATCH /topics/a", r#"{"max_attempts":5}"#));
        assert_eq!(sent.shown, "{\"name\" : \"a\"}\n");
        assert!(sent.headers.contains(&"authorization: bearer k".to_owned()), "{sent:?}");
        let (outcome, _) = tried(&["topic", "a", "set", "b", "max_attempts=5"], &[]).await;
        assert!(outcome.unwrap_err().message().starts_with("too many words"));
        let sent = asked(&["topic", "help"], ok("{}")).await;
        assert_eq!(sent.lines(), ("GET /topics/help", ""));
    }

    #[test]
    fn what_is_no_setting_is_refused() {
        for words in
            [&["a"][..], &["a", "max_attempts"], &["a", "=5"], &["a", "lease_ms=soon"], &[]]
        {
            assert!(unparsed(&[&["topic", "set"], words].concat()), "{words:?}");
        }
        assert!(unparsed(&["topic"]));
    }
}
