//! What a body says of a topic's configuration, as a change that can be applied to any: absent stays, null is the
//! default again. A whole configuration is such a change to the defaults.

use super::{prelude::*, push_settings::PushRequest};
use dueq_model::{
    Backoff, CallUrl, DeadForm, Durability, MAX_GROUP_CONCURRENCY, MAX_IDEMPOTENCY_WINDOW_MS,
    MAX_LEASED_LIMIT, MAX_PARTITIONS, MAX_PAYLOAD_BYTES, MAX_TOPIC_MESSAGES, OnFull, Retention,
    TopicName, TopicSettings,
};

request! {
    /// A topic's configuration.
    pub struct TopicFields {
        /// How long a lease lasts unless the consumer sets it, ms. Default: 30000.
        pub lease_ms: Resettable<LeaseMs>,
        /// Attempts before a message is dead. Default: 10.
        pub max_attempts: Resettable<MaxAttempts>,
        /// How long a failed message waits before its next attempt.
        pub backoff: Resettable<BackoffRequest>,
        /// Time to live, counted from when a message first fell due, ms. Default: none.
        pub ttl_ms: Resettable<DurationMs>,
        /// The largest payload accepted, bytes. Default: 262144.
        pub max_payload_bytes: Resettable<Bounded<1, MAX_PAYLOAD_BYTES>>,
        /// Into how many partitions the topic is split: 1, 2, 4 … 256. It can grow while no names are in use (409
        /// `names_in_use`), but never shrink; absent, it stays. Order holds within a partition; `key`, or else `idempotency_key`, chooses it. Default: 1.
        pub partitions: Resettable<Bounded<1, { MAX_PARTITIONS as u64 }>>,
        /// Bound on delayed, ready and leased messages together. Default: none.
        pub max_messages: Resettable<Bounded<1, MAX_TOPIC_MESSAGES>>,
        /// What to do at that bound. Default: `reject`.
        pub on_full: Resettable<OnFull>,
        /// How many messages may be leased at once, by all consumers together. Leases from before there was a limit do not
        /// count. Not in a pushed topic, which has `push.max_in_flight`. Default: unlimited.
        pub max_leased: Resettable<Bounded<1, MAX_LEASED_LIMIT>>,
        /// Messages granted per second, to all consumers together. Not in a pushed topic, which has `push.rate_per_s`.
        /// Default: unlimited.
        pub rate_per_s: Resettable<Decimal<1, 10_000_000>>,
        /// How long an idempotency key is remembered, ms. Default: 600000.
        pub idempotency_window_ms: Resettable<Bounded<0, MAX_IDEMPOTENCY_WINDOW_MS>>,
        /// How long acknowledged and dead messages are kept.
        pub retention: Resettable<RetentionRequest>,
        /// When an answer about the topic is given. Default: `memory`.
        pub durability: Resettable<Durability>,
        /// dueq sends the topic's messages itself. Default: consumers lease them.
        pub push: Resettable<PushRequest>,
        /// Another topic, to which messages that die here are also published. Default: none.
        #[example = "orders-dead"]
        pub dead_topic: Resettable<TopicName>,
        /// What that topic gets. Default: `letter`.
        pub dead_form: Resettable<DeadForm>,
        /// How many messages of a group may be leased at a time. Default: 1.
        pub group_concurrency: Resettable<Bounded<1, MAX_GROUP_CONCURRENCY>>,
        /// How many messages of a group may be granted per second, retries aside: 0.01 to 100000. Default: any number.
        pub group_rate_per_s: Resettable<Decimal<1, 10_000_000>>,
        /// How many of them may be granted at once. Default: 1. Only with effect beside `group_rate_per_s`.
        pub group_burst: Resettable<Bounded<1, MAX_GROUP_CONCURRENCY>>,
    }
    check(fields) {
        if let Some(Resettable(Some(Some(dead_topic)))) = &dead_topic
            && dead_topic.is_reserved()
        {
            fields.refuse(DEAD_TOPIC, "must not be a topic of dueq's own");
        }
        match &partitions {
            Some(Resettable(Some(Some(partitions)))) if !partitions.get().is_power_of_two() => {
                fields.refuse(PARTITIONS, "must be a power of two");
            }
            Some(Resettable(Some(None))) => fields.refuse(PARTITIONS, "must be a number"),
            _ => {}
        }
    }
}

const DEAD_TOPIC: &str = "dead_topic";
const PARTITIONS: &str = "partitions";

request! {
    /// How long acknowledged and dead messages are kept. Absent fields take their defaults.
    pub struct RetentionRequest {
        /// How long acknowledged messages are kept, ms; 0: not at all. Default: 0.
        pub acked_ms: Option<DelayMs>,
        /// How many acknowledged messages are kept. Default: 100000.
        pub acked_max: Option<Bounded<0, MAX_TOPIC_MESSAGES>>,
        /// How long dead messages are kept, ms. Default: 1209600000.
        pub dead_ms: Option<DelayMs>,
        /// How many dead messages are kept. Default: 100000.
        pub dead_max: Option<Bounded<0, MAX_TOPIC_MESSAGES>>,
    }
}

