//! Several API keys on one server: what a receiver may have repeated of a secret is seen by few, and the hosts and the keys of
//! callbacks belong to whom they concern.

use std::fmt::Write;

use ring::digest;
use serde_json::{Value, json};

use crate::facts::{becomes, called, fixed, patient, pushed, schedule, scheduled};
use crate::harness::*;

/// A server whose keys may do what stands behind their names.
pub struct Tenants {
    pub redis: Redis,
    pub dueq: Dueq,
    pub launch: Vec<String>,
}

pub fn key(name: &str) -> String {
    format!("dq_key-of-{name}-in-tests")
}

impl Tenants {
    pub async fn start(keys: &[(&str, &str)], args: &[&str]) -> Tenants {
        let path = temp_dir("tenants").join("keys");
        let mut text = String::new();
        for (name, scopes) in keys {
            let hash = hex::encode(digest::digest(&digest::SHA256, key(name).as_bytes()));
            writeln!(text, "{name} sha256:{hash} {scopes}").unwrap();
        }
        std::fs::write(&path, text).unwrap();
        let redis = Redis::start().await;
        let mut launch = vec!["--api-key-file".to_owned(), path.to_str().unwrap().to_owned()];
        launch.extend(args.iter().map(|arg| (*arg).to_owned()));
        let dueq = Dueq::calling(&redis).args(&launch).start().await;
        Tenants { redis, dueq, launch }
    }

    pub fn client(&self, name: &str) -> Client {
        self.dueq.client().with_key(&key(name))
    }
}

#[tokio::test]
async fn an_answer_that_may_repeat_a_secret_is_shown_to_who_may_configure_the_topic() {
    let keys = [
        ("boss", "admin"),
        ("maker", "read:* configure:*"),
        ("reader", "read:* operate:* publish:* consume:*"),
    ];
    let server = Tenants::start(&keys, &[]).await;
    let [boss, maker, reader] = ["boss", "maker", "reader"].map(|name| server.client(name));
    let receiver = Receiver::start().await;
    // The secret in spellings that no list of them would have.
    let echo = r#"{"got":"se\u0073ame-street","hex":"736573616d65"}"#;
    receiver.answer(Reply::status(410).body(echo));
    let dead = topic("dead");
    boss.put_topic(&dead, json!({})).await.expect(201);
    let own =
        json!({"url": receiver.url("/"), "headers": {"authorization": "Bearer sesame-street"}});
    let by_topic = pushed(&boss, "own", own).await;
    boss.update_topic(&by_topic, json!({"dead_topic": dead})).await.expect(200);
    let open = pushed(&boss, "open", json!({"url": receiver.url("/")})).await;
    let payload = json!({"payload": 1});
    let named = json!({"url": receiver.url("/"), "payload": 1, "secret_headers": ["x-token"],
        "headers": {"x-token": "sesame-street"}, "backoff": patient()});
    let ids = [
        (boss.published(&by_topic, payload.clone()).await, true),
        (boss.post("/callbacks", &named).await.expect(201).text("id"), true),
        (boss.published(&open, payload).await, false),
    ];
    let answer = |message: &Value| called(message)[0]["answer"].clone();
    let hidden = json!("hidden: the request carried a secret");
    for (id, carries) in &ids {
        assert_eq!(answer(&becomes(&boss, id, "dead", 1).await), echo);
        assert_eq!(answer(&maker.get(id).await.expect(200).json()), echo);
        let seen = if *carries { hidden.clone() } else { json!(echo) };
        for shown in [
            reader.get(id).await.expect(200),
            reader.update(id, json!({"priority": 1})).await.expect(200),
            reader.update(id, json!({"headers": {}})).await.expect(200),
        ] {
            assert_eq!(answer(&shown.json()), seen, "{shown}");
            assert_eq!(shown.json()["last_error"], "answered 410");
        }
        let found = reader.get_path("/topics/_callbacks/dead/reasons").await.expect(200);
        assert!(!format!("{found}").contains("sesame"), "{found}");
    }
    let letter =
        eventually("the letter", || async { boss.leased(&dead, json!({})).await.pop() }).await;
    assert_eq!(answer(&letter["payload"]["message"]), hidden, "{letter}");
    for (id, carries) in ids {
        let shown = reader.redrive(&id).await.expect(200).json();
        assert_eq!(answer(&shown) == hidden, carries, "{shown}");
    }
}

