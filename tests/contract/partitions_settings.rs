//! Settings and changes of topics of several partitions: a topic is paused, limited, deleted and made anew as a whole.

use serde_json::{Value, json};

use crate::facts::ids;
use crate::harness::*;
use crate::partitions::{batch, keyed, lease_all, sorted, split};

#[tokio::test]
async fn what_a_small_max_bytes_leaves_behind_is_leased_next() {
    let client = client().await;
    for priority in [0, 5] {
        let topic = split(&client, 2, json!({})).await;
        let message = json!({"payload": "x".repeat(600), "priority": priority});
        batch(&client, &topic, &vec![message; 8]).await;
        let mut want = json!({"max_messages": 10, "max_bytes": 1000});
        for wait_ms in [0, 0, 0, 0, 9000, 9000, 9000, 9000] {
            want["wait_ms"] = json!(wait_ms);
            assert_eq!(client.leased(&topic, want.clone()).await.len(), 1, "{priority} {wait_ms}");
        }
    }
}

#[tokio::test]
async fn of_many_with_a_small_max_bytes_one_gets_the_only_message() {
    for partitions in [1, 2] {
        let mut dueq = instance().await;
        let client = dueq.client();
        let topic = split(&client, partitions, json!({})).await;
        let want = json!({"max_bytes": 1000, "wait_ms": 60_000});
        let polls = (0..8).map(|_| client.leased(&topic, want.clone()));
        let polls = futures_util::future::join_all(polls);
        let publish = async {
            waiters(&client, 8).await;
            client.published(&topic, json!({"payload": 1})).await;
            waiters(&client, 7).await;
            // Which answers those that wait on.
            assert_eq!(dueq.term().await, 0, "{}", dueq.log());
        };
        let (polls, ()) = tokio::join!(polls, publish);
        let got: Vec<usize> = polls.iter().map(Vec::len).filter(|got| *got > 0).collect();
        assert_eq!(got, [1], "{partitions}");
        let client = shared().await.dueq.client();
        assert_eq!(client.total(&topic, "granted").await, 1);
    }
}

#[tokio::test]
async fn a_topic_made_anew_with_other_partitions_hides_nothing() {
    let (one, other) = (instance().await, instance().await);
    let (one, other) = (one.client(), other.client());
    for (before, after) in [(1, 16), (16, 1), (16, 4)] {
        for wait_ms in [0, 9000] {
            let topic = split(&one, before, json!({})).await;
            let want = json!({"wait_ms": wait_ms});
            assert!(other.leased(&topic, json!({})).await.is_empty());
            one.delete_topic(&topic, "").await.expect(204);
            one.new_topic(&topic, json!({"partitions": after})).await;
            one.published(&topic, json!({"payload": 1, "key": "order-7"})).await;
            assert_eq!(other.leased(&topic, want).await.len(), 1, "{before} {after} {wait_ms}");
        }
    }
}

#[tokio::test]
async fn a_pause_is_no_new_revision_and_outlives_a_change() {
    let client = client().await;
    let topic = split(&client, 4, json!({})).await;
    let before = client.topic(&topic).await.expect(200).json();
    keyed(&client, &topic, 20, json!({})).await;
    client.pause_topic(&topic).await.expect(200);
    let paused = client.topic(&topic).await.expect(200).json();
    assert_eq!((&paused["paused"], &paused["revision"]), (&json!(true), &before["revision"]));
    let tag = json!({"revision": paused["revision"]});
    let change = json!({"lease_ms": 7000});
    client.topic_if("PATCH", &topic, Some(&etag(&tag)), &change).await.expect(200);
    client
        .topic_if("PATCH", &topic, Some(&etag(&tag)), &change)
        .await
        .problem(412, "revision_mismatch");
    client.put_topic(&topic, json!({"lease_ms": 9000})).await.expect(200);
    let seen = client.topic(&topic).await.expect(200).json();
    assert_eq!((&seen["paused"], &seen["config"]["partitions"]), (&json!(true), &json!(4)));
    assert_ne!(seen["revision"], before["revision"]);
    assert!(client.leased(&topic, json!({"max_messages": 100})).await.is_empty());
    client.resume_topic(&topic).await.expect(200);
    assert_eq!(lease_all(&client, &topic).await.len(), 20);
}

