//! What a receiver's answer means for the message: the retry rules of the API.

use dueq_base::seeded;
use dueq_model::{CallReport, MessageId, Millis, Retry};
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use std::{
    collections::HashMap,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Bytes of an answer that are kept, if it does not deliver.
pub(super) const KEPT_BYTES: usize = 1_024;

/// The header by which a receiver forbids another attempt, with the value `never`.
const RETRY_HEADER: &str = "dueq-retry";

/// What happens to the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The receiver has taken it.
    Delivered,
    /// There is no further attempt.
    Dead,
    /// There is another attempt, after this time or else after the backoff.
    Retry {
        /// What the receiver asked for.
        after: Option<Duration>,
    },
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallOutcome {
    /// What is recorded of the call.
    pub report: CallReport,
    /// What happens to the message.
    pub verdict: Verdict,
    /// Whether the host answered, other than with a 5xx. `None`: the call says nothing about that.
    pub answered: Option<bool>,
    /// Messages of a call for many that failed although it delivered, and after how long (ms) each is tried again, if that
    /// is said.
    pub failed: HashMap<MessageId, Option<u64>>,
}

/// What the answer to a call for many messages may say: which of them failed.
#[derive(Deserialize)]
struct BatchAnswer {
    failed: Option<Vec<FailedMessage>>,
}

/// A message that failed.
#[derive(Deserialize)]
struct FailedMessage {
    id: MessageId,
    /// When it is tried again, ms from now, in place of the backoff.
    delay_ms: Option<u64>,
}

/// Returns the messages that failed although their call delivered, and after how long (ms) each is tried again, if the
/// receiver says so in its answer. One that is no JSON object names none. Errors: it is not known which failed, as the answer was
/// cut off (`None`), is encoded, or has a `failed` that cannot be read.
pub(super) fn failed_messages(
    headers: &HeaderMap,
    body: Option<&[u8]>,
) -> Result<HashMap<MessageId, Option<u64>>, &'static str> {
    let body = body.ok_or("the answer was cut off, so that it does not say which failed")?;
    if headers.get(header::CONTENT_ENCODING).is_some_and(|value| value != "identity") {
        return Err("the answer is encoded, so that it does not say which failed");
    }
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body).trim_ascii_start();
    if !body.starts_with(b"{") {
        return Ok(HashMap::new());
    }
    let read: BatchAnswer = serde_json::from_slice(body)
        .map_err(|_| "the answer's `failed` is no list of objects with an `id`")?;
    Ok(read.failed.into_iter().flatten().map(|it| (it.id, it.delay_ms)).collect())
}

/// Keeps no more of an answer than is kept of one that does not deliver.
pub(super) fn keep_less(report: &mut CallReport) {
    report.headers.clear();
    if let Some(answer) = &mut report.answer {
        cut(answer, KEPT_BYTES);
    }
}

/// Leaves at most so many bytes of a text, and out a character that is cut through.
pub(super) fn cut(text: &mut String, most: usize) {
    let fits = |at: &usize| text.is_char_boundary(*at);
    text.truncate((0..=most.min(text.len())).rev().find(fits).unwrap_or(0));
}

/// Why a call got no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The address may not be called.
    Refused,
    /// There was no connection, so the receiver did not get the message.
    Connect,
    /// There was a connection, so the receiver may have got the message.
    Timeout,
    /// It says nothing about the receiver.
    Unrelated,
}

impl NoAnswer {
    /// Whether the host answered, which the call may not say.
    pub fn answered(self) -> Option<bool> {
        matches!(self, Self::Connect | Self::Timeout).then_some(false)
    }

    /// Returns the verdict.
    pub fn verdict(self, retry: Option<&Retry>) -> Verdict {
        let decided = |cause| retry.and_then(|retry| retry.decides(cause));
        let again = match self {
            Self::Refused => Some(false),
            Self::Connect => decided("connect"),
            Self::Timeout => decided("timeout"),
            Self::Unrelated => None,
        };
        if again == Some(false) { Verdict::Dead } else { Verdict::Retry { after: None } }
    }
}

/// Returns the verdict for an answer with this status and these headers, received at `now` (ms).
pub(super) fn verdict(
    status: StatusCode,
    headers: &HeaderMap,
    retry: Option<&Retry>,
    now: Millis,
) -> Verdict {
    let never = || {
        let value = headers.get(RETRY_HEADER).and_then(|value| value.to_str().ok());
        value.is_some_and(|value| value.trim().eq_ignore_ascii_case("never"))
    };
    let retry = retry.filter(|_| !seeded::bug("retried against its lists"));
    let decided = || retry.and_then(|retry| retry.decides(status.as_str()));
    match status {
        _ if status.is_success() => Verdict::Delivered,
        _ if status.is_client_error() && never() => Verdict::Dead,
        _ if !decided().unwrap_or(status != StatusCode::GONE) => Verdict::Dead,
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            Verdict::Retry { after: retry_after(headers, now) }
        }
        _ => Verdict::Retry { after: None },
    }
}

