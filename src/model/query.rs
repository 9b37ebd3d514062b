//! What people search messages by: `error:timeout -header.tenant:42 OR refused`. Spaces separate terms that must all hold, and
//! `OR` separates alternatives. It is read here once and matched in dueq, message by message, so that no search holds Redis.

mod field;

use super::{Body, CallUrl, Content, MessageId, Millis, parse_instant, reason_of};
use memchr::{memchr, memmem};
use std::cell::OnceCell;

/// Terms of one query.
const MAX_TERMS: usize = 16;
/// A day, ms.
const DAY_MS: Millis = 86_400_000;
/// The names of terms, for the refusal of another.
const NAMES: &str = "error, reason, status, id, key, group, url, host, header.NAME, payload, payload.$.FIELD, attempts, priority, at or published";

/// A query. Without terms, every message matches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MessageQuery {
    /// The alternatives: of one of them all terms must hold, or fail to where the first of the pair is true.
    any: Vec<Vec<(bool, Term)>>,
    text: String,
}

/// What a query looks at of a message.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// Its id.
    pub id: MessageId,
    /// The status that its last call was answered with.
    pub status: Option<u16>,
    /// Where its call goes, where [`MessageQuery::needs_url`].
    pub url: Option<&'a CallUrl>,
    /// Why it failed last.
    pub error: Option<&'a str>,
    /// Its key.
    pub key: Option<&'a str>,
    /// Its group.
    pub group: Option<&'a str>,
    /// Attempts so far.
    pub attempts: i64,
    /// 0…255.
    pub priority: u8,
    /// The instant of its state: due time, end of the lease, of death or of the ack.
    pub at: Millis,
    /// When it was published.
    pub published: Millis,
    /// Its content, where [`MessageQuery::needs_body`].
    pub body: Option<&'a Body>,
}

#[derive(Clone, Debug, PartialEq)]
enum Term {
    /// In the error, the key, a header or the payload.
    Word(Pattern),
    Error(Pattern),
    /// The error as it is counted; empty: there is none.
    Reason(String),
    Status(Range),
    Id(Pattern),
    Key(Pattern),
    Group(Pattern),
    Url(Pattern),
    Host(Pattern),
    Header(String, Pattern),
    Payload(Pattern),
    Field(Vec<String>, FieldTest),
    Attempts(Range),
    Priority(Range),
    At(Range),
    Published(Range),
}

/// What a field of the payload must be.
#[derive(Clone, Debug, PartialEq)]
enum FieldTest {
    Like(Pattern),
    Number(Range),
}

/// A text with `*` for any characters.
#[derive(Clone, Debug, PartialEq)]
struct Pattern {
    /// The text between the asterisks; where case does not count, in lower case.
    pieces: Vec<Vec<u8>>,
    /// Found anywhere, whatever the case of ASCII letters; otherwise the whole text must be like it.
    anywhere: bool,
}

/// Numbers from the first up to the second, both included.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Range(f64, f64);

impl MessageQuery {
    /// Characters of a query, at most.
    pub const MAX_CHARS: usize = 4096;

    /// Reads a query. Errors: what is wrong with it, as a sentence's end.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.chars().count() > Self::MAX_CHARS {
            return Err(format!("must be a string of at most {} characters", Self::MAX_CHARS));
        }
        let (mut any, mut terms, mut count) = (Vec::new(), Vec::new(), 0);
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let written = rest.split(char::is_whitespace).next().unwrap_or(rest);
            let after = if written == "OR" {
                if terms.is_empty() || written.len() == rest.trim_end().len() {
                    return Err(
                        "has OR without a term before and after it; the word is \"OR\"".to_owned()
                    );
                }
                any.push(std::mem::take(&mut terms));
                &rest[written.len()..]
            } else {
                count += 1;
                if count > MAX_TERMS {
                    return Err(format!("has more than {MAX_TERMS} terms"));
                }
                if written == "-OR" || written == "-" || written.starts_with("--") {
                    return Err(format!(
                        "has {written}, where - must be before a term; a word that begins with it needs quotation marks"
                    ));
                }
                let positive = rest.strip_prefix('-');
                let (term, after) = Term::parse(positive.unwrap_or(rest))?;
                terms.push((positive.is_some(), term));
                after
            };
            if !after.is_empty() && !after.starts_with(char::is_whitespace) {
                return Err("needs a space after a closing quotation mark".to_owned());
            }
            rest = after.trim_start();
        }
        any.extend(Some(terms).filter(|terms| !terms.is_empty()));
        Ok(Self { any, text: text.trim().to_owned() })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Does it look at payloads or headers?
    pub fn needs_body(&self) -> bool {
        self.has(|term| {
            matches!(term, Term::Word(_) | Term::Header(..) | Term::Payload(_) | Term::Field(..))
        })
    }

    /// Does it look at where calls go?
    pub fn needs_url(&self) -> bool {
        self.has(|term| matches!(term, Term::Url(_) | Term::Host(_)))
    }

    fn has(&self, is_such: impl Fn(&Term) -> bool) -> bool {
        self.any.iter().flatten().any(|(_, term)| is_such(term))
    }

    /// Do all terms of an alternative hold? Neither a term nor its negation holds of what cannot be known: the value of a header
    /// that is secret, and a body that is damaged.
    pub fn matches(&self, message: Subject<'_>, is_secret: impl Fn(&str) -> bool) -> bool {
        let texts = OnceCell::new();
        let holds = |(negated, term): &(bool, Term)| {
            term.holds(message, &texts, &is_secret) == Some(!negated)
        };
        self.any.is_empty() || self.any.iter().any(|terms| terms.iter().all(holds))
    }
}

