//! dueq's own topic keeps what it delivered, so that it can be asked for, and takes changes of its configuration.

use serde_json::{Value, json};

use crate::facts::{alone, becomes, called, fixed, gone, pushed_with, ready, schedule, scheduled};
use crate::harness::*;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

#[tokio::test]
async fn a_delivered_callback_can_be_asked_for() {
    let (client, receiver) = ready().await;
    receiver.answer(Reply::status(202).body("taken"));
    let more =
        json!({"payload": {"a": 1}, "headers": {"cookie": "very-secret"}, "key": topic("kept")});
    let id = scheduled(&client, &receiver.url("/"), more.clone()).await;
    let seen = becomes(&client, &id, "acked", 1).await;
    assert_eq!((&seen["payload"], &seen["headers"]), (&json!({"a": 1}), &json!({"cookie": "***"})));
    let call = &called(&seen)[0];
    assert_eq!((&call["status"], &call["answer"]), (&json!(202), &json!("taken")));
    let listed = client.list("_callbacks", "state=acked&limit=1000").await.expect(200).json();
    let items = listed["items"].as_array().unwrap();
    assert!(items.iter().any(|item| item["id"] == id), "{listed}");
    let retention = &client.topic("_callbacks").await.expect(200).json()["config"]["retention"];
    let whole = json!({"acked_ms": 3_600_000, "acked_max": 10_000, "dead_ms": 1_209_600_000, "dead_max": 100_000});
    assert_eq!(*retention, whole);
    // Its key is free again.
    let again = scheduled(&client, &receiver.url("/"), more).await;
    gone(&client, &again).await;
    assert_ne!(again, id);
}

#[tokio::test]
async fn of_what_was_delivered_as_many_are_kept_as_is_wished() {
    let (client, receiver) = ready().await;
    let more = json!({"retention": {"acked_ms": 600_000, "acked_max": 3}});
    let topic = pushed_with(&client, "kept", json!({"url": receiver.url("/")}), more).await;
    let messages: Vec<_> = (0..40).map(|n| json!({"payload": n, "key": n.to_string()})).collect();
    client.fill(&topic, &messages).await;
    receiver.wait_for(40).await;
    let counts = eventually("three kept", || async {
        let counts = client.topic(&topic).await.expect(200).json()["counts"].clone();
        (counts["acked"] == 3 && counts["leased"] == 0).then_some(counts)
    });
    counts.await;
    assert_eq!(client.listed(&topic, "state=acked").await.len(), 3);
    let lower = json!({"retention": {"acked_ms": 600_000, "acked_max": 1}});
    client.update_topic(&topic, lower).await.expect(200);
    eventually("one kept", || async {
        (client.listed(&topic, "state=acked").await.len() == 1).then_some(())
    })
    .await;
    client.published(&topic, json!({"payload": 1, "key": "39"})).await;
    receiver.wait_for(41).await;
}

/// An instance of the test's own: what is changed is everybody's.
#[tokio::test]
async fn the_topic_of_callbacks_takes_changes() {
    let (_redis, dueq) = alone(&[]).await;
    let (client, receiver) = (dueq.client(), Receiver::start().await);
    let dead = topic("kept-dead");
    let changes = json!({
        "max_attempts": 2, "backoff": fixed(50), "dead_topic": dead,
        "retention": {"acked_ms": 60_000, "acked_max": 5},
        "push": {"headers": {"x-team": "a", "authorization": "very-secret"}, "secrets": [SECRET], "rate_per_s": 1000},
    });
    // Before there is a callback, and again.
    for _ in 0..2 {
        let config = client.update_topic("_callbacks", changes.clone()).await.expect(200).json();
        let config = &config["config"];
        assert_eq!((&config["max_attempts"], &config["dead_topic"]), (&json!(2), &json!(dead)));
        assert_eq!(config["retention"]["acked_max"], 5);
        let push = &config["push"];
        assert_eq!((&push["max_in_flight"], &push["rate_per_s"]), (&json!(1024), &json!(1000.0)));
        assert_eq!(push["headers"], json!({"x-team": "a", "authorization": "***"}));
    }
    let id = scheduled(&client, &receiver.url("/"), json!({"payload": 1})).await;
    becomes(&client, &id, "acked", 1).await;
    let call = receiver.wait_for(1).await.remove(0);
    assert_eq!(call.header("x-team"), "a");
    assert!(!call.has("authorization"), "it belongs to no origin: {call:?}");
    standardwebhooks::Webhook::new(SECRET).unwrap().verify(&call.body, &call.header_map()).unwrap();
    receiver.answer(Reply::status(500));
    let id = scheduled(&client, &receiver.url("/dead"), json!({"payload": 2})).await;
    becomes(&client, &id, "dead", 2).await;
    let letter = client.lease(&dead, json!({"wait_ms": 10_000})).await.expect(200).json();
    assert_eq!(letter["messages"][0]["payload"]["message"]["id"], id);
    let reset = json!({"push": null, "retention": null, "max_attempts": null, "dead_topic": null});
    let config =
        client.update_topic("_callbacks", reset).await.expect(200).json()["config"].clone();
    assert_eq!(
        (&config["max_attempts"], &config["retention"]["acked_max"]),
        (&json!(10), &json!(10_000))
    );
    assert_eq!(
        (&config["push"]["max_in_flight"], &config["push"]["secrets"]),
        (&json!(1024), &json!([]))
    );
}

