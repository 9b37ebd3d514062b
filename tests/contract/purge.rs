//! purgeTopic: the states that are named, and nothing else.

use serde_json::{Value, json};

use crate::harness::*;
use crate::topic_facts::{dead_messages, lease_over, topic_has};

/// A topic with messages in every state, of priority and without: the ids by state.
async fn mixed(client: &Client, topic: &str) -> Vec<(&'static str, Vec<String>)> {
    let dead = dead_messages(client, topic, 2).await;
    let mut leased = Vec::new();
    for priority in [0, 3] {
        client.published(topic, json!({"payload": 1, "priority": priority})).await;
        leased.push(text(&client.lease_one(topic).await, "id").to_owned());
    }
    let (mut ready, mut delayed) = (Vec::new(), Vec::new());
    for priority in [0, 0, 9] {
        let message = json!({"payload": 1, "priority": priority});
        ready.push(client.published(topic, message).await);
        let message = json!({"payload": 1, "priority": priority, "delay_ms": 60_000});
        delayed.push(client.published(topic, message).await);
    }
    vec![("ready", ready), ("delayed", delayed), ("leased", leased), ("dead", dead)]
}

#[tokio::test]
async fn the_states_named_go_and_the_others_stay() {
    let client = client().await;
    for states in [
        &["ready"][..],
        &["delayed"],
        &["dead"],
        &["ready", "dead"],
        &["dead", "delayed"],
        &["delayed", "dead", "ready"],
    ] {
        let topic = topic("purge");
        let messages = mixed(&client, &topic).await;
        let of_states: usize = messages
            .iter()
            .filter(|(state, _)| states.contains(state))
            .map(|(_, ids)| ids.len())
            .sum();
        let answer = client.purge(&topic, states).await.expect(200);
        assert_eq!(answer.json(), json!({"purged": of_states, "remaining": 0}), "{states:?}");
        for (state, ids) in &messages {
            for id in ids {
                if states.contains(state) {
                    client.get(id).await.problem(404, "message_not_found");
                } else {
                    assert_eq!(client.state(id).await, *state, "{states:?}");
                }
            }
            let count = if states.contains(state) { 0 } else { ids.len() };
            topic_has(&client, &topic, json!({"counts": {*state: count}})).await;
        }
        topic_has(&client, &topic, json!({"totals": {"purged": of_states, "deleted": 0}})).await;
        let again = client.purge(&topic, states).await.expect(200);
        assert_eq!(again.json(), json!({"purged": 0, "remaining": 0}));
    }
}

#[tokio::test]
async fn what_is_leased_stays_and_its_holder_can_end_it() {
    let (client, topic) = (client().await, topic("purge"));
    client.published(&topic, json!({"payload": 1})).await;
    let held = client.lease_one(&topic).await;
    client.purge(&topic, &["ready", "delayed", "dead"]).await.expect(200);
    client.extend_leased(&held, 60_000).await.expect(200);
    client.ack_leased(&held).await.expect(204);
    topic_has(&client, &topic, json!({"totals": {"acked": 1, "purged": 0}})).await;
}

#[tokio::test]
async fn what_is_leased_goes_only_with_force_and_its_group_goes_on() {
    let (client, topic) = (client().await, topic("purge"));
    for message in [
        json!({"payload": 1, "key": "k"}),
        json!({"payload": 1, "max_attempts": 1}),
        json!({"payload": 1, "group": "g"}),
        json!({"payload": 2, "group": "g"}),
    ] {
        client.published(&topic, message).await;
    }
    let held = client.leased(&topic, json!({"max_messages": 3})).await;
    client.purge(&topic, &["leased"]).await.problem(422, "invalid_input");
    let path = format!("/topics/{topic}/purge");
    for more in [json!({"q": "key:k"}), json!({"dry_run": true})] {
        let mut body = json!({"states": ["leased"], "force": true});
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        client.post(&path, &body).await.problem(422, "invalid_input");
    }
    let body = json!({"states": ["leased"], "force": true});
    let purged = client.post(&path, &body).await.expect(200);
    assert_eq!(purged.json(), json!({"purged": 3, "remaining": 0}));
    for held in &held {
        client.ack_leased(held).await.problem(404, "message_not_found");
    }
    assert_eq!(client.lease_one(&topic).await["payload"], 2, "the next of the group goes");
    client.published(&topic, json!({"payload": 1, "key": "k", "on_duplicate": "reject"})).await;
    let totals = json!({"purged": 3, "deleted_leased": 3, "granted": 4, "deleted": 0});
    topic_has(&client, &topic, json!({"totals": totals, "counts": {"leased": 1}})).await;
}

