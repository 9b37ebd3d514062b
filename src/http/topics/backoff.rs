//! Backoff policies as requests name them, closed, and as answers show them, open to what may come.

use crate::prelude::*;
use dueq_model::{Backoff, MAX_SCHEDULE};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

request! {
    /// How long a failed message waits before its next attempt. `exponential`: base_ms × factor^(failures − 1), at most
    /// max_ms, times 1 ± jitter. `fixed`: always base_ms. `schedule`: each of delays_ms in turn; the last one repeats.
    #[example = json!({"kind": "exponential", "base_ms": 1000, "factor": 2.0, "max_ms": 3_600_000, "jitter": 0.1})]
    pub struct BackoffRequest {
        /// The kind of backoff. The other fields belong to this kind.
        pub kind: BackoffKind = BackoffKind::Exponential,
        /// Delay after the first failure (default 1000), or after each (`fixed`), ms.
        pub base_ms: Option<DelayMs>,
        /// `exponential`: multiplies the delay with each further failure. Default: 2.
        pub factor: Option<Decimal<100, 10_000>>,
        /// `exponential`: the longest delay, ms. Default: 3600000.
        pub max_ms: Option<DelayMs>,
        /// `exponential`: the share by which a delay varies at random. Default: 0.1.
        pub jitter: Option<Decimal<0, 100>>,
        /// `schedule`: the delays, ms.
        pub delays_ms: Option<List<DelayMs, 1, MAX_SCHEDULE>>,
    }
    check(fields) {
        // An unknown kind has no known fields.
        if let Some(kind) = kind {
            let has = |name| match name {
                "base_ms" => given(&base_ms),
                "factor" => given(&factor),
                "max_ms" => given(&max_ms),
                "jitter" => given(&jitter),
                _ => given(&delays_ms),
            };
            for name in ["base_ms", "factor", "max_ms", "jitter", "delays_ms"] {
                match (kind.takes(name), has(name)) {
                    (false, true) => fields.refuse(name, "does not belong to this kind"),
                    (true, false) if kind != BackoffKind::Exponential => {
                        fields.refuse(name, "is required");
                    }
                    _ => {}
                }
            }
        }
    }
}

/// How long a failed message waits before its next attempt. `exponential`: base_ms × factor^(failures − 1), at most
/// max_ms, times 1 ± jitter. `fixed`: always base_ms. `schedule`: each of delays_ms in turn; the last one repeats.
#[derive(ToSchema)]
#[schema(as = Backoff, example = json!({"kind": "exponential", "base_ms": 1000, "factor": 2.0, "max_ms": 3_600_000, "jitter": 0.1}))]
#[allow(dead_code, reason = "describes the policy; `model::Backoff` is written")]
pub struct BackoffPolicy {
    /// The kind of backoff. The other fields belong to this kind.
    kind: BackoffKind,
    /// Delay after the first failure (`exponential`) or after each (`fixed`), ms.
    #[schema(nullable = false, minimum = 0, maximum = 315_360_000_000_i64)]
    base_ms: Option<i64>,
    /// `exponential`: multiplies the delay with each further failure.
    #[schema(nullable = false, minimum = 1, maximum = 100)]
    factor: Option<f64>,
    /// `exponential`: the longest delay, ms.
    #[schema(nullable = false, minimum = 0, maximum = 315_360_000_000_i64)]
    max_ms: Option<i64>,
    /// `exponential`: the share by which a delay varies at random.
    #[schema(nullable = false, minimum = 0, maximum = 1)]
    jitter: Option<f64>,
    /// `schedule`: the delays, ms.
    #[schema(nullable = false, min_items = 1, max_items = 100)]
    delays_ms: Option<Vec<i64>>,
}

/// A kind of backoff: `exponential`, longer with each failure; `fixed`, always the same; `schedule`, as listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BackoffKind {
    Exponential,
    Fixed,
    Schedule,
}

