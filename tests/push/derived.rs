//! Signatures with secrets that are derived of the server's: what is signed for one topic or API key is no use with the receivers
//! of another.

use base64::{Engine, engine::general_purpose::STANDARD};
use ring::{hkdf, hmac};
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use crate::facts::{becomes, pushed, schedule, scheduled};
use crate::harness::*;
use crate::tenants::{Tenants, key};

const FIRST: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SECOND: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

async fn secrets(client: &Client, topic: &str) -> Vec<String> {
    let answer = client.get_path(&format!("/topics/{topic}/push/secret")).await.expect(200);
    assert_eq!(answer.header("cache-control"), "no-store");
    let secrets = answer.json()["secrets"].as_array().unwrap().clone();
    secrets.iter().map(|secret| secret.as_str().unwrap().to_owned()).collect()
}

fn verified(call: &Call, secret: &str) -> bool {
    Webhook::new(secret).unwrap().verify(&call.body, &call.header_map()).is_ok()
}

fn bytes_of(secret: &str) -> Vec<u8> {
    STANDARD.decode(secret.trim_start_matches("whsec_")).unwrap()
}

/// As the guide says that it is derived.
fn derived(server: &str, info: &str) -> String {
    let extracted =
        hkdf::Salt::new(hkdf::HKDF_SHA256, b"dueq callbacks").extract(&bytes_of(server));
    let mut secret = [0; 32];
    let info = [info.as_bytes()];
    extracted.expand(&info, hkdf::HKDF_SHA256).unwrap().fill(&mut secret).unwrap();
    format!("whsec_{}", STANDARD.encode(secret))
}

#[tokio::test]
async fn a_topic_is_signed_with_a_secret_of_its_own_and_says_its_name() {
    let server = Tenants::start(&[("boss", "admin")], &["--signing-secret", FIRST]).await;
    let (boss, receiver) = (server.client("boss"), Receiver::start().await);
    let one = pushed(&boss, "one", json!({"url": receiver.url("/one")})).await;
    let other = pushed(&boss, "one.x", json!({"url": receiver.url("/other")})).await;
    let [of_one, of_other] = [&secrets(&boss, &one).await[..], &secrets(&boss, &other).await]
        .map(|secrets| secrets[0].clone());
    assert_eq!(of_one, derived(FIRST, &format!("topic:{one}")));
    boss.published(&one, json!({"payload": {"a": 1}})).await;
    boss.published(&other, json!({"payload": {"a": 1}})).await;
    let (call, foreign) = (receiver.wait_at("/one").await, receiver.wait_at("/other").await);
    assert!(verified(&call, &of_one) && verified(&foreign, &of_other), "{call:?}");
    for secret in [&of_other, FIRST, &secrets(&boss, "_callbacks").await[0]] {
        assert!(!verified(&call, secret), "{secret}: {call:?}");
    }
    let signed = format!("{}:{}:{one}", call.id(), call.header("webhook-timestamp"));
    let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes_of(&of_one));
    let tag = STANDARD.encode(hmac::sign(&key, signed.as_bytes()));
    assert_eq!(call.header("dueq-signature"), format!("v1,{tag}"));
    // A secret of the topic's own signs both in its place, and is not shown.
    boss.update_topic(&one, json!({"push": {"url": receiver.url("/own"), "secrets": [SECOND]}}))
        .await
        .expect(200);
    boss.published(&one, json!({"payload": 1})).await;
    let call = receiver.wait_at("/own").await;
    assert!(verified(&call, SECOND) && !verified(&call, &of_one), "{call:?}");
    let signed = format!("{}:{}:{one}", call.id(), call.header("webhook-timestamp"));
    let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes_of(SECOND));
    let tag = STANDARD.encode(hmac::sign(&key, signed.as_bytes()));
    assert_eq!(call.header("dueq-signature"), format!("v1,{tag}"));
    let shown = boss.get_path(&format!("/topics/{one}/push/secret")).await.expect(200).json();
    assert_eq!(shown, json!({"secrets": [of_one], "in_use": false}));
}