#[tokio::test]
async fn a_lease_that_is_over_is_purged_as_ready_or_dead() {
    let (client, topic) = (client().await, topic("purge"));
    for max_attempts in [10, 1] {
        client.published(&topic, json!({"payload": 1, "max_attempts": max_attempts})).await;
    }
    let held = client.leased(&topic, json!({"max_messages": 2, "lease_ms": 1000})).await;
    lease_over(&held[1]).await;
    assert_eq!(client.purge(&topic, &["ready"]).await.expect(200).number("purged"), 1);
    client.get(text(&held[0], "id")).await.problem(404, "message_not_found");
    assert_eq!(client.state(text(&held[1], "id")).await, "dead");
    assert_eq!(client.purge(&topic, &["dead"]).await.expect(200).number("purged"), 1);
    client.ack_leased(&held[0]).await.problem(404, "message_not_found");
    let totals = json!({"purged": 2, "lease_expired": 2, "dead": 1, "granted": 2});
    topic_has(&client, &topic, json!({"totals": totals})).await;
}

#[tokio::test]
async fn what_has_become_due_is_ready_and_no_longer_delayed() {
    let (client, topic) = (client().await, topic("purge"));
    for priority in [0, 4] {
        let message = json!({"payload": 1, "priority": priority, "delay_ms": 200});
        client.published(&topic, message).await;
    }
    tokio::time::sleep(std::time::Duration::from_millis(250)).await;
    assert_eq!(client.purge(&topic, &["delayed"]).await.expect(200).number("purged"), 0);
    assert_eq!(client.purge(&topic, &["ready"]).await.expect(200).number("purged"), 2);
}

#[tokio::test]
async fn a_purge_frees_the_keys() {
    let (client, topic) = (client().await, topic("purge"));
    let message =
        |key: &str, delay_ms: i64| json!({"payload": 1, "key": key, "delay_ms": delay_ms});
    for (key, delay_ms) in [("now", 0), ("later", 60_000)] {
        client.published(&topic, message(key, delay_ms)).await;
        assert_eq!(
            client.publish(&topic, message(key, 0)).await.expect(200).json()["duplicate"],
            true
        );
    }
    client.purge(&topic, &["ready", "delayed"]).await.expect(200);
    for key in ["now", "later"] {
        let path = format!("/topics/{topic}/keys/{key}");
        client.get_path(&path).await.problem(404, "message_not_found");
        let again = client.publish(&topic, message(key, 0)).await.expect(201).json();
        assert_eq!(again["duplicate"], false);
    }
}

#[tokio::test]
async fn what_an_idempotency_key_answered_it_answers_after_a_purge() {
    let (client, topic) = (client().await, topic("purge"));
    let message = json!({"payload": 1, "idempotency_key": "once"});
    let id = client.published(&topic, message.clone()).await;
    client.purge(&topic, &["ready"]).await.expect(200);
    let again = client.publish(&topic, message).await.expect(200).json();
    assert_eq!((&again["id"], &again["duplicate"]), (&json!(id), &json!(true)));
    topic_has(&client, &topic, json!({"counts": {"ready": 0}, "totals": {"published": 1}})).await;
}

