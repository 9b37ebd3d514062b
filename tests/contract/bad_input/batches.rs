//! Batches that are no batches: how many, of what, and which item is told.

use serde_json::{Value, json};

use super::Ground;
use crate::facts::{unprocessable, unprocessable_within};
use crate::harness::*;

/// The four batches of a ground whose message is leased: path, and an item that it would take.
fn batches(ground: &Ground) -> Vec<(String, Value)> {
    let held = json!({"id": ground.held["id"], "lease_token": ground.held["lease_token"]});
    let mut extend = held.clone();
    extend["lease_ms"] = json!(60_000);
    vec![
        (format!("/topics/{}/messages/batch", ground.topic), json!({"payload": 1})),
        ("/messages/ack".into(), held.clone()),
        ("/messages/nack".into(), held),
        ("/messages/extend".into(), extend),
    ]
}

#[tokio::test]
async fn a_batch_has_1_to_1000_items() {
    let ground = Ground::new().await;
    for (path, item) in batches(&ground) {
        for body in [
            json!({"messages": []}),
            json!({"messages": vec![item.clone(); 1001]}),
            json!({"messages": item}),
            json!({"messages": null}),
            json!({"messages": 1}),
            json!({"messages": "x"}),
            json!({}),
        ] {
            unprocessable(ground.client.post(&path, &body).await, "messages");
        }
        let more = json!({"messages": [item.clone()], "nope": 1});
        unprocessable(ground.client.post(&path, &more).await, "nope");
        let body = json!([item]);
        ground.client.post(&path, &body).await.refused(422);
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn an_item_of_no_object_is_told_with_its_place_and_nothing_is_done() {
    let ground = Ground::new().await;
    for (path, item) in batches(&ground) {
        for bad in [json!(1), json!("x"), json!([]), json!(true), json!(null)] {
            let body = json!({"messages": [item, item, bad]});
            unprocessable(ground.client.post(&path, &body).await, "messages[2]");
        }
        let mut unknown = item.clone();
        unknown["nope"] = json!(1);
        let body = json!({"messages": [item, unknown]});
        unprocessable(ground.client.post(&path, &body).await, "messages[1].nope");
        let name = item.as_object().unwrap().keys().next().unwrap();
        let doubled = format!("{{\"{name}\":{},{}", item[name], &item.to_string()[1..]);
        let body = format!("{{\"messages\":[{item},{doubled}]}}");
        let answer = ground.client.post_text(&path, &body).await;
        unprocessable_within(answer, &format!("messages[1].{name}"));
    }
    ground.unchanged().await;
}

/// A field of an item, by the last word of the path, with a value that it cannot have.
#[tokio::test]
async fn a_wrong_field_of_an_item_is_told_with_its_place_and_nothing_is_done() {
    let ground = Ground::new().await;
    let of_all: Vec<(&str, Value)> = vec![
        ("id", json!("no-uuid")),
        ("id", json!("")),
        ("id", json!(7)),
        ("id", json!(null)),
        ("id", json!([])),
        ("lease_token", json!(7)),
        ("lease_token", json!(null)),
        ("lease_token", json!({})),
    ];
    let of_nack: Vec<(&str, Value)> = vec![
        ("delay_ms", json!(-1)),
        ("delay_ms", json!("5")),
        ("delay_ms", json!(1.5)),
        ("delay_ms", json!(315_360_000_001_i64)),
        ("reason", json!("x".repeat(1025))),
        ("reason", json!(1)),
        ("reason", json!(["x"])),
        ("dead", json!("true")),
        ("dead", json!(1)),
        ("dead", json!({})),
        ("release", json!("yes")),
        ("release", json!(0)),
        ("lease_ms", json!(1000)),
    ];
    let of_extend: Vec<(&str, Value)> = vec![
        ("lease_ms", json!(999)),
        ("lease_ms", json!(43_200_001)),
        ("lease_ms", json!("1000")),
        ("lease_ms", json!(null)),
        ("delay_ms", json!(1)),
    ];
    for (path, item) in batches(&ground).into_iter().skip(1) {
        let own: &[(&str, Value)] = match path.as_str() {
            "/messages/nack" => &of_nack,
            "/messages/extend" => &of_extend,
            _ => &[],
        };
        for (field, value) in of_all.iter().chain(own) {
            let mut bad = item.clone();
            bad[*field] = value.clone();
            let body = json!({"messages": [item, bad]});
            let answer = ground.client.post(&path, &body).await;
            unprocessable(answer, &format!("messages[1].{field}"));
        }
        for field in item.as_object().unwrap().keys() {
            let mut bad = item.clone();
            bad.as_object_mut().unwrap().remove(field);
            let body = json!({"messages": [item, bad]});
            let answer = ground.client.post(&path, &body).await;
            unprocessable(answer, &format!("messages[1].{field}"));
        }
    }
    let item = &batches(&ground)[2].1;
    for contradiction in
        [json!({"dead": true, "release": true}), json!({"dead": true, "delay_ms": 0})]
    {
        let mut bad = item.clone();
        bad.as_object_mut().unwrap().extend(contradiction.as_object().unwrap().clone());
        let body = json!({"messages": [item, bad]});
        let answer = ground.client.post("/messages/nack", &body).await;
        unprocessable_within(answer, "messages[1]");
    }
    ground.unchanged().await;
}

/// The same for a nack by itself.
#[tokio::test]
async fn a_wrong_option_of_a_nack_is_422_and_named() {
    let ground = Ground::new().await;
    for (field, value) in [
        ("reason", json!(1)),
        ("reason", json!([])),
        ("reason", json!({})),
        ("reason", json!(true)),
        ("reason", json!("x".repeat(1025))),
        ("dead", json!("true")),
        ("dead", json!(1)),
        ("dead", json!([])),
        ("release", json!("false")),
        ("release", json!(0)),
        ("release", json!({})),
        ("Dead", json!(true)),
        ("released", json!(true)),
    ] {
        let mut more = serde_json::Map::new();
        more.insert(field.into(), value);
        let answer = ground.client.nack_leased(&ground.held, Value::Object(more)).await;
        unprocessable(answer, field);
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn a_message_of_a_batch_is_as_strict_as_one_alone() {
    let ground = Ground::new().await;
    let path = &batches(&ground)[0].0;
    for (message, field) in [
        ("{}", "payload"),
        ("{\"payload\":1,\"delay_ms\":-1}", "delay_ms"),
        ("{\"payload\":1,\"delay_ms\":\"5\"}", "delay_ms"),
        ("{\"payload\":1,\"priority\":256}", "priority"),
        ("{\"payload\":1,\"max_attempts\":0}", "max_attempts"),
        ("{\"payload\":1,\"deliver_at\":\"tomorrow\"}", "deliver_at"),
        ("{\"payload\":1,\"delay_ms\":1,\"deliver_at\":\"2100-01-01T00:00:00Z\"}", "de"),
        ("{\"payload\":1,\"headers\":{\"a b\":\"x\"}}", "headers"),
        ("{\"payload\":1,\"headers\":{\"a\":1}}", "headers"),
        ("{\"payload\":1,\"payload_base64\":\"AA==\"}", "payload"),
        ("{\"payload_base64\":\"%\"}", "payload_base64"),
        ("{\"payload\":1,\"content_type\":\"text/plain\"}", "content_type"),
        ("{\"payload_base64\":\"AA==\",\"content_type\":\"x\"}", "content_type"),
        ("{\"payload\":1,\"payload\":1}", "payload"),
        ("{\"payload\":1,\"lease_ms\":1000}", "lease_ms"),
    ] {
        for at in [0, 17, 999] {
            let mut messages = vec!["{\"payload\":1}"; 1000];
            messages[at] = message;
            let body = format!("{{\"messages\":[{}]}}", messages.join(","));
            let mut answer = ground.client.post_text(path, &body).await;
            answer.request.push_str(&format!(" with {message}"));
            unprocessable_within(answer, &format!("messages[{at}].{field}"));
        }
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn a_batch_to_where_none_may_go_is_refused() {
    let client = client().await;
    let good = json!({"messages": [{"payload": 1}]});
    for (topic, status) in [("_own", 403), ("a..b", 400), ("%20", 400)] {
        let path = format!("/topics/{topic}/messages/batch");
        client.post(&path, &good).await.refused(status);
    }
    for path in ["/topics/t/messages/batch", "/messages/ack", "/messages/nack", "/messages/extend"]
    {
        for method in ["PUT", "PATCH"] {
            client.send(method, path, &[], None).await.refused(405);
        }
        client.post(&format!("{path}?nope=1"), &good).await.refused(422).field("nope");
    }
}
