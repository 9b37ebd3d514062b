//! The reason in an error: what is left of its text when whatever tells one message from another (numbers, UUIDs, hexadecimal
//! digits) is masked. Messages are counted and found by it.

use uuid::Uuid;

/// Characters of a UUID.
const UUID: usize = 36;
/// Hexadecimal digits that are masked, at least, if they have a digit among them.
const HEX: usize = 6;

/// The text with `*` for numbers, UUIDs and hexadecimal digits.
pub fn reason_of(text: &str) -> String {
    // The status that ended a call is no number of something.
    if text.strip_prefix("answered ").is_some_and(|status| status.len() == 3) {
        return text.to_owned();
    }
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric()).len();
        let uuid = rest.get(..UUID).is_some_and(|text| Uuid::try_parse(text).is_ok());
        let length = if uuid { UUID } else { word.max(first.len_utf8()) };
        let (taken, left) = rest.split_at(length);
        if uuid || is_hex(taken) {
            masked.push('*');
        } else {
            push_without_digits(taken, &mut masked);
        }
        rest = left;
    }
    // A decimal number and an address are one thing each.
    for joint in ["*.*", "*:*"] {
        while masked.contains(joint) {
            masked = masked.replace(joint, "*");
        }
    }
    masked
}

fn is_hex(word: &str) -> bool {
    let (digits, word) = (word.strip_prefix("0x"), word);
    let hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let has_digit = |text: &str| text.bytes().any(|byte| byte.is_ascii_digit());
    digits.is_some_and(hex) || (hex(word) && has_digit(word) && word.len() >= HEX)
}

fn push_without_digits(word: &str, masked: &mut String) {
    for char in word.chars() {
        match char.is_ascii_digit() {
            true if masked.ends_with('*') => {}
            true => masked.push('*'),
            false => masked.push(char),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_from_message_to_message_is_masked() {
        for (text, reason) in [
            ("timeout after 30 s", "timeout after * s"),
            ("timeout after 2.5s", "timeout after *s"),
            ("answered 500", "answered 500"),
            ("answered 5000", "answered *"),
            ("no order 9f8e7d6c", "no order *"),
            ("no order 123e4567-e89b-12d3-a456-426614174000!", "no order *!"),
            ("at 0xDEADbeef", "at *"),
            ("10.0.0.1:8080 refused", "* refused"),
            ("order-42 of shop7", "order-* of shop*"),
            ("decade cafe", "decade cafe"),
            ("größe 5 – nein", "größe * – nein"),
            ("", ""),
        ] {
            assert_eq!(reason_of(text), reason);
        }
    }
}
