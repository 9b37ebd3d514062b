//! What Redis keeps of a message beyond its body: written for a new message, read as the scripts' `format_extra` writes it.

use super::types::MessageOptions;
use dueq_model::Backoff;

/// A message's `extra`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extra {
    /// Grants so far, the present one not among them.
    pub attempts: i64,
    /// Those that count against max_attempts.
    pub counted: i64,
    /// What it says for itself; its key apart.
    pub options: MessageOptions,
    /// The key that it was published with.
    pub key: Option<String>,
}

impl Extra {
    /// Reads `attempts,counted,max_attempts,priority[,ttl,backoff,hold,key]`; empty for a message that has none. In a group
    /// the length of its name and the message's order follow `hold`, and the key follows the name. What cannot be read
    /// counts as not there.
    pub fn parse(text: &str) -> Self {
        let mut parts = text.splitn(8, ',');
        let mut next = || parts.next().unwrap_or_default();
        let (attempts, counted) = (next().parse().unwrap_or(0), next().parse().unwrap_or(0));
        let mut options = MessageOptions {
            max_attempts: next().parse().ok(),
            priority: next().parse().unwrap_or(0),
            ttl_ms: next().trim_start_matches('o').parse().ok(),
            backoff: Backoff::from_script(next()),
            ..MessageOptions::default()
        };
        let hold = next().trim_start_matches(|c: char| c.is_ascii_alphabetic());
        let length = hold.split_once('.').and_then(|(length, _)| length.parse().ok());
        let (group, key) = next().split_at_checked(length.unwrap_or(0)).unwrap_or_default();
        let named = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        options.group = named(group);
        Self { attempts, counted, options, key: named(key) }
    }
}

impl MessageOptions {
    /// Its `extra`; empty if it has none. In a group the script adds the message's order, the name
    /// and the key.
    pub(super) fn extra(&self) -> String {
        let max_attempts = self.max_attempts.map(|max| max.to_string()).unwrap_or_default();
        let plain = self.ttl_ms.is_none() && self.backoff.is_none() && self.key.is_none();
        if plain && self.group.is_none() {
            return match (self.priority, max_attempts.is_empty()) {
                (0, true) => String::new(),
                _ => format!("0,0,{max_attempts},{}", self.priority),
            };
        }
        let ttl = self.ttl_ms.map(|ttl| ttl.to_string()).unwrap_or_default();
        let backoff = self.backoff.as_ref().map(|policy| policy.to_script()).unwrap_or_default();
        let (hold, key) =
            self.key.as_ref().map_or(("", ""), |key| (key.until.letter(), key.name.as_str()));
        let before = format!("0,0,{max_attempts},{},{ttl},{backoff},{hold}", self.priority);
        match &self.group {
            Some(group) => format!("{before}{}.", group.len()),
            None => format!("{before},{key}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_read() {
        assert_eq!(Extra::parse(""), Extra::default());
        let options = MessageOptions { priority: 7, ..MessageOptions::default() };
        let short = Extra { attempts: 3, counted: 2, options, key: None };
        assert_eq!(Extra::parse("3,2,,7"), short);
        let options = MessageOptions {
            max_attempts: Some(5),
            ttl_ms: Some(60_000),
            backoff: Some(Backoff::Fixed { base_ms: 10 }),
            ..short.options
        };
        let mut long = Extra { options, key: Some("a,b,c".to_owned()), ..short };
        assert_eq!(Extra::parse("3,2,5,7,o60000,fixed;10,d,a,b,c"), long);
        long.options.group = Some("d,ü".to_owned());
        assert_eq!(Extra::parse("3,2,5,7,o60000,fixed;10,d4.00000000002a,d,üa,b,c"), long);
        let broken = Extra::parse("3,2,5,7,o60000,fixed;10,d3.00000000002a,d,üa,b,c");
        assert_eq!((broken.options.group, broken.key), (None, None));
    }
}
