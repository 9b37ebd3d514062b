//! What a key may do: verbs, each on the topics of a pattern. `admin` is all of them on all topics.

use dueq_model::{TopicName, TopicPattern};

/// What an operation does to a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Looks at it.
    Read,
    /// Adds messages.
    Publish,
    /// Leases messages, and ends or extends leases.
    Consume,
    /// Changes what it holds, or whether it grants.
    Operate,
    /// Changes how it works, and when dueq publishes to it.
    Configure,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Read, Self::Publish, Self::Consume, Self::Operate, Self::Configure];

    /// As key files have it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Publish => "publish",
            Self::Consume => "consume",
            Self::Operate => "operate",
            Self::Configure => "configure",
        }
    }
}

const ADMIN: &str = "admin";
/// Of one who only scrapes metrics, which are of all topics.
const METRICS: &str = "metrics:*";

/// What a key may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes {
    is_admin: bool,
    metrics: bool,
    patterns: Vec<(Verb, TopicPattern)>,
}

impl Scopes {
    /// Everything.
    pub fn admin() -> Self {
        Self { is_admin: true, ..Self::default() }
    }

    /// Adds `admin`, `metrics:*` or `verb:pattern`. Errors: what is wrong with it, without the word, which may be a secret: it is named
    /// by its `place`.
    pub fn add(&mut self, word: &str, place: &str) -> Result<(), String> {
        if word == METRICS {
            self.metrics = true;
            return Ok(());
        }
        let (verb, pattern) = match word.split_once(':') {
            Some((verb, pattern)) => (verb, Some(pattern)),
            None => (word, None),
        };
        if verb == ADMIN {
            self.is_admin = true;
            return match pattern {
                None => Ok(()),
                Some(_) => Err("admin takes no pattern".to_owned()),
            };
        }
        let known = Verb::ALL.into_iter().find(|known| known.word() == verb);
        let verb = known.ok_or_else(|| {
            let words = Verb::ALL.map(Verb::word).join(", ");
            format!("{place} is no verb: there are {words}, {ADMIN}, {METRICS}")
        })?;
        let pattern = pattern
            .filter(|pattern| !pattern.is_empty())
            .ok_or_else(|| format!("{0} needs a pattern, such as {0}:orders.*", verb.word()))?;
        let pattern = pattern
            .parse::<TopicPattern>()
            .map_err(|reason| format!("the pattern of {} {reason}", verb.word()))?;
        self.patterns.push((verb, pattern));
        Ok(())
    }

    /// Is there nothing that it may do?
    pub fn are_none(&self) -> bool {
        !self.is_admin && !self.metrics && self.patterns.is_empty()
    }

    /// May it see the metrics, which are of all topics?
    pub fn may_see_metrics(&self) -> bool {
        self.metrics || self.may_to_all(Verb::Read)
    }

    /// Is it everything?
    pub fn is_admin(&self) -> bool {
        self.is_admin
    }

    /// May it do this to this topic?
    pub fn may(&self, verb: Verb, topic: &TopicName) -> bool {
        self.is_admin || self.patterns_of(verb).any(|pattern| pattern.has(topic.as_str()))
    }

    /// May it do this to every topic?
    pub fn may_to_all(&self, verb: Verb) -> bool {
        self.is_admin || self.patterns_of(verb).any(|it| it.is_prefix && it.text.is_empty())
    }

    /// May it do this to some topic?
    pub fn may_to_some(&self, verb: Verb) -> bool {
        self.is_admin || self.patterns_of(verb).next().is_some()
    }

    /// Where the names are of topics that it may do this to, in order: what they begin with, and whether that is one name
    /// as a whole. Of those, only what begins with `prefix`.
    pub fn ranges(&self, verb: Verb, prefix: &str) -> Vec<(String, bool)> {
        if self.may_to_all(verb) {
            return vec![(prefix.to_owned(), false)];
        }
        let range = |pattern: &TopicPattern| {
            if pattern.text.starts_with(prefix) {
                Some((pattern.text.to_string(), !pattern.is_prefix))
            } else {
                let within = pattern.is_prefix && prefix.starts_with(&*pattern.text);
                within.then(|| (prefix.to_owned(), false))
            }
        };
        let mut ranges: Vec<_> = self.patterns_of(verb).filter_map(range).collect();
        ranges.sort();
        ranges.dedup();
        let mut kept: Vec<(String, bool)> = Vec::new();
        for (text, is_whole) in ranges {
            // In this order, a range that has it comes right before it.
            let is_had =
                kept.last().is_some_and(|(last, whole)| !whole && text.starts_with(last.as_str()));
            if !is_had {
                kept.push((text, is_whole));
            }
        }
        kept
    }

