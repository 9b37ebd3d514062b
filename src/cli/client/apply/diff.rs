//! What differs between two configurations, as lines such as `backoff.base_ms: 1000 → 5000`.

use super::super::table::cut;
use serde_json::{Map, Value};

/// Characters of a value that are shown.
const SHOWN: usize = 80;
/// Replaces a secret in answers.
const MASK: &str = "***";

/// What a PUT leaves as it is where it does not name it.
#[derive(Default)]
pub struct Kept {
    /// The partitions of a topic.
    pub partitions: bool,
    /// The signing secrets of a pushed topic.
    pub secrets: bool,
}

/// A line for each field that is another afterwards. Secrets are never read back, so they are not compared.
pub fn changes(before: &Value, after: &Value, kept: &Kept) -> Vec<String> {
    let mut lines = Vec::new();
    compare("", Some(before), Some(after), kept, &mut lines);
    lines
}

fn compare(
    field: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    kept: &Kept,
    lines: &mut Vec<String>,
) {
    // Answers of a push without secrets say so with an empty list.
    let names_none = || after.is_none_or(|after| after.as_array().is_some_and(Vec::is_empty));
    let is_kept = kept.partitions && field == "partitions"
        || kept.secrets && field == "push.secrets" && names_none();
    let is_masked = before.is_some_and(|before| *before == MASK);
    if before == after || is_kept || is_masked && after.is_some() {
        return;
    }
    match (before, after) {
        (Some(Value::Object(before)), Some(Value::Object(after))) => {
            // Another kind of backoff is another object.
            let names =
                before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
            for name in names {
                let inner = if field.is_empty() { name.clone() } else { format!("{field}.{name}") };
                compare(&inner, before.get(name), after.get(name), kept, lines);
            }
        }
        (Some(Value::Array(before)), Some(Value::Array(after)))
            if before.len() == after.len() && before.iter().any(|item| *item == MASK) =>
        {
            for (at, (before, after)) in before.iter().zip(after).enumerate() {
                let inner = format!("{field}[{at}]");
                compare(&inner, Some(before), Some(after), kept, lines);
            }
        }
        (None | Some(Value::Null), Some(Value::Object(after))) if field.is_empty() => {
            compare(
                field,
                Some(&Value::Object(Map::new())),
                Some(&after.clone().into()),
                kept,
                lines,
            );
        }
        (None, Some(after)) => lines.push(format!("{field}: {}", shown(after))),
        (Some(before), None) => lines.push(format!("{field}: {} → none", shown(before))),
        (Some(before), Some(after)) => {
            lines.push(format!("{field}: {} → {}", shown(before), shown(after)));
        }
        (None, None) => {}
    }
}

fn shown(value: &Value) -> String {
    cut(&value.to_string(), SHOWN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_differs_is_told() {
        let before = json!({"a": 1, "b": {"c": 2, "d": "x"}, "gone": [1], "s": "***",
            "partitions": 4, "push": {"secrets": ["***"]}});
        let after = json!({"a": 1, "b": {"c": 3, "d": "x"}, "s": "new", "new": "y",
            "partitions": 1, "push": {}});
        let kept = Kept { partitions: true, secrets: true };
        assert_eq!(
            changes(&before, &after, &kept),
            ["b.c: 2 → 3", "gone: [1] → none", "new: \"y\""]
        );
        assert_eq!(
            changes(&before, &after, &Kept::default())[2..4],
            ["partitions: 4 → 1", "push.secrets: [\"***\"] → none"]
        );
        assert!(changes(&before, &before, &kept).is_empty());
        let before = json!({"push": {"secrets": ["***"]}});
        let none = json!({"push": {"secrets": []}});
        assert!(changes(&before, &none, &kept).is_empty());
        assert_eq!(changes(&before, &none, &Kept::default()), ["push.secrets: [\"***\"] → []"]);
        assert_eq!(changes(&Value::Null, &json!({"a": {"b": 1}}), &kept), ["a: {\"b\":1}"]);
        let long = changes(&json!({"p": 1}), &json!({"p": "é".repeat(100)}), &kept);
        assert!(long[0].ends_with('…') && long[0].chars().count() < 100);
    }
}
