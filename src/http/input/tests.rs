//! Every request refuses, by its name, a field whose type or range is not the declared one.

use super::{Fields, Request};
use crate::{
    callbacks::{CallbackRequest, ScheduleCallbackRequest},
    messages::{UpdateMessageRequest, publish::PublishRequest},
    openapi::describe::Description,
    schedules::fields::PutScheduleRequest,
    topics::{
        backoff::BackoffRequest,
        config::{RetentionRequest, TopicFields},
        push_settings::PushRequest,
    },
};
use bytes::Bytes;
use serde_json::{Value, json};

/// Values that the schema of a field does not allow.
fn wrong_values(schema: &Value) -> Vec<Value> {
    let kinds = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
    let has = |kind: &str| kinds.iter().any(|known| known == kind);
    let mut wrong = match () {
        () if schema["$ref"].as_str().is_some_and(|it| it.ends_with("/AnyJson")) => {
            return Vec::new();
        }
        () if has("string") => vec![json!(7), json!({})],
        () if has("array") => vec![json!("x"), json!({})],
        () if has("object") => vec![json!("x"), json!([])],
        () => vec![json!("?"), json!([])],
    };
    let beyond = |edge: &str, by: f64| schema[edge].as_f64().map(|edge| json!(edge + by));
    wrong.extend(beyond("minimum", -1.0).into_iter().chain(beyond("maximum", 1.0)));
    if has("integer") {
        wrong.push(json!(1.5));
    }
    let beyond =
        |edge: &str, by: i64| Some(vec!["x"; usize::try_from(schema[edge].as_i64()? + by).ok()?]);
    wrong.extend(beyond("maxLength", 1).map(|text| json!(text.concat())));
    wrong.extend(beyond("minLength", -1).map(|text| json!(text.concat())));
    wrong.extend(beyond("maxItems", 1).map(|items| json!(items)));
    wrong.extend(beyond("minItems", -1).map(|items| json!(items)));
    wrong
}

/// Tries them all in a request that is right otherwise.
fn refuses<T: Request>(right: Value) {
    let read = |body: &Value| {
        Fields::of_json(&Bytes::from(body.to_string())).and_then(Fields::read::<T>).map(drop)
    };
    assert!(read(&right).is_ok(), "{right}");
    for property in Description::of::<T>().properties {
        let name = property.name;
        for wrong in wrong_values(&serde_json::to_value(&property.schema).unwrap()) {
            let mut body = right.clone();
            body[name] = wrong;
            let errors = read(&body).unwrap_err().body("").errors;
            let is_named = |field: &str| {
                field
                    .strip_prefix(name)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(['[', '.']))
            };
            assert!(errors.iter().any(|error| is_named(&error.field)), "{body}");
        }
    }
    let mut body = right;
    body["unknown"] = json!(1);
    assert_eq!(read(&body).unwrap_err().body("").errors[0].field, "unknown");
}

#[test]
fn every_field_is_refused_by_its_name_where_its_type_or_range_is_wrong() {
    refuses::<TopicFields>(json!({}));
    refuses::<RetentionRequest>(json!({}));
    refuses::<PushRequest>(json!({}));
    refuses::<BackoffRequest>(json!({}));
    refuses::<CallbackRequest>(json!({"url": "http://example.com/"}));
    refuses::<PublishRequest>(json!({"payload": 1}));
    refuses::<UpdateMessageRequest>(json!({}));
    refuses::<ScheduleCallbackRequest>(json!({"url": "http://example.com/"}));
    refuses::<PutScheduleRequest>(
        json!({"every_ms": 1_000, "topic": "t", "message": {"payload": 1}}),
    );
}