    /// The topics that it may do this to; `None`: all.
    pub fn limits(&self, verb: Verb) -> Option<Vec<TopicPattern>> {
        (!self.may_to_all(verb)).then(|| self.patterns_of(verb).cloned().collect())
    }

    fn patterns_of(&self, verb: Verb) -> impl Iterator<Item = &TopicPattern> {
        self.patterns.iter().filter(move |(of, _)| *of == verb).map(|(_, pattern)| pattern)
    }

    /// As a line of a key file has them.
    pub fn words(&self) -> Vec<String> {
        let admin = self.is_admin.then(|| ADMIN.to_owned());
        let scope = |(verb, pattern): &(Verb, TopicPattern)| format!("{}:{pattern}", verb.word());
        let metrics = self.metrics.then(|| METRICS.to_owned());
        admin.into_iter().chain(self.patterns.iter().map(scope)).chain(metrics).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Result<Scopes, String> {
        let mut scopes = Scopes::default();
        words.iter().try_for_each(|word| scopes.add(word, "word 3"))?;
        Ok(scopes)
    }

    fn name(text: &str) -> TopicName {
        TopicName::parse(text).unwrap()
    }

    #[test]
    fn a_pattern_is_a_name_or_a_prefix() {
        let scopes = of(&["publish:orders", "read:orders.*", "consume:*"]).unwrap();
        for (verb, topic, may) in [
            (Verb::Publish, "orders", true),
            (Verb::Publish, "orders.eu", false),
            (Verb::Publish, "order", false),
            (Verb::Publish, "Orders", false),
            (Verb::Read, "orders.eu", true),
            (Verb::Read, "orders", false),
            (Verb::Consume, "_callbacks", true),
            (Verb::Operate, "orders", false),
        ] {
            assert_eq!(scopes.may(verb, &name(topic)), may, "{verb:?} {topic}");
        }
        assert!(scopes.may_to_all(Verb::Consume) && !scopes.may_to_all(Verb::Read));
        assert!(scopes.may_to_some(Verb::Read) && !scopes.may_to_some(Verb::Configure));
        assert_eq!(scopes.words(), ["publish:orders", "read:orders.*", "consume:*"]);
    }

    #[test]
    fn ranges_are_in_order_and_none_has_another() {
        let scopes =
            of(&["read:b.*", "read:a", "read:b.c.*", "read:b.d", "read:a.*", "read:c", "read:a"]);
        let scopes = scopes.unwrap();
        let ranges = |prefix: &str| -> Vec<String> {
            let ranges = scopes.ranges(Verb::Read, prefix).into_iter();
            ranges.map(|(text, is_whole)| if is_whole { text } else { text + "*" }).collect()
        };
        assert_eq!(ranges(""), ["a", "a.*", "b.*", "c"]);
        assert_eq!(ranges("b"), ["b.*"]);
        assert_eq!(ranges("b.c"), ["b.c*"]);
        assert_eq!(ranges("cd"), [""; 0]);
        assert_eq!(Scopes::admin().ranges(Verb::Read, "x"), [("x".to_owned(), false)]);
    }

    #[test]
    fn admin_may_do_everything() {
        let scopes = of(&["admin"]).unwrap();
        assert!(Verb::ALL.into_iter().all(|verb| scopes.may_to_all(verb)));
        assert_eq!((scopes.words(), scopes), (vec!["admin".to_owned()], Scopes::admin()));
    }

    #[test]
    fn what_is_no_scope_is_refused_with_its_reason() {
        for (word, reason) in [
            ("", "no verb"),
            ("write:orders", "word 3 is no verb"),
            ("Read:orders", "no verb"),
            ("publish", "needs a pattern"),
            ("publish:", "needs a pattern"),
            ("admin:*", "admin takes no pattern"),
            ("admin:", "admin takes no pattern"),
            ("read:a*b", "the pattern of read"),
            ("read:**", "the pattern of read"),
            ("read:*a", "the pattern of read"),
            ("read:a/b", "the pattern of read"),
            ("read:a..b", "the pattern of read"),
            ("read:.a*", "the pattern of read"),
            ("read:a:b", "the pattern of read"),
        ] {
            let error = of(&[word]).unwrap_err();
            assert!(error.contains(reason), "{word}: {error}");
        }
        let long = of(&[&format!("read:{}", "x".repeat(129))]).unwrap_err();
        assert!(long.contains("the pattern"), "{long}");
    }
}
