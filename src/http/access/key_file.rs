//! The text of a key file. A line is `name sha256:<64 hex> verb:pattern …`, or a bare key, which may do everything. Whatever
//! is wrong is said by line, without the line's words where they may be a secret.

use super::{
    keys::digest,
    quota::{self, Quotas},
    scopes::Scopes,
};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use std::collections::HashMap;

/// SHA-256 of a key.
pub type Digest = [u8; 32];

const MAX_CHARS: usize = 256;
const MAX_NAME: usize = 64;
/// Shorter ones are warned of: 16 random characters of base64 are 96 bits.
pub const SHORT: usize = 16;
/// Wrong lines that one message lists.
const MAX_LISTED: usize = 10;
const HASH: &str = "sha256:";
const RATE: &str = "rate:";

/// A key as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in the log.
    pub name: String,
    /// What tells it from others.
    pub digest: Digest,
    /// What it may do.
    pub scopes: Scopes,
    /// How many messages a second it may publish, if that is limited.
    pub rate: Option<u32>,
    /// What it may make and store, as far as its line says.
    pub quotas: Quotas,
}

/// What a file says.
#[derive(Debug, Default)]
pub struct KeyFile {
    /// The keys, in its order.
    pub entries: Vec<Entry>,
    /// How many of them are bare.
    pub bare: usize,
    /// How many of those are so short that they may be guessed.
    pub short: usize,
}

/// The lines that are wrong, from 1, each with the reason.
#[derive(Debug, PartialEq, Eq)]
pub struct WrongLines(Vec<(usize, String)>);

impl std::fmt::Display for WrongLines {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, (line, reason)) in self.0.iter().take(MAX_LISTED).enumerate() {
            write!(f, "{}line {line}: {reason}", if at == 0 { "" } else { "; " })?;
        }
        match self.0.len().saturating_sub(MAX_LISTED) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

impl KeyFile {
    /// Reads the text. Errors: all lines that are wrong, also those whose key is one of the `given`.
    pub fn parse(text: &[u8], given: &[Digest]) -> Result<Self, WrongLines> {
        let (mut file, mut doubtful) = (Self::default(), Vec::new());
        // The number of the line that does not end.
        let open = (!text.ends_with(b"\n")).then(|| text.split(|byte| *byte == b'\n').count());
        let (mut names, mut digests, mut wrong) = (HashMap::new(), HashMap::new(), Vec::new());
        let mut has_named = false;
        for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let entry = match words(line) {
                Ok("") => continue,
                Ok(line) if line.contains(char::is_whitespace) => {
                    has_named = true;
                    named(line)
                }
                Ok(line) => {
                    file.bare += 1;
                    let is_short = line.len() < SHORT;
                    file.short += usize::from(is_short);
                    doubtful.extend((is_short || open == Some(number)).then_some(number));
                    bare(line, format!("(line {number})"))
                }
                Err(reason) => Err(reason),
            };
            let unique = entry.and_then(|entry| {
                if let Some(first) = names.insert(entry.name.clone(), number) {
                    return Err(format!("its name is that of line {first}"));
                }
                if given.contains(&entry.digest) {
                    return Err("its key is also one of --api-key (or DUEQ_API_KEYS)".to_owned());
                }
                match digests.insert(entry.digest, number) {
                    Some(first) => Err(format!("its key is that of line {first}")),
                    None => Ok(entry),
                }
            });
            match unique {
                Ok(entry) => file.entries.push(entry),
                Err(reason) => wrong.push((number, reason)),
            }
        }
        if has_named {
            // It may be what is left of a longer line, and would do everything.
            let reason = format!(
                "next to named keys, one without a name has {SHORT} or more characters and a line break at its end"
            );
            wrong.extend(doubtful.into_iter().map(|line| (line, reason.clone())));
            wrong.sort();
            wrong.dedup_by_key(|(line, _)| *line);
        }
        if wrong.is_empty() { Ok(file) } else { Err(WrongLines(wrong)) }
    }
}