impl RetentionRequest {
    fn with_default(&self, default: &Retention) -> Retention {
        Retention {
            acked_ms: self.acked_ms.map_or(default.acked_ms, Bounded::millis),
            acked_max: self.acked_max.map_or(default.acked_max, Bounded::count),
            dead_ms: self.dead_ms.map_or(default.dead_ms, Bounded::millis),
            dead_max: self.dead_max.map_or(default.dead_max, Bounded::count),
            ..default.clone()
        }
    }
}

/// Refuses a configuration in which the topic of this name is its own dead topic.
pub(super) fn refuse_own_dead_topic(fields: &mut Fields<'_>, topic: &TopicName) {
    let dead_topic = fields.peek(DEAD_TOPIC).and_then(|value| value.text());
    if dead_topic.is_some_and(|name| name == topic.as_str()) {
        fields.refuse(DEAD_TOPIC, "must be another topic");
    }
}

impl TopicFields {
    /// A setting among them that dueq's own topic does not take.
    pub fn reserved(&self) -> Option<&'static str> {
        let settings = [
            ("lease_ms", self.lease_ms.0.is_some()),
            ("ttl_ms", self.ttl_ms.0.is_some()),
            ("max_payload_bytes", self.max_payload_bytes.0.is_some()),
            (PARTITIONS, self.partitions.0.is_some()),
            ("max_messages", self.max_messages.0.is_some()),
            ("on_full", self.on_full.0.is_some()),
            ("max_leased", self.max_leased.0.is_some()),
            ("rate_per_s", self.rate_per_s.0.is_some()),
            ("group_concurrency", self.group_concurrency.0.is_some()),
            ("group_rate_per_s", self.group_rate_per_s.0.is_some()),
            ("group_burst", self.group_burst.0.is_some()),
            ("durability", self.durability.0.is_some()),
            ("idempotency_window_ms", self.idempotency_window_ms.0.is_some()),
            ("push.url", self.push_url().is_some()),
        ];
        settings.into_iter().find(|(_, put)| *put).map(|(name, _)| name)
    }

    /// The `push.url` that is put.
    pub fn push_url(&self) -> Option<&CallUrl> {
        self.push.0.as_ref()?.as_ref()?.url.as_ref()
    }

    /// The `dead_topic` that is put.
    pub fn dead_topic(&self) -> Option<&TopicName> {
        self.dead_topic.0.as_ref()?.as_ref()
    }

    /// The configuration that `settings` become: the defaults, or what is stored. What is stored, if anything is, has the
    /// secrets that are kept; `default` is what null sets back to.
    ///
    /// Errors: `NothingMasked`, `SecretRequired`, `HeadersTooLarge`, `BadSetting`.
    pub fn onto(
        &self,
        settings: &TopicSettings,
        stored: Option<&TopicSettings>,
        default: &TopicSettings,
    ) -> Result<TopicSettings, Error> {
        fn changed<T: Clone, U: Clone>(
            change: &Resettable<T>,
            read: impl FnOnce(T) -> U,
            present: &U,
            default: &U,
        ) -> U {
            match &change.0 {
                None => present.clone(),
                Some(None) => default.clone(),
                Some(Some(value)) => read(value.clone()),
            }
        }
        let pushed = stored.and_then(|stored| stored.push.as_ref());
        let unpushed = default.push.clone().unwrap_or_default();
        let push = match &self.push.0 {
            None => Ok(settings.push.clone()),
            Some(change) => {
                change.as_ref().map(|change| change.onto(pushed, &unpushed)).transpose()
            }
        };
        let push = match push {
            // There was something until the topic was pushed no more.
            Err(Error::NothingMasked(field)) if stored.is_some() && pushed.is_none() => {
                return Err(Error::SecretRequired(field));
            }
            push => push?.or_else(|| default.push.clone()),
        };
        macro_rules! changed {
            ($field:ident, $read:expr) => {
                changed(&self.$field, $read, &settings.$field, &default.$field)
            };
        }
        let changed = TopicSettings {
            lease_ms: changed!(lease_ms, LeaseMs::millis),
            max_attempts: changed!(max_attempts, MaxAttempts::count),
            backoff: changed!(backoff, Backoff::from),
            ttl_ms: changed!(ttl_ms, |ttl| Some(ttl.millis())),
            max_payload_bytes: changed!(max_payload_bytes, Bounded::count),
            partitions: match &self.partitions.0 {
                None => stored.unwrap_or(default).partitions,
                Some(change) => change.map_or(default.partitions, Bounded::count),
            },
            max_messages: changed!(max_messages, |most| Some(most.count())),
            on_full: changed!(on_full, |on_full| on_full),
            max_leased: changed!(max_leased, |most| Some(most.count())),
            rate_per_s: changed!(rate_per_s, |rate| Some(rate.get())),
            idempotency_window_ms: changed!(idempotency_window_ms, Bounded::millis),
            retention: changed!(retention, |retention: RetentionRequest| {
                retention.with_default(&default.retention)
            }),
            durability: changed!(durability, |durability| durability),
            push,
            dead_topic: changed!(dead_topic, Some),
            dead_form: changed!(dead_form, |form| form),
            sqs: settings.sqs.clone(),
            group_concurrency: changed!(group_concurrency, Bounded::count),
            group_rate_per_s: changed!(group_rate_per_s, |rate: Decimal<_, _>| Some(rate.get())),
            group_burst: changed!(group_burst, Bounded::count),
            grouped: settings.grouped,
            closing: false,
            was_closing: false,
            paused: false,
            loading: None,
            revision: None,
            once_secret: settings.once_secret.clone(),
            unknown: settings.unknown.clone(),
        };
        changed.check(stored)?;
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use dueq_model::Push;

    fn read(text: &str) -> Result<TopicFields, Vec<String>> {
        let body = Bytes::copy_from_slice(text.as_bytes());
        let mut fields = Fields::of_json(&body).unwrap();
        refuse_own_dead_topic(&mut fields, &TopicName::parse("mine").unwrap());
        let named = |problem: Problem| problem.body("").errors.into_iter().map(|e| e.field);
        fields.read().map_err(|problem| named(problem).collect())
    }

    #[test]
    fn absent_stays_null_resets_and_nested_objects_are_replaced_whole() {
        let mine = TopicSettings {
            lease_ms: 5_000,
            ttl_ms: Some(9),
            max_messages: Some(7),
            on_full: OnFull::DropOldest,
            durability: Durability::Replicated,
            push: Some(Push { timeout_ms: 5_000, ..Push::default() }),
            dead_topic: Some(TopicName::parse("other").unwrap()),
            dead_form: DeadForm::Raw,
            retention: Retention {
                acked_ms: 1,
                acked_max: 4,
                dead_ms: 2,
                dead_max: 3,
                ..Retention::default()
            },
            group_concurrency: 2,
            group_rate_per_s: Some(0.5),
            group_burst: 3,
            ..TopicSettings::default()
        };
        let default = TopicSettings::default();
        let onto = |text| read(text).unwrap().onto(&mine, Some(&mine), &default).unwrap();
        assert_eq!(onto("{}"), mine);
        let nulls = r#"{"lease_ms":null,"max_attempts":null,"backoff":null,"ttl_ms":null,
            "max_payload_bytes":null,"max_messages":null,"on_full":null,"max_leased":null,"rate_per_s":null,
            "idempotency_window_ms":null,"retention":null,"durability":null,"push":null,"dead_topic":null,"dead_form":null,
            "group_concurrency":null,"group_rate_per_s":null,"group_burst":null}"#;
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
            (r#"{"max_leased":0}"#, "max_leased"),
            (r#"{"max_leased":1000001}"#, "max_leased"),
            (r#"{"max_leased":1.5}"#, "max_leased"),
            (r#"{"rate_per_s":0}"#, "rate_per_s"),
            (r#"{"rate_per_s":100001}"#, "rate_per_s"),
            (r#"{"rate_per_s":"1"}"#, "rate_per_s"),
            (r#"{"idempotency_window_ms":604800001}"#, "idempotency_window_ms"),
            (r#"{"retention":{"acked_ms":-1}}"#, "retention.acked_ms"),
            (r#"{"retention":{"acked_max":-1}}"#, "retention.acked_max"),
            (r#"{"retention":{"days":1}}"#, "retention.days"),
            (r#"{"retention":[]}"#, "retention"),
            (r#"{"durability":"disk"}"#, "durability"),
            (r#"{"dead_form":"disk"}"#, "dead_form"),
            (r#"{"paused":true}"#, "paused"),
            (r#"{"push":[]}"#, "push"),
            (r#"{"push":{"rate_per_s":0}}"#, "push.rate_per_s"),
            (r#"{"group_concurrency":0}"#, "group_concurrency"),
            (r#"{"group_concurrency":1001}"#, "group_concurrency"),
            (r#"{"group_rate_per_s":0}"#, "group_rate_per_s"),
            (r#"{"group_rate_per_s":100001}"#, "group_rate_per_s"),
            (r#"{"group_burst":0}"#, "group_burst"),
            (r#"{"dead_topic":"a b"}"#, "dead_topic"),
            (r#"{"dead_topic":"_callbacks"}"#, "dead_topic"),
            (r#"{"dead_topic":"mine"}"#, "dead_topic"),
        ] {
            assert_eq!(read(text).map(drop), Err(vec![field.to_owned()]), "{text}");
        }
    }
}
