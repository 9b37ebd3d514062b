//! Callbacks that cannot be, wherever one is described: as a message's, as a topic's push, and by themselves.

use serde_json::{Value, json};

use crate::facts::unprocessable;
use crate::harness::*;

/// Wrong values of each field of a callback, as JSON text.
const TABLE: &[(&str, &[&str])] = &[
    ("url", &["1", "true", "[]", "{}", "[\"http://a.invalid/\"]"]),
    (
        "url",
        &["\"\"", "\"a.invalid\"", "\"/path\"", "\"//a.invalid/\"", "\"http:\"", "\"http://\""],
    ),
    ("url", &["\"http:a.invalid\"", "\"http:///a.invalid\"", "\"http:\\\\\\\\a.invalid\""]),
    ("url", &["\"ftp://a.invalid/\"", "\"file:///etc/passwd\"", "\"javascript:alert(1)\""]),
    ("url", &["\"http://user@a.invalid/\"", "\"http://u:p@a.invalid/\"", "\"http://@a.invalid/\""]),
    ("url", &["\" http://a.invalid/\"", "\"http://a.invalid/ \"", "\"http://a.invalid/a b\""]),
    (
        "url",
        &["\"http://a.inv\\u0000alid/\"", "\"http://a.invalid/\\r\\nx: y\"", "\"http://a\\t/\""],
    ),
    ("url", &["\"http://a.invalid:65536/\"", "\"http://a.invalid:x/\"", "\"http://[::1/\""]),
    ("method", &["1", "true", "[]", "{}", "\"\"", "\"post\"", "\"HEAD\"", "\"CONNECT\""]),
    ("method", &["\"OPTIONS\"", "\"TRACE\"", "\"POST \"", "\"GET\\r\\n\"", "[\"GET\"]"]),
    ("timeout_ms", &["\"5\"", "100.5", "1e999", "-1", "true", "[]", "{}", "0", "99", "1800001"]),
    ("timeout_ms", &["9223372036854775808", "18446744073709551616"]),
];

/// Headers that nobody sets on what is called.
const OWN: &[&str] = &[
    "host",
    "Host",
    "content-length",
    "Content-Type",
    "connection",
    "Keep-Alive",
    "proxy-authorization",
    "Proxy-Connection",
    "te",
    "Trailer",
    "TRANSFER-ENCODING",
    "upgrade",
    "webhook-id",
    "Webhook-Signature",
    "dueq-topic",
    "Dueq-Anything",
    // To many receivers these are the same names.
    "webhook_id",
    "Dueq_Topic",
    "Content_Type",
    "proxy_authorization",
];

/// A text around the fields of a callback, and where errors say that they stand.
struct Place {
    method: &'static str,
    path: String,
    before: &'static str,
    after: &'static str,
    prefix: &'static str,
}

/// A pushed topic with a message, and the places that describe a callback, by name.
struct Ground {
    client: Client,
    topic: String,
    id: String,
    seen: (Value, Value),
}

impl Ground {
    async fn new() -> Ground {
        let (client, topic) = (client().await, topic("bad"));
        client.new_topic(&topic, json!({"push": {"url": "http://a.invalid/"}})).await;
        let message = json!({"payload": 1, "delay_ms": 600_000, "key": "k"});
        let id = client.published(&topic, message).await;
        let seen = Ground::look(&client, &topic, &id).await;
        Ground { client, topic, id, seen }
    }

    async fn look(client: &Client, topic: &str, id: &str) -> (Value, Value) {
        let message = client.get(id).await.expect(200).json();
        (client.topic(topic).await.expect(200).json(), message)
    }

    fn places(&self) -> Vec<Place> {
        let Ground { topic, id, .. } = self;
        let place = |method, path: String, (before, after), prefix| Place {
            method,
            path,
            before,
            after,
            prefix,
        };
        let (messages, callback) = (format!("/topics/{topic}/messages"), "callback.");
        let batch = (
            "{\"messages\":[{\"payload\":1},{\"payload\":1,\"callback\":{",
            "}},{\"payload\":1}]}",
        );
        let push = ("{\"push\":{", "}}");
        vec![
            place("POST", messages.clone(), ("{\"payload\":1,\"callback\":{", "}}"), callback),
            place("POST", format!("{messages}/batch"), batch, "messages[1].callback."),
            place("PATCH", format!("/messages/{id}"), ("{\"callback\":{", "}}"), callback),
            place("PATCH", by_key(topic, "k"), ("{\"callback\":{", "}}"), callback),
            place("POST", "/callbacks".into(), ("{\"payload\":1,", "}"), ""),
            place("PUT", format!("/topics/{topic}"), push, "push."),
            place("PATCH", format!("/topics/{topic}"), push, "push."),
        ]
    }

