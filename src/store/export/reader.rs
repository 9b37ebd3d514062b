//! Reads a dump, line by line. An error names the line and the reason: the dump was cut, edited, made by a newer dueq, or is
//! none.

use super::{
    ExportError,
    line::{End, FORMAT, Line},
    message::id_of,
};
use crate::SCHEMA_VERSION;
use dueq_model::{TopicName, TopicNumber};
use ring::digest::{Context, SHA256};
use std::{
    collections::HashMap,
    io::{BufRead, Read as _},
};

/// Bytes of a line at most. The largest message is some MiB.
const MAX_LINE: u64 = 64 << 20;

/// A dump that is being read.
pub struct Reader<R> {
    from: R,
    digest: Context,
    number: u64,
    buffer: Vec<u8>,
    /// What was read so far.
    seen: End,
    /// Number and partitions of the topics, by name.
    topics: HashMap<String, (u32, i64)>,
    ended: bool,
}

impl<R: BufRead> Reader<R> {
    /// Begins to read.
    pub fn new(from: R) -> Self {
        Self {
            from,
            digest: Context::new(&SHA256),
            number: 0,
            buffer: Vec::new(),
            seen: End::default(),
            topics: HashMap::new(),
            ended: false,
        }
    }

    /// The source, once all of it was read.
    pub fn into_inner(self) -> R {
        self.from
    }

    /// The next line; `None` behind the last.
    ///
    /// Errors: with the line and the reason, the line is wrong, or the dump ends before its last.
    pub fn next_line(&mut self) -> Result<Option<Line>, ExportError> {
        self.buffer.clear();
        let read = (&mut self.from).take(MAX_LINE).read_until(b'\n', &mut self.buffer);
        read.map_err(|error| ExportError::File("cannot read the dump".to_owned(), error))?;
        let wrong =
            |number: u64, reason: &str| Err(ExportError::Other(format!("line {number}: {reason}")));
        match (self.buffer.is_empty(), self.ended, self.number) {
            (true, true, _) => return Ok(None),
            (false, true, number) => return wrong(number + 1, "something follows the last line"),
            (true, false, 0) => return wrong(1, "this is no dump: it is empty"),
            (true, false, number) => {
                return wrong(number, "the dump is cut: it ends here, without its last line");
            }
            (false, false, _) => self.number += 1,
        }
        if self.buffer.last() != Some(&b'\n') {
            return match self.buffer.len() as u64 {
                MAX_LINE => wrong(self.number, "it is longer than 64 MiB"),
                _ => wrong(self.number, "the dump is cut: it ends within this line"),
            };
        }
        match self.line() {
            Ok(line) => Ok(Some(line)),
            Err(reason) => wrong(self.number, &reason),
        }
    }

    /// The line in the buffer. Errors: what is wrong with it.
    fn line(&mut self) -> Result<Line, String> {
        if self.number == 1 {
            self.check_format()?;
        }
        let before = self.digest.clone();
        self.digest.update(&self.buffer);
        let line = serde_json::from_slice(&self.buffer)
            .map_err(|error| format!("it is no line of a dump: {error}"))?;
        match &line {
            Line::Dump(_) if self.number == 1 => {}
            Line::Dump(_) => return Err("this is another dump".to_owned()),
            Line::Topic(topic) => {
                if self.seen.messages + self.seen.schedules > 0 {
                    return Err("a topic comes after what is in topics".to_owned());
                }
                self.seen.topics += 1;
                let name = TopicName::parse(&topic.name).map_err(|error| error.to_string())?;
                if topic.number == 0 || topic.number > TopicNumber::MOST {
                    return Err(format!("{name} has a number that no topic has"));
                }
                let partitions = topic.settings(&name)?.partitions;
                if self.topics.insert(topic.name.clone(), (topic.number, partitions)).is_some() {
                    return Err(format!("the topic {name} is there twice"));
                }
            }
            Line::Group(group) => {
                self.seen.groups += 1;
                if !self.topics.contains_key(&group.topic) {
                    return Err("its topic is not in the dump".to_owned());
                }
                let checked =
                    group.limits.check().map_err(|name| format!("its {name} is out of range"));
                checked.map_err(|reason| format!("the group {}: {reason}", group.group))?;
            }
            Line::PausedHost(_) => self.seen.paused_hosts += 1,
            Line::Schedule(_) => self.seen.schedules += 1,
            Line::Message(message) => {
                self.seen.messages += 1;
                let checked =
                    message.check().and_then(|()| self.check_place(&message.topic, &message.id));
                checked.map_err(|reason| format!("message {}: {reason}", message.id))?;
            }
            Line::IdempotencyKey(key) => {
                self.seen.idempotency_keys += 1;
                let checked = key.check().and_then(|()| self.check_place(&key.topic, &key.id));
                checked.map_err(|reason| format!("the idempotency key of {}: {reason}", key.id))?;
            }
            Line::End(end) => {
                self.ended = true;
                self.check_end(end, before)?;
            }
        }
        Ok(line)
    }

    /// The first line says whether the others can be read. A newer one may have more fields.
    fn check_format(&self) -> Result<(), String> {
        #[derive(serde::Deserialize)]
        struct First {
            dump: Version,
        }
        #[derive(serde::Deserialize)]
        struct Version {
            format: u32,
            schema: i64,
            dueq: String,
        }
        let first = serde_json::from_slice(&self.buffer);
        let First { dump } = first.map_err(|_| "this is no dump of dueq")?;
        let what = match dump {
            Version { format, .. } if format > FORMAT => format!("has format {format}"),
            Version { schema, .. } if schema > SCHEMA_VERSION => format!("is of schema {schema}"),
            _ => return Ok(()),
        };
        let (newer, this) = (dump.dueq, env!("CARGO_PKG_VERSION"));
        Err(format!("the dump {what}, as dueq {newer} writes it: dueq {this} is too old for it"))
    }

    /// Checks that the id names the topic and a partition of it.
    fn check_place(&self, topic: &str, id: &str) -> Result<(), &'static str> {
        let (_, route) = id_of(id)?;
        let (number, partitions) = self.topics.get(topic).ok_or("its topic is not in the dump")?;
        match route.topic.0 == *number && i64::from(route.partition.0) < *partitions {
            true => Ok(()),
            false => Err("its id is not of its topic"),
        }
    }

    /// Checks the last line. `before`: the digest of all others.
    fn check_end(&self, end: &End, before: Context) -> Result<(), String> {
        let seen = &self.seen;
        for (what, seen, said) in [
            ("topics", seen.topics, end.topics),
            ("groups", seen.groups, end.groups),
            ("paused hosts", seen.paused_hosts, end.paused_hosts),
            ("schedules", seen.schedules, end.schedules),
            ("messages", seen.messages, end.messages),
            ("idempotency keys", seen.idempotency_keys, end.idempotency_keys),
        ] {
            if seen != said {
                return Err(format!("the dump was edited: it has {seen} {what}, not {said}"));
            }
        }
        match hex::encode(before.finish().as_ref()) == end.sha256 {
            true => Ok(()),
            false => Err("the dump was edited: its lines do not have this hash".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests;