/// What a line says, which is nothing if it is a comment. Errors: why it is no line.
fn words(line: &[u8]) -> Result<&str, String> {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.contains(&b'\r') {
        return Err("it has a carriage return within: lines end in LF or CR LF".to_owned());
    }
    let line = str::from_utf8(line).map_err(|_| "it is not text in UTF-8")?.trim();
    Ok(if line.starts_with('#') { "" } else { line })
}

/// A key that may do everything. Errors: why it is none.
pub fn bare(key: &str, name: String) -> Result<Entry, String> {
    let good = |byte: u8| byte.is_ascii_graphic() && byte != b',';
    if !(1..=MAX_CHARS).contains(&key.len()) || !key.bytes().all(good) {
        return Err("a key has 1 to 256 visible ASCII characters and no comma".to_owned());
    }
    if key.get(..HASH.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(HASH)) {
        // What is left of a named line: the hash is no secret, and would open everything.
        return Err("a hash needs a name before it and scopes after it".to_owned());
    }
    Ok(Entry::new(name, digest(key.as_bytes()), Scopes::admin()))
}

fn named(line: &str) -> Result<Entry, String> {
    let mut words = line.split_whitespace();
    let (name, hash) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let hash = hash
        .strip_prefix(HASH)
        .ok_or("is neither one key nor `name sha256:<64 hex> verb:pattern …`")?;
    check_name(name)?;
    let mut digest = Digest::default();
    hex::decode_to_slice(hash, &mut digest).map_err(|_| {
        format!("{HASH} is followed by {} characters, not by 64 hexadecimal digits", hash.len())
    })?;
    let mut entry = Entry::new(name.to_owned(), digest, Scopes::default());
    entry.allow_all((3..).zip(words).map(|(at, word)| (word, format!("word {at}"))))?;
    Ok(entry)
}

fn check_name(name: &str) -> Result<(), String> {
    let good = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let begins_well = name.as_bytes().first().is_some_and(u8::is_ascii_alphanumeric);
    if begins_well && name.len() <= MAX_NAME && name.bytes().all(good) {
        return Ok(());
    }
    Err(format!(
        "a name has 1 to {MAX_NAME} of the characters A-Z a-z 0-9 . _ -, and begins with a letter or digit"
    ))
}

impl Entry {
    /// One without limits.
    pub fn new(name: String, digest: Digest, scopes: Scopes) -> Self {
        Self { name, digest, scopes, rate: None, quotas: Quotas::default() }
    }

    /// Adds the words behind the hash, each with its place. Errors: what is wrong with them, or that no scope is among them.
    fn allow_all<'w>(
        &mut self,
        mut words: impl Iterator<Item = (&'w str, String)>,
    ) -> Result<(), String> {
        words.try_for_each(|(word, place)| self.allow(word, &place))?;
        if self.scopes.are_none() {
            return Err("it allows nothing: add verb:pattern, such as read:*, or admin".to_owned());
        }
        Ok(())
    }

    /// Adds a word behind the hash.
    fn allow(&mut self, word: &str, place: &str) -> Result<(), String> {
        if let Some(added) = self.quotas.add(word) {
            return added;
        }
        let Some(rate) = word.strip_prefix(RATE) else { return self.scopes.add(word, place) };
        match self.rate.replace(quota::parse(rate)?) {
            None => Ok(()),
            Some(_) => Err("it has more than one rate".to_owned()),
        }
    }

    /// The line that says it.
    fn line(&self) -> String {
        let words = [self.name.clone(), format!("{HASH}{}", hex::encode(self.digest))];
        let rate = self.rate.map(|rate| format!("{RATE}publish={rate}/s"));
        let words = words.into_iter().chain(self.scopes.words()).chain(rate);
        words.chain(self.quotas.words()).collect::<Vec<_>>().join(" ")
    }
}

