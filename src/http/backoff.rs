//! Backoff policies as requests name them, closed, and as answers show them, open to what may come.

use super::fields::Fields;
use crate::model::{Backoff, MAX_DELAY_MS, MAX_FACTOR, MAX_SCHEDULE, Millis};
use utoipa::ToSchema;

/// How long a failed message waits before its next attempt. `exponential`: base_ms × factor^(failures − 1), at most
/// max_ms, times 1 ± jitter. `fixed`: always base_ms. `schedule`: delays_ms one after another, the last one repeats.
#[derive(ToSchema)]
#[schema(example = json!({"kind": "exponential", "base_ms": 1000, "factor": 2.0, "max_ms": 3_600_000, "jitter": 0.1}))]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the policy; it is read field by field")]
pub struct BackoffRequest {
    /// What kind it is; the other fields are this kind's.
    #[schema(default = "exponential")]
    kind: Option<BackoffKind>,
    /// Delay after the first failure (1000 unless given), or after each (`fixed`), ms.
    #[schema(minimum = 0, maximum = 315_360_000_000_i64)]
    base_ms: Option<i64>,
    /// `exponential`: what each further failure multiplies it with; 2 unless given.
    #[schema(minimum = 1, maximum = 100)]
    factor: Option<f64>,
    /// `exponential`: the longest delay, ms; 3600000 unless given.
    #[schema(minimum = 0, maximum = 315_360_000_000_i64)]
    max_ms: Option<i64>,
    /// `exponential`: share by which a delay varies at random; 0.1 unless given.
    #[schema(minimum = 0, maximum = 1)]
    jitter: Option<f64>,
    /// `schedule`: the delays, ms.
    #[schema(min_items = 1, max_items = 100)]
    delays_ms: Option<Vec<i64>>,
}

/// How long a failed message waits before its next attempt. `exponential`: base_ms × factor^(failures − 1), at most
/// max_ms, times 1 ± jitter. `fixed`: always base_ms. `schedule`: delays_ms one after another, the last one repeats.
#[derive(ToSchema)]
#[schema(as = Backoff, example = json!({"kind": "exponential", "base_ms": 1000, "factor": 2.0, "max_ms": 3_600_000, "jitter": 0.1}))]
#[allow(dead_code, reason = "describes the policy; `model::Backoff` is written")]
pub struct BackoffPolicy {
    /// What kind it is; the other fields are this kind's.
    kind: BackoffKind,
    /// Delay after the first failure (`exponential`) or after each (`fixed`), ms.
    #[schema(nullable = false, minimum = 0, maximum = 315_360_000_000_i64)]
    base_ms: Option<i64>,
    /// `exponential`: what each further failure multiplies it with.
    #[schema(nullable = false, minimum = 1, maximum = 100)]
    factor: Option<f64>,
    /// `exponential`: the longest delay, ms.
    #[schema(nullable = false, minimum = 0, maximum = 315_360_000_000_i64)]
    max_ms: Option<i64>,
    /// `exponential`: share by which a delay varies at random.
    #[schema(nullable = false, minimum = 0, maximum = 1)]
    jitter: Option<f64>,
    /// `schedule`: the delays, ms.
    #[schema(nullable = false, min_items = 1, max_items = 100)]
    delays_ms: Option<Vec<i64>>,
}

/// A kind of backoff: `exponential`, longer with each failure; `fixed`, always the same; `schedule`, as listed.
#[derive(Clone, Copy, ToSchema)]
#[schema(rename_all = "snake_case")]
pub enum BackoffKind {
    /// Longer with each failure.
    Exponential,
    /// Always the same.
    Fixed,
    /// As listed.
    Schedule,
}

/// Reads the policy of this name; what is absent of an exponential one has its default.
pub(super) fn read_backoff(fields: &mut Fields<'_>, name: &str) -> Option<Backoff> {
    fields.object(name, read).flatten()
}

fn read(fields: &mut Fields<'_>) -> Option<Backoff> {
    use BackoffKind::{Exponential, Fixed, Schedule};
    let kinds = [("exponential", Exponential), ("fixed", Fixed), ("schedule", Schedule)];
    let named = fields.has("kind");
    let kind = fields.choice("kind", &kinds);
    // Which fields belong to a kind that is none cannot be told.
    if named && kind.is_none() {
        fields.take_all();
        return None;
    }
    let delay = |fields: &mut Fields<'_>, name| {
        fields.integer(name, 0..=MAX_DELAY_MS).map(|delay| delay as Millis)
    };
    match kind.unwrap_or(Exponential) {
        Exponential => {
            let Backoff::Exponential { base_ms, factor, max_ms, jitter } = Backoff::default()
            else {
                return None;
            };
            Some(Backoff::Exponential {
                base_ms: delay(fields, "base_ms").unwrap_or(base_ms),
                factor: fields.number("factor", 1.0..=MAX_FACTOR).unwrap_or(factor),
                max_ms: delay(fields, "max_ms").unwrap_or(max_ms),
                jitter: fields.number("jitter", 0.0..=1.0).unwrap_or(jitter),
            })
        }
        Fixed => {
            let base_ms = delay(fields, "base_ms");
            Some(Backoff::Fixed { base_ms: fields.required("base_ms", base_ms)? })
        }
        Schedule => {
            let delays = fields.integers("delays_ms", 1..=MAX_SCHEDULE, 0..=MAX_DELAY_MS);
            let delays = fields.required("delays_ms", delays)?;
            let delays_ms = delays.into_iter().map(|delay| delay as Millis).collect();
            Some(Backoff::Schedule { delays_ms })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Option<Backoff>, Vec<String>> {
        let body = format!("{{\"backoff\":{text}}}");
        let mut fields = Fields::of_json(body.as_bytes()).unwrap();
        let policy = read_backoff(&mut fields, "backoff");
        let named = |e: super::super::problem::FieldError| e.field;
        fields
            .finish()
            .map_err(|p| p.body("").errors.into_iter().map(named).collect::<Vec<_>>())?;
        Ok(policy)
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
