//! What the receiver answers: a status for each call in turn, with the same headers and body.

use crate::cli::client::{durations, request::pair};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

/// Arguments that say what to answer.
#[derive(clap::Args)]
pub struct AnswerArgs {
    /// Status to answer with; by default 204, or 200 with --body.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(200..=599))]
    status: Option<u16>,
    /// Status to answer with afterwards, repeatable; the last one stays.
    #[arg(long, value_name = "N", requires = "status", value_parser = clap::value_parser!(u16).range(200..=599))]
    then: Vec<u16>,
    /// How many calls are answered with --status before --then.
    #[arg(long, value_name = "N", default_value_t = 1, requires = "then", value_parser = clap::value_parser!(u32).range(1..))]
    times: u32,
    /// Time to wait before each answer, such as 3s.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse)]
    delay: Option<u64>,
    /// Body to answer with.
    #[arg(long, value_name = "TEXT")]
    body: Option<String>,
    /// Header to answer with, such as retry-after=5, repeatable.
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = pair)]
    headers: Vec<(String, String)>,
}

/// The answers.
pub struct Answers {
    first: StatusCode,
    times: usize,
    then: Vec<StatusCode>,
    given: AtomicUsize,
    /// How long to wait before an answer.
    pub delay: Duration,
    /// Headers of every answer.
    pub headers: HeaderMap,
    /// Body of every answer.
    pub body: String,
}

impl Answers {
    /// Errors: what is wrong with the arguments, in one line.
    pub fn new(args: AnswerArgs) -> Result<Self, String> {
        // They are in range.
        let status = |number: u16| StatusCode::from_u16(number).unwrap_or_default();
        let mut headers = HeaderMap::new();
        for (name, value) in args.headers {
            let parsed = name.parse::<HeaderName>().ok().zip(HeaderValue::try_from(value).ok());
            let Some((parsed, value)) = parsed.filter(|(name, _)| !is_framing(name.as_str()))
            else {
                return Err(format!("--header {name:?}: this header cannot be sent"));
            };
            headers.append(parsed, value);
        }
        let usual = if args.body.is_some() { 200 } else { 204 };
        Ok(Self {
            first: status(args.status.unwrap_or(usual)),
            times: args.times as usize,
            then: args.then.into_iter().map(status).collect(),
            given: AtomicUsize::new(0),
            delay: Duration::from_millis(args.delay.unwrap_or(0)),
            headers,
            body: args.body.unwrap_or_default(),
        })
    }

    /// The status of the next answer.
    pub fn next(&self) -> StatusCode {
        let later = self.given.fetch_add(1, Ordering::Relaxed).checked_sub(self.times);
        let then = later.and_then(|at| self.then.get(at).or(self.then.last()));
        then.copied().unwrap_or(self.first)
    }
}

/// Headers that follow from the body.
fn is_framing(name: &str) -> bool {
    ["connection", "content-length", "transfer-encoding"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: AnswerArgs,
    }

    fn answers(words: &[&str]) -> Option<Answers> {
        let command = Command::try_parse_from([&["listen"], words].concat()).ok()?;
        Answers::new(command.args).ok()
    }

    fn first(count: usize, words: &[&str]) -> Vec<u16> {
        let answers = answers(words).unwrap();
        (0..count).map(|_| answers.next().as_u16()).collect()
    }

    #[test]
    fn statuses_follow_one_another_and_the_last_one_stays() {
        assert_eq!(first(2, &[]), [204, 204]);
        assert_eq!(first(2, &["--body", "{}"]), [200, 200]);
        assert_eq!(first(2, &["--status", "500"]), [500, 500]);
        assert_eq!(first(3, &["--status", "500", "--then", "204"]), [500, 204, 204]);
        let words = ["--status", "503", "--times", "2", "--then", "429", "--then", "204"];
        assert_eq!(first(5, &words), [503, 503, 429, 204, 204]);
    }

    #[test]
    fn what_cannot_be_answered_is_refused() {
        for bad in [
            &["--status", "100"][..],
            &["--status", "600"],
            &["--status", "ok"],
            &["--then", "204"],
            &["--status", "500", "--times", "2"],
            &["--status", "500", "--then", "204", "--times", "0"],
            &["--delay", "5"],
            &["--header", "retry-after"],
            &["--header", "a b=c"],
            &["--header", "a=b\r\nc"],
            &["--header", "Content-Length=1"],
        ] {
            assert!(answers(bad).is_none(), "{bad:?}");
        }
        assert_eq!(answers(&["--header", "Retry-After=5"]).unwrap().headers["retry-after"], "5");
    }
}