/// A value, quoted or up to the next space; and what comes after it.
fn value(text: &str) -> Result<(String, &str), String> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        return match text.split_at(end) {
            ("", _) => Err("has a term without a value".to_owned()),
            (value, after) => Ok((value.to_owned(), after)),
        };
    };
    let (mut value, mut chars) = (String::new(), quoted.char_indices());
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Ok((value, &quoted[at + 1..])),
            '\\' => value.extend(chars.next().map(|(_, escaped)| escaped)),
            _ => value.push(char),
        }
    }
    Err("has a quotation mark that is not closed".to_owned())
}

impl Term {
    /// Reads the first term of a text; and what comes after it.
    fn parse(text: &str) -> Result<(Self, &str), String> {
        let written = text.split(char::is_whitespace).next().unwrap_or(text);
        match written.split_once(':').filter(|_| !written.starts_with('"')) {
            Some((name, _)) => {
                let (value, after) = value(&text[name.len() + 1..])?;
                Ok((Self::read(name, &value)?, after))
            }
            None => match value(text)? {
                (word, _) if word.is_empty() => Err("has an empty word".to_owned()),
                (word, after) => Ok((Self::Word(Pattern::new(&word, true)), after)),
            },
        }
    }

    fn read(name: &str, value: &str) -> Result<Self, String> {
        let like = || Pattern::new(value, false);
        let range = || Range::of(value, number);
        let instants = || Range::of_instants(value);
        let wrong = |what: &str| format!("{name} must be {what}, such as 3, >3 or <=3");
        let count = || range().ok_or_else(|| wrong("a number"));
        let instant = || {
            let reason = "an instant or a day, such as >2026-11-20 or <=2026-11-20T18:15:00Z";
            instants().ok_or_else(|| format!("{name} must be {reason}"))
        };
        Ok(match name {
            "reason" => Self::Reason(value.to_owned()),
            "status" => Self::Status(class(value).or_else(range).ok_or_else(|| wrong("a status"))?),
            "id" => Self::Id(Pattern::new(&value.to_ascii_lowercase(), false)),
            "url" => Self::Url(Pattern::new(value, true)),
            "host" => Self::Host(Pattern::new(&value.to_ascii_lowercase(), false)),
            "error" => Self::Error(Pattern::new(value, true)),
            "payload" => Self::Payload(Pattern::new(value, true)),
            "key" => Self::Key(like()),
            "group" => Self::Group(like()),
            "attempts" => Self::Attempts(count()?),
            "priority" => Self::Priority(count()?),
            "at" => Self::At(instant()?),
            "published" => Self::Published(instant()?),
            _ => match (name.strip_prefix("header."), name.strip_prefix("payload.$")) {
                (Some(header), _) if !header.is_empty() => Self::Header(header.to_owned(), like()),
                (_, Some(path)) => {
                    let test = match range().filter(|_| value.starts_with(['<', '>'])) {
                        Some(range) => FieldTest::Number(range),
                        None => FieldTest::Like(like()),
                    };
                    Self::Field(path_of(path)?, test)
                }
                _ => {
                    let reason = "a word with a colon needs quotation marks";
                    return Err(format!("has the unknown term {name}: must be {NAMES}; {reason}"));
                }
            },
        })
    }

