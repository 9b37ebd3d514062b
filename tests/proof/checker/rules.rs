//! What the topic's configuration lets happen to messages that nobody asks for: read from what lies
//! in Redis at the end, since the record does not say it.

use std::collections::HashMap;

use crate::proof::audit::Audit;

/// Default: none of it.
#[derive(Clone, Copy, Default)]
pub(super) struct Rules {
    /// Messages have a time to live that they do not name themselves.
    pub expires: bool,
    /// Acked messages are kept for a while.
    pub keeps_acked: bool,
    /// Dead messages leave sooner than after two weeks, or beyond a number.
    pub drops_dead: bool,
    /// The oldest make room for the newest.
    pub drops_oldest: bool,
    pub groups: GroupRules,
}

/// How messages of a group may be granted.
#[derive(Clone, Copy, Default)]
pub(super) struct GroupRules {
    /// They take turns.
    pub fair: bool,
    /// So many at once.
    pub concurrency: usize,
    /// So many a second fall due, beyond a burst.
    pub rate_per_s: Option<f64>,
    pub burst: usize,
    /// So many messages for one of a group of weight 1.
    pub weight: usize,
}

impl Rules {
    /// From `paused,ttl,acked_ms,dead_ms,dead_max,max_messages,on_full`.
    pub fn of(audit: &Audit) -> Rules {
        let text = audit.meta.get("rules").map_or("", String::as_str);
        let fields: Vec<&str> = text.split(',').collect();
        let field = |at: usize| fields.get(at).copied().unwrap_or_default();
        Rules {
            expires: !field(1).is_empty(),
            keeps_acked: !matches!(field(2), "" | "0"),
            drops_dead: !field(3).is_empty() || !field(4).is_empty(),
            drops_oldest: field(6) == "drop_oldest",
            groups: GroupRules::of(audit),
        }
    }
}

impl GroupRules {
    /// Does a message wait for nothing but the turn of its group?
    pub fn is_free(self) -> bool {
        self.fair && self.concurrency == usize::MAX && self.rate_per_s.is_none()
    }

    /// Those of the groups that have settings of their own, from `paused,concurrency,µs between two,burst,weight,rate,name`. A
    /// scenario sets them before anything is granted.
    pub fn own(audit: &Audit) -> HashMap<&str, GroupRules> {
        let topic = GroupRules::of(audit);
        let mut own = HashMap::new();
        for (_, line) in audit.meta.iter().filter(|(field, _)| field.starts_with("group:")) {
            let parts: Vec<&str> = line.splitn(7, ',').collect();
            let [_, concurrency, interval, burst, weight, _, name] = parts[..] else { continue };
            let number = |text: &str| text.parse::<usize>().ok();
            let rules = GroupRules {
                concurrency: number(concurrency).unwrap_or(topic.concurrency),
                rate_per_s: number(interval).map(|it| 1e6 / it as f64).or(topic.rate_per_s),
                burst: number(burst).unwrap_or(topic.burst),
                weight: number(weight).unwrap_or(1),
                ..topic
            };
            own.insert(name, rules);
        }
        own
    }

    /// From `concurrency,µs between two that fall due,burst`; a concurrency of 0 is any.
    fn of(audit: &Audit) -> GroupRules {
        let text = audit.meta.get("group_rules").map_or("1,,1", String::as_str);
        let mut fields = text.split(',').map(|field| field.parse::<usize>().ok());
        let mut field = || fields.next().flatten();
        GroupRules {
            fair: audit.is_fair(),
            concurrency: field().map_or(1, |most| if most == 0 { usize::MAX } else { most }),
            rate_per_s: field().map(|interval| 1e6 / interval as f64),
            burst: field().unwrap_or(1),
            weight: 1,
        }
    }
}