#[tokio::test]
async fn a_topic_is_paused_and_deleted_as_a_whole_and_made_anew() {
    let client = client().await;
    let topic = split(&client, 16, json!({})).await;
    let sent = keyed(&client, &topic, 60, json!({})).await;
    client.pause_topic(&topic).await.expect(200);
    assert_eq!(client.topic(&topic).await.expect(200).json()["paused"], true);
    assert!(client.leased(&topic, json!({"max_messages": 1000})).await.is_empty());
    client.resume_topic(&topic).await.expect(200);
    assert_eq!(lease_all(&client, &topic).await.len(), 60);
    client.delete_topic(&topic, "").await.problem(409, "topic_not_empty");
    client.delete_topic(&topic, "?force=true").await.expect(204);
    client.topic(&topic).await.problem(404, "topic_not_found");
    for id in &sent {
        client.get(id).await.problem(404, "message_not_found");
    }
    // The same name, with other partitions: nothing of the old topic is in it.
    client.new_topic(&topic, json!({"partitions": 4})).await;
    assert!(client.leased(&topic, json!({"max_messages": 1000})).await.is_empty());
    let fresh = keyed(&client, &topic, 60, json!({})).await;
    assert_eq!(sorted(&ids(&lease_all(&client, &topic).await)), sorted(&fresh));
}

#[tokio::test]
async fn a_deletion_and_publishes_beside_it_lose_nothing() {
    let (one, other) = (instance().await, instance().await);
    let (one, other) = (one.client(), other.client());
    for _ in 0..10 {
        let topic = split(&one, 4, json!({})).await;
        let publishes = async {
            let mut sent = Vec::new();
            for n in 0..20 {
                sent.push(
                    other.published(&topic, json!({"payload": n, "key": format!("{n}")})).await,
                );
            }
            sent
        };
        let (deleted, sent) = tokio::join!(one.delete_topic(&topic, ""), publishes);
        assert!([204, 409].contains(&deleted.status), "{deleted}");
        let held = lease_all(&one, &topic).await;
        assert_eq!(sorted(&ids(&held)), sorted(&sent), "{deleted}");
    }
}

#[tokio::test]
async fn a_bound_is_shared_by_all_partitions() {
    let client = client().await;
    let topic = split(&client, 4, json!({"max_messages": 66})).await;
    let mut stored = 0;
    for n in 0..200 {
        let answer = client.publish(&topic, json!({"payload": n, "key": format!("{n}")})).await;
        stored += i64::from(answer.status == 201);
    }
    assert_eq!((stored, client.count(&topic, "ready").await), (66, 66));
}

#[tokio::test]
async fn no_partition_is_full_while_there_is_room_in_others() {
    let client = client().await;
    for on_full in ["reject", "drop_oldest"] {
        let config = json!({"max_messages": 256, "on_full": on_full});
        let topic = split(&client, 16, config).await;
        for n in 0..128 {
            client.published(&topic, json!({"payload": n})).await;
        }
        let rest: Vec<Value> = (128..256).map(|n| json!({"payload": n})).collect();
        batch(&client, &topic, &rest).await;
        assert_eq!(client.count(&topic, "ready").await, 256);
    }
}

#[tokio::test]
async fn partitions_stay_and_never_become_fewer() {
    let client = client().await;
    let four = split(&client, 4, json!({"max_messages": 64})).await;
    let one = topic("split");
    client.new_topic(&one, json!({})).await;
    let put = client.put_topic(&four, json!({"lease_ms": 2000})).await.expect(200).json();
    assert_eq!(
        (&put["config"]["partitions"], &put["config"]["lease_ms"]),
        (&json!(4), &json!(2000))
    );
    client.put_topic(&four, json!({"partitions": 4})).await.expect(200);
    client.reconfigure(&four, json!({"max_messages": 64, "partitions": 4})).await;
    for (topic, partitions) in
        [(&four, json!(null)), (&four, json!(2)), (&four, json!(1)), (&one, json!(null))]
    {
        for method in ["PUT", "PATCH"] {
            let body = json!({"partitions": partitions});
            let answer = client.send_json(method, &format!("/topics/{topic}"), &body).await;
            answer.refused(422).field("partitions");
        }
    }
    for body in [
        json!({"partitions": 4, "max_messages": 63}),
        json!({"max_messages": 63}),
        json!({"partitions": 8, "max_messages": 64}),
    ] {
        client.put_topic(&four, body).await.refused(422).field("max_messages");
    }
    let new = topic("split");
    let answer = client.put_topic(&new, json!({"partitions": 256, "max_messages": 4095})).await;
    answer.refused(422).field("max_messages");
    client.topic(&new).await.problem(404, "topic_not_found");
}
