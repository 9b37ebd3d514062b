//! What is written of a host that fails, and the failures in a row that an instance counts before that.

use dueq_model::{Millis, Push, TopicName};
use std::{collections::BTreeMap, fmt};

/// Topics that are remembered for a host. The messages of others come back again and again.
const MAX_TOPICS: usize = 64;
/// Rows of failures, and how long one counts after its last failure, ms.
const MAX_ROWS: usize = 10_000;
const ROW_LIFE_MS: Millis = 3_600_000;

/// What is known of a host that fails. Times in ms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// When the first of its calls failed.
    pub since: Millis,
    /// Until when its messages are put off.
    pub until: Millis,
    pub(super) interval: Millis,
    /// When the next probe may begin.
    pub probe_at: Millis,
    /// When it answered again; 0: not yet.
    pub(super) opened_at: Millis,
    /// Calls that failed, probes included.
    pub failures: i64,
    pub(super) topics: Vec<TopicName>,
    /// How a call failed.
    pub error: String,
}

impl Failing {
    /// Does it still fail?
    pub fn is_closed(&self) -> bool {
        self.opened_at == 0
    }

    /// May messages of this topic be put off for it?
    pub fn has_topic(&self, topic: &TopicName) -> bool {
        self.topics.contains(topic)
    }

    /// Do messages of this topic wait for it? They do if calls of the topic made it fail, or if enough calls failed for its own
    /// settings. That changes with the entry only, so all who read it agree.
    pub fn holds(&self, topic: &TopicName, push: &Push) -> bool {
        let most = i64::from(push.failing_after());
        let over_ms = self.probe_at - self.interval - self.since;
        let enough = self.failures >= most && over_ms >= push.failing_over_ms();
        self.is_closed() && most > 0 && (enough || self.has_topic(topic))
    }

    /// The same with this topic, if it can remember one more.
    pub(super) fn joined_by(&self, topic: &TopicName) -> Option<Self> {
        let topics = self.topics.iter().chain([topic]).cloned().collect();
        (self.topics.len() < MAX_TOPICS).then(|| Self { topics, ..self.clone() })
    }

    /// Has one of these topics messages for it?
    pub fn has_any(&self, shown: impl Fn(&str) -> bool) -> bool {
        self.topics.iter().any(|topic| shown(topic.as_str()))
    }

    /// Reads what was written.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(8, ' ');
        let mut number = || words.next()?.parse::<Millis>().ok();
        let failing = Self {
            since: number()?,
            until: number()?,
            interval: number()?,
            probe_at: number()?,
            opened_at: number()?,
            failures: number()?,
            topics: words
                .next()?
                .split(',')
                .map(|it| TopicName::parse(it).ok())
                .collect::<Option<_>>()?,
            error: words.next()?.to_owned(),
        };
        // It is replaced as it was written.
        (failing.to_string() == text).then_some(failing)
    }
}

impl fmt::Display for Failing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { since, until, interval, probe_at, opened_at, failures, topics, error } = self;
        let topics: Vec<_> = topics.iter().map(TopicName::as_str).collect();
        let topics = topics.join(",");
        write!(f, "{since} {until} {interval} {probe_at} {opened_at} {failures} {topics} {error}")
    }
}

/// Failures in a row, as this instance has seen them. Times in ms.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub since: Millis,
    last: Millis,
    pub failures: i64,
}

/// Failures by host, and by the topic whose calls failed, or in `_callbacks` the publisher: the calls of one make no host fail for
/// others.
#[derive(Default)]
pub(super) struct Rows(BTreeMap<(String, String), Row>);

impl Rows {
    /// Counts a failure.
    pub fn fail(&mut self, host: &str, whose: String, now: Millis) -> Row {
        let key = (host.to_owned(), whose);
        if self.0.len() >= MAX_ROWS && !self.0.contains_key(&key) {
            self.0.retain(|_, row| now - row.last < ROW_LIFE_MS);
            let oldest = self.0.iter().min_by_key(|(_, row)| row.last).map(|(key, _)| key.clone());
            if let Some(oldest) = oldest.filter(|_| self.0.len() >= MAX_ROWS) {
                self.0.remove(&oldest);
            }
        }
        let new = Row { since: now, last: now, failures: 0 };
        let row = self.0.entry(key).or_insert(new);
        if now - row.last >= ROW_LIFE_MS {
            *row = new;
        }
        *row = Row { since: row.since, last: now, failures: row.failures + 1 };
        *row
    }

    /// The row of a host ends.
    pub fn forget(&mut self, host: &str) {
        if self.0.is_empty() {
            return;
        }
        let of = self.0.range((host.to_owned(), String::new())..).map(|(key, _)| key);
        let of: Vec<_> = of.take_while(|(of, _)| of == host).cloned().collect();
        for key in of {
            self.0.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_holds_topics_whose_calls_or_settings_made_it() {
        let [mine, other] = ["mine", "other"].map(|it| TopicName::parse(it).unwrap());
        let mut failing = Failing::parse("1000 2 100 1200 0 1 mine timed out").unwrap();
        let set = |failing_after, failing_over_ms| Push {
            failing_after: Some(failing_after),
            failing_over_ms: Some(failing_over_ms),
            ..Push::default()
        };
        assert!(failing.holds(&mine, &Push::default()) && !failing.holds(&mine, &set(0, 100)));
        assert!(failing.holds(&other, &set(1, 100)) && !failing.holds(&other, &set(2, 100)));
        assert!(!failing.holds(&other, &set(1, 101)) && !failing.holds(&other, &set(0, 100)));
        failing.opened_at = 1_300;
        assert!(!failing.holds(&mine, &Push::default()));
    }

    #[test]
    fn rows_are_bounded_and_end_with_an_answer_or_after_an_hour() {
        let mut rows = Rows::default();
        for n in 0..MAX_ROWS as Millis + 5 {
            rows.fail(&n.to_string(), "a".to_owned(), n);
        }
        assert!(rows.0.len() == MAX_ROWS && rows.0.keys().all(|(host, _)| host != "4"));
        let count =
            |rows: &mut Rows, whose: &str, now| rows.fail("7", whose.to_owned(), now).failures;
        let later = 8 + ROW_LIFE_MS;
        assert_eq!([count(&mut rows, "a", 8), count(&mut rows, "b", 8)], [2, 1]);
        assert_eq!([count(&mut rows, "a", later), count(&mut rows, "a", later)], [1, 2]);
        rows.forget("7");
        assert!(rows.0.keys().all(|(host, _)| host != "7") && rows.0.len() > 1_000);
    }

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let failing = Failing {
            since: 1,
            until: 2,
            interval: 3,
            probe_at: 4,
            opened_at: 0,
            failures: 12,
            topics: vec![TopicName::callbacks(), TopicName::parse("a.b-c").unwrap()],
            error: "answered 503  of all".to_owned(),
        };
        let text = failing.to_string();
        assert_eq!(Failing::parse(&text), Some(failing));
        assert_eq!((Failing::parse("1 2 3"), Failing::parse("")), (None, None));
    }
}
