//! The file that `dueq apply` reads: topics and schedules in YAML. All errors are reported with their lines before
//! anything is sent.

use super::super::failure::Failure;
use dueq_http::as_code;
use saphyr::{LoadableYamlNode as _, MarkedYaml, Scalar, YamlData};
use serde_json::{Map, Number, Value};
use std::{collections::HashMap, fs, io::Read as _, path::Path};

/// Bytes of a file at most.
const MAX_BYTES: u64 = 16 << 20;
/// Levels of nesting at most; the API takes fewer.
const MAX_DEPTH: usize = 70;

/// Columns before the text of a line, at most. Each level of a block takes one, and the parser calls itself for each.
const MAX_INDENT: usize = 1_000;

/// What a file is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A topic.
    Topic,
    /// A schedule.
    Schedule,
}

impl Kind {
    /// One, in words.
    pub fn word(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::Schedule => "schedule",
        }
    }

    /// All of them, in the file and in paths.
    pub fn list(self) -> String {
        format!("{}s", self.word())
    }

    /// The code of the problem that there is none of a name.
    pub fn not_found(self) -> String {
        format!("{}_not_found", self.word())
    }
}

/// A topic or a schedule of the file.
#[derive(Debug)]
pub struct Item {
    /// Which of both.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// The body of its PUT.
    pub body: Value,
    /// Its configuration as answers would show it.
    pub shown: Value,
}

impl Item {
    /// Whether it does not name this field.
    pub fn lacks(&self, field: &str) -> bool {
        self.body.get(field).is_none_or(Value::is_null)
    }

    /// Whether it names no signing secrets.
    pub fn lacks_secrets(&self) -> bool {
        self.body.get("push").and_then(|push| push.get("secrets")).is_none_or(Value::is_null)
    }
}

/// A line, and what is wrong with it.
type Wrong = (usize, String);

/// Reads the file, topics first. `now`: for what depends on the time, ms.
pub fn read(path: &Path, now: i64) -> Result<Vec<Item>, Failure> {
    let failed = |error| Failure::Usage(format!("cannot read {}: {error}", path.display()));
    let mut text = String::new();
    let read = if path.as_os_str() == "-" {
        std::io::stdin().take(MAX_BYTES + 1).read_to_string(&mut text)
    } else {
        fs::File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_string(&mut text))
    };
    if read.map_err(failed)? as u64 > MAX_BYTES {
        return Err(Failure::Usage(format!("{} is larger than 16 MiB", path.display())));
    }
    parse(&text, now).map_err(|wrongs| {
        let lines = wrongs.iter().map(|(line, reason)| format!("line {line}: {reason}"));
        Failure::Usage(format!("{}: {}", path.display(), lines.collect::<Vec<_>>().join("; ")))
    })
}

fn parse(text: &str, now: i64) -> Result<Vec<Item>, Vec<Wrong>> {
    let wrong = |line, reason: &str| vec![(line, reason.to_owned())];
    let indent = |line: &str| line.bytes().take_while(|byte| b" \t-?:".contains(byte)).count();
    if let Some(at) = text.lines().position(|line| indent(line) > MAX_INDENT) {
        return Err(wrong(at + 1, "it is nested too deeply"));
    }
    let documents = MarkedYaml::load_from_str(text)
        .map_err(|error| wrong(error.marker().line(), error.info()))?;
    let root = match &documents[..] {
        [] => return Ok(Vec::new()),
        [root] => root,
        [_, second, ..] => {
            return Err(wrong(second.span.start.line(), "there is a second document"));
        }
    };
    let YamlData::Mapping(parts) = &root.data else {
        return Err(wrong(root.span.start.line(), "it must have topics and schedules"));
    };
    let (mut items, mut wrongs) = (Vec::new(), Vec::new());
    for (key, node) in parts {
        let (part, line) = named(key).map_err(|wrong| vec![wrong])?;
        let kind = match &*part {
            "topics" => Kind::Topic,
            "schedules" => Kind::Schedule,
            other => {
                let reason = format!("{other} is unknown: there are topics and schedules");
                wrongs.push((line, reason));
                continue;
            }
        };
        match &node.data {
            YamlData::Mapping(members) => {
                for (key, node) in members {
                    match item(kind, key, node, now) {
                        Ok(item) => items.push(item),
                        Err(wrong) => wrongs.extend(wrong),
                    }
                }
            }
            YamlData::Value(Scalar::Null) => {}
            _ => wrongs.push((line, format!("{part} must be names with fields"))),
        }
    }
    items.sort_by_key(|item: &Item| item.kind == Kind::Schedule);
    wrongs.sort_by_key(|(line, _)| *line);
    if wrongs.is_empty() { Ok(items) } else { Err(wrongs) }
}

fn item(
    kind: Kind,
    key: &MarkedYaml<'_>,
    node: &MarkedYaml<'_>,
    now: i64,
) -> Result<Item, Vec<Wrong>> {
    let (name, line) = named(key).map_err(|wrong| vec![wrong])?;
    let mut lines = Lines::new();
    let body = match json(node, "", MAX_DEPTH, &mut lines).map_err(|wrong| vec![wrong])? {
        Value::Null => Value::Object(Map::new()),
        body => body,
    };
    let text = body.to_string().into_bytes();
    let shown = match kind {
        Kind::Topic => as_code::topic(&name, text),
        Kind::Schedule => as_code::schedule(&name, text, now),
    };
    let wrong = |(field, reason): (String, String)| {
        let line = line_of(&lines, &field).unwrap_or(line);
        let inner = match &*field {
            "" | "(body)" => String::new(),
            field => format!(".{field}"),
        };
        (line, format!("{}.{name}{inner}: {reason}", kind.list()))
    };
    match shown {
        Ok(shown) => Ok(Item { kind, name, body, shown }),
        Err(fields) => Err(fields.into_iter().map(wrong).collect()),
    }
}