/// Returns `Retry-After` as a duration, or `None` if it is zero or past: the backoff applies then. A date counts from the
/// answer's own `Date`, which comes from the same clock.
fn retry_after(headers: &HeaderMap, now: Millis) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    let after = if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        // A number that does not fit is long enough.
        Duration::from_secs(text.parse().unwrap_or(u64::MAX))
    } else {
        let until = httpdate::parse_http_date(text).ok()?;
        let date = headers.get(header::DATE).and_then(|date| date.to_str().ok());
        let from = date.and_then(|date| httpdate::parse_http_date(date.trim()).ok());
        until.duration_since(from.unwrap_or_else(|| instant(now))).ok()?
    };
    Some(after).filter(|after| !after.is_zero())
}

fn instant(ms: Millis) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(ms.max(0).unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, headers: &[(&'static str, &'static str)]) -> Verdict {
        let header = |(name, value): &(&'static str, &'static str)| {
            (http::HeaderName::from_static(name), http::HeaderValue::from_static(value))
        };
        let headers = headers.iter().map(header).collect();
        // Fri, 21 Nov 2025 02:13:20.500 GMT
        verdict(StatusCode::from_u16(status).unwrap(), &headers, None, 1_763_691_200_500)
    }

    #[test]
    fn lists_go_before_410_and_after_the_header() {
        let retry =
            Retry { on: Some(vec!["4xx".to_owned(), "503".to_owned()]), ..Retry::default() };
        let of = |status, name: &'static str, value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            verdict(StatusCode::from_u16(status).unwrap(), &headers, Some(&retry), 0)
        };
        let later = |secs| Verdict::Retry { after: Duration::from_secs(secs).into() };
        assert_eq!(of(410, "x", ""), Verdict::Retry { after: None });
        assert_eq!(of(400, "dueq-retry", "never"), Verdict::Dead);
        assert_eq!(
            (of(429, "retry-after", "7"), of(503, "retry-after", "8")),
            (later(7), later(8))
        );
        assert_eq!((of(500, "retry-after", "7"), of(302, "x", "")), (Verdict::Dead, Verdict::Dead));
        assert_eq!(of(204, "x", ""), Verdict::Delivered);
        assert_eq!(NoAnswer::Connect.verdict(Some(&retry)), Verdict::Dead);
        assert_eq!(NoAnswer::Timeout.verdict(None), Verdict::Retry { after: None });
        assert_eq!(NoAnswer::Unrelated.verdict(Some(&retry)), Verdict::Retry { after: None });
    }

    #[test]
    fn every_status_has_its_verdict() {
        for status in 100..=599 {
            let wanted = match status {
                200..=299 => Verdict::Delivered,
                410 => Verdict::Dead,
                _ => Verdict::Retry { after: None },
            };
            assert_eq!(of(status, &[]), wanted, "{status}");
            let wanted = if (400..=499).contains(&status) { Verdict::Dead } else { wanted };
            assert_eq!(of(status, &[("dueq-retry", " NEVER")]), wanted, "{status}");
            assert_eq!(of(status, &[("dueq-retry", "later")]), of(status, &[]), "{status}");
        }
    }

    #[test]
    fn retry_after_is_seconds_or_a_date_and_counts_for_429_and_503_only() {
        let after = |text| of(429, &[("retry-after", text)]);
        let secs = |secs| Verdict::Retry { after: Some(Duration::from_secs(secs)) };
        assert_eq!(after("120"), secs(120));
        let none = Verdict::Retry { after: None };
        assert_eq!(after("0"), none);
        assert_eq!(after("99999999999999999999999"), secs(u64::MAX));
        assert_eq!(
            after("Fri, 21 Nov 2025 02:14:20 GMT"),
            Verdict::Retry { after: Some(Duration::from_millis(59_500)) }
        );
        assert_eq!(after("Fri, 21 Nov 2025 02:13:00 GMT"), none, "past");
        assert_eq!(after("Friday, 21-Nov-25 02:13:00 GMT"), none, "the old form");
        for bad in ["", "-1", "1.5", "soon", "+5"] {
            assert_eq!(after(bad), none, "{bad}");
        }
        assert_eq!(of(503, &[("retry-after", "7")]), secs(7));
        assert_eq!(of(500, &[("retry-after", "7")]), Verdict::Retry { after: None });
    }

    #[test]
    fn a_retry_date_is_relative_to_the_date_of_the_answer() {
        let answer = [
            ("date", "Sat, 01 Jan 2000 00:00:00 GMT"),
            ("retry-after", "Sat, 01 Jan 2000 00:00:30 GMT"),
        ];
        assert_eq!(of(503, &answer), Verdict::Retry { after: Some(Duration::from_secs(30)) });
    }
}