    /// Sends these fields of a callback to a place.
    async fn send(&self, place: &Place, fields: &str) -> Answer {
        let body = format!("{}{fields}{}", place.before, place.after);
        self.send_text(place, body).await
    }

    async fn send_text(&self, place: &Place, body: String) -> Answer {
        let kind = [("content-type", "application/json")];
        let sent = Some(body.clone().into_bytes());
        let mut answer = self.client.send(place.method, &place.path, &kind, sent).await;
        answer.request.push_str(&format!(" with {body}"));
        answer
    }

    async fn unchanged(&self) {
        assert_eq!(Ground::look(&self.client, &self.topic, &self.id).await, self.seen);
    }
}

#[tokio::test]
async fn a_part_of_the_wrong_type_or_form_is_422_and_named() {
    let ground = Ground::new().await;
    for place in ground.places() {
        for (name, values) in TABLE {
            let url = if *name == "url" { "" } else { "\"url\":\"http://a.invalid/\"," };
            for value in *values {
                let answer = ground.send(&place, &format!("{url}\"{name}\":{value}")).await;
                unprocessable(answer, &format!("{}{name}", place.prefix));
            }
        }
        let long = format!("\"url\":\"http://a.invalid/{}\"", "a".repeat(2_048));
        let answer = ground.send(&place, &long).await;
        unprocessable(answer, &format!("{}url", place.prefix));
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn a_part_that_is_unknown_or_comes_twice_is_422_and_named() {
    let ground = Ground::new().await;
    for place in ground.places() {
        for (more, name) in [
            ("\"nope\":1", "nope"),
            ("\"URL\":\"http://a.invalid/\"", "URL"),
            ("\"timeout\":100", "timeout"),
            ("\"url\":\"http://a.invalid/\"", "url"),
            ("\"method\":\"PUT\",\"method\":\"PUT\"", "method"),
        ] {
            let answer =
                ground.send(&place, &format!("\"url\":\"http://a.invalid/\",{more}")).await;
            unprocessable(answer, &format!("{}{name}", place.prefix));
        }
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn a_callback_wants_a_url() {
    let ground = Ground::new().await;
    for place in ground.places().iter().filter(|place| !place.prefix.starts_with("push")) {
        for fields in ["\"method\":\"PUT\"", "\"url\":null"] {
            let answer = ground.send(place, fields).await;
            unprocessable(answer, &format!("{}url", place.prefix));
        }
    }
    for value in ["1", "\"http://a.invalid/\"", "[]", "true"] {
        let body = json!({"payload": 1, "callback": serde_json::from_str::<Value>(value).unwrap()});
        let path = format!("/topics/{}/messages", ground.topic);
        unprocessable(ground.client.post(&path, &body).await, "callback");
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn headers_that_are_not_the_users_are_422_and_named() {
    let ground = Ground::new().await;
    for place in ground.places() {
        let field = place.prefix.replace("callback.", "") + "headers.";
        for name in OWN {
            let headers = format!("\"headers\":{{\"x\":\"y\",\"{name}\":\"z\"}}");
            let url = "\"url\":\"http://a.invalid/\"";
            // A callback's headers are those of its message.
            let answer = if place.prefix.ends_with("callback.") {
                let body = format!("{}{url}{}", place.before, place.after);
                let body = body.replacen("\"callback\":", &format!("{headers},\"callback\":"), 1);
                ground.send_text(&place, body).await
            } else {
                ground.send(&place, &format!("{url},{headers}")).await
            };
            unprocessable(answer, &format!("{field}{name}"));
        }
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn a_push_of_the_wrong_type_or_range_is_422_and_named() {
    let ground = Ground::new().await;
    let number: &[&str] = &["\"5\"", "1.5", "1e999", "-1", "true", "[]", "{}", "0", "10001"];
    let rate: &[&str] = &["\"5\"", "0", "0.009", "100000.1", "-1", "1e999", "true", "[]", "{}"];
    let short = "[\"whsec_c2hvcnQ=\"]";
    let bare = "[\"MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"]";
    for place in ground.places().iter().filter(|place| place.prefix == "push.") {
        for (name, values) in [
            ("max_in_flight", number),
            ("max_in_flight_per_host", number),
            ("rate_per_s", rate),
            ("secrets", &["1", "\"whsec_\"", "{}", "true", "[\"***\",\"***\",\"***\"]"]),
            ("headers", &["1", "\"x\"", "[]", "true"]),
        ] {
            for value in values {
                let answer = ground.send(place, &format!("\"{name}\":{value}")).await;
                unprocessable(answer, &format!("push.{name}"));
            }
        }
        for value in ["[1]", "[null]", "[\"\"]", "[\"whsec_\"]", "[\"whsec_?\"]", short, bare] {
            let answer = ground.send(place, &format!("\"secrets\":{value}")).await;
            assert!(!String::from_utf8_lossy(&answer.body).contains("MfKQ"), "{answer}");
            unprocessable(answer, "push.secrets[0]");
        }
        for (headers, field) in [
            ("{\"a b\":\"x\"}", "push.headers.a b"),
            ("{\"a\":1}", "push.headers.a"),
            ("{\"a\":\"x\\r\\ny\"}", "push.headers.a"),
        ] {
            unprocessable(ground.send(place, &format!("\"headers\":{headers}")).await, field);
        }
        let whole = |value: &str| format!("{{\"push\":{value}}}");
        for value in ["1", "\"http://a.invalid/\"", "true", "[]", "[{}]"] {
            unprocessable(ground.send_text(place, whole(value)).await, "push");
        }
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn a_dead_topic_that_cannot_be_is_422_and_named() {
    let ground = Ground::new().await;
    let own = format!("\"{}\"", ground.topic);
    for place in ground.places().iter().filter(|place| place.prefix == "push.") {
        for value in [
            "1",
            "true",
            "[]",
            "{}",
            "\"\"",
            "\"a b\"",
            "\"a..b\"",
            "\"_callbacks\"",
            "\"_x\"",
            &own,
        ] {
            let answer = ground.send_text(place, format!("{{\"dead_topic\":{value}}}")).await;
            unprocessable(answer, "dead_topic");
        }
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn a_callback_by_itself_is_as_strict_as_a_publish() {
    let client = client().await;
    for (more, field) in [
        ("\"delay_ms\":-1", "delay_ms"),
        ("\"delay_ms\":1,\"deliver_at\":\"2100-01-01T00:00:00Z\"", "deliver_at"),
        ("\"priority\":256", "priority"),
        ("\"key\":\"\"", "key"),
        ("\"key_until\":\"done\"", "key_until"),
        ("\"ttl_ms\":0", "ttl_ms"),
        ("\"max_attempts\":1001", "max_attempts"),
        ("\"backoff\":{\"kind\":\"none\"}", "backoff.kind"),
        ("\"headers\":{\"a b\":\"c\"}", "headers.a b"),
        ("\"payload\":1,\"payload_base64\":\"\"", "payload_base64"),
        ("\"content_type\":\"text/plain\"", "content_type"),
        ("\"payload_base64\":\"?\"", "payload_base64"),
        ("\"callback\":{\"url\":\"http://a.invalid/\"}", "callback"),
        ("\"topic\":\"x\"", "topic"),
        ("\"idempotency_key\":\"\"", "idempotency_key"),
    ] {
        let body = format!("{{\"url\":\"http://a.invalid/\",\"delay_ms\":600000,{more}}}");
        let body = if more.contains("delay_ms") {
            body.replacen("\"delay_ms\":600000,", "", 1)
        } else {
            body
        };
        unprocessable(client.post_text("/callbacks", &body).await, field);
    }
    let good = json!({"url": "http://a.invalid/", "delay_ms": 600_000});
    unprocessable(client.post("/callbacks?nope=1", &good).await, "nope");
    client.post_bytes("/callbacks", Some("text/plain"), b"{}".to_vec()).await.refused(415);
    client.post_bytes("/callbacks", None, b"{}".to_vec()).await.refused(415);
    client.post_text("/callbacks", "{").await.refused(400);
    client.post_text("/callbacks", "").await.refused(400);
    client.post_text("/callbacks", "[]").await.refused(422);
    client.get_path("/callbacks").await.refused(405);
    let mut large = good;
    large["payload"] = json!("x".repeat(262_145));
    client.post("/callbacks", &large).await.problem(413, "payload_too_large");
}

#[tokio::test]
async fn a_bare_body_has_no_callback() {
    let ground = Ground::new().await;
    let query = "?delay_ms=600000&callback=http://a.invalid/";
    let answer = ground.client.publish_raw(&ground.topic, query, None, b"x").await;
    unprocessable(answer, "callback");
    ground.unchanged().await;
}
