//! Instants: milliseconds since 1970 inside, RFC 3339 in UTC with milliseconds outside.

use chrono::{DateTime, SecondsFormat};
use serde::{Serialize, Serializer};
use std::cell::Cell;

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

/// The beginning of the year 0, ms. RFC 3339 can say what lies between it and [`LAST`].
const FIRST: Millis = -62_167_219_200_000;

/// An instant as answers show it, of which a batch of leases has thousands: RFC 3339 in UTC with milliseconds. What lies before the year 0 or beyond the year 9999 is
/// shown as its beginning or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant(pub Millis);

thread_local! {
    /// Seconds that were written last on this thread, as text: those of one answer are mostly a few, now and the end of a lease,
    /// which is seldom a multiple of seven seconds later.
    static WRITTEN: [Cell<(i64, [u8; 24])>; 7] =
        const { [const { Cell::new((0, *b"1970-01-01T00:00:00.000Z")) }; 7] };
}

impl Instant {
    /// The instant as answers show it.
    pub fn text(self) -> [u8; 24] {
        let millis = self.0.clamp(FIRST, LAST);
        let second = millis.div_euclid(1_000);
        let slot = second.rem_euclid(7) as usize;
        let (written, mut text) = WRITTEN.with(|all| all[slot].get());
        if written != second {
            text.copy_from_slice(format_instant(second * 1_000).as_bytes());
            WRITTEN.with(|all| all[slot].set((second, text)));
        }
        put(&mut text[20..23], millis.rem_euclid(1_000) as u32);
        text
    }
}

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(std::str::from_utf8(&self.text()).unwrap_or_default())
    }
}

/// Writes `number` in as many digits as there is place for.
fn put(place: &mut [u8], mut number: u32) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
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

    #[test]
    fn instants_are_written_as_the_model_formats_them() {
        for millis in [
            0,
            1,
            951_782_399_999,
            951_782_400_000,
            1_763_700_000_123,
            LAST,
            -1_500,
            FIRST,
            1_763_700_000_999,
        ] {
            let text = serde_json::to_string(&Instant(millis)).unwrap();
            assert_eq!(text, format!("\"{}\"", format_instant(millis)));
        }
    }

    #[test]
    fn what_no_calendar_has_is_written_as_its_nearest_end() {
        for (millis, shown) in [
            (LAST + 1, "\"9999-12-31T23:59:59.999Z\""),
            (i64::MAX, "\"9999-12-31T23:59:59.999Z\""),
            (FIRST - 1, "\"0000-01-01T00:00:00.000Z\""),
            (i64::MIN, "\"0000-01-01T00:00:00.000Z\""),
        ] {
            assert_eq!(serde_json::to_string(&Instant(millis)).unwrap(), shown);
        }
    }
}