/// The lines where fields begin, by their paths, such as `push.headers.a b` or `backoff.delays_ms[2]`.
type Lines = HashMap<String, usize>;

/// The line of a field, or else of what it would be in.
fn line_of(lines: &Lines, mut field: &str) -> Option<usize> {
    loop {
        match lines.get(field) {
            Some(line) => return Some(*line),
            None => field = &field[..field.rfind(['.', '['])?],
        }
    }
}

/// A name, and its line.
fn named(yaml: &MarkedYaml<'_>) -> Result<(String, usize), Wrong> {
    let line = yaml.span.start.line();
    match json(yaml, "", 1, &mut Lines::new()) {
        Ok(Value::String(name)) => Ok((name, line)),
        Ok(Value::Number(number)) => Ok((number.to_string(), line)),
        _ => Err((line, "a name must be text".to_owned())),
    }
}

/// A value as JSON. The lines of what is in it are noted.
fn json(
    yaml: &MarkedYaml<'_>,
    path: &str,
    depth: usize,
    lines: &mut Lines,
) -> Result<Value, Wrong> {
    let wrong = |reason: &str| (yaml.span.start.line(), reason.to_owned());
    let depth = depth.checked_sub(1).ok_or_else(|| wrong("it is nested too deeply"))?;
    Ok(match &yaml.data {
        YamlData::Value(Scalar::Null) => Value::Null,
        YamlData::Value(Scalar::Boolean(is)) => (*is).into(),
        YamlData::Value(Scalar::Integer(number)) => (*number).into(),
        YamlData::Value(Scalar::FloatingPoint(number)) => Number::from_f64(number.into_inner())
            .ok_or_else(|| wrong("this number is not one of JSON"))?
            .into(),
        YamlData::Value(Scalar::String(text)) => (&**text).into(),
        YamlData::Sequence(items) => {
            let mut list = Vec::with_capacity(items.len());
            for (at, item) in items.iter().enumerate() {
                let path = format!("{path}[{at}]");
                list.push(json(item, &path, depth, lines)?);
                lines.insert(path, item.span.start.line());
            }
            list.into()
        }
        YamlData::Mapping(members) => {
            let mut map = Map::new();
            for (key, value) in members {
                let (name, line) = named(key)?;
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                map.insert(name, json(value, &path, depth, lines)?);
                lines.insert(path, line);
            }
            map.into()
        }
        _ => return Err(wrong("this is no value of JSON")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
topics:
  orders: # those of the shop
    max_attempts: 5
    backoff: {kind: schedule, delays_ms: [1000, 5000]}
  emails:
schedules:
  daily:
    cron: '0 9 * * MON-FRI'
    topic: orders
    message:
      payload: {report: daily, n: 9007199254740993}
";

    #[test]
    fn a_file_has_topics_and_then_schedules() {
        let items = parse(GOOD, 0).unwrap();
        let names: Vec<_> = items.iter().map(|item| (item.kind.word(), &*item.name)).collect();
        assert_eq!(names, [("topic", "orders"), ("topic", "emails"), ("schedule", "daily")]);
        assert_eq!(items[0].shown["max_attempts"], 5);
        assert_eq!(items[1].shown["max_attempts"], 10);
        assert_eq!(items[2].shown["message"]["payload"]["n"], 9_007_199_254_740_993_i64);
        assert_eq!(items[2].shown.get("next_at"), None);
        assert!(items[0].lacks("partitions") && items[0].lacks_secrets());
        assert!(parse("", 0).unwrap().is_empty());
        assert!(parse("topics:\n", 0).unwrap().is_empty());
    }

    #[test]
    fn what_is_wrong_is_told_by_line() {
        for (text, told) in [
            (GOOD.replace("max_attempts", "max_attemps"), "line 3: topics.orders.max_attemps: "),
            (
                GOOD.replace("[1000, 5000]", "[1000, -1]"),
                "line 4: topics.orders.backoff.delays_ms[1]: ",
            ),
            (
                GOOD.replace("emails", "_own"),
                "line 5: topics._own: topics whose names begin with _",
            ),
            (GOOD.replace("emails", "orders"), "line 5: duplicated key in mapping"),
            (GOOD.replace("MON-FRI", "MON-XYZ"), "line 8: schedules.daily.cron: "),
            (GOOD.replace("    topic: orders\n", ""), "line 7: schedules.daily.topic: is required"),
            (GOOD.replace("payload", "pay_load"), "line 11: schedules.daily.message.pay_load: "),
            (GOOD.replace("schedules:", "queues:"), "line 6: queues is unknown"),
            ("topics: [a]\n".to_owned(), "line 1: topics must be names with fields"),
            ("topics:\n  a: {\n".to_owned(), "line "),
            ("- a\n".to_owned(), "line 1: it must have topics and schedules"),
            ("topics: {a: {ttl_ms: .inf}}".to_owned(), "line 1: this number is not one of JSON"),
            ("topics: {}\n---\ntopics: {}\n".to_owned(), "line 3: there is a second document"),
            (format!("a:\n{}a", "- ".repeat(100_000)), "line 2: it is nested too deeply"),
        ] {
            let wrongs = parse(&text, 0).unwrap_err();
            let first = format!("line {}: {}", wrongs[0].0, wrongs[0].1);
            assert!(first.starts_with(told), "{wrongs:?}, not {told}");
        }
        let both = parse("topics:\n  a: {x: 1}\n  b:\n    y: 1\n", 0).unwrap_err();
        assert_eq!(both.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 4]);
    }
}
