//! `push` and `dead_topic` of a topic: there and back, what is never read back, and what a change keeps of it.

use serde_json::{Value, json};

use crate::harness::*;

/// Two secrets of 24 bytes.
const OLD: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const NEW: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

/// Every setting of a push at a value of its own.
fn everything() -> Value {
    json!({
        "url": "https://hooks.invalid/a?b=c",
        "method": "PUT",
        "headers": {"x-team": "a", "Authorization": "Bearer secret-1", "cookie": "secret-2"},
        "timeout_ms": 1000,
        "connect_timeout_ms": 300,
        "retry": {"on": ["5xx", "429", "timeout"], "never": ["501", "connect"]},
        "max_in_flight": 3,
        "max_in_flight_per_host": 2,
        "keep_answer_bytes": 7,
        "batch": {"max_messages": 2, "max_wait_ms": 0},
        "failing_after": 0,
        "failing_over_ms": 100,
        "rate_per_s": 0.5,
        "secrets": [OLD],
    })
}

/// The same as it is shown.
fn shown() -> Value {
    let mut push = everything();
    push["headers"] = json!({"x-team": "a", "Authorization": "***", "cookie": "***"});
    push["secrets"] = json!(["***"]);
    push
}

/// The `push` of a topic as it is shown.
fn push_of(answer: &Answer) -> Value {
    answer.json()["config"]["push"].clone()
}

/// A new topic with this push.
async fn pushed(client: &Client, topic: &str, push: Value) -> Answer {
    client.new_topic(topic, json!({"push": push})).await
}

#[tokio::test]
async fn the_push_read_is_the_push_put_but_for_its_secrets() {
    let (client, topic) = (client().await, topic("push"));
    let made = pushed(&client, &topic, everything()).await;
    assert_eq!(push_of(&made), shown());
    let seen = client.topic(&topic).await.expect(200);
    assert_eq!(push_of(&seen), shown());
    for answer in [made, seen] {
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        assert!(!body.contains("secret-") && !body.contains("whsec_"), "{answer}");
    }
}

#[tokio::test]
async fn what_a_push_leaves_out_is_its_default() {
    let (client, topic) = (client().await, topic("push"));
    let defaults = json!({
        "method": "POST", "headers": {}, "timeout_ms": 15_000, "max_in_flight": 64,
        "max_in_flight_per_host": 8, "keep_answer_bytes": 1_024, "secrets": [],
    });
    assert_eq!(push_of(&pushed(&client, &topic, json!({})).await), defaults);
    let nulls: serde_json::Map<_, _> =
        everything().as_object().unwrap().keys().map(|name| (name.clone(), json!(null))).collect();
    for method in ["PUT", "PATCH"] {
        let answer = client.topic_if(method, &topic, None, &json!({"push": nulls})).await;
        assert_eq!(push_of(&answer.expect(200)), defaults, "{method}");
    }
}

#[tokio::test]
async fn what_was_read_can_be_put_back() {
    let (client, topic) = (client().await, topic("push"));
    let made = pushed(&client, &topic, everything()).await;
    for method in ["PUT", "PATCH"] {
        let config = made.json()["config"].clone();
        let again = client.topic_if(method, &topic, None, &config).await.expect(200);
        assert_eq!(again.json()["config"], made.json()["config"], "{method}");
    }
}

#[tokio::test]
async fn a_topic_is_pulled_where_push_is_null_or_a_put_leaves_it_out() {
    let (client, topic) = (client().await, topic("push"));
    for (method, body) in
        [("PUT", json!({})), ("PUT", json!({"push": null})), ("PATCH", json!({"push": null}))]
    {
        client.configure(&topic, json!({"push": everything()})).await;
        let pulled = client.topic_if(method, &topic, None, &body).await.expect(200);
        assert_eq!(pulled.json()["config"].get("push"), None, "{method} {body}");
        // The secrets went with it: nothing is left that `***` could stand for.
        let masked = json!({"push": {"secrets": ["***"]}});
        client.topic_if(method, &topic, None, &masked).await.refused(422).field("push.secrets[0]");
    }
}

