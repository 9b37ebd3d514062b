//! Signatures, checked by the `standardwebhooks` crate, which knows nothing of dueq.

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::{
    hmac,
    signature::{ED25519, UnparsedPublicKey},
};
use serde_json::{Value, json};
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

/// The public keys of a topic's calls to an origin.
async fn public_keys(client: &Client, topic: &str, origin: &str) -> Vec<String> {
    let path = format!("/callbacks/public-key?topic={topic}&origin={origin}");
    let answer = client.get_path(&path).await.expect(200).json();
    assert_eq!(answer["in_use"], true);
    let key = |key: &Value| key.as_str().unwrap().to_owned();
    answer["keys"].as_array().unwrap().iter().map(key).collect()
}

/// Does this key verify one of the `v1a` signatures of body and topic?
fn verified_by_key(call: &Call, key: &str) -> bool {
    let key = STANDARD.decode(key.strip_prefix("whpk_").unwrap()).unwrap();
    let key = UnparsedPublicKey::new(&ED25519, key);
    let (id, at) = (call.id(), call.header("webhook-timestamp"));
    let of_body = [format!("{id}.{at}.").as_bytes(), &call.body].concat();
    let of_topic = format!("{id}:{at}:{}", call.header("dueq-topic")).into_bytes();
    let verifies = |header: &str, signed: &[u8]| {
        let parts = call.header(header).split(' ').filter_map(|part| part.strip_prefix("v1a,"));
        let mut parts = parts.map(|part| STANDARD.decode(part).unwrap());
        parts.any(|part| key.verify(signed, &part).is_ok())
    };
    verifies("webhook-signature", &of_body) && verifies("dueq-signature", &of_topic)
}

#[tokio::test]
async fn key_pairs_sign_for_one_topic_and_origin_and_receivers_hold_no_secret() {
    let masters = format!("{FIRST},{SECOND}");
    for (kind, by_secrets) in [("ed25519", 0), ("both", 2)] {
        let args = ["--signing-secret", masters.as_str(), "--callback-signature", kind];
        let (_redis, dueq) = alone(&args).await;
        let (client, receiver) = (dueq.client(), Receiver::start().await);
        let topic = pushed(&client, "signed", json!({"url": receiver.url("/")})).await;
        client.published(&topic, json!({"payload": {"ü": 1}})).await;
        scheduled(&client, &receiver.url("/own"), json!({})).await;
        let calls = [receiver.wait_at("/").await, receiver.wait_at("/own").await];
        let mut seen = Vec::new();
        for (name, call) in [topic.as_str(), "_callbacks"].into_iter().zip(&calls) {
            let keys = public_keys(&client, name, &receiver.url("/any?x")).await;
            assert_eq!(keys.len(), 2);
            assert!(keys.iter().all(|key| verified_by_key(call, key)), "{call:?} {keys:?}");
            let elsewhere = public_keys(&client, name, "http://other.test").await;
            assert!(!elsewhere.iter().any(|key| verified_by_key(call, key)), "{call:?}");
            let parts: Vec<_> = call.header("webhook-signature").split(' ').collect();
            let v1 = parts.iter().filter(|part| part.starts_with("v1,")).count();
            assert_eq!((v1, parts.len()), (by_secrets, by_secrets + 2), "{call:?}");
            let mut changed = call.clone();
            changed.body.push(b' ');
            assert!(!verified_by_key(&changed, &keys[0]));
            seen.extend(keys);
        }
        assert!(!verified_by_key(&calls[0], &seen[2]), "that of another topic");
        // A topic's own secret signs in addition.
        let push = json!({"url": receiver.url("/secret"), "secrets": [FIRST]});
        client.update_topic(&topic, json!({"push": push})).await.expect(200);
        client.published(&topic, json!({"payload": 1})).await;
        let call = receiver.wait_at("/secret").await;
        assert!(verified_by_key(&call, &seen[0]), "{call:?}");
        assert_eq!(call.header("webhook-signature").matches("v1,").count(), 1, "{call:?}");
    }
    let (client, _) = ready().await;
    for (query, field) in [
        ("", "origin"),
        ("?origin=ftp://a.test", "origin"),
        ("?origin=a.test", "origin"),
        ("?origin=http://a.test&topic=a%20b", "topic"),
        ("?origin=http://a.test&key=a", "key"),
    ] {
        let answer = client.get_path(&format!("/callbacks/public-key{query}")).await;
        answer.problem(422, "invalid_input").field(field);
    }
    let shown = client.get_path("/callbacks/public-key?origin=http://a.test").await.expect(200);
    assert_eq!(shown.json(), json!({"keys": [], "in_use": false}), "without a secret");
}
