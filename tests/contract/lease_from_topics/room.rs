//! One consumer in several rooms: who is served first, and what it leaves when it goes.

use super::*;

/// Starts a long poll by hand, which can be dropped like a client that goes away.
async fn poll_by_hand(client: &Client, topics: &[String]) -> Wire {
    let mut wire = Wire::connect(&client.addr()).await;
    let body = json!({"topics": topics, "wait_ms": 30_000}).to_string();
    let head = format!(
        "POST /lease HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}",
        client.addr(),
        body.len()
    );
    assert!(wire.request(&head, body.as_bytes()).await);
    wire
}

#[tokio::test]
async fn the_oldest_poll_is_served_first_in_each_room() {
    let dueq = instance().await;
    let (client, topics) = (dueq.client(), names(2));
    let mut polls = Vec::new();
    for n in 1..=6 {
        // Some wait for one of the topics only.
        let of = if n % 3 == 0 { &topics[1..] } else { &topics[..] };
        polls.push(poll(&client, of, 20_000));
        waiters(&client, n).await;
    }
    for (n, poll) in polls.into_iter().enumerate() {
        let topic = &topics[usize::from(n % 2 == 0 || n % 3 == 2)];
        client.published(topic, json!({"payload": n})).await;
        let (messages, _) = poll.await.unwrap();
        assert_eq!(messages[0]["payload"], n, "message {n} goes to poll {n}");
        waiters(&client, 5 - n as u32).await;
    }
}

#[tokio::test]
async fn a_poll_that_was_served_by_one_topic_takes_nothing_from_another() {
    let dueq = instance().await;
    let (client, topics) = (dueq.client(), names(2));
    for n in 0..40 {
        let poll = poll(&client, &topics, 20_000);
        waiters(&client, 1).await;
        let mut sent: Vec<_> =
            join_all(topics.iter().map(|topic| client.published(topic, json!({"payload": n}))))
                .await;
        let published = Instant::now();
        let (mut messages, woken) = poll.await.unwrap();
        assert!(woken.saturating_duration_since(published) < WOKEN);
        assert_eq!(messages.len(), 1);
        let start = Instant::now();
        messages.extend(leased(&client, &topics, json!({"wait_ms": 5000})).await);
        assert!(start.elapsed() < WOKEN, "it was nobody's: {:?}", start.elapsed());
        let mut got = ids(&messages);
        sent.sort();
        got.sort();
        assert_eq!(got, sent);
        assert!(messages.iter().all(|message| message["attempt"] == 1), "{messages:?}");
        for message in &messages {
            client.ack_leased(message).await.expect(204);
        }
    }
}

#[tokio::test]
async fn a_message_is_served_while_another_room_asks_in_vain() {
    let dueq = instance().await;
    let (client, topics) = (dueq.client(), names(3));
    for n in 0..60 {
        let poll = poll(&client, &topics, 20_000);
        waiters(&client, 1).await;
        // Each wakes its room, since it is due before those that the room knows.
        let later = json!({"payload": "later", "delay_ms": 600_000 - n * 5000});
        let (_, _, id) = tokio::join!(
            client.published(&topics[0], later.clone()),
            client.published(&topics[1], later),
            client.published(&topics[2], json!({"payload": "now"})),
        );
        let published = Instant::now();
        let (messages, woken) = poll.await.unwrap();
        assert_eq!(ids(&messages), [id]);
        let time = woken.saturating_duration_since(published);
        assert!(time < WOKEN, "{time:?}");
        // Its lease may end before the last round.
        client.ack_leased(&messages[0]).await.expect(204);
    }
}

#[tokio::test]
async fn polls_that_wait_for_nothing_leave_redis_alone() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let (client, topics) = (dueq.client(), names(4));
    let polls: Vec<_> = (0..150).map(|_| poll(&client, &topics, 60_000)).collect();
    waiters(&client, 150).await;
    for topic in &topics {
        client.published(topic, json!({"payload": 1, "delay_ms": 60_000})).await;
    }
    let mut quiet = Vec::new();
    for _ in 0..3 {
        let before = scripts(&redis).await;
        assert!(before > 0);
        tokio::time::sleep(Duration::from_millis(300)).await;
        quiet.push(scripts(&redis).await - before);
    }
    assert!(quiet.iter().any(|calls| *calls < 10), "scripts in 300 ms: {quiet:?}");
    polls.iter().for_each(JoinHandle::abort);
}

/// Scripts that this Redis has run.
async fn scripts(redis: &Redis) -> u64 {
    let stats: String = redis.command(&["INFO", "commandstats"]).await;
    let calls = |line: &str| -> Option<u64> {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        let calls = rest.split(',').next()?.parse().ok()?;
        matches!(name, "evalsha" | "eval" | "fcall").then_some(calls)
    };
    stats.lines().filter_map(calls).sum()
}

#[tokio::test]
async fn a_client_that_goes_away_leaves_all_rooms() {
    let dueq = instance().await;
    let (client, topics) = (dueq.client(), names(3));
    let wires = [poll_by_hand(&client, &topics).await, poll_by_hand(&client, &topics[1..]).await];
    waiters(&client, 2).await;
    drop(wires);
    waiters(&client, 0).await;
    for topic in &topics {
        client.published(topic, json!({"payload": 1})).await;
        let message = client.lease_one(topic).await;
        assert_eq!(message["attempt"], 1, "nobody had it meanwhile");
    }
}

