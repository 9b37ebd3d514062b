//! Instants in answers. A batch of leases has thousands of them, so they are written without an allocation each.

use crate::model::{Millis, format_instant};
use chrono::{DateTime, Datelike, Timelike};
use serde::{Serialize, Serializer};

/// The end of the year 9999: what RFC 3339 can say.
const LAST: Millis = 253_402_300_799_999;

/// An instant as answers show it: RFC 3339 in UTC with milliseconds. What lies beyond the year 9999 is shown as its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant(pub Millis);

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let millis = self.0.min(LAST);
        match DateTime::from_timestamp_millis(millis).filter(|_| millis >= 0) {
            Some(instant) => {
                let text = write(&instant);
                serializer.serialize_str(std::str::from_utf8(&text).unwrap_or_default())
            }
            None => serializer.serialize_str(&format_instant(millis)),
        }
    }
}

fn write(instant: &DateTime<chrono::Utc>) -> [u8; 24] {
    let mut text = *b"0000-00-00T00:00:00.000Z";
    let date = instant.date_naive();
    let seconds = instant.num_seconds_from_midnight();
    put(&mut text[..4], date.year().unsigned_abs());
    put(&mut text[5..7], date.month());
    put(&mut text[8..10], date.day());
    put(&mut text[11..13], seconds / 3600);
    put(&mut text[14..16], seconds / 60 % 60);
    put(&mut text[17..19], seconds % 60);
    put(&mut text[20..23], instant.timestamp_subsec_millis());
    text
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
    fn instants_are_written_as_the_model_formats_them() {
        for millis in [0, 1, 951_782_399_999, 951_782_400_000, 1_763_700_000_123, LAST, -1_500] {
            let text = serde_json::to_string(&Instant(millis)).unwrap();
            assert_eq!(text, format!("\"{}\"", format_instant(millis)));
        }
        assert_eq!(
            serde_json::to_string(&Instant(LAST + 1)).unwrap(),
            "\"9999-12-31T23:59:59.999Z\""
        );
    }
}
