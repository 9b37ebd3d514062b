//! What a topic's configuration makes scripts mind, as one field of its partition's `meta` says it.

use crate::model::{OnFull, Retention, TopicSettings};

/// What the scripts' `parse_rules` reads, without its first part: empty parts for what is not so.
pub(super) fn rules(settings: &TopicSettings) -> String {
    let defaults = Retention::default();
    let Retention { acked_ms, dead_ms, dead_max, .. } = settings.retention;
    let unless = |number: i64, default: i64| {
        if number == default { String::new() } else { number.to_string() }
    };
    let optional =
        |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
    let on_full = match (settings.max_messages, settings.on_full) {
        (Some(_), OnFull::DropOldest) => "drop_oldest",
        _ => "",
    };
    [
        &optional(settings.ttl_ms),
        &unless(acked_ms, 0),
        &unless(dead_ms, defaults.dead_ms),
        &unless(dead_max, defaults.dead_max),
        &optional(settings.max_messages),
        on_full,
    ]
    .join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_of_defaults_has_no_rules() {
        assert_eq!(rules(&TopicSettings::default()), ",,,,,");
        let settings = TopicSettings {
            ttl_ms: Some(5),
            max_messages: Some(7),
            on_full: OnFull::DropOldest,
            retention: Retention { acked_ms: 1, acked_max: 4, dead_ms: 2, dead_max: 3 },
            ..TopicSettings::default()
        };
        assert_eq!(rules(&settings), "5,1,2,3,7,drop_oldest");
    }
}
