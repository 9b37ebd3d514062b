//! What people search messages by: `error:timeout header.tenant:42 attempts:>3`. Spaces separate terms, and all of them
//! must hold. It is read here once and matched in dueq, message by message, so that no search holds Redis.

mod field;

use super::{Body, Content, Millis, parse_instant, reason_of};
use memchr::memmem;

/// Terms of one query.
const MAX_TERMS: usize = 16;
/// A day, ms.
const DAY_MS: Millis = 86_400_000;
/// The names of terms, for the refusal of another.
const NAMES: &str = "error, reason, key, group, header.NAME, payload, payload.$.FIELD, attempts, priority, at or published";

/// A query. Without terms, every message matches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MessageQuery {
    terms: Vec<Term>,
    text: String,
}

/// What a query looks at of a message.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
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
    Error(Pattern),
    /// The error as it is counted; empty: there is none.
    Reason(String),
    Key(Pattern),
    Group(Pattern),
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
        let mut terms = Vec::new();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            if terms.len() == MAX_TERMS {
                return Err(format!("has more than {MAX_TERMS} terms"));
            }
            let written = rest.split(char::is_whitespace).next().unwrap_or(rest);
            let Some((name, after)) = rest.split_once(':').filter(|(n, _)| written.len() > n.len())
            else {
                return Err(format!(
                    "has the term {written} without a name: write {NAMES}, then : and a value"
                ));
            };
            let (value, after) = value(after)?;
            terms.push(Term::read(name, &value)?);
            if !after.is_empty() && !after.starts_with(char::is_whitespace) {
                return Err("needs a space after a closing quotation mark".to_owned());
            }
            rest = after.trim_start();
        }
        Ok(Self { terms, text: text.trim().to_owned() })
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Does it look at payloads or headers?
    pub fn needs_body(&self) -> bool {
        let bodily =
            |term: &Term| matches!(term, Term::Header(..) | Term::Payload(_) | Term::Field(..));
        self.terms.iter().any(bodily)
    }

    /// Do all terms hold? The values of headers that are secret match nothing.
    pub fn matches(&self, message: Subject<'_>, is_secret: impl Fn(&str) -> bool) -> bool {
        self.terms.iter().all(|term| term.holds(message, &is_secret))
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
                _ => return Err(format!("has the unknown term {name}: must be {NAMES}")),
            },
        })
    }

    fn holds(&self, message: Subject<'_>, is_secret: &impl Fn(&str) -> bool) -> bool {
        let like = |pattern: &Pattern, text: Option<&str>| {
            text.is_some_and(|text| pattern.matches(text.as_bytes()))
        };
        match self {
            Self::Error(pattern) => like(pattern, message.error),
            Self::Reason(reason) => *reason == message.error.map(reason_of).unwrap_or_default(),
            Self::Key(pattern) => like(pattern, message.key),
            Self::Group(pattern) => like(pattern, message.group),
            Self::Attempts(range) => range.has(message.attempts as f64),
            Self::Priority(range) => range.has(message.priority.into()),
            Self::At(range) => range.has(message.at as f64),
            Self::Published(range) => range.has(message.published as f64),
            Self::Header(name, pattern) => message.body.is_some_and(|body| {
                let mut headers = body.headers.iter();
                headers.any(|(its, value)| {
                    its.eq_ignore_ascii_case(name) && !is_secret(its) && like(pattern, Some(value))
                })
            }),
            Self::Payload(pattern) => {
                message.body.is_some_and(|body| pattern.matches(body.content.payload()))
            }
            Self::Field(path, test) => message.body.is_some_and(|body| {
                let Content::Json(json) = &body.content else { return false };
                field::find(json, path).is_some_and(|found| test.holds(found))
            }),
        }
    }
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
