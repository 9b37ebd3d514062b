//! Durations and instants for people: `10m` as input, `in 4m 59s` as output. The API has milliseconds and instants.

use chrono::Utc;
use dueq_model::{Millis, parse_instant};
use std::time::Duration;

/// Parses a duration such as `10m`, `1h30m` or `500ms` into milliseconds.
pub fn parse(text: &str) -> Result<u64, String> {
    let duration = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; a duration looks like 10m, 1h30m or 500ms"))?;
    if !duration.subsec_nanos().is_multiple_of(1_000_000) {
        return Err("finer than a millisecond".to_owned());
    }
    u64::try_from(duration.as_millis()).map_err(|_| "too long".to_owned())
}

/// Checks an instant such as `2026-11-20T18:15:00Z`. Returns it as it was written, for the server to parse.
pub fn instant(text: &str) -> Result<String, String> {
    parse_instant(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Formats a duration exactly: `14days`, `1h 30m`.
pub fn exact(millis: Millis) -> String {
    humantime::format_duration(Duration::from_millis(millis.unsigned_abs())).to_string()
}

/// Formats a duration in its two largest units: `4m 59s`, `350ms`.
pub fn rough(millis: Millis) -> String {
    let exact = exact(millis);
    let mut units = exact.split(' ');
    let first = units.next().unwrap_or_default().to_owned();
    match units.next().filter(|second| !second.ends_with("ms")) {
        Some(second) => format!("{first} {second}"),
        None => first,
    }
}

/// Appends the distance from `now` to an instant: `2026-11-20T18:15:00.000Z (in 4m 59s)`.
fn relative_to(now: Millis, instant: &str) -> String {
    match parse_instant(instant).map(|at| at - now) {
        Ok(0) => format!("{instant} (now)"),
        Ok(ahead @ 1..) => format!("{instant} (in {})", rough(ahead)),
        Ok(past) => format!("{instant} ({} ago)", rough(-past)),
        Err(_) => instant.to_owned(),
    }
}

/// Appends the distance from the local time to an instant.
pub fn when(instant: &str) -> String {
    relative_to(now(), instant)
}

/// The local time.
pub fn now() -> Millis {
    Utc::now().timestamp_millis()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_in_any_unit() {
        for (text, millis) in [
            ("10m", 600_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("500ms", 500),
            ("0s", 0),
            ("0", 0),
            ("2days", 172_800_000),
        ] {
            assert_eq!(parse(text), Ok(millis), "{text}");
        }
    }

    #[test]
    fn an_invalid_duration_is_refused() {
        for bad in ["", "10", "-1s", "ten", "1.5", "10 m x", "1us", "1500us", "99999999999999999y"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn durations_are_formatted_in_two_units() {
        for (millis, text) in [
            (0, "0s"),
            (350, "350ms"),
            (1_999, "1s"),
            (60_000, "1m"),
            (299_999, "4m 59s"),
            (3_600_000 + 59_000, "1h 59s"),
            (90_000_000, "1day 1h"),
        ] {
            assert_eq!(rough(millis), text);
        }
    }

    #[test]
    fn instants_are_formatted_relative_to_now() {
        let now = parse_instant("2026-11-20T18:15:00Z").unwrap();
        for (at, text) in [
            ("2026-11-20T18:19:59.000Z", "2026-11-20T18:19:59.000Z (in 4m 59s)"),
            ("2026-11-20T18:13:00.000Z", "2026-11-20T18:13:00.000Z (2m ago)"),
            ("2026-11-20T18:15:00.000Z", "2026-11-20T18:15:00.000Z (now)"),
            ("some day", "some day"),
        ] {
            assert_eq!(relative_to(now, at), text);
        }
    }
}
