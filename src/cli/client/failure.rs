//! The failures of commands: their messages and exit codes.

use super::{api::Answer, object::Object, table::clean};
use std::{fmt::Write as _, io, process::ExitCode};

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The server refused the request; its answer says why.
    Refused(Box<Answer>),
    /// There is no answer, or it is not from a dueq server.
    Unreachable(String),
    /// The arguments are invalid.
    Usage(String),
    /// The server did only a part of it.
    Incomplete(String),
    /// Standard output cannot be written.
    Output(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl Failure {
    /// Returns whether the server answered that the key may not.
    pub fn is_not_allowed(&self) -> bool {
        matches!(self, Self::Refused(answer) if answer.status == 403)
    }

    /// Returns whether the server answered 404 with this code.
    pub fn is_not_found(&self, code: &str) -> bool {
        matches!(self, Self::Refused(answer) if answer.status == 404 && answer.code() == code)
    }

    /// The same failure with exit code 1: a health check has no other, Docker says.
    pub fn of_healthcheck(self) -> Self {
        match self {
            Self::Usage(reason) => Self::Unreachable(reason),
            other => other,
        }
    }

    /// Returns whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Refused(answer) => answer.status.is_server_error(),
            Self::Unreachable(_) => true,
            Self::Usage(_) | Self::Incomplete(_) | Self::Output(_) => false,
        }
    }

    /// The exit code: 1 if the request failed, 2 for wrong usage. A closed pipe (`| head`) is not a failure.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            Self::Usage(_) => ExitCode::from(2),
            _ => ExitCode::FAILURE,
        }
    }

    /// The error message: one line, and one more for each invalid field if there are several. Empty for a closed pipe.
    pub fn message(&self) -> String {
        match self {
            Self::Refused(answer) => refusal(answer),
            Self::Unreachable(reason) | Self::Usage(reason) | Self::Incomplete(reason) => {
                clean(reason)
            }
            Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => String::new(),
            Self::Output(error) => format!("cannot write the answer: {error}"),
        }
    }
}

fn refusal(answer: &Answer) -> String {
    let problem: Object = serde_json::from_slice(&answer.body).unwrap_or_default();
    let (detail, code) = (problem.text("detail"), problem.text("code"));
    if detail.is_empty() {
        // So nginx, Apache and Go answer plain HTTP on a TLS port.
        let wants_tls =
            answer.status == 400 && String::from_utf8_lossy(&answer.body).contains("HTTPS");
        let advice = if wants_tls { ": it speaks TLS, use https://" } else { "" };
        return format!("the server answered {}{advice}", answer.status);
    }
    let mut text = format!("{} ({} {})", clean(&detail), answer.status.as_u16(), clean(&code));
    let errors = problem.objects("errors");
    for error in &errors {
        let (field, reason) = (error.text("field"), error.text("reason"));
        // The detail names the only one. Older servers do not do so.
        if errors.len() > 1 || detail != format!("{field}: {reason}") {
            let _ = write!(text, "\n  {}: {}", clean(&field), clean(&reason));
        }
    }
    if answer.status == 401 {
        text.push_str(": set DUEQ_API_KEY or pass --api-key");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::testing::{answer, tried};
    use super::*;

    async fn refused(words: &[&str], status: &str, body: &str) -> (Failure, String) {
        let (outcome, mut sent) = tried(words, &[answer(status, body)]).await;
        (outcome.unwrap_err(), sent.remove(0).shown)
    }

    #[tokio::test]
    async fn a_refusal_shows_the_detail_and_each_field() {
        let body = r#"{"detail":"delay_ms: too long; and 1 more","code":"invalid_input",
            "errors":[{"field":"delay_ms","reason":"too long"},{"field":"(body)","reason":"no\u001b object"}]}"#;
        let (failure, shown) = refused(&["topic", "a"], "422 Unprocessable Entity", body).await;
        assert_eq!(
            failure.message(),
            "delay_ms: too long; and 1 more (422 invalid_input)\n  delay_ms: too long\n  (body): no\\u{1b} object"
        );
        assert_eq!((failure.exit_code(), shown), (ExitCode::FAILURE, String::new()));
        let body =
            r#"{"detail":"a: bad","code":"invalid_input","errors":[{"field":"a","reason":"bad"}]}"#;
        let (failure, _) = refused(&["topic", "a"], "422 Unprocessable Entity", body).await;
        assert_eq!(failure.message(), "a: bad (422 invalid_input)");
        let older = body.replace("a: bad", "some of it is not valid; see `errors`");
        let (failure, _) = refused(&["topic", "a"], "422 Unprocessable Entity", &older).await;
        let told = "some of it is not valid; see `errors` (422 invalid_input)\n  a: bad";
        assert_eq!(failure.message(), told);
    }

    #[tokio::test]
    async fn a_refusal_in_json_is_shown_as_it_came() {
        let body = r#"{"detail": "gone", "code": "lease_lost"}"#;
        let (failure, shown) = refused(&["ack", "1", "t", "--json"], "409 Conflict", body).await;
        assert_eq!(failure.message(), "gone (409 lease_lost)");
        assert_eq!(shown, format!("{body}\n"));
        let line = format!("{body}\n");
        let (_, shown) = refused(&["ack", "1", "t", "--json"], "409 Conflict", &line).await;
        assert_eq!(shown, line);
    }

    #[tokio::test]
    async fn an_answer_that_is_not_from_dueq_is_reported_by_its_status() {
        let (failure, _) = refused(&["topic", "a"], "502 Bad Gateway", "<html>").await;
        assert_eq!(failure.message(), "the server answered 502 Bad Gateway");
        let told = "<center>The plain HTTP request was sent to HTTPS port</center>";
        let (failure, _) = refused(&["topic", "a"], "400 Bad Request", told).await;
        let advice = "the server answered 400 Bad Request: it speaks TLS, use https://";
        assert_eq!(failure.message(), advice);
        let (failure, _) = refused(&["topic", "a"], "200 OK", "<html>").await;
        assert_eq!(failure.message(), "the answer is not a JSON object; is this a dueq server?");
        assert_eq!(failure.exit_code(), ExitCode::FAILURE);
    }

    #[test]
    fn a_closed_pipe_is_not_a_failure() {
        let failure = Failure::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert_eq!((failure.message(), failure.exit_code()), (String::new(), ExitCode::SUCCESS));
    }
}
