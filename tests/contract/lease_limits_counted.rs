//! `max_leased` counts the leases that there are: whatever ends one frees its place at once, and a limit that comes late counts
//! those from before.

use std::{
    sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst},
    time::Duration,
};

use serde_json::{Value, json};

use crate::harness::*;
use crate::lease_limits::spread;
use crate::partitions::{batch, split};

#[tokio::test]
async fn a_lease_that_a_purge_ends_or_that_gets_shorter_counts_no_longer() {
    let (redis, dueq) = (&shared().await.redis, instance().await);
    let client = dueq.client();
    for partitions in [1, 4] {
        let topic = split(&client, partitions, json!({"max_leased": 1})).await;
        spread(&client, &topic, 3).await;
        let want = json!({"lease_ms": 43_200_000, "wait_ms": 20_000});
        let held = client.leased(&topic, want.clone()).await;
        client.ack_leased(&held[0]).await.expect(204);
        // As SQS's ChangeMessageVisibility does.
        let sqs = async |action: &str, body: Value| {
            let target = format!("AmazonSQS.{action}");
            let headers =
                [("x-amz-target", target.as_str()), ("content-type", "application/x-amz-json-1.0")];
            let body = Some(body.to_string().into_bytes());
            let answer = client.send("POST", &format!("/sqs/{topic}"), &headers, body).await;
            answer.expect(200).json()
        };
        let got = sqs("ReceiveMessage", json!({"VisibilityTimeout": 43_200})).await;
        let handle = &got["Messages"][0]["ReceiptHandle"];
        let shorter = async {
            waiters(&client, 1).await;
            let change = json!({"ReceiptHandle": handle, "VisibilityTimeout": 1});
            sqs("ChangeMessageVisibility", change).await;
        };
        let (next, ()) = tokio::join!(client.leased(&topic, want.clone()), shorter);
        assert_eq!(next.len(), 1, "it is over after a second");
        sqs("PurgeQueue", json!({})).await;
        spread(&client, &topic, 1).await;
        assert_eq!(client.leased(&topic, want).await.len(), 1);
        // Nothing is written beside the leases themselves.
        let key = format!("dueq:{{{topic}:0}}:held");
        assert_eq!(redis.command::<i64>(&["EXISTS", &key]).await, 0, "{partitions}");
    }
}

#[tokio::test]
async fn an_extended_lease_that_runs_out_frees_its_place_at_once() {
    let client = client().await;
    for partitions in [1, 4] {
        let topic = split(&client, partitions, json!({"max_leased": 1})).await;
        spread(&client, &topic, 3).await;
        let held = client.leased(&topic, json!({"lease_ms": 1000})).await;
        let extended = client.extend_leased(&held[0], 1500).await.expect(200).json();
        let ends = instant_ms(text(&extended, "lease_expires_at"));
        let next = client.leased(&topic, json!({"wait_ms": 10_000})).await;
        let granted = instant_ms(text(&next[0], "lease_expires_at")) - 30_000;
        assert!((ends..ends + 500).contains(&granted), "{} ms late", granted - ends);
    }
}

#[tokio::test]
async fn a_limit_that_comes_under_load_counts_what_is_leased_and_refuses_nobody() {
    const MOST: i64 = 4;
    let (one, other) = (instance().await, instance().await);
    for partitions in [1, 4] {
        let topic = split(&one.client(), partitions, json!({})).await;
        for _ in 0..4 {
            batch(&one.client(), &topic, &vec![json!({"payload": 1}); 500]).await;
        }
        let (stop, strict) = (AtomicBool::new(false), AtomicBool::new(false));
        let held = AtomicI64::new(0);
        // Whatever else is answered fails the test.
        let consume = async |client: Client| {
            while !stop.load(SeqCst) {
                let want = json!({"max_messages": 3, "wait_ms": 20_000});
                let got = client.leased(&topic, want).await;
                let now = held.fetch_add(got.len() as i64, SeqCst) + got.len() as i64;
                assert!(now <= MOST || !strict.load(SeqCst), "{now} at once");
                for message in got {
                    held.fetch_sub(1, SeqCst);
                    client.ack_leased(&message).await.expect(204);
                }
            }
        };
        let operate = async {
            for limit in [json!(MOST), json!(null), json!(MOST)] {
                tokio::time::sleep(Duration::from_millis(200)).await;
                one.client().update_topic(&topic, json!({"max_leased": limit})).await.expect(200);
            }
            // What was leased before the limit may be more.
            eventually("no more leases than the limit", || async {
                (one.client().count(&topic, "leased").await <= MOST).then_some(())
            })
            .await;
            strict.store(true, SeqCst);
            tokio::time::sleep(Duration::from_millis(500)).await;
            stop.store(true, SeqCst);
            // So that none of them waits on.
            batch(&one.client(), &topic, &vec![json!({"payload": 1}); 100]).await;
        };
        let consumers =
            (0..8).map(|n| consume(if n % 2 == 0 { one.client() } else { other.client() }));
        tokio::join!(futures_util::future::join_all(consumers), operate);
        assert_eq!(one.client().total(&topic, "returned").await, 0);
    }
}

#[tokio::test]
async fn what_is_leased_when_a_limit_is_set_counts() {
    let client = client().await;
    for partitions in [1, 4] {
        let topic = split(&client, partitions, json!({})).await;
        spread(&client, &topic, 9).await;
        let held = client.leased(&topic, json!({"max_messages": 3, "wait_ms": 10_000})).await;
        assert_eq!(held.len(), 3);
        client.update_topic(&topic, json!({"max_leased": 4})).await.expect(200);
        assert_eq!(
            client.leased(&topic, json!({"max_messages": 9, "wait_ms": 10_000})).await.len(),
            1
        );
        client.update_topic(&topic, json!({"max_leased": 2})).await.expect(200);
        for message in &held[..2] {
            assert!(client.leased(&topic, json!({})).await.is_empty());
            client.ack_leased(message).await.expect(204);
        }
        assert!(client.leased(&topic, json!({})).await.is_empty(), "two are leased still");
        client.ack_leased(&held[2]).await.expect(204);
        assert_eq!(
            client.leased(&topic, json!({"max_messages": 9, "wait_ms": 10_000})).await.len(),
            1
        );
    }
}