/// Makes a key of this name that may do what `words` say, each as behind the hash of a line. Returns the key and its line.
///
/// Errors: what is wrong with the name or with a word; no randomness.
pub fn new_key(name: &str, words: &[String]) -> Result<(String, String), String> {
    check_name(name)?;
    let mut random = [0; 32];
    getrandom::fill(&mut random)
        .map_err(|error| format!("cannot get random numbers from the system: {error}"))?;
    let key = format!("dq_{}", URL_SAFE_NO_PAD.encode(random));
    let mut entry = Entry::new(name.to_owned(), digest(key.as_bytes()), Scopes::default());
    let words = (1..).zip(words).map(|(at, word)| (word.as_str(), format!("scope {at}")));
    entry.allow_all(words)?;
    Ok((key, entry.line()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "0123456789abcdef0123456789abcdef0123456789ABCDEF0123456789abcdef";
    const TWO: &str = "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn parse(text: &str) -> Result<KeyFile, WrongLines> {
        KeyFile::parse(text.as_bytes(), &[])
    }

    #[test]
    fn lines_are_named_keys_bare_keys_comments_and_nothing() {
        let text = format!(
            "# ours\r\n\n  billing\tsha256:{ONE}  publish:orders.* read:*\r\nbare-key-of-this-test\nanother-bare-key\n ops sha256:{TWO} admin"
        );
        let file = parse(&text).unwrap();
        let names: Vec<_> = file.entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["billing", "(line 4)", "(line 5)", "ops"]);
        assert_eq!((file.bare, file.short), (2, 0));
        assert_eq!(file.entries[0].scopes.words(), ["publish:orders.*", "read:*"]);
        assert!(file.entries[1].scopes.is_admin() && file.entries[3].scopes.is_admin());
        assert_eq!(file.entries[1].digest, digest(b"bare-key-of-this-test"));
    }

    #[test]
    fn every_wrong_line_is_named_with_its_reason_and_shows_no_secret() {
        let long = "x".repeat(65);
        for (line, reason) in [
            ("sesame open", "neither one key nor"),
            ("sesame publish:orders", "neither one key nor"),
            ("sesame,open", "no comma"),
            ("s\u{e9}same", "visible ASCII"),
            (&format!("a/sesame sha256:{ONE} read:*"), "a name has"),
            (&format!("{long} sha256:{ONE} read:*"), "a name has"),
            ("a sha256:sesame read:*", "followed by 6 characters"),
            (&format!("a sha256:{ONE}0 read:*"), "followed by 65 characters"),
            (&format!("a sha256:{}g read:*", &ONE[1..]), "64 hexadecimal"),
            (&format!("a sha256:{ONE}"), "allows nothing"),
            (&format!("SHA256:{ONE}"), "a hash needs a name"),
            (&format!("a sha256:{ONE} read"), "needs a pattern"),
            (&format!("a sha256:{ONE} see:*"), "word 3 is no verb"),
            (&format!("a sha256:{ONE} read:* sesame"), "word 4 is no verb"),
            (&format!("a sha256:{ONE} read:*\rsesame-open-sesame"), "carriage return"),
            ("# ours\rsesame-open-sesame", "carriage return"),
            (&format!("a sha256:{ONE} rate:publish=5/s"), "allows nothing"),
            (&format!("a sha256:{ONE} read:* rate:consume=5/s"), "a rate is"),
            (
                &format!("a sha256:{ONE} read:* rate:publish=5/s rate:publish=6/s"),
                "more than one rate",
            ),
            (&format!("a sha256:{ONE} read:* topics=sesame"), "topics=N, with N from 0 to"),
            (&format!("a sha256:{ONE} read:* topics="), "topics=N, with N from 0 to"),
            (&format!("a sha256:{ONE} read:* topics=-1"), "topics=N, with N from 0 to"),
            (&format!("a sha256:{ONE} read:* topics=1.5"), "topics=N, with N from 0 to"),
            (&format!("a sha256:{ONE} read:* topics=67108864"), "topics=N, with N from 0 to"),
            (&format!("a sha256:{ONE} read:* messages=0"), "messages=N, with N from 1 to"),
            (&format!("a sha256:{ONE} read:* messages=1k"), "messages=N, with N from 1 to"),
            (&format!("a sha256:{ONE} read:* bytes=0"), "bytes=N, with N from 1 to"),
            (&format!("a sha256:{ONE} read:* bytes=99999999999999999999"), "bytes=N, with"),
            (&format!("a sha256:{ONE} read:* bytes=1 bytes=1"), "more than one bytes="),
            (&format!("a sha256:{ONE} topics=5"), "allows nothing"),
            (&format!("a sha256:{ONE} read:* Topics=5"), "word 4 is no verb"),
        ] {
            let error = parse(&format!("# first\n{line}\n")).unwrap_err().to_string();
            assert!(error.starts_with("line 2: ") && error.contains(reason), "{line}: {error}");
            assert!(!error.contains("sesame"), "{error}");
        }
    }

    #[test]
    fn a_name_or_a_key_stands_once() {
        let text = format!("a sha256:{ONE} read:*\na sha256:{TWO} read:*\nb sha256:{ONE} read:*\n");
        let error = parse(&text).unwrap_err().to_string();
        assert_eq!(error, "line 2: its name is that of line 1; line 3: its key is that of line 1");
        let many = parse(&"a b\n".repeat(30)).unwrap_err().to_string();
        assert!(
            many.contains("line 10: ")
                && !many.contains("line 11")
                && many.ends_with("; and 20 more"),
            "{many}"
        );
    }

    #[test]
    fn a_line_that_may_be_torn_is_no_key_beside_named_ones() {
        let error =
            parse(&format!("billing\na sha256:{ONE} read:*\nb c\n")).unwrap_err().to_string();
        assert!(
            error.starts_with("line 1: next to named keys") && error.contains("; line 3: is"),
            "{error}"
        );
        assert!(!error.contains("billing"), "{error}");
        let whole = format!("a sha256:{ONE} read:*\nthe-billing-of-orders");
        let error = parse(&whole).unwrap_err().to_string();
        assert!(error.starts_with("line 2: next to named keys"), "{error}");
        for end in ["\n", "\r\n", "\n\n# ours"] {
            assert_eq!(parse(&format!("{whole}{end}")).unwrap().bare, 1, "{end:?}");
        }
        let file = parse("billing\nx\nsesame-open-sesame").unwrap();
        assert_eq!((file.bare, file.short), (3, 2));
    }

    #[test]
    fn a_line_that_is_no_text_is_named() {
        let error = KeyFile::parse(b"first-bare-key-of-tests\nsesame\xff\n", &[]).unwrap_err();
        assert_eq!(error.to_string(), "line 2: it is not text in UTF-8");
    }

    #[test]
    fn a_new_key_is_known_by_its_line() {
        let words = ["publish:orders.*", "rate:publish=5/s", "bytes=7", "topics=0", "read:*"];
        let words = words.map(str::to_owned);
        let (key, line) = new_key("billing", &words).unwrap();
        assert!(key.starts_with("dq_") && key.len() == 46, "{key}");
        let entry = &parse(&line).unwrap().entries[0];
        assert_eq!((entry.name.as_str(), entry.digest), ("billing", digest(key.as_bytes())));
        assert_eq!((entry.rate, entry.quotas.0), (Some(5), [Some(0), None, Some(7)]));
        assert_ne!(new_key("billing", &words).unwrap().0, key);
        assert!(new_key("", &words).is_err() && new_key("billing", &[]).is_err());
        assert!(new_key("billing", &["sell:*".to_owned()]).is_err());
    }
}