#[tokio::test]
async fn what_was_granted_to_a_client_that_is_gone_is_ready_again_at_once() {
    let dueq = instance().await;
    let (client, topics) = (dueq.client(), names(3));
    for n in 0..30 {
        let wire = poll_by_hand(&client, &topics).await;
        waiters(&client, 1).await;
        drop(wire);
        let topic = &topics[n % 3];
        let sends = topics.iter().map(|topic| client.published(topic, json!({"payload": n})));
        let sent = join_all(sends).await;
        let start = Instant::now();
        let message = client.lease_one(topic).await;
        assert_eq!(message["id"], sent[n % 3]);
        assert!(start.elapsed() < WOKEN, "{:?}", start.elapsed());
        assert_eq!(message["attempts_left"], 9, "a grant that nobody saw does not count");
        client.ack_leased(&message).await.expect(204);
        for other in topics.iter().filter(|other| *other != topic) {
            client.ack_leased(&client.lease_one(other).await).await.expect(204);
        }
    }
    for topic in &topics {
        assert_eq!(topic_in_balance(&client, topic).await["totals"]["acked"], 30);
    }
}

#[tokio::test]
async fn a_crowd_that_goes_away_takes_nothing_along() {
    let dueq = instance().await;
    let (client, topics) = (dueq.client(), names(3));
    for _ in 0..3 {
        let crowd = join_all((0..100).map(|_| poll_by_hand(&client, &topics))).await;
        waiters(&client, 100).await;
        drop(crowd);
        let sends = (0..60).map(|n| client.published(&topics[n % 3], json!({"payload": n})));
        let (mut sent, start) = (join_all(sends).await, Instant::now());
        let mut got = Vec::new();
        while got.len() < sent.len() && start.elapsed() < WOKEN {
            let want = json!({"max_messages": 100, "wait_ms": 200});
            got.extend(ids(&leased(&client, &topics, want).await));
        }
        sent.sort();
        got.sort();
        assert_eq!(got, sent, "{} of 60 came back", got.len());
    }
    for topic in &topics {
        topic_in_balance(&client, topic).await;
    }
}

#[tokio::test]
async fn the_order_holds_while_others_wait_for_the_first_topic() {
    let (here, there) = (instance().await, instance().await);
    let (here, there, topics) = (here.client(), there.client(), names(2));
    here.published(&topics[1], json!({"payload": "bulk"})).await;
    for _ in 0..40 {
        let first = poll(&here, &topics[..1], 20_000);
        waiters(&here, 1).await;
        let urgent = |client: Client| {
            let topic = topics[0].clone();
            async move { client.published(&topic, json!({"payload": "urgent"})).await }
        };
        tokio::join!(urgent(here.clone()), urgent(there.clone()));
        let messages = leased(&here, &topics, json!({"wait_ms": 5000})).await;
        assert_eq!(messages[0]["payload"], "urgent");
        let first = first.await.unwrap().0;
        assert_eq!(first.len(), 1);
        // Their leases may end before the last round.
        for message in messages.iter().chain(&first) {
            here.ack_leased(message).await.expect(204);
        }
    }
}

#[tokio::test]
async fn a_poll_of_several_topics_passes_those_that_others_wait_for() {
    let dueq = instance().await;
    let (client, topics) = (dueq.client(), names(8));
    let polls: Vec<_> =
        topics[..7].iter().map(|t| poll(&client, std::slice::from_ref(t), 20_000)).collect();
    waiters(&client, 7).await;
    client.published(&topics[7], json!({"payload": "last"})).await;
    let start = Instant::now();
    let messages = leased(&client, &topics, json!({"wait_ms": 5000})).await;
    assert_eq!(messages[0]["payload"], "last");
    assert!(start.elapsed() < WOKEN, "{:?}", start.elapsed());
    polls.iter().for_each(JoinHandle::abort);
}

#[tokio::test]
async fn a_poll_outlives_the_loss_of_every_connection_to_redis() {
    let redis = Redis::start().await;
    let (here, there) = (Dueq::on(&redis).start().await, Dueq::on(&redis).start().await);
    let (here, there, topics) = (here.client(), there.client(), names(3));
    for (kind, topic) in ["pubsub", "normal"].into_iter().zip(&topics) {
        let poll = poll(&there, &topics, 30_000);
        waiters(&there, 1).await;
        let _: i64 = redis.command(&["CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes"]).await;
        // Through the other instance, whose own connections are gone as well.
        eventually("a publish", || async {
            let answer = here.publish(topic, json!({"payload": kind})).await;
            (answer.status == 201).then_some(())
        })
        .await;
        let published = Instant::now();
        let (messages, woken) = poll.await.unwrap();
        assert_eq!(messages.len(), 1, "after the loss of {kind}");
        let time = woken.saturating_duration_since(published);
        assert!(time < Duration::from_secs(5), "{time:?} after the loss of {kind}");
        // Of publishes whose outcome was lost; and a lane may find only now that its connection is gone.
        eventually("empty topics", || async {
            let answer = here.post("/lease", &json!({"topics": topics})).await;
            let empty = answer.status == 200 && answer.json()["messages"] == json!([]);
            empty.then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn a_stop_answers_every_poll_empty() {
    let mut dueq = instance().await;
    let (client, topics) = (dueq.client(), names(5));
    let polls: Vec<_> = (0..10).map(|_| poll(&client, &topics, 30_000)).collect();
    waiters(&client, 10).await;
    let start = Instant::now();
    let (code, answers) = tokio::join!(dueq.term(), join_all(polls));
    assert_eq!(code, 0, "{}", dueq.log());
    assert!(answers.into_iter().all(|answer| answer.unwrap().0.is_empty()));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}