#[tokio::test]
async fn what_one_key_has_signed_is_no_use_with_the_receivers_of_another() {
    let keys = [
        ("billing", "publish:_callbacks configure:_callbacks"),
        ("shop", "publish:_callbacks"),
        ("boss", "admin"),
    ];
    let server = Tenants::start(&keys, &["--signing-secret", FIRST, "--api-key", "bare"]).await;
    let [billing, shop, boss] = ["billing", "shop", "boss"].map(|name| server.client(name));
    let bare = server.dueq.client().with_key("bare");
    let receiver = Receiver::start().await;
    let mut known = Vec::new();
    for (client, info) in
        [(&billing, "key:billing"), (&shop, "key:shop"), (&boss, "key:boss"), (&bare, "key:")]
    {
        let secret = secrets(client, "_callbacks").await.remove(0);
        assert_eq!(secret, derived(FIRST, info));
        known.push(secret);
    }
    let only = |call: &Call, at: usize| {
        let good: Vec<_> = (0..4).filter(|at| verified(call, &known[*at])).collect();
        assert_eq!((good, verified(call, FIRST)), (vec![at], false), "{call:?}");
    };
    for (at, client) in [&billing, &shop, &boss, &bare].into_iter().enumerate() {
        let path = format!("/{at}");
        scheduled(client, &receiver.url(&path), json!({"payload": {"a": 1}})).await;
        only(&receiver.wait_at(&path).await, at);
    }
    // Whoever moves or redrives it, it stays that of its publisher; and so is what a schedule of theirs publishes.
    receiver.answer_next("/dies", [Reply::status(410)]);
    let later = json!({"payload": 1, "delay_ms": 600_000});
    let id = scheduled(&shop, &receiver.url("/dies"), later).await;
    boss.update(&id, json!({"priority": 2, "headers": {"x-a": "b"}, "delay_ms": 0}))
        .await
        .expect(200);
    let dead = becomes(&boss, &id, "dead", 1).await;
    assert_eq!(dead["published_by"], "shop");
    boss.redrive(&id).await.expect(200);
    let calls = receiver.wait_until("it is called again", |calls| {
        let calls: Vec<_> = calls.iter().filter(|call| call.id() == id).cloned().collect();
        (calls.len() == 2).then_some(calls)
    });
    calls.await.iter().for_each(|call| only(call, 1));
    let daily = json!({"cron": "0 0 1 1 *", "callback": {"url": receiver.url("/tick")}});
    let path = format!("/schedules/{}", topic("tick"));
    billing.send_json("PUT", &path, &daily).await.expect(201);
    boss.post(&format!("{path}/trigger"), &json!({})).await.expect(200);
    only(&receiver.wait_at("/tick").await, 0);
    // Secrets that all callbacks share are no use for that either.
    let push = json!({"push": {"secrets": [SECOND]}});
    bare.update_topic("_callbacks", push).await.expect(200);
    let own = secrets(&shop, "_callbacks").await;
    assert_eq!(own, [derived(SECOND, "key:shop")]);
    for (client, secret, path) in [(&shop, own[0].as_str(), "/common"), (&bare, SECOND, "/bare")] {
        scheduled(client, &receiver.url(path), json!({"payload": 1})).await;
        let call = receiver.wait_at(path).await;
        assert_eq!((verified(&call, secret), verified(&call, SECOND)), (true, secret == SECOND));
    }
    for forged in ["publisher", "published_by", "p"] {
        let more = json!({"payload": 1, forged: "billing"});
        schedule(&shop, &receiver.url("/"), more).await.refused(422).field(forged);
    }
}

#[tokio::test]
async fn who_gives_a_callback_another_body_or_target_signs_it() {
    let keys = [
        ("shop", "publish:_callbacks"),
        ("ops", "operate:_callbacks read:_callbacks"),
        ("boss", "admin"),
    ];
    let server = Tenants::start(&keys, &["--signing-secret", FIRST]).await;
    let [shop, ops, boss] = ["shop", "ops", "boss"].map(|name| server.client(name));
    let receiver = Receiver::start().await;
    let callback = |path: &str, more: Value| {
        let callback = json!({"url": receiver.url(path), "timeout_ms": 9000});
        json!({"callback": crate::facts::with(callback, more)})
    };
    let cases = [
        (json!({"payload": {"pay": "mallory"}}), "ops"),
        (json!({"payload_base64": "AA==", "content_type": "a/b"}), "ops"),
        (callback("/2", json!({})), "ops"),
        (callback("/3", json!({"secret": SECOND})), "own"),
        (json!({"headers": {"x-a": "b"}, "priority": 3}), "shop"),
        (json!({"max_attempts": 2, "ttl_ms": 600_000}), "shop"),
    ];
    for (at, (change, by)) in cases.into_iter().enumerate() {
        for (secret, client) in [(None, &ops), (Some(SECOND), &ops), (None, &boss)] {
            let path = format!("/{at}");
            let mut more = json!({"payload": {"a": 1}, "delay_ms": 600_000});
            secret.inspect(|secret| more["secret"] = json!(secret));
            let id = scheduled(&shop, &receiver.url(&path), more).await;
            let by = match (by, secret) {
                ("own", _) | ("shop", Some(_)) => "own",
                ("ops", _) if std::ptr::eq(client, &boss) => "boss",
                _ => by,
            };
            let changed = client.update(&id, change.clone()).await.expect(200).json();
            if by != "own" {
                assert_eq!(changed["published_by"], by, "{changed}");
            }
            ops.post("/messages/run", &json!({"ids": [id]})).await.expect(200);
            let call = receiver.wait_until("it is called", |calls| {
                calls.iter().find(|call| call.id() == id).cloned()
            });
            let call = call.await;
            let own = ["shop", "ops", "boss"].map(|name| derived(FIRST, &format!("key:{name}")));
            let good = [("shop", &*own[0]), ("ops", &own[1]), ("boss", &own[2]), ("own", SECOND)];
            let good: Vec<_> = good.iter().filter(|(_, it)| verified(&call, it)).collect();
            assert_eq!(good.iter().map(|it| it.0).collect::<Vec<_>>(), [by], "{change} {call:?}");
        }
    }
    // Nor is a secret taken over with its mask.
    let more = json!({"payload": 1, "secret": SECOND, "delay_ms": 600_000});
    let id = scheduled(&shop, &receiver.url("/3"), more).await;
    let masked = callback("/3", json!({"secret": "***"}));
    ops.update(&id, masked.clone()).await.problem(422, "secret_required");
    let found = ops.get(&id).await.expect(200).json();
    assert_eq!((&found["published_by"], &found["payload"]), (&json!("shop"), &json!(1)));
    ops.update(&id, callback("/3", json!({"secret": SECOND}))).await.expect(200);
    ops.update(&id, masked).await.expect(200);
}

