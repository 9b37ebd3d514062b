//! Instants: milliseconds since 1970 inside, RFC 3339 in UTC with milliseconds outside.

use chrono::{DateTime, SecondsFormat};

/// Milliseconds, of a duration or since 1970-01-01T00:00:00Z.
pub type Millis = i64;

/// The last instant that the contract takes: the end of the year 9999.
pub const LAST: Millis = 253_402_300_799_999;

/// The text is no instant.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "must be an RFC 3339 instant with an offset, up to the year 9999, like 2026-11-20T18:15:00.123Z"
)]
pub struct InvalidInstant;

/// Reads an RFC 3339 instant with any offset; parts of a millisecond round up, so that nothing comes early.
pub fn parse_instant(text: &str) -> Result<Millis, InvalidInstant> {
    let instant = DateTime::parse_from_rfc3339(text).map_err(|_| InvalidInstant)?;
    let whole = instant.timestamp_millis();
    let part = instant.timestamp_subsec_nanos() % 1_000_000 > 0;
    let millis = whole + Millis::from(part);
    if (-LAST..=LAST).contains(&millis) { Ok(millis) } else { Err(InvalidInstant) }
}

/// Writes `millis` as `2026-11-20T18:15:00.123Z`.
pub fn format_instant(millis: Millis) -> String {
    DateTime::from_timestamp_millis(millis)
        .unwrap_or_default()
        .to_rfc3339_opts(SecondsFormat::Millis, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_come_back_in_utc_with_milliseconds() {
        for (text, out) in [
            ("2026-11-20T18:15:00Z", "2026-11-20T18:15:00.000Z"),
            ("2026-11-20T18:15:00.1230001+02:00", "2026-11-20T16:15:00.124Z"),
            ("2026-12-31T23:59:59.9999Z", "2027-01-01T00:00:00.000Z"),
            ("1960-01-01T00:00:00.0005Z", "1960-01-01T00:00:00.001Z"),
            ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(parse_instant(text).map(format_instant), Ok(out.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for bad in [
            "",
            "2026-11-20",
            "2026-11-20T18:15:00",
            "2026-13-01T00:00:00Z",
            "10000-01-01T00:00:00Z",
            "9999-12-31T23:59:59-01:00",
            "1763662500",
            "2026-11-20T18:15:00Z ",
            "2026-11-20T25:00:00Z",
        ] {
            assert_eq!(parse_instant(bad), Err(InvalidInstant), "{bad}");
        }
    }
}