    /// Does it hold, if that is known? `texts`: see [`texts_of`].
    fn holds(
        &self,
        message: Subject<'_>,
        texts: &OnceCell<Vec<Vec<u8>>>,
        is_secret: &impl Fn(&str) -> bool,
    ) -> Option<bool> {
        let like = |pattern: &Pattern, text: Option<&str>| {
            text.is_some_and(|text| pattern.matches(text.as_bytes()))
        };
        let body = message.body.filter(|body| body.damaged.is_none());
        let in_payload = |pattern: &Pattern, body: &Body| {
            let mut texts = texts.get_or_init(|| texts_of(&body.content)).iter();
            texts.any(|text| found_in_order(text, &pattern.pieces))
        };
        Some(match self {
            Self::Word(pattern) => {
                let header = |body: &Body| {
                    let mut headers = body.headers.iter();
                    headers.any(|(name, value)| !is_secret(name) && like(pattern, Some(value)))
                };
                like(pattern, message.error)
                    || like(pattern, message.key)
                    || body.map(|body| header(body) || in_payload(pattern, body))?
            }
            Self::Status(range) => message.status.is_some_and(|status| range.has(status.into())),
            Self::Id(pattern) => like(pattern, Some(&message.id.to_string())),
            Self::Url(pattern) => like(pattern, message.url.map(CallUrl::as_str)),
            Self::Host(pattern) => message.url.is_some_and(|url| {
                let host = url.host();
                let name = host.rsplit_once(':').map(|(name, _)| name);
                like(pattern, Some(&host)) || like(pattern, name)
            }),
            Self::Error(pattern) => like(pattern, message.error),
            Self::Reason(reason) => *reason == message.error.map(reason_of).unwrap_or_default(),
            Self::Key(pattern) => like(pattern, message.key),
            Self::Group(pattern) => like(pattern, message.group),
            Self::Attempts(range) => range.has(message.attempts as f64),
            Self::Priority(range) => range.has(message.priority.into()),
            Self::At(range) => range.has(message.at as f64),
            Self::Published(range) => range.has(message.published as f64),
            Self::Header(name, pattern) => {
                let its = body?.headers.iter().filter(|(its, _)| its.eq_ignore_ascii_case(name));
                let (secret, open): (Vec<_>, Vec<_>) = its.partition(|(its, _)| is_secret(its));
                let is_found = open.into_iter().any(|(_, value)| like(pattern, Some(value)));
                return Some(is_found).filter(|is_found| *is_found || secret.is_empty());
            }
            Self::Payload(pattern) => in_payload(pattern, body?),
            Self::Field(path, test) => {
                let Content::Json(json) = &body?.content else { return Some(false) };
                field::find(json, path).is_some_and(|found| test.holds(found))
            }
        })
    }
}

/// The texts in which words of a payload are searched, in lower case: as it was written, and if that is JSON with escapes, without.
fn texts_of(content: &Content) -> Vec<Vec<u8>> {
    let mut texts = vec![content.payload().to_ascii_lowercase()];
    if let Content::Json(json) = content
        && memchr(b'\\', json).is_some()
    {
        texts.push(unescaped(json).to_ascii_lowercase());
    }
    texts
}