#[tokio::test]
async fn no_other_key_has_calls_made_with_the_credentials_in_the_headers_of_a_callback() {
    let all = "publish:_callbacks configure:_callbacks operate:_callbacks";
    let keys = [("shop", all), ("ops", all), ("boss", "admin")];
    let server = Tenants::start(&keys, &[]).await;
    let [shop, ops, boss] = ["shop", "ops", "boss"].map(|name| server.client(name));
    let receiver = Receiver::start().await;
    let own =
        json!({"authorization": "Bearer shop", "Cookie": "s=1", "x-own": "2", "x-plain": "3"});
    let callback = |more: Value| {
        let callback = json!({"url": receiver.url("/pay"), "secret_headers": ["x-own"]});
        json!({"callback": crate::facts::with(callback, more)})
    };
    let kept = |call: &Call| {
        ["authorization", "cookie", "x-own", "x-plain"]
            .map(|name| call.header_map().contains_key(name))
    };
    let taken = json!({"payload": "all of it"});
    let with_headers = crate::facts::with(taken.clone(), json!({"headers": {"x-plain": "4"}}));
    let cases = [
        (&ops, taken.clone(), [false, false, false, true]),
        (&ops, with_headers, [false, false, false, true]),
        (&ops, callback(json!({"method": "DELETE"})), [false, false, false, true]),
        (&boss, taken.clone(), [false, false, false, true]),
        (&shop, taken, [true; 4]),
        (&shop, callback(json!({"method": "PUT"})), [true; 4]),
        (&ops, json!({"priority": 3}), [true; 4]),
    ];
    let more = json!({
        "payload": 1, "delay_ms": 600_000, "headers": own, "secret_headers": ["x-own"]
    });
    for (client, change, wanted) in cases {
        let id = scheduled(&shop, &receiver.url("/pay"), more.clone()).await;
        let masked = json!({"payload": 2, "headers": {"authorization": "***"}});
        ops.update(&id, masked).await.problem(422, "secret_required");
        client.update(&id, change.clone()).await.expect(200);
        ops.post("/messages/run", &json!({"ids": [id]})).await.expect(200);
        let call = receiver
            .wait_until("it is called", |calls| calls.iter().find(|call| call.id() == id).cloned());
        let call = call.await;
        assert_eq!(kept(&call), wanted, "{change} {call:?}");
    }

    let path = format!("/schedules/{}", topic("taken"));
    let put = |client: &Client, value: &str| {
        let message = json!({"payload": 1, "headers": {"authorization": value}});
        let callback = json!({"url": receiver.url("/tick")});
        let schedule = json!({"cron": "0 0 1 1 *", "callback": callback, "message": message});
        let (client, path) = (client.clone(), path.clone());
        async move { client.send_json("PUT", &path, &schedule).await }
    };
    put(&shop, "Bearer shop").await.expect(201);
    put(&ops, "***").await.problem(422, "secret_required");
    put(&shop, "***").await.expect(200);
    shop.post(&format!("{path}/trigger"), &json!({})).await.expect(200);
    assert_eq!(receiver.wait_at("/tick").await.header("authorization"), "Bearer shop");
}