#[tokio::test]
async fn each_key_has_its_own_names_for_callbacks() {
    let all = "read:_callbacks publish:_callbacks operate:_callbacks";
    let keys = [("a", all), ("b", all), ("boss", "admin")];
    let server = Tenants::start(&keys, &["--api-key", "bare"]).await;
    let [a, b, boss] = ["a", "b", "boss"].map(|name| server.client(name));
    let bare = server.dueq.client().with_key("bare");
    let url = "http://127.0.0.1:9/";
    let order = |payload: i64| json!({"payload": payload, "key": "order/42", "idempotency_key": "once", "delay_ms": 600_000});
    // The same of each, and of each its own; so for the bodies that are alike too.
    let mut ids = Vec::new();
    for client in [&a, &b, &boss, &bare] {
        let id = scheduled(client, url, order(1)).await;
        let again = schedule(client, url, order(1)).await.expect(200);
        assert_eq!((again.text("id"), &again.json()["duplicate"]), (id.clone(), &json!(true)));
        schedule(client, url, order(2)).await.problem(422, "idempotency_key_reused");
        let found = client.get_by_key("_callbacks", "order/42").await.expect(200).json();
        assert_eq!((text(&found, "id"), text(&found, "key")), (id.as_str(), "order/42"));
        ids.push(id);
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    for client in [&a, &b] {
        let once = json!({"once": {"key": "once", "for_ms": 600_000}, "delay_ms": 600_000});
        let id = scheduled(client, url, once.clone()).await;
        assert_eq!(schedule(client, url, once).await.expect(200).text("id"), id);
        let throttle = json!({"throttle": {"key": "once", "every_ms": 600_000}});
        let first = schedule(client, url, throttle.clone()).await.expect(201).json();
        let second = schedule(client, url, throttle).await.expect(201).json();
        let due = |published: &Value| instant_ms(text(published, "due_at"));
        assert_eq!(due(&second), due(&first) + 600_000);
    }
    a.update_by_key("_callbacks", "order/42", json!({"priority": 7})).await.expect(200);
    let reject = json!({"payload": 1, "key": "order/42", "on_duplicate": "reject"});
    schedule(&b, url, reject).await.problem(409, "duplicate_key");
    let replace =
        json!({"payload": 3, "key": "order/42", "on_duplicate": "replace", "delay_ms": 600_000});
    let replaced = schedule(&b, url, replace).await.expect(200);
    let of_b = b.get_by_key("_callbacks", "order/42").await.expect(200).json();
    assert_eq!((text(&of_b, "id"), &of_b["payload"]), (replaced.text("id").as_str(), &json!(3)));
    let of_a = a.get_by_key("_callbacks", "order/42").await.expect(200).json();
    assert_eq!((&of_a["priority"], &of_a["payload"]), (&json!(7), &json!(1)));
    // Who may do everything finds them all as they were named, and by whom.
    let query = "state=delayed&payload=true&q=key:order/42";
    let found = boss.list("_callbacks", query).await.expect(200).json();
    let by: std::collections::BTreeSet<_> = found["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| (item["key"].clone().to_string(), item["published_by"].to_string()))
        .collect();
    let by: Vec<_> =
        by.iter().map(|(key, by)| (key.trim_matches('"'), by.trim_matches('"'))).collect();
    assert_eq!(by, ["a", "b", "boss", "null"].map(|by| ("order/42", by)));
    b.delete_by_key("_callbacks", "order/42", "").await.expect(204);
    b.get_by_key("_callbacks", "order/42").await.problem(404, "message_not_found");
    a.get_by_key("_callbacks", "order/42").await.expect(200);
    // What a key names is not how another's is stored, and comes back as it was.
    for odd in ["\0a\0order/42", "a\0order/42", "\0", "a"] {
        let id = scheduled(&bare, url, json!({"key": odd, "delay_ms": 600_000})).await;
        let found = bare.get_by_key("_callbacks", odd).await.expect(200).json();
        assert_eq!((text(&found, "id"), text(&found, "key")), (id.as_str(), odd));
    }
    assert_eq!(a.get_by_key("_callbacks", "order/42").await.expect(200).json()["id"], of_a["id"]);
}

#[tokio::test]
async fn each_key_has_its_own_groups_of_callbacks() {
    let all = "read:_callbacks publish:_callbacks";
    let keys = [("a", all), ("b", all), ("boss", "admin")];
    let server = Tenants::start(&keys, &["--api-key", "bare"]).await;
    let [a, b, boss] = ["a", "b", "boss"].map(|name| server.client(name));
    let bare = server.dueq.client().with_key("bare");
    boss.update_topic("_callbacks", json!({"group_concurrency": 1})).await.expect(200);
    let receiver = Receiver::start().await;
    let never = Reply::status(200).after(std::time::Duration::from_secs(600));
    receiver.answer_at("/never", never);
    let (url, group) = (receiver.url("/never"), json!({"group": "customer-7"}));
    scheduled(&a, &url, json!({"group": "customer-7", "timeout_ms": 600_000})).await;
    receiver.wait_at("/never").await;
    let behind = scheduled(&a, &receiver.url("/second"), group.clone()).await;
    // Neither waits for what the other calls so, nor counts for its limits.
    for client in [&b, &bare] {
        let id = scheduled(client, &receiver.url("/free"), group.clone()).await;
        let seen = becomes(client, &id, "acked", 1).await;
        assert_eq!(seen["group"], "customer-7");
    }
    let second = a.get(&behind).await.expect(200).json();
    assert_eq!((&second["state"], &second["attempts"]), (&json!("ready"), &json!(0)));
    assert_eq!(second["group"], "customer-7");
    let later = json!({"group": "customer-7", "delay_ms": 600_000});
    for client in [&b, &bare] {
        scheduled(client, &url, later.clone()).await;
    }
    // Each sees its own. Who may do everything sees all of them, and whose they are.
    let groups = async |client: &Client| {
        let mut seen = Vec::new();
        let mut path = "/topics/_callbacks/groups?limit=1".to_owned();
        loop {
            let page = client.get_path(&path).await.expect(200).json();
            for group in page["items"].as_array().unwrap() {
                assert_eq!(group["group"], "customer-7");
                let by = group["published_by"].as_str().unwrap_or_default().to_owned();
                seen.push((by, number(group, "leased"), number(group, "waiting")));
            }
            let Some(next) = page["next_cursor"].as_str() else { break };
            path = format!("/topics/_callbacks/groups?limit=1&cursor={next}");
        }
        seen.sort();
        seen
    };
    let (of_a, of_b, of_bare) =
        (("a".to_owned(), 1, 1), ("b".to_owned(), 0, 1), (String::new(), 0, 1));
    let every = [of_bare.clone(), of_a.clone(), of_b.clone()];
    assert_eq!(groups(&a).await, [of_a]);
    assert_eq!(groups(&b).await, [of_b]);
    assert_eq!((groups(&boss).await, groups(&bare).await), (every.to_vec(), every.to_vec()));
    let path = "/topics/_callbacks/groups/customer-7";
    let group = async |client: &Client, query: &str| {
        let seen = client.get_path(&format!("{path}{query}")).await.expect(200).json();
        assert_eq!(seen["group"], "customer-7");
        (seen["published_by"].clone(), number(&seen, "leased"), number(&seen, "waiting"))
    };
    assert_eq!(group(&a, "").await, (json!("a"), 1, 1));
    assert_eq!(group(&b, "").await, (json!("b"), 0, 1));
    assert_eq!(group(&b, "?published_by=b").await, (json!("b"), 0, 1));
    assert_eq!(group(&boss, "").await, (json!("boss"), 0, 0));
    assert_eq!(group(&boss, "?published_by=a").await, (json!("a"), 1, 1));
    assert_eq!(group(&boss, "?published_by=").await, (json!(null), 0, 1));
    assert_eq!(group(&bare, "").await, (json!(null), 0, 1));
    for whose in ["a", "", "nobody"] {
        let refused = b.get_path(&format!("{path}?published_by={whose}")).await;
        refused.problem(403, "not_allowed");
    }
    boss.put_topic("other", json!({})).await.expect(201);
    for (path, field) in [
        ("/topics/other/groups/g?published_by=a", "published_by"),
        ("/topics/_callbacks/groups/g?published=a", "published"),
        ("/topics/_callbacks/groups/g?published_by=a&published_by=a", "published_by"),
    ] {
        boss.get_path(path).await.problem(422, "invalid_input").field(field);
    }
    // What a key calls its group is not how another's is stored.
    scheduled(&bare, &url, json!({"group": "\0a\0customer-7", "delay_ms": 600_000})).await;
    assert_eq!(group(&a, "").await, (json!("a"), 1, 1));
    let odd = bare.get_path("/topics/_callbacks/groups/%00a%00customer-7").await.expect(200);
    assert_eq!((odd.text("group").as_str(), odd.number("waiting")), ("\0a\0customer-7", 1));
    let query = "state=delayed&q=group:customer-7";
    let found = boss.list("_callbacks", query).await.expect(200).json();
    assert_eq!(found["items"].as_array().unwrap().len(), 2, "{found}");
}

#[tokio::test]
async fn a_callback_from_before_keys_had_their_own_names_answers_for_all() {
    let all = "read:_callbacks publish:_callbacks operate:_callbacks";
    let server = Tenants::start(&[("a", all), ("b", all)], &["--api-key", "bare"]).await;
    let [a, b] = ["a", "b"].map(|name| server.client(name));
    let bare = server.dueq.client().with_key("bare");
    let url = "http://127.0.0.1:9/";
    let more = json!({"payload": 1, "key": "old", "idempotency_key": "once", "delay_ms": 600_000});
    let id = scheduled(&bare, url, more.clone()).await;
    // As a version before this one stored it: without the name of whoever published it.
    let messages = "dueq:{_callbacks:0}:messages";
    let stored: Vec<Vec<u8>> = server.redis.command(&["HGETALL", messages]).await;
    let (member, body) = (&stored[0], &stored[1]);
    let payload = 3 + usize::from(u16::from_be_bytes([body[1], body[2]]));
    let header = String::from_utf8(body[3..payload].to_vec()).unwrap();
    let header = header.replace(r#","p":"""#, "");
    assert_eq!(header.len() + 10, payload, "{header}");
    let length = u16::try_from(header.len()).unwrap().to_be_bytes();
    let old = [&[1], &length[..], header.as_bytes(), &body[payload..]].concat();
    let mut set = deadpool_redis::redis::cmd("HSET");
    set.arg(messages).arg(member).arg(old);
    let _: i64 = set.query_async(&mut server.redis.connection().await).await.unwrap();
    for client in [&a, &b] {
        let again = schedule(client, url, more.clone()).await.expect(200);
        assert_eq!(again.text("id"), id);
        let found = client.get_by_key("_callbacks", "old").await.expect(200).json();
        assert_eq!((text(&found, "id"), text(&found, "key")), (id.as_str(), "old"));
        let once = json!({"payload": 1, "key": "old", "delay_ms": 600_000});
        assert_eq!(schedule(client, url, once).await.expect(200).text("id"), id);
    }
    // Who replaces it has it for itself.
    let replace =
        json!({"payload": 2, "key": "old", "on_duplicate": "replace", "delay_ms": 600_000});
    assert_eq!(schedule(&b, url, replace).await.expect(200).text("id"), id);
    assert_eq!(b.get_by_key("_callbacks", "old").await.expect(200).text("published_by"), "b");
    a.get_by_key("_callbacks", "old").await.problem(404, "message_not_found");
    a.delete_by_key("_callbacks", "old", "").await.problem(404, "message_not_found");
    scheduled(&a, url, json!({"key": "old", "delay_ms": 600_000})).await;
}

#[tokio::test]
async fn hosts_are_seen_by_whom_they_concern_and_paused_by_who_may_operate_all() {
    let keys = [
        ("boss", "admin"),
        ("ops", "read:* operate:*"),
        ("a", "read:a publish:a operate:a"),
        ("calls", "read:_callbacks operate:_callbacks publish:_callbacks"),
        ("writer", "publish:*"),
    ];
    let server = Tenants::start(&keys, &[]).await;
    let [boss, ops, a, calls] = ["boss", "ops", "a", "calls"].map(|name| server.client(name));
    let (mine, others) = (Receiver::start().await, Receiver::start().await);
    boss.put_topic("a", json!({"push": {"url": mine.url("/")}})).await.expect(201);
    boss.put_topic("b", json!({"push": {"url": others.url("/")}, "backoff": fixed(600_000)}))
        .await
        .expect(201);
    mine.answer_next("/b", [Reply::status(500)]);
    boss.published("a", json!({"payload": 1})).await;
    boss.published("b", json!({"payload": 1})).await;
    boss.published("b", json!({"payload": 1, "callback": {"url": mine.url("/b")}})).await;
    let figures = async |client: &Client| {
        let list = client.get_path("/callbacks/hosts").await.expect(200).json();
        let figure = |host: &Value| {
            let calls = &host["outcomes_hour"];
            let host = text(host, "host").to_owned();
            (host, number(calls, "delivered"), number(calls, "failed"))
        };
        let mut figures: Vec<_> = list["items"].as_array().unwrap().iter().map(figure).collect();
        figures.sort();
        figures
    };
    let of =
        |receiver: &Receiver, delivered, failed| (receiver.addr().to_string(), delivered, failed);
    let mut all = vec![of(&mine, 1, 1), of(&others, 1, 0)];
    all.sort();
    eventually("all are counted", || async { (figures(&ops).await == all).then_some(()) }).await;
    assert_eq!(figures(&a).await, [of(&mine, 1, 0)], "only what its topic did");
    assert_eq!(figures(&calls).await, []);
    server.client("writer").get_path("/callbacks/hosts").await.problem(403, "not_allowed");
    let path = |receiver: &Receiver, verb: &str| {
        format!("/callbacks/hosts/{}/{verb}", encoded(&receiver.addr().to_string()))
    };
    for client in [&a, &calls] {
        for verb in ["pause", "resume"] {
            let refused = client.post(&path(&mine, verb), &json!({})).await;
            let detail = refused.problem(403, "not_allowed").text("detail");
            assert!(detail.contains("operate:*"), "{detail}");
        }
    }
    ops.post(&path(&mine, "pause"), &json!({})).await.expect(200);
    ops.post(&path(&others, "pause"), &json!({})).await.expect(200);
    let seen = a.get_path("/callbacks/hosts").await.expect(200).json();
    assert_eq!(
        (seen["items"].as_array().unwrap().len(), &seen["items"][0]["paused"]),
        (1, &json!(true))
    );
    assert_eq!(figures(&calls).await, []);
    ops.post(&path(&mine, "resume"), &json!({})).await.expect(200);
}
