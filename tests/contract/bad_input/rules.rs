//! Fields that need or exclude each other, and mistakes that no field has by itself.

use serde_json::{Value, json};

use super::declared::Object;
use super::{Ground, Wrong};
use crate::facts::{killed, unprocessable, unprocessable_within};
use crate::harness::*;

/// Members of a message that cannot be together, and the field that is named.
const OF_MESSAGES: &[(&str, &str)] = &[
    (r#""payload":1,"payload_base64":"AA==""#, "payload_base64"),
    (r#""payload":null,"payload_base64":"AA==""#, "payload_base64"),
    (r#""payload":1,"delay_ms":0,"deliver_at":"2100-01-01T00:00:00Z""#, "deliver_at"),
    (r#""payload":1,"content_type":"text/plain""#, "content_type"),
    (r#""payload":1,"on_duplicate":"reject""#, "on_duplicate"),
    (r#""payload":1,"on_duplicate":"replace""#, "on_duplicate"),
    (r#""payload":1,"key_until":"granted""#, "key_until"),
];

/// Whole bodies of an operation, and the field that is named. `T` is the topic.
const BODIES: &[(&str, &str, &str)] = &[
    ("publishMessage", r#"{}"#, "payload"),
    ("publishMessage", r#"{"delay_ms":1}"#, "payload"),
    ("publishMessage", r#"{"payload_base64":null}"#, "payload"),
    ("updateMessage", r#"{"content_type":"a/b"}"#, "content_type"),
    ("updateMessage", r#"{"callback":{}}"#, "callback.url"),
    ("scheduleCallback", r#"{"url":"http://a/","callback":{"url":"http://a/"}}"#, "callback"),
    ("scheduleCallback", r#"{"url":"http://a/","topic":"x"}"#, "topic"),
    ("leaseFromTopics", r#"{"topics":["a","b","a"]}"#, "topics"),
    ("leaseFromTopics", r#"{"topics":["a","a"]}"#, "topics"),
    ("purgeTopic", r#"{"states":["leased"],"force":false}"#, "states"),
    ("purgeTopic", r#"{"states":["leased"],"force":true,"q":"error:x"}"#, "states"),
    ("purgeTopic", r#"{"states":["dead"],"max_messages":1}"#, "max_messages"),
    ("putTopic", r#"{"lease_ms":5000,"max_attempts":0}"#, "max_attempts"),
    ("updateTopic", r#"{"lease_ms":5000,"retention":{"dead_max":-1}}"#, "retention.dead_max"),
    ("updateTopic", r#"{"dead_topic":T}"#, "dead_topic"),
    ("putSchedule", r#"{"topic":T,"message":{"payload":1}}"#, "cron"),
    ("putSchedule", r#"{"cron":null,"every_ms":null,"topic":T,"message":{"payload":1}}"#, "cron"),
    (
        "putSchedule",
        r#"{"cron":"* * * * *","every_ms":1000,"topic":T,"message":{"payload":1}}"#,
        "every_ms",
    ),
    (
        "putSchedule",
        r#"{"every_ms":1000,"timezone":"UTC","topic":T,"message":{"payload":1}}"#,
        "timezone",
    ),
    ("putSchedule", r#"{"every_ms":1000,"message":{"payload":1}}"#, "topic"),
    ("putSchedule", r#"{"every_ms":1000,"topic":T}"#, "message"),
    ("putSchedule", r#"{"every_ms":1000,"topic":T,"message":{}}"#, "message.payload"),
    (
        "putSchedule",
        r#"{"every_ms":1000,"topic":T,"message":{"payload":1,"delay_ms":1}}"#,
        "message.delay_ms",
    ),
    (
        "putSchedule",
        r#"{"every_ms":1000,"topic":T,"message":{"payload":1,"idempotency_key":"a"}}"#,
        "message.idempotency_key",
    ),
    (
        "putSchedule",
        r#"{"every_ms":1000,"topic":T,"callback":{"url":"http://a/"},"message":{"payload":1}}"#,
        "callback",
    ),
    (
        "putSchedule",
        r#"{"every_ms":1000,"callback":{"url":"http://a/"},"message":{"callback":{"url":"http://a/"}}}"#,
        "message.callback",
    ),
    (
        "putSchedule",
        r#"{"every_ms":1000,"callback":{"url":"http://a/"},"message":{"headers":{"webhook-id":"1"}}}"#,
        "message.headers.webhook-id",
    ),
];

/// Queries of an operation, and the parameter that is named.
const QUERIES: &[(&str, &str, &str)] = &[
    ("publishRaw", "?on_duplicate=replace", "on_duplicate"),
    ("publishRaw", "?key_until=granted", "key_until"),
    ("publishRaw", "?delay_ms=600000&callback=http://a.invalid/", "callback"),
    ("publishRaw", "?delay_ms=1&deliver_at=2100-01-01T00:00:00Z", "deliver_at"),
    ("listMessages", "?state=ready&state=dead", "state"),
    ("getTopicHistory", "?step_ms=10000&points=361", "points"),
    ("getTopicHistory", "?step_ms=60000&points=1441", "points"),
    ("previewSchedule", "?every_ms=1000&every_ms=2000", "every_ms"),
];

/// Headers that nobody sets on what is called. To many receivers `-` and `_` are the same.
const OWN_HEADERS: &str = "host Host content-length Content-Type connection Keep-Alive proxy-authenticate proxy-authorization Proxy-Connection te \
    Trailer TRANSFER-ENCODING upgrade webhook-id Webhook-Signature webhook-x dueq-topic Dueq-Anything webhook_id Dueq_Topic Content_Type \
    proxy_authorization";

#[tokio::test]
async fn fields_that_exclude_or_need_each_other_are_422_and_named() {
    let ground = Ground::new().await;
    let places = ground.places();
    let of = |id: &str| places.iter().find(|place| place.id == id).unwrap();
    let own = format!(":\"{}\"", ground.topic);
    let mut wrong = Vec::new();
    for (id, body, field) in BODIES {
        let (body, field) = (body.replace(":T", &own), (*field).to_owned());
        wrong.push(Wrong { place: of(id), query: String::new(), body, field });
    }
    for (id, query, field) in QUERIES {
        let (query, field) = ((*query).to_owned(), (*field).to_owned());
        wrong.push(Wrong { place: of(id), query, body: String::new(), field });
    }
    let add = |wrong: &mut Vec<_>, place, object: &Object, field: &str, body| {
        let field = format!("{}{field}", object.path);
        wrong.push(Wrong { place, query: String::new(), body, field });
    };
    for place in &places {
        for mut object in ground.objects(place) {
            let declares = |name: &str| object.schema["properties"].get(name).is_some();
            let (is_message, is_nack) = (declares("payload"), declares("dead"));
            let has_headers = declares("headers");
            let callback = if declares("callback") {
                r#","callback":{"url":"http://a.invalid/"}"#
            } else {
                ""
            };
            for name in OWN_HEADERS.split_whitespace().filter(|_| has_headers) {
                let members = format!(r#""headers":{{"x":"y","{name}":"z"}}{callback}"#);
                add(&mut wrong, place, &object, &format!("headers.{name}"), object.and(&members));
            }
            if is_message {
                object.good.remove("payload");
                for (members, field) in OF_MESSAGES {
                    add(&mut wrong, place, &object, field, object.and(members));
                }
            }
            if is_nack {
                for (other, value) in [("release", "true"), ("delay_ms", "0")] {
                    let members = format!(r#""dead":true,"{other}":{value}"#);
                    add(&mut wrong, place, &object, other, object.and(&members));
                }
            }
        }
    }
    ground.refuses(wrong).await;
}

#[tokio::test]
async fn a_secret_that_is_none_is_not_quoted() {
    let ground = Ground::new().await;
    let push = json!({"push": {"secrets": ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}});
    let answer = ground.client.update_topic(&ground.topic, push).await;
    assert!(!String::from_utf8_lossy(&answer.body).contains("MfKQ"), "{answer}");
    unprocessable(answer, "push.secrets[0]");
}

#[tokio::test]
async fn what_is_wrong_is_told_before_what_is_missing_or_not_in_a_state_for_it() {
    let ground = Ground::new().await;
    for mut place in ground.places() {
        if !place.path.contains(&ground.topic) {
            continue;
        }
        place.path = place.path.replace(&ground.topic, &ground.absent);
        let body = place.good.as_ref().map_or(String::new(), Value::to_string);
        unprocessable(ground.send(&place, "?nope=1", &body).await, "nope");
        if place.good.is_some() {
            unprocessable(ground.send(&place, "", "{\"nope\":1}").await, "nope");
        }
    }
    let dead = killed(&ground.client, &topic("bad"), json!({"payload": "old"})).await;
    for id in [text(&ground.held, "id"), &dead, &unknown_id()] {
        for change in [json!({"priority": 256}), json!({"delay_ms": null}), json!({"key": "k"})] {
            let answer = ground.client.update(id, change.clone()).await;
            unprocessable(answer, change.as_object().unwrap().keys().next().unwrap());
        }
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn every_mistake_is_told_with_its_place_and_a_thousand_of_them_briefly() {
    let (client, topic) = (client().await, topic("bad"));
    let good = json!({"payload": 1});
    for at in [0, 17, 999] {
        let mut messages = vec![good.clone(); 1000];
        messages[at] = json!({"payload": 1, "priority": 256, "delay_ms": -1, "max_attempts": 0});
        let answer = client.publish_batch(&topic, &messages).await;
        for field in ["priority", "delay_ms", "max_attempts"] {
            unprocessable(answer.clone(), &format!("messages[{at}].{field}"));
        }
        unprocessable_within(answer, &format!("messages[{at}]."));
    }
    let names = client.post("/lease", &json!({"topics": ["a", "..", "*"]})).await.refused(422);
    assert_eq!(
        names.json()["errors"].as_array().unwrap().len(),
        2,
        "each, and nothing else: {names}"
    );
    let messages = vec![json!({"payload": 1, "priority": 256, "nope": 1, "ttl_ms": 0}); 1000];
    let answer = client.publish_batch(&topic, &messages).await.refused(422);
    assert!(answer.body.len() < 64 * 1024, "{} bytes", answer.body.len());
    let many: Vec<_> = (0..300).map(|n| format!("{n:x}")).collect();
    let answer = client.get_path(&format!("/schedules?{}", many.join("&"))).await.refused(422);
    assert!(answer.to_string().contains("more than 256 fields"), "{answer}");
    client.topic(&topic).await.problem(404, "topic_not_found");
}

#[tokio::test]
async fn null_counts_as_absent_in_every_field_that_takes_it() {
    let ground = Ground::new().await;
    let (client, document) = (&ground.client, &ground.document);
    let nulls = |id: &str, mut body: Value| {
        for (name, schema) in document.request(id)["properties"].as_object().unwrap() {
            let takes_null = schema["oneOf"].is_array() || schema["type"][1] == "null";
            if takes_null && body.get(name).is_none() && name != "partitions" {
                body[name] = Value::Null;
            }
        }
        body
    };
    let (topic, several) = (topic("nulls"), topic("nulls"));
    let message = nulls("publishMessage", json!({"payload": 1}));
    assert!(message.as_object().unwrap().len() > 10, "{message}");
    client.publish(&topic, message.clone()).await.expect(201);
    let backoff = json!({"kind": "exponential", "base_ms": null, "factor": null, "max_ms": null, "jitter": null});
    let results =
        client.published_batch(&topic, &[message, json!({"payload": 1, "backoff": backoff})]).await;
    assert!(results.iter().all(|result| result["status"] == "ok"), "{results:?}");
    client.lease(&topic, nulls("leaseMessages", json!({}))).await.expect(200);
    let body = nulls("leaseFromTopics", json!({"topics": [several]}));
    client.post("/lease", &body).await.expect(200);
    client.put_topic(&topic, nulls("putTopic", json!({}))).await.expect(200);
}

#[tokio::test]
async fn a_forecast_far_beyond_every_due_time_is_answered_or_refused() {
    let ground = Ground::new().await;
    for bucket_ms in [i64::MAX, i64::MAX / 1000, 253_402_300_800_000, 315_360_000_000] {
        for buckets in [1, 2, 1000] {
            let answer = ground.client.forecast(&ground.topic, bucket_ms, buckets).await;
            assert!(matches!(answer.status, 200 | 422), "{answer}");
        }
    }
}

#[tokio::test]
async fn a_payload_of_a_callback_is_bounded() {
    let call =
        json!({"url": "http://a.invalid/", "delay_ms": 600_000, "payload": "x".repeat(262_145)});
    client().await.post("/callbacks", &call).await.problem(413, "payload_too_large");
}
