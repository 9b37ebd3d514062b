//! What one instance is told holds at once at another that knew the topic before, dispatching or not; and a rate stays
//! a rate where hosts are dead.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::facts::{alone, pushed};
use crate::harness::*;

#[tokio::test]
async fn an_instance_that_knew_the_topic_otherwise_believes_redis() {
    let (redis, one) = alone(&["--no-dispatch"]).await;
    let other = Dueq::calling(&redis).args(["--no-dispatch"]).start().await;
    let (here, there) = (one.client(), other.client());
    let name = topic("told-elsewhere");
    let own = json!({"payload": 1, "callback": {"url": "http://nowhere.invalid/"}});
    for client in [&here, &there] {
        client.published(&name, json!({"payload": 1})).await;
        client.lease_one(&name).await;
    }
    here.update_topic(&name, json!({"push": {}})).await.expect(200);
    there.publish(&name, own.clone()).await.expect(201);
    there.publish(&name, json!({"payload": 1})).await.problem(422, "callback_url_missing");
    let batch = json!({"messages": [{"payload": 1}]});
    let batches = format!("/topics/{name}/messages/batch");
    let refused = there.post(&batches, &batch).await.problem(422, "callback_url_missing");
    assert_eq!(refused.json()["errors"][0]["field"], "messages[0].callback");

    let url = json!({"push": {"url": "http://nowhere.invalid/"}});
    here.update_topic(&name, url).await.expect(200);
    there.publish(&name, json!({"payload": 1})).await.expect(201);
    there.post(&batches, &batch).await.expect(200);
    let lease = format!("/topics/{name}/lease");
    there.post(&lease, &json!({})).await.problem(409, "topic_is_pushed");

    here.update_topic(&name, json!({"push": null})).await.expect(200);
    there.publish(&name, own).await.problem(422, "topic_not_pushed");
    there.lease_one(&name).await;
}

#[tokio::test]
async fn a_callback_into_a_topic_that_does_not_exist_makes_none() {
    let client = client().await;
    let name = topic("never-made");
    let own = json!({"payload": 1, "callback": {"url": "http://nowhere.invalid/"}});
    client.publish(&name, own.clone()).await.problem(422, "topic_not_pushed");
    let batch = json!({"messages": [{"payload": 1}, own]});
    let batches = format!("/topics/{name}/messages/batch");
    let refused = client.post(&batches, &batch).await.problem(422, "topic_not_pushed");
    assert_eq!(refused.json()["errors"][0]["field"], "messages[1].callback");
    client.topic(&name).await.problem(404, "topic_not_found");
}

#[tokio::test]
async fn messages_that_find_no_place_do_not_use_up_the_rate() {
    let (redis, dueq) = alone(&[]).await;
    let (client, dead, alive) = (dueq.client(), Receiver::start().await, Receiver::start().await);
    dead.answer(Reply::never());
    let push = json!({"rate_per_s": 20, "max_in_flight_per_host": 1, "timeout_ms": 60_000});
    let name = pushed(&client, "rated", push).await;
    for n in 0..100 {
        let callback = json!({"url": dead.url("/")});
        client.published(&name, json!({"payload": n, "callback": callback})).await;
    }
    let since = Instant::now();
    client.published(&name, json!({"payload": 1, "callback": {"url": alive.url("/")}})).await;
    alive.wait_for(1).await;
    // At 20 a second a hundred would take five.
    assert!(since.elapsed() < Duration::from_secs(3), "{:?}", since.elapsed());
    drop(redis);
}
