//! Reads a dump, line by line, and tells what is wrong with it by line and reason: it was cut, edited, made by a newer dueq, or
//! is none.

use super::{
    line::{End, FORMAT, Header, Line, Topic},
    message::Message,
    source::Failure,
};
use dueq_model::{
    MAX_PARTITIONS, PartitionNumber, Route, ScheduleName, TopicName, TopicNumber, TopicSettings,
};
use dueq_store::SCHEMA_VERSION;
use ring::digest::{Context, SHA256};
use std::{
    collections::{HashMap, HashSet},
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
    seen: End,
    /// What was read of topics, by name.
    topics: HashMap<String, TopicSeen>,
    numbers: HashSet<u32>,
    schedules: HashSet<String>,
    ended: bool,
}

/// What messages of a topic must agree with.
struct TopicSeen {
    number: u32,
    partitions: i64,
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
            numbers: HashSet::new(),
            schedules: HashSet::new(),
            ended: false,
        }
    }

    /// What was read from, when all of it was.
    pub fn into_inner(self) -> R {
        self.from
    }

    /// The next line, whose number is in errors of it; `None` behind the last.
    ///
    /// Errors: with the line and the reason, the line is not as it should be, or the dump ends before its last.
    pub fn next(&mut self) -> Result<Option<Line>, Failure> {
        self.buffer.clear();
        let read = (&mut self.from).take(MAX_LINE).read_until(b'\n', &mut self.buffer);
        read.map_err(|error| Failure::File("cannot read the dump".to_owned(), error))?;
        let is_whole = self.buffer.last() == Some(&b'\n');
        if self.ended {
            let more = || self.wrong_at(self.number + 1, "something follows the last line");
            return if self.buffer.is_empty() { Ok(None) } else { Err(more()) };
        }
        if self.buffer.is_empty() {
            return Err(match self.number {
                0 => self.wrong_at(1, "this is no dump: it is empty"),
                number => {
                    self.wrong_at(number, "the dump is cut: it ends here, without its last line")
                }
            });
        }
        self.number += 1;
        if !is_whole {
            return Err(match self.buffer.len() as u64 {
                MAX_LINE => self.wrong("it is longer than 64 MiB"),
                _ => self.wrong("the dump is cut: it ends within this line"),
            });
        }
        if self.number == 1 {
            self.check_format()?;
        }
        let before = self.digest.clone();
        self.digest.update(&self.buffer);
        let line = serde_json::from_slice(&self.buffer)
            .map_err(|error| self.wrong(&format!("it is no line of a dump: {error}")))?;
        self.check(&line, before).map_err(|reason| self.wrong(&reason))?;
        Ok(Some(line))
    }

    fn wrong(&self, reason: &str) -> Failure {
        self.wrong_at(self.number, reason)
    }

    fn wrong_at(&self, number: u64, reason: &str) -> Failure {
        Failure::Line(number, reason.to_owned())
    }

    /// The first line says whether the others can be read. A newer one may have more fields.
    fn check_format(&self) -> Result<(), Failure> {
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
        let First { dump } = first.map_err(|_| self.wrong("this is no dump of dueq"))?;
        let newer = |what: &str| {
            let this = env!("CARGO_PKG_VERSION");
            format!(
                "the dump {what}, as dueq {} writes it: dueq {this} is too old for it",
                dump.dueq
            )
        };
        if dump.format > FORMAT {
            return Err(self.wrong(&newer(&format!("has format {}", dump.format))));
        }
        if dump.schema > SCHEMA_VERSION {
            return Err(self.wrong(&newer(&format!("is of schema {}", dump.schema))));
        }
        Ok(())
    }

    /// Whether a line agrees with those before it. `before`: their digest.
    fn check(&mut self, line: &Line, before: Context) -> Result<(), String> {
        let begins = self.number == 1;
        match line {
            Line::Dump(Header { .. }) if begins => Ok(()),
            Line::Dump(_) => Err("this is another dump".to_owned()),
            Line::Topic(_) if self.seen.messages + self.seen.schedules > 0 => {
                Err("a topic comes after what is in topics".to_owned())
            }
            Line::Topic(topic) => self.check_topic(topic),
            Line::PausedHost(_) => {
                self.seen.paused_hosts += 1;
                Ok(())
            }
            Line::Schedule(schedule) => {
                self.seen.schedules += 1;
                ScheduleName::parse(&schedule.name).map_err(|error| error.to_string())?;
                match self.schedules.insert(schedule.name.clone()) {
                    true => Ok(()),
                    false => Err(format!("the schedule {} is there twice", schedule.name)),
                }
            }
            Line::Message(message) => {
                self.seen.messages += 1;
                self.check_message(message)
            }
            Line::IdempotencyKey(key) => {
                self.seen.idempotency_keys += 1;
                let message = Message { id: key.id.clone(), ..Message::default() };
                self.check_place(&key.topic, &message)?;
                key.check().map_err(|reason| format!("the idempotency key of {}: {reason}", key.id))
            }
            Line::End(end) => self.check_end(end, before),
        }
    }

    fn check_topic(&mut self, topic: &Topic) -> Result<(), String> {
        self.seen.topics += 1;
        let name = TopicName::parse(&topic.name).map_err(|error| error.to_string())?;
        let settings = settings(topic, &name)?;
        let partitions = settings.partitions;
        if !(1..=MAX_PARTITIONS).contains(&partitions) || partitions.count_ones() != 1 {
            return Err(format!("{name} has {partitions} partitions: not 1, 2, 4 … 256"));
        }
        if topic.number == 0 || topic.number > TopicNumber::MOST {
            return Err(format!(
                "{name} has the number {}, which is none of a topic",
                topic.number
            ));
        }
        if !self.numbers.insert(topic.number) {
            return Err(format!("{name} has the number of another topic"));
        }
        let seen = TopicSeen { number: topic.number, partitions };
        match self.topics.insert(topic.name.clone(), seen) {
            None => Ok(()),
            Some(_) => Err(format!("the topic {name} is there twice")),
        }
    }

    fn check_message(&self, message: &Message) -> Result<(), String> {
        message.check().map_err(|reason| format!("message {}: {reason}", message.id))?;
        self.check_place(&message.topic, message)
    }

    /// Whether the id names the topic and a partition of it.
    fn check_place(&self, topic: &str, message: &Message) -> Result<(), String> {
        let told = |reason: &str| format!("message {}: {reason}", message.id);
        let (_, route) = message.id().map_err(&told)?;
        let seen = self.topics.get(topic);
        let seen = seen.ok_or_else(|| told(&format!("there is no topic {topic} in the dump")))?;
        let Route { topic: TopicNumber(number), partition: PartitionNumber(partition) } = route;
        if number != seen.number || i64::from(partition) >= seen.partitions {
            return Err(told(&format!("its id is not of the topic {topic}")));
        }
        Ok(())
    }

    fn check_end(&mut self, end: &End, before: Context) -> Result<(), String> {
        self.ended = true;
        let seen = End {
            sha256: hex::encode(before.finish().as_ref()),
            damaged: end.damaged,
            changed: end.changed.clone(),
            ..self.seen.clone()
        };
        let numbers = [
            ("topics", seen.topics, end.topics),
            ("paused hosts", seen.paused_hosts, end.paused_hosts),
            ("schedules", seen.schedules, end.schedules),
            ("messages", seen.messages, end.messages),
            ("idempotency keys", seen.idempotency_keys, end.idempotency_keys),
        ];
        for (what, seen, said) in numbers {
            if seen != said {
                return Err(format!("the dump was edited: it has {seen} {what}, not {said}"));
            }
        }
        if seen != *end {
            return Err("the dump was edited: its lines do not have this hash".to_owned());
        }
        Ok(())
    }
}

/// The settings of a topic.
pub fn settings(topic: &Topic, name: &TopicName) -> Result<TopicSettings, String> {
    match &topic.settings {
        None => Ok(TopicSettings::default_of(name)),
        Some(json) => serde_json::from_str(json.get())
            .map_err(|error| format!("the settings of {name} cannot be read: {error}")),
    }
}

#[cfg(test)]
mod tests;
