//! Values that are never read back: they show as `***`, and `***` put back keeps what is stored.

use std::collections::BTreeMap;

/// What is shown in place of a value that is not read back.
pub const MASK: &str = "***";

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

/// Headers as they were put, `***` replaced by what is stored. Errors: the name of a header for which nothing is.
pub fn unmasked(
    put: &BTreeMap<String, String>,
    stored: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, String> {
    let kept = |(name, value): (&String, &String)| {
        if !is_secret(name) || value != MASK {
            return Ok((name.clone(), value.clone()));
        }
        let alike = || stored.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        // A name may be there in several spellings, each with its own value.
        let same = stored.get_key_value(name).or_else(alike);
        same.map(|(_, value)| (name.clone(), value.clone())).ok_or_else(|| name.clone())
    };
    put.iter().map(kept).collect()
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
        assert_eq!(unmasked(&shown, &map(&[])), Err("Authorization".to_owned()));
    }
}
