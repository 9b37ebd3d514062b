//! redriveTopic: how many, in which order, spread over which time, and which stay.

use serde_json::{Value, json};

use crate::facts::{counted, dead_message, ids, killed, topic_in_balance};
use crate::harness::*;

/// This many dead messages, in the order of their deaths.
async fn dead(client: &Client, topic: &str, count: usize) -> Vec<String> {
    let messages: Vec<Value> = (0..count).map(|n| json!({"payload": n})).collect();
    for some in messages.chunks(1000) {
        client.published_batch(topic, some).await;
    }
    let mut held = Vec::new();
    while held.len() < count {
        held.extend(client.leased(topic, json!({"max_messages": 1000})).await);
    }
    let nacks: Vec<Value> = held
        .iter()
        .map(|m| json!({"id": m["id"], "lease_token": m["lease_token"], "dead": true}))
        .collect();
    for some in nacks.chunks(1000) {
        let results = client.held_batch("nack", some).await;
        assert!(results.iter().all(|result| result["state"] == "dead"), "{results:?}");
    }
    ids(&held)
}

/// The same, each dead in a later millisecond than the one before.
async fn dead_apart(client: &Client, topic: &str, count: usize) -> Vec<String> {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(dead_message(client, topic).await);
        let now = shared().await.redis.time_ms().await;
        eventually("a later millisecond", || async {
            (shared().await.redis.time_ms().await > now).then_some(())
        })
        .await;
    }
    ids
}

fn told(answer: &Answer) -> (i64, i64) {
    (answer.number("redriven"), answer.number("remaining"))
}

#[tokio::test]
async fn all_that_is_dead_is_ready_again() {
    let (client, topic) = (client().await, topic("redrive"));
    let sent = dead_apart(&client, &topic, 5).await;
    let answer = client.redrive_topic(&topic, json!({})).await.expect(200);
    assert_eq!(told(&answer), (5, 0));
    let held = client.leased(&topic, json!({"max_messages": 10})).await;
    assert_eq!(ids(&held), sent);
    for message in &held {
        let numbers = (number(message, "attempt"), number(message, "attempts_left"));
        assert_eq!(numbers, (2, 0), "a fresh budget of its own one attempt");
    }
    let nothing = client.redrive_topic(&topic, json!({})).await.expect(200);
    assert_eq!(told(&nothing), (0, 0));
    counted(&client, &topic, &[("totals", "redriven", 5), ("counts", "dead", 0)]).await;
}

#[tokio::test]
async fn the_longest_dead_go_first_and_as_many_as_are_wanted() {
    let (client, topic) = (client().await, topic("redrive"));
    let sent = dead_apart(&client, &topic, 7).await;
    let mut back = 0;
    for (most, wanted) in [(2, (2, 5)), (1, (1, 4)), (3, (3, 1)), (100, (1, 0)), (100, (0, 0))] {
        let want = json!({"max_messages": most});
        let answer = client.redrive_topic(&topic, want).await.expect(200);
        assert_eq!(told(&answer), wanted);
        back += usize::try_from(wanted.0).unwrap();
        for (n, id) in sent.iter().enumerate() {
            let state = if n < back { "ready" } else { "dead" };
            assert_eq!(client.state(id).await, state, "message {n} of {back} redriven");
        }
    }
    counted(&client, &topic, &[("totals", "redriven", 7), ("counts", "ready", 7)]).await;
}

#[tokio::test]
async fn many_are_redriven_in_one_request() {
    let (client, topic) = (client().await, topic("redrive"));
    let sent = dead(&client, &topic, 1500).await;
    let answer = client.redrive_topic(&topic, json!({"max_messages": 1100})).await.expect(200);
    assert_eq!(told(&answer), (1100, 400));
    counted(&client, &topic, &[("counts", "ready", 1100), ("counts", "dead", 400)]).await;
    let answer = client.redrive_topic(&topic, json!({})).await.expect(200);
    assert_eq!(told(&answer), (400, 0));
    let mut held = Vec::new();
    while held.len() < sent.len() {
        let more = client.leased(&topic, json!({"max_messages": 1000})).await;
        assert!(!more.is_empty(), "{} of {}", held.len(), sent.len());
        held.extend(ids(&more));
    }
    held.sort();
    let mut wanted = sent;
    wanted.sort();
    assert_eq!(held, wanted);
    counted(&client, &topic, &[("totals", "redriven", 1500), ("totals", "dead", 1500)]).await;
}

/// The due times in force, which must be those of delayed or ready messages.
async fn due_times(client: &Client, ids: &[String]) -> Vec<i64> {
    let mut due = Vec::new();
    for id in ids {
        due.push(client.get(id).await.expect(200).instant("due_at"));
    }
    due
}