/// As any pushed topic does.
#[tokio::test]
async fn the_topic_of_callbacks_has_limits_groups_and_partitions() {
    let (_redis, dueq) = alone(&[]).await;
    let (client, receiver) = (dueq.client(), Receiver::start().await);
    let settings = json!({
        "max_payload_bytes": 300_000, "max_messages": 64, "on_full": "reject", "idempotency_window_ms": 1_000,
        "partitions": 2, "group_order": "strict", "group_concurrency": 1, "group_rate_per_s": 1000, "group_burst": 5,
    });
    for _ in 0..2 {
        let seen = client.update_topic("_callbacks", settings.clone()).await.expect(200).json();
        for (name, value) in settings.as_object().unwrap() {
            let shown = &seen["config"][name];
            assert!(shown == value || shown.as_f64() == value.as_f64(), "{name}: {seen}");
        }
    }
    let replicated = json!({"durability": "replicated"});
    client.update_topic("_callbacks", replicated).await.problem(422, "durability_unavailable");
    let url = receiver.url("/");
    let large = json!({"payload": "x".repeat(290_000), "key": "large"});
    let id = scheduled(&client, &url, large).await;
    becomes(&client, &id, "acked", 1).await;
    // One of a group at a time.
    receiver.answer_next("/slow", [Reply::status(200).after(std::time::Duration::from_secs(1))]);
    let of_group = json!({"payload": 1, "group": "customer-7"});
    let first = scheduled(&client, &receiver.url("/slow"), of_group.clone()).await;
    let second = schedule(&client, &url, of_group).await.expect(201);
    assert_eq!(second.text("state"), "blocked");
    becomes(&client, &first, "acked", 1).await;
    becomes(&client, &second.text("id"), "acked", 1).await;
    client.update_topic("_callbacks", json!({"partitions": 1})).await.refused(422);
    let reset = json!({"max_messages": null, "group_order": null});
    let reset = client.update_topic("_callbacks", reset).await.expect(200).json();
    assert!(reset["config"].get("max_messages").is_none());
    assert_eq!(reset["config"]["group_order"], "fair");
}

async fn order(client: &Client) -> Value {
    client.topic("_callbacks").await.expect(200).json()["config"]["group_order"].clone()
}

#[tokio::test]
async fn groups_of_callbacks_take_turns() {
    let (_redis, dueq) = alone(&[]).await;
    let (client, receiver) = (dueq.client(), Receiver::start().await);
    let one = json!({"push": {"max_in_flight": 1}});
    client.update_topic("_callbacks", one).await.expect(200);
    assert_eq!(order(&client).await, "fair");
    client.post("/topics/_callbacks/pause", &json!({})).await.expect(200);
    for n in 0..40 {
        scheduled(&client, &receiver.url("/noisy"), json!({"payload": n, "group": "noisy"})).await;
    }
    scheduled(&client, &receiver.url("/quiet"), json!({"group": "quiet"})).await;
    client.post("/topics/_callbacks/resume", &json!({})).await.expect(200);
    let calls = receiver.wait_for(41).await;
    let turn = calls.iter().position(|call| call.path == "/quiet").unwrap();
    assert!(turn <= 2, "it waited for {turn} calls of another group");
}

