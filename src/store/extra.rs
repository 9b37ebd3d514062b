//! What Redis keeps of a message beyond its body: written for a new message, read as the scripts' `format_extra` writes it.

use super::types::MessageOptions;
use crate::model::{Backoff, Millis};

/// A message's `extra`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Extra {
    /// Grants so far, the present one not among them.
    pub attempts: i64,
    /// Those that count against max_attempts.
    pub counted: i64,
    /// Its own limit of counted grants.
    pub max_attempts: Option<u16>,
    /// 0…255.
    pub priority: u8,
    /// Its own TTL, ms.
    pub ttl_ms: Option<Millis>,
    /// Its own backoff.
    pub backoff: Option<Backoff>,
    /// The key that it was published with.
    pub key: Option<String>,
}

impl Extra {
    /// Reads `attempts,counted,max_attempts,priority[,ttl,backoff,hold,key]`; empty for a message that has none. What
    /// cannot be read counts as not there.
    pub fn parse(text: &str) -> Self {
        let mut parts = text.splitn(8, ',');
        let mut next = || parts.next().unwrap_or_default();
        Self {
            attempts: next().parse().unwrap_or(0),
            counted: next().parse().unwrap_or(0),
            max_attempts: next().parse().ok(),
            priority: next().parse().unwrap_or(0),
            ttl_ms: next().trim_start_matches('o').parse().ok(),
            backoff: Backoff::from_script(next()),
            key: {
                next();
                Some(next().to_owned()).filter(|key| !key.is_empty())
            },
        }
    }
}

impl MessageOptions {
    /// What stands in `extra` for it; empty where that is nothing.
    pub(super) fn extra(&self) -> String {
        let max_attempts = self.max_attempts.map(|max| max.to_string()).unwrap_or_default();
        if self.ttl_ms.is_none() && self.backoff.is_none() && self.key.is_none() {
            return match (self.priority, max_attempts.is_empty()) {
                (0, true) => String::new(),
                _ => format!("0,0,{max_attempts},{}", self.priority),
            };
        }
        let ttl = self.ttl_ms.map(|ttl| ttl.to_string()).unwrap_or_default();
        let backoff = self.backoff.as_ref().map(|policy| policy.to_script()).unwrap_or_default();
        let (hold, key) =
            self.key.as_ref().map_or(("", ""), |key| (key.until.letter(), key.name.as_str()));
        format!("0,0,{max_attempts},{},{ttl},{backoff},{hold},{key}", self.priority)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_read() {
        assert_eq!(Extra::parse(""), Extra::default());
        let short = Extra { attempts: 3, counted: 2, priority: 7, ..Extra::default() };
        assert_eq!(Extra::parse("3,2,,7"), short);
        let long = Extra {
            max_attempts: Some(5),
            ttl_ms: Some(60_000),
            backoff: Some(Backoff::Fixed { base_ms: 10 }),
            key: Some("a,b,c".to_owned()),
            ..short
        };
        assert_eq!(Extra::parse("3,2,5,7,o60000,fixed;10,d,a,b,c"), long);
    }
}