#[tokio::test]
async fn a_patch_replaces_push_whole_or_leaves_it() {
    let (client, topic) = (client().await, topic("push"));
    pushed(&client, &topic, everything()).await;
    let other = client.update_topic(&topic, json!({"lease_ms": 5000})).await.expect(200);
    assert_eq!(push_of(&other), shown(), "absent stays");
    let patched = client.update_topic(&topic, json!({"push": {"timeout_ms": 2000}})).await;
    let patched = push_of(&patched.expect(200));
    assert_eq!((&patched["timeout_ms"], &patched["method"]), (&json!(2000), &json!("POST")));
    assert_eq!((patched.get("url"), &patched["headers"]), (None, &json!({})));
    assert_eq!(patched["secrets"], json!(["***"]), "secrets that are absent stay");
}

#[tokio::test]
async fn absent_secrets_stay_and_an_empty_list_clears_them() {
    let (client, topic) = (client().await, topic("push"));
    for method in ["PUT", "PATCH"] {
        client.configure(&topic, json!({"push": {"secrets": [OLD, NEW]}})).await;
        for (secrets, left) in [
            (json!({}), 2),
            (json!({"secrets": null}), 2),
            (json!({"secrets": ["***", "***"]}), 2),
            (json!({"secrets": [NEW, "***"]}), 2),
            (json!({"secrets": ["***"]}), 1),
            (json!({"secrets": []}), 0),
            (json!({}), 0),
        ] {
            let answer = client.topic_if(method, &topic, None, &json!({"push": secrets})).await;
            let kept = push_of(&answer.expect(200))["secrets"].clone();
            assert_eq!(kept, json!(vec!["***"; left]), "{method} {secrets}");
        }
    }
}

#[tokio::test]
async fn a_mask_that_stands_for_nothing_is_422_and_changes_nothing() {
    let (client, topic) = (client().await, topic("push"));
    let seen = pushed(&client, &topic, json!({"secrets": [OLD], "headers": {"cookie": "a"}})).await;
    for (push, field) in [
        (json!({"secrets": ["***", "***"]}), "push.secrets[1]"),
        (json!({"secrets": [NEW, "***"], "headers": {"Authorization": "***"}}), "headers."),
        (json!({"headers": {"authorization": "***"}}), "push.headers.authorization"),
    ] {
        for method in ["PUT", "PATCH"] {
            let body = json!({"push": push});
            let answer = client.topic_if(method, &topic, None, &body).await.refused(422);
            let answer = answer.problem(422, "invalid_input");
            assert!(answer.json()["errors"][0]["field"].as_str().unwrap().contains(field));
            let new = crate::harness::topic("push");
            if method == "PUT" {
                client.put_topic(&new, body).await.refused(422);
                client.topic(&new).await.problem(404, "topic_not_found");
            }
        }
    }
    assert_eq!(client.topic(&topic).await.expect(200).json(), seen.json());
    // Another spelling of the name is the same header; and of other headers `***` is a value like any.
    let push = json!({"headers": {"Cookie": "***", "x-stars": "***"}});
    let kept = push_of(&client.update_topic(&topic, json!({"push": push})).await.expect(200));
    assert_eq!(kept["headers"], json!({"Cookie": "***", "x-stars": "***"}));
}

#[tokio::test]
async fn when_a_host_fails_has_bounds() {
    let (client, topic) = (client().await, topic("push"));
    for (field, value, reason) in [
        ("failing_after", json!(-1), "must be an integer from 0 to 10000"),
        ("failing_after", json!(10_001), "must be an integer from 0 to 10000"),
        ("failing_after", json!("10"), "must be an integer"),
        ("failing_over_ms", json!(99), "must be an integer from 100 to 3600000"),
        ("failing_over_ms", json!(3_600_001), "must be an integer from 100 to 3600000"),
        ("failing_over_ms", json!(1.5), "must be an integer"),
    ] {
        let answer = client.put_topic(&topic, json!({"push": {field: value}})).await;
        let answer = answer.problem(422, "invalid_input").field(&format!("push.{field}"));
        let found = answer.json()["errors"][0]["reason"].as_str().unwrap().to_owned();
        assert!(found.contains(reason), "{found}");
    }
}

