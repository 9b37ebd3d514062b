//! Which failed calls are retried, as requests say and answers show it.

use crate::prelude::*;
use dueq_model::{MAX_RETRY_CAUSES, Retry, Unknown};

request! {
    /// Which failed calls are retried. Each entry is a status (`429`), a class of them (`3xx`, `4xx`, `5xx`), `connect` (there
    /// was no connection, so the receiver did not get the message) or `timeout` (there was a connection and no answer, so it
    /// may have got it). A status goes before its class. A 4xx with `dueq-retry: never` is never retried.
    #[example = json!({"on": ["5xx", "429", "timeout", "connect"], "never": ["501"]})]
    pub struct RetryRequest {
        /// Failures that are retried; after any other, the message is dead at once. Default: all that `never` does not name,
        /// except for 410.
        pub on: Option<List<RetryCause, 1, MAX_RETRY_CAUSES>>,
        /// Failures after which the message is dead at once. Default: none.
        pub never: Option<List<RetryCause, 0, MAX_RETRY_CAUSES>>,
    }
    check(fields) {
        let mut seen: Vec<&RetryCause> = Vec::new();
        let on = on.iter().flatten().flat_map(|list| list.0.iter().enumerate());
        let never = never.iter().flatten().flat_map(|list| list.0.iter().enumerate());
        for (name, (at, cause)) in on.map(|it| ("on", it)).chain(never.map(|it| ("never", it))) {
            if seen.contains(&cause) {
                fields.refuse(&format!("{name}[{at}]"), "is listed more than once");
            }
            seen.push(cause);
        }
    }
}

impl From<RetryRequest> for Option<Retry> {
    fn from(RetryRequest { on, never }: RetryRequest) -> Self {
        let texts = |causes: Vec<RetryCause>| causes.into_iter().map(|cause| cause.0).collect();
        let never = never.map(|list| texts(list.0)).unwrap_or_default();
        Some(Retry { on: on.map(|list| texts(list.0)), never, unknown: Unknown::new() })
    }
}

answer! {
    /// Which failed calls are retried.
    #[name = "Retry"]
    pub struct RetryView<'a> {
        /// Failures that are retried; after any other, the message is dead at once. Absent: all that `never` does not name,
        /// except for 410.
        on: Option<&'a Vec<String>>,
        /// Failures after which the message is dead at once. Absent: none.
        never: Option<&'a Vec<String>>,
    }
}

impl<'a> From<&'a Retry> for RetryView<'a> {
    fn from(Retry { on, never, .. }: &'a Retry) -> Self {
        Self { on: on.as_ref(), never: Some(never).filter(|never| !never.is_empty()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn lists_that_cannot_be_are_refused_by_name() {
        for (text, field) in [
            (r#"{"on":[]}"#, "on"),
            (r#"{"on":"5xx"}"#, "on"),
            (r#"{"on":[429]}"#, "on[0]"),
            (r#"{"on":["429","2xx"]}"#, "on[1]"),
            (r#"{"on":["5XX"]}"#, "on[0]"),
            (r#"{"never":["600"]}"#, "never[0]"),
            (r#"{"never":["4x"]}"#, "never[0]"),
            (r#"{"never":["4xx","4xx"]}"#, "never[1]"),
            (r#"{"on":["5xx","timeout"],"never":["500","timeout"]}"#, "never[1]"),
            (r#"{"only":["5xx"]}"#, "only"),
        ] {
            let body = Bytes::from_static(text.as_bytes());
            let read = Fields::of_json(&body).and_then(Fields::read::<RetryRequest>);
            let errors = read.map(drop).unwrap_err().body("").errors;
            let names: Vec<_> = errors.into_iter().map(|error| error.field).collect();
            assert_eq!(names, [field], "{text}");
        }
    }
}
