//! Signatures, checked by the `standardwebhooks` crate, which knows nothing of dueq.

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::hmac;
use serde_json::json;
use standardwebhooks::Webhook;

use crate::facts::{alone, fixed, pushed, pushed_with, ready, scheduled};
use crate::harness::*;

const FIRST: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SECOND: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const STRANGER: &str = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

fn verified(call: &Call, secret: &str) -> bool {
    Webhook::new(secret).unwrap().verify(&call.body, &call.header_map()).is_ok()
}

fn signatures(call: &Call) -> usize {
    let text = call.header("webhook-signature");
    let good = |part: &&str| part.starts_with("v1,") && part.len() == 3 + 44;
    let parts = text.split(' ').filter(|part| !part.is_empty());
    assert!(parts.clone().all(|part| good(&part)), "{text:?}");
    parts.count()
}

#[tokio::test]
async fn a_topics_secret_signs_what_it_sends() {
    let (client, receiver) = ready().await;
    let push = json!({"url": receiver.url("/"), "secrets": [FIRST]});
    let topic = pushed(&client, "signed", push).await;
    for payload in [json!({"ü": [1, 2.50]}), json!(""), json!(null)] {
        client.published(&topic, json!({"payload": payload})).await;
    }
    client.publish_raw(&topic, "", Some("text/plain"), b"").await.expect(201);
    for call in receiver.wait_for(4).await {
        assert!(verified(&call, FIRST), "{call:?}");
        assert!(!verified(&call, STRANGER), "{call:?}");
        assert_eq!((signatures(&call), call.count("webhook-signature")), (1, 1));
        let mut changed = call.clone();
        changed.body.push(b' ');
        assert!(!verified(&changed, FIRST), "another body has another signature");
    }
}

#[tokio::test]
async fn bytes_are_signed_as_they_are() {
    let (client, receiver) = ready().await;
    let push = json!({"url": receiver.url("/"), "secrets": [FIRST]});
    let topic = pushed(&client, "signed", push).await;
    let bytes = [0_u8, 255, 128, 10, 13];
    client.published(&topic, json!({"payload_base64": STANDARD.encode(bytes)})).await;
    let call = receiver.wait_for(1).await.remove(0);
    let signed = format!("{}.{}.", call.id(), call.header("webhook-timestamp")).into_bytes();
    let key = STANDARD.decode(FIRST.trim_start_matches("whsec_")).unwrap();
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &key), &[&signed, &bytes[..]].concat());
    assert_eq!(call.header("webhook-signature"), format!("v1,{}", STANDARD.encode(tag)));
}

#[tokio::test]
async fn while_rotating_both_secrets_verify() {
    let (client, receiver) = ready().await;
    let push = json!({"url": receiver.url("/"), "secrets": [FIRST, SECOND]});
    let topic = pushed(&client, "signed", push).await;
    client.published(&topic, json!({"payload": 1})).await;
    let call = receiver.wait_for(1).await.remove(0);
    assert!(verified(&call, FIRST) && verified(&call, SECOND), "{call:?}");
    assert!(!verified(&call, STRANGER), "{call:?}");
    assert_eq!(signatures(&call), 2);
    let push = json!({"url": receiver.url("/"), "secrets": [SECOND]});
    client.update_topic(&topic, json!({"push": push})).await.expect(200);
    client.published(&topic, json!({"payload": 2})).await;
    let call = receiver.wait_for(2).await.remove(1);
    assert!(verified(&call, SECOND) && !verified(&call, FIRST), "{call:?}");
}

#[tokio::test]
async fn every_attempt_is_signed_with_its_own_timestamp() {
    let (client, receiver) = ready().await;
    receiver.answer_next("/", [Reply::status(500)]);
    let push = json!({"url": receiver.url("/"), "secrets": [FIRST]});
    let topic = pushed_with(&client, "signed", push, json!({"backoff": fixed(1500)})).await;
    client.published(&topic, json!({"payload": 1})).await;
    let calls = receiver.wait_for(2).await;
    let at = |call: &Call| call.header("webhook-timestamp").parse::<i64>().unwrap();
    assert!(at(&calls[1]) > at(&calls[0]), "{calls:?}");
    assert_eq!(calls[0].id(), calls[1].id());
    assert!(calls.iter().all(|call| verified(call, FIRST)), "{calls:?}");
}

#[tokio::test]
async fn secrets_stay_where_a_put_names_none() {
    let (client, receiver) = ready().await;
    let push = json!({"url": receiver.url("/"), "secrets": [FIRST]});
    let topic = pushed(&client, "signed", push).await;
    let push = json!({"push": {"url": receiver.url("/put"), "method": "PUT"}});
    client.put_topic(&topic, push).await.expect(200);
    client.published(&topic, json!({"payload": 1})).await;
    let call = receiver.wait_at("/put").await;
    assert!(verified(&call, FIRST), "{call:?}");
    let push = json!({"push": {"url": receiver.url("/none"), "secrets": []}});
    client.put_topic(&topic, push).await.expect(200);
    client.published(&topic, json!({"payload": 1})).await;
    let call = receiver.wait_at("/none").await;
    assert!(!call.has("webhook-signature"), "an empty list takes them away: {call:?}");
}

#[tokio::test]
async fn without_any_secret_there_is_no_signature() {
    let (client, receiver) = ready().await;
    scheduled(&client, &receiver.url("/"), json!({"payload": 1})).await;
    let topic = pushed(&client, "unsigned", json!({"url": receiver.url("/")})).await;
    client.published(&topic, json!({"payload": 1})).await;
    for call in receiver.wait_for(2).await {
        assert!(!call.has("webhook-signature"), "{call:?}");
        assert!(call.has("webhook-id") && call.has("webhook-timestamp"), "{call:?}");
    }
}

#[tokio::test]
async fn the_instances_secret_signs_where_the_topic_has_none() {
    let secrets = format!("{FIRST},{SECOND}");
    for (given, count) in [(FIRST, 1), (secrets.as_str(), 2)] {
        let (_redis, dueq) = alone(&["--signing-secret", given]).await;
        let (client, receiver) = (dueq.client(), Receiver::start().await);
        scheduled(&client, &receiver.url("/callback"), json!({"payload": {"a": 1}})).await;
        let call = receiver.wait_at("/callback").await;
        let shown = client.get_path("/topics/_callbacks/push/secret").await.expect(200).json();
        let secrets = shown["secrets"].as_array().unwrap();
        assert!(secrets.iter().all(|secret| verified(&call, secret.as_str().unwrap())), "{call:?}");
        assert_eq!((secrets.len(), signatures(&call)), (count, count));
        assert!(!verified(&call, FIRST) && !verified(&call, SECOND), "they are derived: {call:?}");
        let push = json!({"url": receiver.url("/own"), "secrets": [STRANGER]});
        let topic = pushed(&client, "signed", push).await;
        client.published(&topic, json!({"payload": 1})).await;
        let call = receiver.wait_at("/own").await;
        assert!(verified(&call, STRANGER) && !verified(&call, FIRST), "{call:?}");
        assert!(!dueq.log().contains(&FIRST[6..]), "the secret is in the log");
    }
}

#[tokio::test]
async fn a_signing_secret_that_is_none_is_refused_at_start() {
    let redis = Redis::start().await;
    let finished = Dueq::on(&redis).args(["--signing-secret", "whsec_short"]).finish().await;
    assert_eq!(finished.code, 2, "{finished:?}");
    assert!(finished.stderr.contains("signing-secret"), "{finished:?}");
}
