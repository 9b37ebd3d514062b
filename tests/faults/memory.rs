//! Redis at its maxmemory: what is there can be worked off, nothing new comes in, nothing is half
//! written.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::harness::{Dueq, Redis, eventually, text, topic};
use crate::proof::actor::{Actor, Options};
use crate::proof::audit::{Audit, connect};
use crate::proof::history::Outcome;
use crate::proof::load::{Load, only};

/// Publishes of every kind until Redis has refused ten on end; how many it took.
async fn fill(actor: &mut Actor) -> usize {
    let (mut taken, mut refused) = (0, 0);
    for n in (0..60u8).cycle() {
        let options = Options {
            delay: if n % 3 == 0 { 300 } else { 0 },
            priority: if n % 4 == 0 { 9 } else { 0 },
            max_attempts: n.is_multiple_of(5).then_some(20),
            headers: n % 7 == 0,
            padding: if n % 2 == 0 { 20_000 } else { 300 },
            ..Options::default()
        };
        match actor.publish(options).await {
            Outcome::Ok(_) => (taken, refused) = (taken + 1, 0),
            Outcome::Never => refused += 1,
            other => panic!("a publish at maxmemory was answered {other:?}"),
        }
        if refused == 10 {
            break;
        }
        assert!(taken < 5_000, "maxmemory is never reached");
    }
    taken
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_redis_takes_nothing_new_and_drains() {
    let redis = Redis::options().args(["--maxmemory", "8mb"]).start().await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    let mut load = Load::start(&only(dueq.client()), "full", 0, 0);
    let mut actor = load.actor(0);
    let deletions = topic("full-deletions");
    let unwanted = client.published(&deletions, json!({"payload": 1, "delay_ms": 60_000})).await;

    let taken = fill(&mut actor).await;
    assert!(taken > 50, "only {taken} messages fitted");
    let mut connection = connect(&redis.url()).await.unwrap();
    let audit = Audit::read(&mut connection, &load.topic).await.unwrap();
    assert_eq!(audit.violations(), Vec::<String>::new());
    assert_eq!(audit.bodies.len(), taken, "a refused publish left something");

    // From here on there is no room at all.
    let _: String = redis.command(&["CONFIG", "SET", "maxmemory", "1mb"]).await;
    let problem = client.publish(&load.topic, json!({"payload": "more"})).await;
    problem.problem(503, "redis_unavailable");
    client
        .publish(&topic("full-new"), json!({"payload": 1}))
        .await
        .problem(503, "redis_unavailable");
    let grants = actor.lease(20, 1_500, 1_000, &[]).await;
    let grants = grants.ok().expect("a lease at maxmemory").clone();
    assert!(grants.len() >= 4, "{grants:?}");
    assert!(actor.ack(&grants[0]).await.ok().is_some(), "ack");
    assert!(actor.nack(&grants[1], 100).await.ok().is_some(), "nack");
    assert!(actor.extend(&grants[2], 2_500).await.ok().is_some(), "extend");
    client.delete(&unwanted).await.expect(204);
    client.get(&grants[2].id).await.expect(200);

    // A cut connection is replaced, full or not, and so is an instance that was restarted; the
    // leases that nobody acks come back.
    let _: i64 = redis.command(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    sleep(Duration::from_millis(100)).await;
    let restarted = Dueq::on(&redis).start().await;
    let mut actor = Actor::new(&load.recorder, &only(restarted.client()), &load.topic, 1);
    let grants = actor.lease(1, 1_500, 1_000, &[]).await;
    let grant = &grants.ok().expect("a lease of the restarted instance")[0];
    assert!(actor.ack(grant).await.ok().is_some(), "its ack");
    load.verify(&redis).await;

    client.publish(&load.topic, json!({"payload": "more"})).await.problem(503, "redis_unavailable");
    let _: String = redis.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    client.published(&load.topic, json!({"payload": "after"})).await;
    let after = client.lease_one(&load.topic).await;
    assert_eq!(text(&after, "payload"), "after", "recovers by itself");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_move_at_maxmemory_stays_and_what_is_deleted_meanwhile_never_does() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    let (here, there) = (topic("mortal"), topic("dead"));
    client.new_topic(&there, json!({})).await;
    client.new_topic(&here, json!({"dead_topic": there, "dead_form": "raw"})).await;
    client.fill(&here, &vec![json!({"payload": "x".repeat(500)}); 12]).await;
    let held = client.leased(&here, json!({"max_messages": 12})).await;
    let _: String = redis.command(&["CONFIG", "SET", "maxmemory", "1mb"]).await;
    let (mut deleted, mut acked) = (0, 0);
    for (n, message) in held.iter().enumerate() {
        client.nack_leased(message, json!({"dead": true})).await.expect(200);
        sleep(Duration::from_millis(30)).await;
        let id = text(message, "id");
        // While an instance tries to move it, it is nowhere; then it is dead here again.
        if n % 3 == 0 {
            eventually("deleted", || async {
                (client.delete(id).await.status == 204).then_some(())
            })
            .await;
            deleted += 1;
        } else if n % 3 == 1 {
            eventually("redriven", || async {
                (client.redrive(id).await.status == 200).then_some(())
            })
            .await;
            client.ack_leased(&client.lease_one(&here).await).await.expect(204);
            acked += 1;
        }
    }
    let seen = client.topic(&there).await.expect(200).json();
    assert_eq!(seen["totals"]["published"], 0, "{seen}");
    let _: String = redis.command(&["CONFIG", "SET", "maxmemory", "0"]).await;
    eventually("the others moved", || async {
        (client.count(&there, "ready").await == 12 - deleted - acked).then_some(())
    })
    .await;
    sleep(Duration::from_millis(2_000)).await;
    assert_eq!(client.total(&there, "published").await, 12 - deleted - acked);
    let seen = client.topic(&here).await.expect(200).json();
    assert_eq!(
        (&seen["totals"]["deleted"], &seen["counts"]["dead"]),
        (&json!(12 - acked), &json!(0)),
        "{seen}"
    );
    let mut connection = connect(&redis.url()).await.unwrap();
    for name in [&here, &there] {
        let audit = Audit::read(&mut connection, name).await.unwrap();
        assert_eq!(audit.violations(), Vec::<String>::new(), "{name}");
    }
}
