//! Values that are never read back: they show as `***`, and `***` put back keeps what is stored.

use std::collections::BTreeMap;

/// What is shown in place of a value that is not read back.
pub const MASK: &str = "***";

/// Bytes of the names and values of a message's headers, or of a push's, at most.
pub const MAX_HEADERS_BYTES: usize = 8 * 1024;

/// Why headers cannot be kept as they were put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unkept {
    /// Nothing is stored for the header of this name.
    Nothing(String),
    /// With what is stored they are larger than [`MAX_HEADERS_BYTES`]: each spelling of a name gets the value.
    TooLarge,
}

/// Is the value of this header a secret?
fn is_secret(name: &str) -> bool {
    name.eq_ignore_ascii_case("authorization") || name.eq_ignore_ascii_case("cookie")
}

/// Headers as they are shown.
pub fn masked(headers: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let shown = |(name, value): (&String, &String)| {
        let value = if is_secret(name) { MASK } else { value };
        (name.clone(), value.to_owned())
    };
    headers.iter().map(shown).collect()
}

/// Headers as they were put, `***` replaced by what is stored.
pub fn unmasked(
    put: &BTreeMap<String, String>,
    stored: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, Unkept> {
    let kept = |(name, value): (&String, &String)| {
        if !is_secret(name) || value != MASK {
            return Ok((name.clone(), value.clone()));
        }
        let alike = || stored.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        // A name may be there in several spellings, each with its own value.
        let same = stored.get_key_value(name).or_else(alike);
        let (_, value) = same.ok_or_else(|| Unkept::Nothing(name.clone()))?;
        Ok((name.clone(), value.clone()))
    };
    let all: BTreeMap<_, _> = put.iter().map(kept).collect::<Result<_, _>>()?;
    let bytes: usize = all.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes <= MAX_HEADERS_BYTES || all == *put { Ok(all) } else { Err(Unkept::TooLarge) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_headers_are_shown_masked_and_kept_when_the_mask_comes_back() {
        let map = |pairs: &[(&str, &str)]| {
            pairs
                .iter()
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
                .collect::<BTreeMap<_, _>>()
        };
        let stored = map(&[("Authorization", "Bearer x"), ("COOKIE", "a=b"), ("x-a", "***")]);
        let shown = map(&[("Authorization", "***"), ("COOKIE", "***"), ("x-a", "***")]);
        assert_eq!(masked(&stored), shown);
        assert_eq!(unmasked(&shown, &stored), Ok(stored.clone()));
        assert_eq!(unmasked(&map(&[("cookie", "***")]), &stored), Ok(map(&[("cookie", "a=b")])));
        assert_eq!(unmasked(&map(&[("cookie", "new")]), &stored), Ok(map(&[("cookie", "new")])));
        let nothing = Unkept::Nothing("Authorization".to_owned());
        assert_eq!(unmasked(&shown, &map(&[])), Err(nothing));
    }

    #[test]
    fn a_value_that_is_kept_under_many_names_is_not_kept_beyond_the_limit() {
        let value = |value: &str| value.to_owned();
        let stored = BTreeMap::from([(value("cookie"), "x".repeat(MAX_HEADERS_BYTES / 2))]);
        let stars = ["cookie", "Cookie"].map(|name| (value(name), value(MASK)));
        assert_eq!(unmasked(&BTreeMap::from(stars.clone()), &stored), Err(Unkept::TooLarge));
        assert_eq!(unmasked(&BTreeMap::from_iter(stars.into_iter().take(1)), &stored), Ok(stored));
    }
}