#[tokio::test]
async fn who_puts_a_schedule_of_callbacks_signs_what_it_publishes() {
    let all = "publish:_callbacks configure:_callbacks operate:_callbacks";
    let keys = [("shop", all), ("ops", all)];
    let server = Tenants::start(&keys, &["--signing-secret", FIRST]).await;
    let [shop, ops] = ["shop", "ops"].map(|name| server.client(name));
    let receiver = Receiver::start().await;
    let path = format!("/schedules/{}", topic("taken"));
    let schedule = |secret: Option<&str>, payload: Value| {
        let mut callback = json!({"url": receiver.url("/taken")});
        secret.inspect(|secret| callback["secret"] = json!(secret));
        json!({"cron": "0 0 1 1 *", "callback": callback, "message": {"payload": payload}})
    };
    shop.send_json("PUT", &path, &schedule(Some(SECOND), json!(1))).await.expect(201);
    shop.send_json("PUT", &path, &schedule(Some("***"), json!(2))).await.expect(200);
    let taken = schedule(Some("***"), json!("mallory"));
    ops.send_json("PUT", &path, &taken).await.problem(422, "secret_required");
    ops.send_json("PUT", &path, &schedule(None, json!(3))).await.expect(200);
    shop.post(&format!("{path}/trigger"), &json!({})).await.expect(200);
    let call = receiver.wait_at("/taken").await;
    assert!(verified(&call, &derived(FIRST, "key:ops")), "{call:?}");
    assert!(!verified(&call, &derived(FIRST, "key:shop")) && !verified(&call, SECOND), "{call:?}");
}

#[tokio::test]
async fn both_secrets_of_the_server_sign_while_it_rotates_and_the_old_form_is_behind_a_flag() {
    let both = format!("{FIRST},{SECOND}");
    let args = ["--signing-secret", both.as_str(), "--shared-signing"];
    let server = Tenants::start(&[("shop", "publish:_callbacks")], &args).await;
    let (shop, receiver) = (server.client("shop"), Receiver::start().await);
    let derived = [FIRST, SECOND].map(|server| derived(server, "key:shop"));
    assert_eq!(secrets(&shop, "_callbacks").await, derived);
    scheduled(&shop, &receiver.url("/shared"), json!({"payload": 1})).await;
    let call = receiver.wait_at("/shared").await;
    for secret in [&derived[0], &derived[1], FIRST, SECOND] {
        assert!(verified(&call, secret), "{secret}: {call:?}");
    }
    assert!(server.dueq.log().contains("--shared-signing: one secret signs"));
    let mut later = server.launch.clone();
    later.truncate(2);
    let later = Dueq::calling(&server.redis).args(later).args(["--signing-secret", SECOND]);
    drop(server.dueq);
    let later = later.start().await;
    let shop = later.client().with_key(&key("shop"));
    scheduled(&shop, &receiver.url("/later"), json!({"payload": 1})).await;
    let call = receiver.wait_at("/later").await;
    assert!(verified(&call, &derived[1]), "{call:?}");
    assert!([&derived[0], FIRST, SECOND].iter().all(|old| !verified(&call, old)), "{call:?}");
    assert!(!later.log().contains("--shared-signing"), "{}", later.log());
}

#[tokio::test]
async fn secrets_are_read_by_whom_they_concern_and_that_is_audited() {
    let keys = [
        ("maker", "configure:t"),
        ("user", "read:* publish:t consume:t operate:*"),
        ("caller", "publish:_callbacks"),
        ("boss", "admin"),
    ];
    let log = temp_dir("tenants").join("audit");
    let args = ["--signing-secret", FIRST, "--audit-log", log.to_str().unwrap()];
    let server = Tenants::start(&keys, &args).await;
    let [maker, user, caller, boss] =
        ["maker", "user", "caller", "boss"].map(|name| server.client(name));
    maker.get_path("/topics/t/push/secret").await.problem(404, "topic_not_found");
    boss.put_topic("t", json!({})).await.expect(201);
    secrets(&maker, "t").await;
    for (client, topic) in
        [(&user, "t"), (&user, "_callbacks"), (&caller, "t"), (&maker, "_callbacks")]
    {
        let path = format!("/topics/{topic}/push/secret");
        client.get_path(&path).await.problem(403, "not_allowed");
    }
    caller.get_path("/topics/_callbacks/push/secret?x=1").await.refused(422).field("x");
    caller.get_path("/topics/a%20b/push/secret").await.refused(400);
    secrets(&caller, "_callbacks").await;
    eventually("it is noted", || async {
        let text = text_of(&log);
        let mut records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let is_it = |record: &Value| {
            record["operation"] == "getPushSecret"
                && record["key"] == "maker"
                && record["outcome"] == "ok"
        };
        records.any(|record| is_it(&record)).then_some(())
    })
    .await;
    assert!(!text_of(&log).contains("whsec_") && !server.dueq.log().contains("whsec_"));
    let none = Tenants::start(&[("boss", "admin")], &[]).await;
    assert_eq!(secrets(&none.client("boss"), "_callbacks").await, Vec::<String>::new());
}
