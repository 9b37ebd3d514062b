//! Instants in answers. A batch of leases has thousands of them, so they are written without formatting each anew.

use crate::model::{LAST, Millis, format_instant};
use serde::{Serialize, Serializer};
use std::cell::Cell;

/// The beginning of the year 0, ms. RFC 3339 can say what lies between it and [`LAST`].
const FIRST: Millis = -62_167_219_200_000;

/// An instant as answers show it: RFC 3339 in UTC with milliseconds. What lies before the year 0 or beyond the year 9999 is
/// shown as its beginning or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instant(pub Millis);

thread_local! {
    /// The second that was written last on this thread, as text: those of one answer are mostly the same.
    static WRITTEN: Cell<(i64, [u8; 24])> = const { Cell::new((0, *b"1970-01-01T00:00:00.000Z")) };
}

impl Serialize for Instant {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let millis = self.0.clamp(FIRST, LAST);
        let second = millis.div_euclid(1_000);
        let (written, mut text) = WRITTEN.get();
        if written != second {
            match format_instant(second * 1_000).as_bytes().try_into() {
                Ok(formatted) => text = formatted,
                Err(_) => return serializer.serialize_str(&format_instant(millis)),
            }
            WRITTEN.set((second, text));
        }
        put(&mut text[20..23], millis.rem_euclid(1_000) as u32);
        serializer.serialize_str(std::str::from_utf8(&text).unwrap_or_default())
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