#[tokio::test]
async fn parts_of_a_call_that_cannot_be_are_refused_by_name_wherever_they_are_set() {
    let (client, topic) = (client().await, topic("push"));
    pushed(&client, &topic, json!({})).await;
    let seen = client.topic(&topic).await.expect(200).json();
    let url = "http://hooks.invalid/";
    let auth = |kind: &str, more: Value| {
        let mut auth = match kind {
            "basic" => json!({"kind": kind, "username": "a", "password": "b"}),
            _ => json!({"kind": kind, "token_url": url, "client_id": "a", "client_secret": "b"}),
        };
        for (name, value) in more.as_object().unwrap() {
            auth[name] = value.clone();
        }
        json!({"auth": auth})
    };
    let many: Vec<_> = (400..433).map(|status: i64| status.to_string()).collect();
    for (own, field, reason) in [
        (
            json!({"connect_timeout_ms": 99}),
            "connect_timeout_ms",
            "must be an integer from 100 to 1800000",
        ),
        (json!({"connect_timeout_ms": "1s"}), "connect_timeout_ms", "must be an integer"),
        (json!({"retry": ["5xx"]}), "retry", "must be an object"),
        (json!({"retry": {"on": []}}), "retry.on", "must have 1 to 32 items"),
        (json!({"retry": {"never": many}}), "retry.never", "must have 0 to 32 items"),
        (json!({"retry": {"on": [429]}}), "retry.on[0]", "must be a string"),
        (json!({"retry": {"on": [null]}}), "retry.on[0]", "cannot be null"),
        (
            json!({"retry": {"on": ["503", "200"]}}),
            "retry.on[1]",
            "must be a status from 300 to 599",
        ),
        (
            json!({"retry": {"never": ["5XX"]}}),
            "retry.never[0]",
            "3xx, 4xx, 5xx, timeout or connect",
        ),
        (json!({"retry": {"on": ["5xx", "5xx"]}}), "retry.on[1]", "is listed more than once"),
        (json!({"retry": {"on": ["410"], "never": ["410"]}}), "retry.never[0]", "more than once"),
        (json!({"retry": {"only": ["5xx"]}}), "retry.only", "is unknown"),
        (json!({"auth": "basic"}), "auth", "must be an object"),
        (json!({"auth": {"username": "a", "password": "b"}}), "auth.kind", "is required"),
        (json!({"auth": {"kind": "digest"}}), "auth.kind", "must be basic or oauth2"),
        (auth("basic", json!({"username": null})), "auth.username", "is required"),
        (auth("basic", json!({"username": "a:b"})), "auth.username", "must not contain colons"),
        (auth("basic", json!({"password": "a\nb"})), "auth.password", "control characters"),
        (auth("basic", json!({"password": 7})), "auth.password", "must be a string"),
        (auth("basic", json!({"scope": "a"})), "auth.scope", "does not belong to this kind"),
        (auth("oauth2", json!({"token_url": null})), "auth.token_url", "is required"),
        (
            auth("oauth2", json!({"token_url": "ftp://a/"})),
            "auth.token_url",
            "absolute http or https",
        ),
        (auth("oauth2", json!({"client_id": ""})), "auth.client_id", "1 to 2048 characters"),
        (auth("oauth2", json!({"client_secret": null})), "auth.client_secret", "is required"),
        (auth("oauth2", json!({"scope": []})), "auth.scope", "must be a string"),
        (auth("oauth2", json!({"audience": ""})), "auth.audience", "1 to 2048 characters"),
        (auth("oauth2", json!({"password": "a"})), "auth.password", "does not belong to this kind"),
        (json!({"client_cert": ""}), "client_cert", "1 to 64 characters"),
        (json!({"client_cert": ["a"]}), "client_cert", "must be a string"),
        (
            json!({"client_cert": "bank"}),
            "client_cert",
            "must be the name of a --callback-client-cert",
        ),
        (auth("oauth2", json!({"realm": "a"})), "auth.realm", "is unknown"),
    ] {
        let refused = |answer: Answer, place: &str| {
            let answer = answer.problem(422, "invalid_input").field(&format!("{place}{field}"));
            let found = answer.json()["errors"][0]["reason"].as_str().unwrap().to_owned();
            assert!(found.contains(reason), "{place}{field}: {found}");
        };
        let mut callback = own.clone();
        callback["url"] = json!(url);
        let message = json!({"payload": 1, "delay_ms": 600_000, "callback": callback});
        refused(client.put_topic(&topic, json!({"push": own})).await, "push.");
        refused(client.update_topic(&topic, json!({"push": own})).await, "push.");
        refused(client.update_topic("_callbacks", json!({"push": own})).await, "push.");
        refused(client.publish(&topic, message.clone()).await, "callback.");
        let batch = [json!({"payload": 1}), message];
        refused(client.publish_batch(&topic, &batch).await, "messages[1].callback.");
        refused(client.post("/callbacks", &callback).await, "");
        let schedule = json!({"every_ms": 3_600_000, "callback": callback});
        refused(client.put_schedule(&topic, &schedule).await, "callback.");
        let message = json!({"payload": 1, "callback": callback});
        let schedule = json!({"every_ms": 3_600_000, "topic": topic, "message": message});
        refused(client.put_schedule(&topic, &schedule).await, "message.callback.");
    }
    assert_eq!(client.topic(&topic).await.expect(200).json(), seen);
}

