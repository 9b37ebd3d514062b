//! A topic's configuration as the contract has it: its defaults, what a PUT and a PATCH make of it,
//! and what a backoff policy allows.

use serde_json::{Map, Value, json};

use super::steps::Field;

/// A backoff policy.
#[derive(Clone, Debug, PartialEq)]
pub enum Backoff {
    Fixed(i64),
    Schedule(Vec<i64>),
    Exponential { base: i64, factor: f64, max: i64, jitter: f64 },
}

impl Backoff {
    /// An exponential one, with a jitter of a quarter or none.
    pub fn exponential(base: i64, factor: i64, max: i64, jitter: bool) -> Backoff {
        let jitter = if jitter { 0.25 } else { 0.0 };
        #[allow(clippy::cast_precision_loss)] // small
        Backoff::Exponential { base, factor: factor as f64, max: max.max(base), jitter }
    }

    /// As requests and answers have it.
    pub fn json(&self) -> Value {
        match self {
            Backoff::Fixed(base) => json!({"kind": "fixed", "base_ms": base}),
            Backoff::Schedule(delays) => json!({"kind": "schedule", "delays_ms": delays}),
            Backoff::Exponential { base, factor, max, jitter } => json!({
                "kind": "exponential", "base_ms": base, "factor": factor, "max_ms": max,
                "jitter": jitter,
            }),
        }
    }

    /// The least and the longest wait (ms) after so many failures.
    pub fn waits(&self, failures: i64) -> (i64, i64) {
        match self {
            Backoff::Fixed(base) => (*base, *base),
            Backoff::Schedule(delays) => {
                let at = usize::try_from(failures - 1).unwrap_or(0).min(delays.len() - 1);
                (delays[at], delays[at])
            }
            #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // ms of days
            Backoff::Exponential { base, factor, max, jitter } => {
                let power = i32::try_from(failures - 1).unwrap_or(i32::MAX);
                let wait = (*base as f64 * factor.powi(power)).min(*max as f64);
                let (least, most) = (wait * (1.0 - jitter), wait * (1.0 + jitter));
                ((least + 0.5).floor() as i64, (most + 0.5).floor() as i64)
            }
        }
    }
}