/// JSON with what its escapes mean in their places.
fn unescaped(json: &[u8]) -> Vec<u8> {
    let unit = |text: &[u8]| {
        let digits = text.strip_prefix(b"\\u")?.get(..4)?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let (mut text, mut rest) = (Vec::with_capacity(json.len()), json);
    while let Some(at) = memchr(b'\\', rest) {
        let (before, escape) = rest.split_at(at);
        text.extend_from_slice(before);
        // Two of them in a row can be one character.
        let units: Vec<u16> = escape.chunks(6).map_while(unit).collect();
        text.extend_from_slice(String::from_utf16_lossy(&units).as_bytes());
        let length = match (units.len(), escape.get(1)) {
            (0, other) => {
                text.extend(other.map(|other| match other {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    other => *other,
                }));
                2
            }
            (units, _) => 6 * units,
        };
        rest = escape.get(length..).unwrap_or_default();
    }
    text.extend_from_slice(rest);
    text
}

/// A class of statuses, such as `5xx`.
fn class(text: &str) -> Option<Range> {
    let [hundreds @ b'1'..=b'5', b'x', b'x'] = text.as_bytes() else { return None };
    let first = f64::from(hundreds - b'0') * 100.0;
    Some(Range(first, first + 99.0))
}

/// `.order.items[0].id` in its parts; no parts mean the whole payload.
fn path_of(path: &str) -> Result<Vec<String>, String> {
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let parts = path.replace('[', ".[");
    // A name, or the number of an item.
    let part = |part: &str| {
        match part.strip_prefix('[') {
            Some(item) => {
                item.strip_suffix(']').filter(|item| item.bytes().all(|b| b.is_ascii_digit()))
            }
            None => Some(part).filter(|name| !name.contains(']')),
        }
        .filter(|part| !part.is_empty())
        .map(str::to_owned)
    };
    let parts = parts.strip_prefix('.').and_then(|parts| parts.split('.').map(part).collect());
    parts.ok_or_else(|| format!("has the path ${path}, which must be like $.order.items[0].id"))
}

impl FieldTest {
    /// Is it so of a JSON value, as it was written?
    fn holds(&self, value: &str) -> bool {
        match (self, value.as_bytes().first()) {
            (_, Some(b'[' | b'{')) => false,
            (Self::Number(_), Some(b'"')) => false,
            (Self::Number(range), _) => value.parse().is_ok_and(|number| range.has(number)),
            (Self::Like(pattern), Some(b'"')) => serde_json::from_str::<String>(value)
                .is_ok_and(|text| pattern.matches(text.as_bytes())),
            (Self::Like(pattern), _) => {
                pattern.matches(value.as_bytes()) || pattern.is_number(value)
            }
        }
    }
}

impl Pattern {
    fn new(text: &str, anywhere: bool) -> Self {
        let text = if anywhere { text.to_ascii_lowercase() } else { text.to_owned() };
        Self { pieces: text.split('*').map(|piece| piece.as_bytes().to_vec()).collect(), anywhere }
    }

    /// Is it this number, in any spelling? Not beyond 2^53, where numbers that differ become equal.
    fn is_number(&self, text: &str) -> bool {
        let [whole] = &self.pieces[..] else { return false };
        let whole = std::str::from_utf8(whole).ok().and_then(number);
        let exact = |number: &f64| number.abs() < 9_007_199_254_740_992.0;
        whole.is_some_and(|(number, _)| exact(&number) && text.parse() == Ok(number))
    }

    fn matches(&self, text: &[u8]) -> bool {
        if self.anywhere {
            return found_in_order(&text.to_ascii_lowercase(), &self.pieces);
        }
        let [first, middle @ .., last] = &self.pieces[..] else {
            return self.pieces.first().is_some_and(|piece| piece == text);
        };
        let rest = text.strip_prefix(&first[..]).and_then(|rest| rest.strip_suffix(&last[..]));
        rest.is_some_and(|rest| found_in_order(rest, middle))
    }
}

/// Are the pieces in the text, one after another?
fn found_in_order(text: &[u8], pieces: &[Vec<u8>]) -> bool {
    let next = |rest: &[u8], piece: &Vec<u8>| Some(memmem::find(rest, piece)? + piece.len());
    pieces.iter().try_fold(text, |rest, piece| rest.get(next(rest, piece)?..)).is_some()
}

impl Range {
    fn has(self, number: f64) -> bool {
        self.0 <= number && number <= self.1
    }

    /// `3`, `>3`, `>=3`, `<3` or `<=3`, where `read` says from where to where one value reaches.
    fn of(text: &str, read: impl Fn(&str) -> Option<(f64, f64)>) -> Option<Self> {
        let comparison = |mark| Some((mark, read(text.strip_prefix(mark)?)?));
        // The longer marks first.
        let (mark, (low, high)) = [">=", "<=", ">", "<", ""].into_iter().find_map(comparison)?;
        Some(match mark {
            ">=" => Self(low, f64::INFINITY),
            ">" => Self(high.next_up(), f64::INFINITY),
            "<=" => Self(f64::NEG_INFINITY, high),
            "<" => Self(f64::NEG_INFINITY, low.next_down()),
            _ => Self(low, high),
        })
    }

    fn of_instants(text: &str) -> Option<Self> {
        Self::of(text, |text| {
            let day = |at| (at as f64, (at + DAY_MS - 1) as f64);
            let whole = parse_instant(&format!("{text}T00:00:00Z")).ok().map(day);
            whole.or_else(|| parse_instant(text).ok().map(|at| (at as f64, at as f64)))
        })
    }
}

fn number(text: &str) -> Option<(f64, f64)> {
    // Words such as `inf` are no numbers of JSON.
    let number = text.parse().ok().filter(|number: &f64| number.is_finite());
    number.map(|number| (number, number))
}

#[cfg(test)]
mod tests;