#[tokio::test]
async fn thousands_go_and_what_remains_is_told() {
    let (client, topic) = (client().await, topic("purge"));
    let message = |n: i64| {
        let delay_ms = if n % 3 == 0 { 60_000 } else { 0 };
        json!({"payload": n, "priority": n % 2, "delay_ms": delay_ms, "key": format!("k{n}")})
    };
    let messages: Vec<Value> = (0..3000).map(message).collect();
    client.fill(&topic, &messages).await;
    let (mut purged, mut rounds) = (0, 0);
    loop {
        let answer = client.purge(&topic, &["ready", "delayed"]).await.expect(200);
        purged += answer.number("purged");
        let seen = topic_has(&client, &topic, json!({"totals": {"purged": purged}})).await;
        let left = number(&seen["counts"], "ready") + number(&seen["counts"], "delayed");
        assert_eq!(answer.number("remaining"), left);
        rounds += 1;
        if left == 0 {
            break;
        }
        assert!(rounds < 100, "{purged} after {rounds} purges");
    }
    assert_eq!(purged, 3000);
    client.fill(&topic, &messages[..10]).await;
}

#[tokio::test]
async fn a_purge_while_others_publish_and_lease_stays_in_balance() {
    let (here, there) = (instance().await, instance().await);
    let (here, there, topic) = (here.client(), there.client(), topic("purge"));
    here.new_topic(&topic, json!({})).await;
    let work = async {
        for n in 0..60 {
            here.published(&topic, json!({"payload": n, "priority": n % 2})).await;
            for held in there.leased(&topic, json!({})).await {
                let done = here.ack_leased(&held).await;
                assert_eq!(done.status, 204, "a leased message is not purged: {done}");
            }
        }
    };
    let purges = async {
        for _ in 0..30 {
            there.purge(&topic, &["ready", "delayed", "dead"]).await.expect(200);
            crate::facts::topic_in_balance(&there, &topic).await;
        }
    };
    tokio::join!(work, purges);
    crate::facts::topic_in_balance(&here, &topic).await;
}

#[tokio::test]
async fn what_gets_ready_since_others_were_purged_stays() {
    const GROUPS: usize = 200;
    let (client, topic) = (client().await, topic("purge"));
    dead_messages(&client, &topic, 1).await;
    for payload in 0..3 {
        let message = |group: usize| json!({"payload": payload, "group": group.to_string()});
        client.fill(&topic, &(0..GROUPS).map(message).collect::<Vec<_>>()).await;
    }
    let purged = client.purge(&topic, &["ready", "dead"]).await.expect(200);
    assert_eq!(purged.json(), json!({"purged": GROUPS + 1, "remaining": 0}));
    let counts = json!({"counts": {"ready": GROUPS, "blocked": GROUPS, "dead": 0}});
    topic_has(&client, &topic, counts).await;
    for held in client.leased(&topic, json!({"max_messages": GROUPS})).await {
        assert_eq!(held["payload"], 1);
    }
}

#[tokio::test]
async fn what_is_blocked_is_purged_with_what_blocks_it() {
    let client = client().await;
    let (topic, purged) = loop {
        let topic = topic("purge");
        client.new_topic(&topic, json!({"group_concurrency": 1})).await;
        client.published(&topic, json!({"payload": 1, "group": "g", "delay_ms": 600_000})).await;
        for _ in 0..3 {
            client.published(&topic, json!({"payload": 1, "group": "g"})).await;
        }
        let purge = json!({"states": ["delayed"], "q": "group:g"});
        let purged = client.post(&format!("/topics/{topic}/purge"), &purge).await.expect(200);
        // A slow machine cuts it short, and then the next of the group is ready.
        if purged.json().get("next_cursor").is_none() {
            break (topic, purged.json());
        }
    };
    assert_eq!(purged, json!({"purged": 4, "remaining": 0, "matched": 4, "scanned": 4}));
    crate::facts::topic_in_balance(&client, &topic).await;
}
