//! What a body says of a topic's configuration, as a change that can be applied to any: absent stays, null is the
//! default again. A whole configuration is such a change to the defaults.

use super::{
    backoff::read_backoff,
    fields::Fields,
    message_fields::{read_max_attempts, read_ttl},
    push_settings::{PushChange, read_push},
};
use crate::{
    error::Error,
    model::{
        Backoff, CallUrl, LEASE_CAP_MS, MAX_DELAY_MS, MAX_IDEMPOTENCY_WINDOW_MS, MAX_PAYLOAD_BYTES,
        MAX_TOPIC_MESSAGES, MIN_LEASE_MS, Millis, OnFull, Retention, TopicName, TopicSettings,
    },
};
use std::ops::RangeInclusive;

/// What a body says of a topic's configuration: absent, null or a value.
#[derive(Debug, Default)]
pub(super) struct Changes {
    lease_ms: Option<Option<Millis>>,
    max_attempts: Option<Option<i64>>,
    backoff: Option<Option<Backoff>>,
    ttl_ms: Option<Option<Millis>>,
    max_payload_bytes: Option<Option<i64>>,
    max_messages: Option<Option<i64>>,
    on_full: Option<Option<OnFull>>,
    idempotency_window_ms: Option<Option<Millis>>,
    retention: Option<Option<Retention>>,
    push: Option<Option<PushChange>>,
    dead_topic: Option<Option<TopicName>>,
}

/// Reads the fields of the configuration of the topic of this name.
pub(super) fn read_changes(fields: &mut Fields<'_>, topic: &TopicName) -> Changes {
    let default = TopicSettings::default_of(topic);
    Changes {
        lease_ms: number(fields, "lease_ms", MIN_LEASE_MS..=LEASE_CAP_MS),
        max_attempts: fields
            .or_null("max_attempts", read_max_attempts)
            .map(|attempts| attempts.map(i64::from)),
        backoff: fields.or_null("backoff", read_backoff),
        ttl_ms: fields.or_null("ttl_ms", read_ttl),
        max_payload_bytes: number(fields, "max_payload_bytes", 1..=MAX_PAYLOAD_BYTES),
        max_messages: number(fields, "max_messages", 1..=MAX_TOPIC_MESSAGES),
        on_full: fields.or_null("on_full", |fields, name| {
            fields.choice(name, &[("reject", OnFull::Reject), ("drop_oldest", OnFull::DropOldest)])
        }),
        idempotency_window_ms: number(
            fields,
            "idempotency_window_ms",
            0..=MAX_IDEMPOTENCY_WINDOW_MS,
        ),
        retention: fields.or_null("retention", |fields, name| {
            fields.object(name, |fields| read_retention(fields, &default.retention))
        }),
        push: fields.or_null("push", |fields, name| {
            read_push(fields, name, default.push.clone().unwrap_or_default())
        }),
        dead_topic: fields
            .or_null("dead_topic", |fields, name| read_dead_topic(fields, name, topic)),
    }
}

fn number(fields: &mut Fields<'_>, name: &str, range: RangeInclusive<u64>) -> Option<Option<i64>> {
    fields.or_null(name, |fields, name| fields.integer(name, range).map(|number| number as i64))
}

fn read_retention(fields: &mut Fields<'_>, default: &Retention) -> Retention {
    let mut number = |name, most, default| {
        fields.integer(name, 0..=most).map_or(default, |number| number as i64)
    };
    Retention {
        acked_ms: number("acked_ms", MAX_DELAY_MS, default.acked_ms),
        acked_max: number("acked_max", MAX_TOPIC_MESSAGES, default.acked_max),
        dead_ms: number("dead_ms", MAX_DELAY_MS, default.dead_ms),
        dead_max: number("dead_max", MAX_TOPIC_MESSAGES, default.dead_max),
    }
}

/// Reads the name of another topic, one that users may publish to.
fn read_dead_topic(fields: &mut Fields<'_>, name: &str, topic: &TopicName) -> Option<TopicName> {
    let text = fields.string(name, 0..=usize::MAX)?;
    let reason = match TopicName::parse(&text) {
        Ok(dead) if dead.is_reserved() => "must be no topic of dueq's own".to_owned(),
        Ok(dead) if dead == *topic => "must be another topic".to_owned(),
        Ok(dead) => return Some(dead),
        Err(error) => error.to_string(),
    };
    fields.refuse(name, reason);
    None
}