/// Their order is that of all topics as long as an instance runs that knows no other.
#[tokio::test]
async fn an_order_that_was_chosen_stays_and_another_becomes_fair() {
    for chosen in [false, true] {
        let redis = Redis::start().await;
        drop(Dueq::on(&redis).start().await);
        assert_eq!(redis.command::<i64>(&["DEL", "dueq:{service}:began"]).await, 1);
        let now = redis.time_ms().await;
        let older = format!("00000000000000aa {now} 0.0.9+schema.5");
        let alive = "dueq:{service}:alive";
        let _: i64 = redis.command(&["ZADD", alive, &(now + 30_000).to_string(), &older]).await;
        let first = Dueq::calling(&redis).args(["--no-dispatch"]).start().await;
        let client = first.client();
        for state in ["ready", "blocked"] {
            let body = json!({"group": "customer-7"});
            let sent = schedule(&client, "http://127.0.0.1:9/", body).await.expect(201);
            assert_eq!(sent.text("state"), state);
        }
        let change =
            if chosen { json!({"group_order": "strict"}) } else { json!({"max_attempts": 3}) };
        client.update_topic("_callbacks", change).await.expect(200);
        // It is no reason not to start.
        let second = Dueq::calling(&redis).args(["--no-dispatch"]).start().await;
        assert_eq!(order(&second.client()).await, "strict");
        assert_eq!(redis.command::<i64>(&["ZREM", alive, &older]).await, 1);
        // Until the upgrade is finished, the older one may come back.
        drop(Dueq::calling(&redis).args(["--no-dispatch"]).start().await);
        assert_eq!(order(&client).await, "strict");
        assert_eq!(
            redis.command::<Option<String>>(&["GET", "dueq:{service}:min_reader"]).await,
            None
        );
        // As `dueq migrate --finish` does.
        let _: () = redis.command(&["SET", "dueq:{service}:min_reader", "6"]).await;
        let third = Dueq::calling(&redis).args(["--no-dispatch"]).start().await;
        let (wanted, blocked) = if chosen { ("strict", 1) } else { ("fair", 0) };
        for client in [client, third.client()] {
            assert_eq!(order(&client).await, wanted);
            assert_eq!(client.count("_callbacks", "blocked").await, blocked);
            assert_eq!(
                client.topic("_callbacks").await.expect(200).json()["config"]["max_attempts"],
                if chosen { 10 } else { 3 }
            );
        }
    }
}

#[tokio::test]
async fn what_cannot_be_changed_of_it_is_reserved() {
    let (client, receiver) = ready().await;
    scheduled(&client, &receiver.url("/"), json!({"delay_ms": 600_000})).await;
    let before = client.topic("_callbacks").await.expect(200).json()["revision"].clone();
    let url = json!({"url": receiver.url("/")});
    for (name, value) in [
        ("lease_ms", json!(5000)),
        ("ttl_ms", json!(5)),
        ("ttl_ms", json!(null)),
        ("max_leased", json!(5)),
        ("rate_per_s", json!(5)),
    ] {
        let change = Value::from_iter([(name, value)]);
        client.update_topic("_callbacks", change).await.problem(403, "topic_reserved");
    }
    let answer = client.update_topic("_callbacks", json!({"push": url})).await;
    answer.problem(403, "topic_reserved");
    for (body, field) in [
        (json!({"nope": 1}), "nope"),
        (json!({"retention": {"acked_max": -1}}), "retention.acked_max"),
        (json!({"push": {"secret_headers": ["a b"]}}), "push.secret_headers[0]"),
    ] {
        client.update_topic("_callbacks", body).await.problem(422, "invalid_input").field(field);
    }
    client.put_topic("_callbacks", json!({})).await.problem(403, "topic_reserved");
    client.update_topic("_other", json!({})).await.problem(403, "topic_reserved");
    assert_eq!(client.topic("_callbacks").await.expect(200).json()["revision"], before);
}

/// Its partition, as older versions opened it, retains nothing.
#[tokio::test]
async fn the_topic_of_an_older_version_keeps_what_is_delivered_after_the_next_start() {
    let redis = Redis::start().await;
    let older = Dueq::calling(&redis).args(["--no-dispatch"]).start().await;
    let receiver = Receiver::start().await;
    let id = scheduled(&older.client(), &receiver.url("/"), json!({"payload": 1})).await;
    let entry: String = redis.command(&["HGET", "dueq:{topics}:registry", "_callbacks"]).await;
    let words: Vec<_> = entry.splitn(3, ' ').take(2).collect();
    let bare = words.join(" ");
    let _: () = redis.command(&["HSET", "dueq:{topics}:registry", "_callbacks", &bare]).await;
    let fields = ["HDEL", "dueq:{_callbacks:0}:meta", "rules", "acked_max"];
    let _: i64 = redis.command(&fields).await;
    drop(older);
    let dueq = Dueq::calling(&redis).start().await;
    becomes(&dueq.client(), &id, "acked", 1).await;
}