words!(BackoffKind);

impl BackoffKind {
    fn takes(self, field: &str) -> bool {
        match self {
            Self::Exponential => field != "delays_ms",
            Self::Fixed => field == "base_ms",
            Self::Schedule => field == "delays_ms",
        }
    }
}

impl From<BackoffRequest> for Backoff {
    fn from(request: BackoffRequest) -> Self {
        let BackoffRequest { kind, base_ms, factor, max_ms, jitter, delays_ms } = request;
        let base = base_ms.map_or(1_000, DelayMs::millis);
        match kind {
            BackoffKind::Exponential => Self::Exponential {
                base_ms: base,
                factor: factor.map_or(2.0, Decimal::get),
                max_ms: max_ms.map_or(3_600_000, DelayMs::millis),
                jitter: jitter.map_or(0.1, Decimal::get),
            },
            BackoffKind::Fixed => Self::Fixed { base_ms: base },
            BackoffKind::Schedule => {
                let delays = delays_ms.into_iter().flat_map(|list| list.0);
                Self::Schedule { delays_ms: delays.map(DelayMs::millis).collect() }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    request! {
        /// A policy where a request has it.
        pub struct Holder {
            /// The policy.
            pub backoff: Option<BackoffRequest>,
        }
    }

    fn read_text(text: &str) -> Result<Option<Backoff>, Vec<String>> {
        let body = format!("{{\"backoff\":{text}}}").into();
        let read = Fields::of_json(&body).unwrap().read::<Holder>();
        let named = |e: crate::problem::FieldError| e.field;
        read.map(|holder| holder.backoff.map(Backoff::from))
            .map_err(|p| p.body("").errors.into_iter().map(named).collect())
    }

    #[test]
    fn policies_are_read_with_their_defaults() {
        assert_eq!(read_text("null"), Ok(None));
        assert_eq!(read_text("{}"), Ok(Some(Backoff::default())));
        let slow = Backoff::Exponential { base_ms: 5, factor: 3.5, max_ms: 3_600_000, jitter: 0.0 };
        let text = r#"{"base_ms":5,"factor":3.5,"jitter":0,"max_ms":null}"#;
        assert_eq!(read_text(text), Ok(Some(slow)));
        assert_eq!(
            read_text(r#"{"kind":"fixed","base_ms":0}"#),
            Ok(Some(Backoff::Fixed { base_ms: 0 }))
        );
        let delays_ms = vec![1_000, 0, 60_000];
        assert_eq!(
            read_text(r#"{"kind":"schedule","delays_ms":[1000,0,6e4]}"#),
            Ok(Some(Backoff::Schedule { delays_ms }))
        );
    }

    #[test]
    fn fields_of_another_kind_and_values_out_of_range_are_refused() {
        for (text, field) in [
            ("[]", "backoff"),
            (r#"{"kind":"never","base_ms":1}"#, "backoff.kind"),
            (r#"{"kind":"fixed"}"#, "backoff.base_ms"),
            (r#"{"kind":"fixed","base_ms":1,"factor":2}"#, "backoff.factor"),
            (r#"{"kind":"schedule","delays_ms":[]}"#, "backoff.delays_ms"),
            (r#"{"kind":"schedule","delays_ms":[1,-1]}"#, "backoff.delays_ms[1]"),
            (r#"{"kind":"schedule","delays_ms":[1],"base_ms":1}"#, "backoff.base_ms"),
            (r#"{"delays_ms":[1]}"#, "backoff.delays_ms"),
            (r#"{"factor":0.9}"#, "backoff.factor"),
            (r#"{"factor":101}"#, "backoff.factor"),
            (r#"{"jitter":1.1}"#, "backoff.jitter"),
            (r#"{"max_ms":315360000001}"#, "backoff.max_ms"),
        ] {
            assert_eq!(read_text(text), Err(vec![field.to_owned()]), "{text}");
        }
    }
}