#[tokio::test]
async fn a_spread_makes_them_due_evenly_over_its_time() {
    for count in [10, 600] {
        let (client, topic) = (client().await, topic("redrive"));
        let mut sent = dead(&client, &topic, count).await;
        if count == 10 {
            client.redrive_topic(&topic, json!({})).await.expect(200);
            for id in &sent {
                client.delete(id).await.expect(204);
            }
            sent = dead_apart(&client, &topic, count).await;
        }
        let step = 10_000;
        let spread = step * i64::try_from(count).unwrap();
        let before = shared().await.redis.time_ms().await;
        let answer = client.redrive_topic(&topic, json!({"spread_ms": spread})).await.expect(200);
        let after = shared().await.redis.time_up_ms().await;
        assert_eq!(told(&answer), (i64::try_from(count).unwrap(), 0));
        let mut due = due_times(&client, &sent).await;
        assert!(count > 10 || due.is_sorted(), "the longest dead first: {due:?}");
        due.sort_unstable();
        assert!(due[0] >= before && due[0] <= after + 2 * step, "from now on: {before} {due:?}");
        assert!(*due.last().unwrap() <= after + spread, "within the spread: {after} {due:?}");
        // Steps of spread / n or of spread / (n − 1), give or take the time that it took.
        let slack = after - before + 2;
        let longest = spread / (i64::try_from(count).unwrap() - 1);
        for pair in due.windows(2) {
            let gap = pair[1] - pair[0];
            assert!((step - slack..=longest + slack).contains(&gap), "{gap} of {step}: {due:?}");
        }
        topic_in_balance(&client, &topic).await;
    }
}

#[tokio::test]
async fn those_whose_key_is_taken_stay() {
    let (client, topic) = (client().await, topic("redrive"));
    let keyed = |key: &str| json!({"payload": "old", "key": key});
    let mut sent = Vec::new();
    for key in ["taken", "free", "taken 2", "free 2"] {
        sent.push(killed(&client, &topic, keyed(key)).await);
    }
    let plain = killed(&client, &topic, json!({"payload": "plain"})).await;
    for key in ["taken", "taken 2"] {
        let message = json!({"payload": "new", "key": key, "delay_ms": 60_000});
        client.published(&topic, message).await;
    }
    let answer = client.redrive_topic(&topic, json!({})).await.expect(200);
    assert_eq!(told(&answer), (3, 2));
    for (n, state) in [(0, "dead"), (1, "ready"), (2, "dead"), (3, "ready")] {
        assert_eq!(client.state(&sent[n]).await, state, "{n}");
    }
    assert_eq!(client.state(&plain).await, "ready");
    for (n, key) in [(1, "free"), (3, "free 2")] {
        assert_eq!(client.get_by_key(&topic, key).await.expect(200).text("id"), sent[n]);
    }
    client.delete_by_key(&topic, "taken", "").await.expect(204);
    let answer = client.redrive_topic(&topic, json!({})).await.expect(200);
    assert_eq!(told(&answer), (1, 1));
    assert_eq!(client.get_by_key(&topic, "taken").await.expect(200).text("id"), sent[0]);
    counted(&client, &topic, &[("totals", "redriven", 4), ("counts", "dead", 1)]).await;
}

#[tokio::test]
async fn those_that_stay_do_not_hold_up_the_others() {
    let (client, topic) = (client().await, topic("redrive"));
    let mut stuck = Vec::new();
    for n in 0..3 {
        stuck.push(killed(&client, &topic, json!({"payload": 1, "key": format!("k{n}")})).await);
    }
    let others = dead_apart(&client, &topic, 3).await;
    for n in 0..3 {
        let message = json!({"payload": 2, "key": format!("k{n}"), "delay_ms": 60_000});
        client.published(&topic, message).await;
    }
    let (mut redriven, mut remaining) = (0, 6);
    for _ in 0..3 {
        let answer = client.redrive_topic(&topic, json!({"max_messages": 2})).await.expect(200);
        redriven += answer.number("redriven");
        remaining = answer.number("remaining");
    }
    assert_eq!((redriven, remaining), (3, 3), "whoever repeats gets on");
    for (ids, state) in [(&stuck, "dead"), (&others, "ready")] {
        for id in ids {
            assert_eq!(client.state(id).await, state);
        }
    }
    topic_in_balance(&client, &topic).await;
}

#[tokio::test]
async fn of_two_dead_ones_of_one_key_one_is_redriven() {
    let (client, topic) = (client().await, topic("redrive"));
    let mut sent = Vec::new();
    for n in 0..3 {
        sent.push(killed(&client, &topic, json!({"payload": n, "key": "k"})).await);
    }
    let answer = client.redrive_topic(&topic, json!({})).await.expect(200);
    assert_eq!(told(&answer), (1, 2));
    let mut live = Vec::new();
    for id in &sent {
        if client.state(id).await == "ready" {
            live.push(id.clone());
        }
    }
    let holder = client.get_by_key(&topic, "k").await.expect(200).text("id");
    assert_eq!(live, [holder]);
    counted(&client, &topic, &[("counts", "ready", 1), ("counts", "dead", 2)]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redrives_at_once_share_the_dead() {
    let (client, topic) = (client().await, topic("redrive"));
    dead(&client, &topic, 600).await;
    let calls = (0..4).map(|_| client.redrive_topic(&topic, json!({"max_messages": 200})));
    let answers = futures_util::future::join_all(calls).await;
    let redriven: i64 = answers.iter().map(|answer| answer.number("redriven")).sum();
    let seen = topic_in_balance(&client, &topic).await;
    assert_eq!((redriven, &seen["counts"]["dead"]), (600, &json!(0)), "{answers:?}");
    assert_eq!((&seen["totals"]["redriven"], &seen["counts"]["ready"]), (&json!(600), &json!(600)));
}