impl Changes {
    /// A setting among them that dueq's own topic does not take.
    pub fn reserved(&self) -> Option<&'static str> {
        let settings = [
            ("lease_ms", self.lease_ms.is_some()),
            ("ttl_ms", self.ttl_ms.is_some()),
            ("max_payload_bytes", self.max_payload_bytes.is_some()),
            ("max_messages", self.max_messages.is_some()),
            ("on_full", self.on_full.is_some()),
            ("idempotency_window_ms", self.idempotency_window_ms.is_some()),
            ("push.url", self.push_url().is_some()),
        ];
        settings.into_iter().find(|(_, put)| *put).map(|(name, _)| name)
    }

    /// The `push.url` that is put.
    pub fn push_url(&self) -> Option<&CallUrl> {
        self.push.as_ref()?.as_ref()?.url()
    }

    /// The configuration that `settings` become: the defaults, or what is stored. What is stored, if anything is, has the
    /// secrets that are kept; `default` is what null sets back to.
    ///
    /// Errors: `NothingMasked`, `SecretRequired`, `HeadersTooLarge`.
    pub fn onto(
        &self,
        settings: &TopicSettings,
        stored: Option<&TopicSettings>,
        default: &TopicSettings,
    ) -> Result<TopicSettings, Error> {
        fn changed<T: Clone>(change: &Option<Option<T>>, present: &T, default: T) -> T {
            match change {
                None => present.clone(),
                Some(value) => value.clone().unwrap_or(default),
            }
        }
        let pushed = stored.and_then(|stored| stored.push.as_ref());
        let push = match &self.push {
            None => Ok(settings.push.clone()),
            Some(change) => change.as_ref().map(|change| change.onto(pushed)).transpose(),
        };
        let push = match push {
            // There was something until the topic was pushed no more.
            Err(Error::NothingMasked(field)) if stored.is_some() && pushed.is_none() => {
                return Err(Error::SecretRequired(field));
            }
            push => push?.or_else(|| default.push.clone()),
        };
        Ok(TopicSettings {
            lease_ms: changed(&self.lease_ms, &settings.lease_ms, default.lease_ms),
            max_attempts: changed(&self.max_attempts, &settings.max_attempts, default.max_attempts),
            backoff: changed(&self.backoff, &settings.backoff, default.backoff.clone()),
            ttl_ms: self.ttl_ms.unwrap_or(settings.ttl_ms),
            max_payload_bytes: changed(
                &self.max_payload_bytes,
                &settings.max_payload_bytes,
                default.max_payload_bytes,
            ),
            max_messages: self.max_messages.unwrap_or(settings.max_messages),
            on_full: changed(&self.on_full, &settings.on_full, default.on_full),
            idempotency_window_ms: changed(
                &self.idempotency_window_ms,
                &settings.idempotency_window_ms,
                default.idempotency_window_ms,
            ),
            retention: changed(&self.retention, &settings.retention, default.retention.clone()),
            push,
            dead_topic: self.dead_topic.clone().unwrap_or_else(|| settings.dead_topic.clone()),
            once_secret: settings.once_secret.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Push;

    fn read(text: &str) -> Result<Changes, Vec<String>> {
        let mut fields = Fields::of_json(text.as_bytes()).unwrap();
        let changes = read_changes(&mut fields, &TopicName::parse("mine").unwrap());
        let errors = fields.finish().err().map(|problem| problem.body("").errors);
        match errors {
            None => Ok(changes),
            Some(errors) => Err(errors.into_iter().map(|error| error.field).collect()),
        }
    }

    #[test]
    fn absent_stays_null_resets_and_nested_objects_are_replaced_whole() {
        let mine = TopicSettings {
            lease_ms: 5_000,
            ttl_ms: Some(9),
            max_messages: Some(7),
            on_full: OnFull::DropOldest,
            push: Some(Push { timeout_ms: 5_000, ..Push::default() }),
            dead_topic: Some(TopicName::parse("other").unwrap()),
            retention: Retention { acked_ms: 1, acked_max: 4, dead_ms: 2, dead_max: 3 },
            ..TopicSettings::default()
        };
        let default = TopicSettings::default();
        let onto = |text| read(text).unwrap().onto(&mine, Some(&mine), &default).unwrap();
        assert_eq!(onto("{}"), mine);
        let nulls = r#"{"lease_ms":null,"max_attempts":null,"backoff":null,"ttl_ms":null,
            "max_payload_bytes":null,"max_messages":null,"on_full":null,
            "idempotency_window_ms":null,"retention":null,"push":null,"dead_topic":null}"#;
        assert_eq!(onto(nulls), TopicSettings::default());
        let changed =
            onto(r#"{"max_messages":8,"retention":{"dead_ms":5,"dead_max":null},"push":{}}"#);
        let retention = Retention { dead_ms: 5, ..Retention::default() };
        let push = Some(Push::default());
        assert_eq!(changed, TopicSettings { max_messages: Some(8), retention, push, ..mine });
    }

    #[test]
    fn values_out_of_range_are_refused_by_name() {
        for (text, field) in [
            (r#"{"lease_ms":999}"#, "lease_ms"),
            (r#"{"max_attempts":0}"#, "max_attempts"),
            (r#"{"ttl_ms":0}"#, "ttl_ms"),
            (r#"{"max_payload_bytes":1048577}"#, "max_payload_bytes"),
            (r#"{"max_messages":0}"#, "max_messages"),
            (r#"{"on_full":"drop"}"#, "on_full"),
            (r#"{"idempotency_window_ms":604800001}"#, "idempotency_window_ms"),
            (r#"{"retention":{"acked_ms":-1}}"#, "retention.acked_ms"),
            (r#"{"retention":{"acked_max":-1}}"#, "retention.acked_max"),
            (r#"{"retention":{"days":1}}"#, "retention.days"),
            (r#"{"retention":[]}"#, "retention"),
            (r#"{"paused":true}"#, "paused"),
            (r#"{"push":[]}"#, "push"),
            (r#"{"push":{"rate_per_s":0}}"#, "push.rate_per_s"),
            (r#"{"dead_topic":"a b"}"#, "dead_topic"),
            (r#"{"dead_topic":"_callbacks"}"#, "dead_topic"),
            (r#"{"dead_topic":"mine"}"#, "dead_topic"),
        ] {
            assert_eq!(read(text).map(drop), Err(vec![field.to_owned()]), "{text}");
        }
    }
}
