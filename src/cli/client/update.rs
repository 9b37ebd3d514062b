//! `dueq update`: changes a message in place.

use super::{
    context::Context,
    failure::Failure,
    payload::{Changes, Payload, WithPayload},
    show::MessageRef,
    view,
};
use clap::{Args, ValueEnum};
use serde::{Serialize, Serializer};
use std::{collections::BTreeSet, path::PathBuf};

/// Arguments of `dueq update`.
#[derive(Args, Serialize)]
pub struct Update {
    #[command(flatten)]
    #[serde(skip)]
    message: MessageRef,
    /// New payload: JSON is sent as it is, other text as a string; `-` reads standard input.
    #[arg(long, allow_hyphen_values = true)]
    #[serde(skip)]
    payload: Option<String>,
    /// Read the new payload from this file.
    #[arg(long, value_name = "PATH", conflicts_with = "payload")]
    #[serde(skip)]
    file: Option<PathBuf>,
    #[command(flatten)]
    #[serde(flatten)]
    changes: Changes,
    /// Options to reset to the topic's, separated by commas.
    #[arg(long, value_name = "OPTION", value_enum, value_delimiter = ',')]
    #[serde(flatten, serialize_with = "as_nulls")]
    reset: Vec<Resettable>,
}

/// An option that a topic has, too; serialized as the API's field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
enum Resettable {
    #[serde(rename = "ttl_ms")]
    Ttl,
    #[serde(rename = "max_attempts")]
    MaxAttempts,
    #[serde(rename = "backoff")]
    Backoff,
}

fn as_nulls<S: Serializer>(options: &[Resettable], serializer: S) -> Result<S::Ok, S::Error> {
    let options: BTreeSet<_> = options.iter().collect();
    serializer.collect_map(options.into_iter().map(|option| (option, ())))
}

impl Update {
    pub async fn run(&self, cx: &mut Context<'_>) -> Result<(), Failure> {
        for (name, option, is_set) in [
            ("ttl", Resettable::Ttl, self.changes.ttl.is_some()),
            ("max-attempts", Resettable::MaxAttempts, self.changes.max_attempts.is_some()),
        ] {
            if is_set && self.reset.contains(&option) {
                return Err(Failure::Usage(format!("--{name} cannot be used with --reset {name}")));
            }
        }
        let payload = Payload::read(self.payload.as_deref(), self.file.as_deref())?;
        let body = WithPayload { payload, fields: self };
        if serde_json::to_string(&body).is_ok_and(|body| body == "{}") {
            return Err(Failure::Usage("nothing to change: see dueq update --help".to_owned()));
        }
        cx.show(&cx.client.patch(&self.message.path(), &body).await?, view::message)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{asked, ok, tried, unparsed};

    #[tokio::test]
    async fn every_option_has_its_field() {
        let words = "update 1-2 --payload {\"a\":1.50} --delay 10m --priority 9 --header b=c --ttl 1h \
                     --max-attempts 3 --reset backoff";
        let words: Vec<&str> = words.split_whitespace().collect();
        let sent = asked(&words, ok(r#"{"id":"1-2"}"#)).await;
        let body = r#"{"payload":{"a":1.50},"delay_ms":600000,"priority":9,"headers":{"b":"c"},"ttl_ms":3600000,"max_attempts":3,"backoff":null}"#;
        assert_eq!(sent.lines(), ("PATCH /messages/1-2", body));
        assert_eq!(sent.shown, "id  1-2\n");
    }

    #[tokio::test]
    async fn a_message_is_changed_by_its_key() {
        let words = ["update", "--topic", "a", "--key", "b/c", "--at", "2026-11-20T18:15:00Z"];
        let sent = asked(&words, ok("{}")).await;
        let body = r#"{"deliver_at":"2026-11-20T18:15:00Z"}"#;
        assert_eq!(sent.lines(), ("PATCH /topics/a/keys/b%2Fc", body));
        let sent = asked(&["update", "1", "--reset", "ttl,max-attempts"], ok("{}")).await;
        assert_eq!(sent.body, r#"{"ttl_ms":null,"max_attempts":null}"#);
    }

    #[tokio::test]
    async fn a_change_of_nothing_is_wrong_usage() {
        let (outcome, _) = tried(&["update", "1"], &[]).await;
        assert_eq!(outcome.unwrap_err().message(), "nothing to change: see dueq update --help");
    }

    #[tokio::test]
    async fn an_option_cannot_be_set_and_reset() {
        for (name, value) in [("ttl", "1h"), ("max-attempts", "3")] {
            let words = ["update", "1", &format!("--{name}"), value, "--reset", name];
            let (outcome, _) = tried(&words, &[]).await;
            let told = format!("--{name} cannot be used with --reset {name}");
            assert_eq!(outcome.unwrap_err().message(), told);
        }
    }

    #[tokio::test]
    async fn a_payload_may_begin_with_a_dash() {
        let sent = asked(&["update", "1", "--payload", "-x"], ok("{}")).await;
        assert_eq!(sent.body, r#"{"payload":"-x"}"#);
        let sent = asked(&["update", "1", "--payload", "-1"], ok("{}")).await;
        assert_eq!(sent.body, r#"{"payload":-1}"#);
    }

    #[test]
    fn contradictory_or_invalid_arguments_are_refused() {
        for more in [
            &["--delay", "soon"][..],
            &["--delay", "1m", "--at", "2026-11-20T18:15:00Z"],
            &["--payload", "1", "--file", "a"],
            &["--reset", "payload"],
            &["--topic", "a", "--key", "b"],
            &["2"],
        ] {
            assert!(unparsed(&[&["update", "1"], more].concat()), "{more:?}");
        }
        assert!(unparsed(&["update", "--delay", "1m"]));
    }
}