#[tokio::test]
async fn a_push_is_guarded_by_the_revision_like_all_else() {
    let (client, topic) = (client().await, topic("push"));
    let made = pushed(&client, &topic, everything()).await.json();
    let now = client.update_topic(&topic, json!({"lease_ms": 5000})).await.expect(200).json();
    for method in ["PUT", "PATCH"] {
        let body = json!({"push": {"secrets": ["***"]}});
        let old = client.topic_if(method, &topic, Some(&etag(&made)), &body).await;
        old.problem(412, "revision_mismatch");
    }
    assert_eq!(client.topic(&topic).await.expect(200).json(), now);
    let body = json!({"push": {"secrets": ["***"]}});
    let any = client.topic_if("PUT", &topic, Some("*"), &body).await.expect(200);
    assert_eq!(push_of(&any)["secrets"], json!(["***"]));
    let right = client.topic_if("PATCH", &topic, Some(&etag(&any.json())), &body).await;
    assert_eq!(push_of(&right.expect(200))["secrets"], json!(["***"]));
}

#[tokio::test]
async fn another_instance_shows_the_push_as_masked() {
    let (client, topic, other) = (client().await, topic("push"), instance().await);
    pushed(&client, &topic, everything()).await;
    assert_eq!(push_of(&other.client().topic(&topic).await.expect(200)), shown());
}

#[tokio::test]
async fn an_address_that_nobody_may_call_is_refused() {
    let (client, topic) = (client().await, topic("push"));
    for url in ["http://127.0.0.1:1/", "http://[::1]/", "https://10.0.0.1/x"] {
        for method in ["PUT", "PATCH"] {
            client.configure(&topic, json!({})).await;
            let body = json!({"push": {"url": url}});
            let answer = client.topic_if(method, &topic, None, &body).await;
            answer.problem(422, "callback_address_refused").field("push.url");
            let seen = client.topic(&topic).await.expect(200);
            assert!(push_of(&seen).is_null(), "{seen}");
        }
    }
}

#[tokio::test]
async fn a_pushed_topic_is_not_leased_by_hand() {
    let (client, topic) = (client().await, topic("push"));
    pushed(&client, &topic, everything()).await;
    client.lease(&topic, json!({})).await.problem(409, "topic_is_pushed");
    let several = client.post("/lease", &json!({"topics": [topic]})).await;
    several.problem(409, "topic_is_pushed");
    client.update_topic(&topic, json!({"push": null})).await.expect(200);
    assert!(client.leased(&topic, json!({})).await.is_empty());
}

#[tokio::test]
async fn the_topic_of_callbacks_is_not_leased_by_hand() {
    let client = client().await;
    for _ in 0..2 {
        client.lease("_callbacks", json!({})).await.problem(409, "topic_is_pushed");
        let several = json!({"topics": ["push-no-such-topic", "_callbacks"]});
        client.post("/lease", &several).await.problem(409, "topic_is_pushed");
        let later = json!({"url": "http://hooks.invalid/", "delay_ms": 600_000});
        client.post("/callbacks", &later).await.expect(201);
    }
    assert!(client.leased("_other", json!({})).await.is_empty());
}

#[tokio::test]
async fn a_dead_topic_is_set_shown_and_reset() {
    let (client, topic) = (client().await, topic("push"));
    let dead = format!("{topic}-dead");
    let made = client.new_topic(&topic, json!({"dead_topic": dead})).await.json();
    assert_eq!(made["config"]["dead_topic"], dead.as_str());
    let other = client.update_topic(&topic, json!({"lease_ms": 5000})).await.expect(200).json();
    assert_eq!(other["config"]["dead_topic"], dead.as_str());
    let none = client.update_topic(&topic, json!({"dead_topic": null})).await.expect(200).json();
    assert_eq!(none["config"].get("dead_topic"), None);
    client.update_topic(&topic, json!({"dead_topic": dead})).await.expect(200);
    let none = client.put_topic(&topic, json!({})).await.expect(200).json();
    assert_eq!(none["config"].get("dead_topic"), None);
    client.topic(&dead).await.problem(404, "topic_not_found");
}
