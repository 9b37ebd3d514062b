//! What concerns all of a topic while a primary is away: a clear answer, and nothing is lost for it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Ground, ids, on_disk};
use crate::harness::*;

/// It says that Redis was away, or that the answer was lost.
#[track_caller]
fn is_clear(answer: Answer) {
    let code = answer.expect(503).text("code");
    assert!(["redis_unavailable", "outcome_unknown"].contains(&code.as_str()), "{code}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_whole_topic_answers_clearly_while_a_primary_is_away_and_loses_nothing() {
    let mut ground = Ground::start(on_disk()).await;
    let victim = (ground.registry + 1) % 3;
    let topic = ground.topic.clone();
    let (one, other) = (ground.one.client(), ground.other.client());
    // Dead ones, then delayed ones, in every partition.
    let dead: BTreeSet<String> = ground.fill().await.into_iter().collect();
    for some in ground.lease_all(&one).await.chunks(1000) {
        let nack =
            |m: &Value| json!({"id": m["id"], "lease_token": m["lease_token"], "dead": true});
        let nacks: Vec<Value> = some.iter().map(nack).collect();
        one.held_batch("nack", &nacks).await;
    }
    let message =
        |n: usize| json!({"payload": n, "key": format!("delayed-{n}"), "delay_ms": 3_600_000});
    let messages: Vec<Value> = (0..120).map(message).collect();
    let delayed: BTreeSet<String> = other.fill(&topic, &messages).await.into_iter().collect();
    let mut page = other.list(&topic, "state=dead&limit=50").await.expect(200).json();

    ground.lose(victim).await;
    for client in [&one, &other] {
        is_clear(client.topic(&topic).await);
        is_clear(client.list(&topic, "state=dead").await);
        let cursor = text(&page, "next_cursor").to_owned();
        is_clear(client.list(&topic, &format!("state=dead&limit=50&cursor={cursor}")).await);
        is_clear(client.forecast(&topic, 60_000, 5).await);
        is_clear(client.redrive_topic(&topic, json!({})).await);
        is_clear(client.purge(&topic, &["ready"]).await);
        is_clear(client.pause_topic(&topic).await);
        is_clear(client.resume_topic(&topic).await);
        is_clear(client.delete_topic(&topic, "").await);
        // The list of all topics has others to show.
        let all = client.get_path("/topics?limit=100").await;
        assert!([200, 503].contains(&all.status), "{all}");
    }

    ground.find_again(victim).await;
    let listed =
        async |state: &str| ids(&one.listed(&topic, &format!("state={state}&limit=1000")).await);
    // The redrives may have been carried out, in part.
    let (still, again) = (listed("dead").await, listed("ready").await);
    assert!(still.is_disjoint(&again));
    assert_eq!(&still | &again, dead);
    assert_eq!(listed("delayed").await, delayed);
    let seen = one.topic(&topic).await.expect(200).json();
    let counts = ["dead", "ready", "delayed"].map(|state| number(&seen["counts"], state));
    assert_eq!(counts, [still.len(), again.len(), delayed.len()].map(|n| n as i64));
    // The list goes on where it ended.
    let mut rest = BTreeSet::new();
    while let Some(cursor) = page["next_cursor"].as_str() {
        let query = format!("state=dead&limit=50&cursor={cursor}");
        page = one.list(&topic, &query).await.expect(200).json();
        rest.extend(ids(page["items"].as_array().unwrap()));
    }
    assert!(rest.is_subset(&still), "{rest:?}");
    // And it is all of one piece again.
    let redriven = one.redrive_topic(&topic, json!({})).await.expect(200);
    assert_eq!(redriven.number("redriven"), still.len() as i64, "{redriven}");
    one.resume_topic(&topic).await.expect(200);
    assert_eq!(ids(&ground.lease_all(&other).await), dead);
    let purged = one.purge(&topic, &["delayed"]).await.expect(200);
    assert_eq!(purged.number("purged"), 120, "{purged}");
}