/// Declares each setting once: its name, what a step says of it, what a topic has, and its default.
macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident: $said:ty => $kept:ty = $default:expr;)*) => {
        /// What a putTopic or updateTopic says.
        #[derive(Clone, Debug)]
        pub struct Settings {
            $($(#[$doc])* pub $name: Field<$said>,)*
        }

        impl Settings {
            /// Settings that change nothing.
            pub const NONE: Settings = Settings { $($name: Field::Absent,)* };
        }

        impl From<($(Field<$said>,)*)> for Settings {
            fn from(($($name,)*): ($(Field<$said>,)*)) -> Settings {
                Settings { $($name,)* }
            }
        }

        /// What a topic is configured to do.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Config {
            $($(#[$doc])* pub $name: $kept,)*
        }

        impl Default for Config {
            fn default() -> Config {
                Config { $($name: $default,)* }
            }
        }

        impl Config {
            /// What it is after these settings: absent ones stay, null ones are the default again.
            pub fn with(&self, settings: &Settings) -> Config {
                let default = Config::default();
                Config {
                    $($name: match &settings.$name {
                        Field::Absent => self.$name.clone(),
                        Field::Null => default.$name,
                        Field::Set(value) => value.clone().into(),
                    },)*
                }
            }
        }
    };
}

settings! {
    lease_ms: i64 => i64 = 30_000;
    max_attempts: i64 => i64 = 10;
    backoff: Backoff => Backoff =
        Backoff::Exponential { base: 1000, factor: 2.0, max: 3_600_000, jitter: 0.1 };
    ttl: i64 => Option<i64> = None;
    /// `max_messages`, and whether `on_full` drops the oldest.
    bound: (i64, bool) => Option<(i64, bool)> = None;
    window: i64 => i64 = 600_000;
    /// `acked_ms` and `dead_ms`.
    retention: (i64, i64) => (i64, i64) = (0, 1_209_600_000);
    group_concurrency: i64 => Option<i64> = None;
    /// `group_rate_per_s` in hundredths, and `group_burst`.
    group_rate: (i64, i64) => Option<(i64, i64)> = None;
    /// Whether `group_order` is fair.
    fair: bool => bool = false;
}

impl Config {
    /// How many messages a topic may have that drops its oldest ones.
    pub fn drops_at(&self) -> Option<i64> {
        self.bound.filter(|(_, drops)| *drops).map(|(most, _)| most)
    }

    /// How many messages of a group may be leased, or at its front in a strict topic.
    pub fn most_of_group(&self) -> usize {
        let most = self.group_concurrency.or((!self.fair).then_some(1));
        most.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX)
    }

    /// The time between two messages of a group, µs, where there is a rate.
    pub fn group_interval(&self) -> Option<i64> {
        self.group_rate.map(|(rate, _)| interval(rate))
    }

    /// As getTopic shows it.
    pub fn json(&self) -> Value {
        let mut config = json!({
            "lease_ms": self.lease_ms,
            "max_attempts": self.max_attempts,
            "backoff": self.backoff.json(),
            "on_full": if self.drops_at().is_some() { "drop_oldest" } else { "reject" },
            "idempotency_window_ms": self.window,
            "retention": {"acked_ms": self.retention.0, "acked_max": 100_000, "dead_ms": self.retention.1, "dead_max": 100_000},
            "max_payload_bytes": 262_144,
            "group_order": order(self.fair),
            "group_burst": self.group_rate.map_or(1, |(_, burst)| burst),
        });
        if let Some(most) = self.group_concurrency.or((!self.fair).then_some(1)) {
            config["group_concurrency"] = json!(most);
        }
        if let Some((rate, _)) = self.group_rate {
            config["group_rate_per_s"] = per_second(rate);
        }
        if let Some(ttl) = self.ttl {
            config["ttl_ms"] = json!(ttl);
        }
        if let Some((most, _)) = self.bound {
            config["max_messages"] = json!(most);
        }
        config
    }
}

/// The body of a putTopic or updateTopic.
pub fn body(settings: &Settings) -> Value {
    let mut body = Map::new();
    let mut put = |name: &str, field: Field<Value>| match field {
        Field::Absent => {}
        Field::Null => drop(body.insert(name.to_owned(), Value::Null)),
        Field::Set(value) => drop(body.insert(name.to_owned(), value)),
    };
    put("lease_ms", map(&settings.lease_ms, |ms| json!(ms)));
    put("max_attempts", map(&settings.max_attempts, |most| json!(most)));
    put("backoff", map(&settings.backoff, Backoff::json));
    put("ttl_ms", map(&settings.ttl, |ms| json!(ms)));
    put("idempotency_window_ms", map(&settings.window, |ms| json!(ms)));
    put("max_messages", map(&settings.bound, |(most, _)| json!(most)));
    let on_full = |(_, drops): &(i64, bool)| json!(if *drops { "drop_oldest" } else { "reject" });
    put("on_full", map(&settings.bound, on_full));
    let retention = |(acked, dead): &(i64, i64)| json!({"acked_ms": acked, "dead_ms": dead});
    put("retention", map(&settings.retention, retention));
    put("group_concurrency", map(&settings.group_concurrency, |most| json!(most)));
    put("group_rate_per_s", map(&settings.group_rate, |(rate, _)| per_second(*rate)));
    put("group_order", map(&settings.fair, |fair| json!(order(*fair))));
    put("group_burst", map(&settings.group_rate, |(_, burst)| json!(burst)));
    Value::Object(body)
}

/// The time between two messages at this rate (hundredths a second), µs.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // small
pub fn interval(rate: i64) -> i64 {
    (1e8 / rate as f64).round() as i64
}

fn order(fair: bool) -> &'static str {
    if fair { "fair" } else { "strict" }
}

#[allow(clippy::cast_precision_loss)] // small
pub fn per_second(hundredths: i64) -> Value {
    json!(hundredths as f64 / 100.0)
}

/// A field with its value as JSON.
pub fn map<T>(field: &Field<T>, json: impl Fn(&T) -> Value) -> Field<Value> {
    match field {
        Field::Absent => Field::Absent,
        Field::Null => Field::Null,
        Field::Set(value) => Field::Set(json(value)),
    }
}
