//! What Redis keeps of a message beyond its body: written for a new message, read as the scripts' `format_extra` writes it.

use super::types::MessageOptions;
use dueq_model::{Backoff, Ends};
use std::str::FromStr;

/// A message's `extra`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Extra {
    /// Grants so far, the present one not among them.
    pub attempts: i64,
    /// Those that count against max_attempts.
    pub counted: i64,
    /// Its options; its key apart.
    pub options: MessageOptions,
    /// Its TTL ended while it was leased.
    pub ttl_over: bool,
    /// The key that it was published with.
    pub key: Option<String>,
    /// How long it holds its key: `d` until it is done, `g` until it is granted, `f` no longer.
    pub key_hold: String,
    /// Its place in the group, hex.
    pub group_order: String,
}

/// A field that may be empty; `None` where it cannot be read.
fn optional<T: FromStr>(text: &str) -> Option<Option<T>> {
    if text.is_empty() { Some(None) } else { text.parse().ok().map(Some) }
}

impl Extra {
    /// Reads an `extra`. One that is damaged counts as not there.
    pub fn parse(text: &str) -> Self {
        Self::read(text).unwrap_or_default()
    }

    /// Reads `attempts,counted,max_attempts,priority[,ttl,backoff,hold,key]`; empty for a message that has none. Before `ttl` there may
    /// be `o` if that is over, `a` if the message's ack and `d` if its death is to be published. In a group
    /// the length of its name and the message's order follow `hold`, and the key follows the name. `None` where it is
    /// damaged.
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.splitn(8, ',');
        let mut next = || parts.next().unwrap_or_default();
        let (attempts, counted) = (optional(next())?, optional(next())?);
        let (max_attempts, priority, ttl) = (optional(next())?, optional(next())?, next());
        let (ttl_over, ttl) = ttl.strip_prefix('o').map_or((false, ttl), |ttl| (true, ttl));
        let (ends, ttl) = Ends::read(ttl);
        let backoff = match next() {
            "" => None,
            policy => Some(Backoff::from_script(policy)?),
        };
        let (hold, names) = (next(), next());
        let letters = hold.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(hold.len());
        let (hold, place) = hold.split_at(letters);
        let (order, (group, key)) = match place.split_once('.') {
            Some((length, order)) => (order, names.split_at_checked(length.parse().ok()?)?),
            None => ("", ("", names)),
        };
        let named = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Some(Self {
            attempts: attempts.unwrap_or(0),
            counted: counted.unwrap_or(0),
            options: MessageOptions {
                max_attempts,
                priority: priority.unwrap_or(0),
                ttl_ms: optional(ttl)?,
                backoff,
                group: named(group),
                ends,
                ..MessageOptions::default()
            },
            ttl_over,
            key: named(key),
            key_hold: hold.to_owned(),
            group_order: order.to_owned(),
        })
    }

    /// As it is stored; empty where there is nothing to store.
    pub fn write(&self) -> String {
        let over = if self.ttl_over { "o" } else { "" };
        let key = self.key.as_deref().unwrap_or_default();
        let text = self.options.written((self.attempts, self.counted), over, &self.key_hold, key);
        match &self.options.group {
            Some(group) => text + &format!("{},{group}{key}", self.group_order),
            None => text,
        }
    }
}

impl MessageOptions {
    /// Its `extra`; empty if it has none. In a group the script adds the message's order, the name
    /// and the key.
    pub(super) fn extra(&self) -> String {
        let (hold, key) =
            self.key.as_ref().map_or(("", ""), |key| (key.until.letter(), key.name.as_str()));
        self.written((0, 0), "", hold, key)
    }

    /// The same of a message that was granted so often, counted so often.
    fn written(
        &self,
        (attempts, counted): (i64, i64),
        over: &str,
        hold: &str,
        key: &str,
    ) -> String {
        let max_attempts = self.max_attempts.map(|most| most.to_string()).unwrap_or_default();
        let ttl = self.ttl_ms.map(|ttl| ttl.to_string()).unwrap_or_default();
        let backoff = self.backoff.as_ref().map(Backoff::to_script).unwrap_or_default();
        let numbers = format!("{attempts},{counted},{max_attempts},{}", self.priority);
        let more = format!(",{over}{}{ttl},{backoff},{hold}", self.ends.letters());
        match &self.group {
            Some(group) => format!("{numbers}{more}{}.", group.len()),
            None if more != ",,," || !key.is_empty() => format!("{numbers}{more},{key}"),
            None if numbers == "0,0,,0" => String::new(),
            None => numbers,
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
        let short = Extra { attempts: 3, counted: 2, options, ..Extra::default() };
        assert_eq!(Extra::parse("3,2,,7"), short);
        let options = MessageOptions {
            max_attempts: Some(5),
            ttl_ms: Some(60_000),
            backoff: Some(Backoff::Fixed { base_ms: 10 }),
            ..short.options
        };
        let (key, key_hold) = (Some("a,b,c".to_owned()), "d".to_owned());
        let mut long = Extra { options, ttl_over: true, key, key_hold, ..short };
        assert_eq!(Extra::parse("3,2,5,7,o60000,fixed;10,d,a,b,c"), long);
        long.options.group = Some("d,ü".to_owned());
        long.group_order = "00000000002a".to_owned();
        assert_eq!(Extra::parse("3,2,5,7,o60000,fixed;10,d4.00000000002a,d,üa,b,c"), long);
        let broken = "3,2,5,7,o60000,fixed;10,d3.00000000002a,d,üa,b,c";
        assert_eq!((Extra::read(broken), Extra::parse(broken)), (None, Extra::default()));
    }

    #[test]
    fn what_is_read_is_written_as_it_was() {
        for text in [
            "",
            "3,2,,7",
            "1,1,5,0",
            "0,0,,0,,,d,a,b,c",
            "3,2,5,7,o60000,fixed;10,g,k",
            "0,0,,0,5,exponential;1000;2.5;3600000;0.1,,",
            "0,0,,0,,,4.00000000002a,d,ü",
            "0,0,,1,,schedule;1;2,f4.00000000002a,d,üa,b,c",
            "0,0,,0,a,,,",
            "1,1,,0,oad5,,,",
            "0,0,,0,d,,d4.00000000002a,d,ük",
        ] {
            assert_eq!(Extra::read(text).unwrap().write(), text);
        }
    }
}
