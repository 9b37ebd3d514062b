//! Failovers that real Sentinels lead: the primary killed, frozen, and sent away by an operator. Requests are answered in
//! words meanwhile, and every instance is at the new primary at once, also one that has nothing to do there.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::harness::*;
use crate::publisher::{Published, Publisher};

const NAME: &str = "orders";

/// Sentinels over a primary and its replica.
struct Ground {
    servers: [Redis; 2],
    sentinels: Sentinels,
}

impl Ground {
    async fn start(down_after: u64, options: RedisOptions) -> Ground {
        let servers = pair(options).await;
        let [primary, replica] = &servers;
        let replicas = vec![replica.port()];
        let group = Group { replicas, down_after, ..Group::of(NAME, primary) };
        let sentinels = Sentinels::start(3, &[group], "").await;
        sentinels.know_well(NAME, 1).await;
        Ground { servers, sentinels }
    }

    fn launch(&self) -> Launch {
        Dueq::at(&self.sentinels.urls())
    }
}

/// When this server first takes a write, looked at every few ms.
fn first_write(server: &Redis) -> JoinHandle<Instant> {
    let url = server.url();
    tokio::spawn(async move {
        loop {
            if let Ok(client) = deadpool_redis::redis::Client::open(url.as_str())
                && let Ok(mut connection) = client.get_multiplexed_async_connection().await
            {
                let mut set = deadpool_redis::redis::cmd("SET");
                let set = set.arg("probe").arg(1);
                while let Err(error) = set.query_async::<()>(&mut connection).await {
                    if error.is_connection_dropped() {
                        break;
                    }
                    tokio::time::sleep(Duration::from_millis(3)).await;
                }
                if set.query_async::<()>(&mut connection).await.is_ok() {
                    return Instant::now();
                }
            }
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    })
}

/// Demands that of what was answered 2xx before the switch a prefix is left, whatever the replica was behind, and all of
/// what was answered after it.
async fn a_prefix_is_left(client: &Client, done: &Published, switched: Instant) {
    let mut lost = 0;
    for (at, id) in &done.taken {
        let gone = client.get(id).await.status == 404;
        assert!(!gone || *at < switched, "{id} was answered after the switch");
        assert!(gone || lost == 0 || *at >= switched, "no prefix: {id} is there");
        lost += usize::from(gone);
    }
    println!("{lost} of {} are lost; other answers: {:?}", done.taken.len(), done.refused);
}

/// No connection of an instance is left there, that of a subscription included.
async fn is_left(server: &Redis) {
    eventually("every instance has left", || async {
        let list: String = server.command(&["CLIENT", "LIST"]).await;
        // The one that asks, the watch, Sentinels, replicas and the primary.
        let others =
            ["cmd=client", "cmd=slowlog", "name=sentinel", "cmd=replconf", "cmd=psync", "flags=M"];
        let other = |line: &str| others.iter().any(|mark| line.contains(mark));
        list.lines().all(other).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_is_killed_is_replaced_for_busy_and_for_idle_instances() {
    let mut ground = Ground::start(1_500, Redis::options()).await;
    let (busy, idle) = (ground.launch().start().await, ground.launch().start().await);
    let (name, waiting) = (&topic("killed"), &topic("killed-waiting"));
    busy.client().new_topic(waiting, json!({})).await;
    let mut poll = Wire::long_poll(idle.addr(), waiting).await;
    waiters(&idle.client(), 1).await;
    let publisher = Publisher::start(busy.client(), name);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(300) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let [primary, replica] = &mut ground.servers;
    let writable = first_write(replica);
    primary.kill9();
    let writable = writable.await.unwrap();
    // The instance that had nothing to do is there, too.
    eventually("the idle instance has moved", || async {
        idle.log().contains("the primary has moved").then_some(())
    })
    .await;
    let first = idle.client().publish(&topic("killed-idle"), json!({"payload": 1})).await;
    assert!(first.status == 201 || first.status == 503, "{first}");
    works_again(&busy.client()).await;
    busy.client().published(waiting, json!({"payload": "woken"})).await;
    let woken = poll.answer("the poll", Duration::from_secs(20)).await.unwrap().expect(200);
    assert_eq!(woken.json()["messages"][0]["payload"], "woken");
    let done = publisher.finish().await;
    let again = done.again.expect("it is down for a while").saturating_duration_since(writable);
    println!("first 2xx after {again:?}");
    // A tenth of a second, on a machine that has time; the guide has the figures.
    assert!(again < Duration::from_secs(10), "first 2xx after {again:?}");
    a_prefix_is_left(&busy.client(), &done, writable).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_is_frozen_takes_nothing_when_it_is_back() {
    let guard = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"];
    let mut ground = Ground::start(1_500, Redis::options().args(guard)).await;
    let dueq = ground.launch().start().await;
    let name = &topic("frozen");
    let ready = dueq.client().get_path("/readyz").await.expect(200).json();
    assert_eq!((&ready["status"], &ready["warnings"]), (&json!("ok"), &Value::Null));
    dueq.client().published(name, json!({"payload": 1})).await;
    let publisher = Publisher::start(dueq.client(), name);
    tokio::time::sleep(Duration::from_millis(200)).await;
    ground.servers[0].pause();
    let new = ground.servers[1].port();
    for member in 0..3 {
        ground.sentinels.names(member, NAME, new).await;
    }
    eventually("the instance has moved", || async {
        dueq.log().contains("the primary has moved").then_some(())
    })
    .await;
    let switched = Instant::now();
    ground.servers[0].resume();
    // It takes itself for the primary until a Sentinel tells it otherwise, and has no replica. So has the other one.
    let old: deadpool_redis::redis::RedisResult<()> = deadpool_redis::redis::cmd("SET")
        .arg("probe")
        .arg(1)
        .query_async(&mut ground.servers[0].connection().await)
        .await;
    let refused = old.unwrap_err();
    assert!(matches!(refused.code(), Some("NOREPLICAS" | "READONLY")), "{refused}");
    follow(&ground.servers[0], &ground.servers[1]).await;
    works_again(&dueq.client()).await;
    is_left(&ground.servers[0]).await;
    let done = publisher.finish().await;
    a_prefix_is_left(&dueq.client(), &done, switched).await;
}

/// The replica gets nothing more of what the primary does.
async fn cut_off(primary: &Redis) {
    let _: () = primary.command(&["ACL", "SETUSER", "default", "-psync", "-sync"]).await;
    let _: i64 = primary.command(&["CLIENT", "KILL", "TYPE", "replica"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn planned_failovers_there_and_back_leave_no_right_to_lost_grants() {
    let mut ground = Ground::start(60_000, Redis::options()).await;
    let dueq = [ground.launch().start().await, ground.launch().start().await];
    let clients: Vec<Client> = dueq.iter().map(Dueq::client).collect();
    let name = &topic("planned");
    let kept = clients[0].published(name, json!({"payload": 0})).await;
    let survivor = clients[0].lease_one_with(name, json!({"lease_ms": 600_000})).await;
    let id = clients[0].published(name, json!({"payload": 1})).await;
    follow_up(&ground.servers).await;
    cut_off(&ground.servers[0]).await;
    let lost = clients[1].lease_one_with(name, json!({"lease_ms": 600_000})).await;
    // The only Sentinel that is left leads the failover that an operator orders.
    ground.sentinels.kill9(1);
    ground.sentinels.kill9(2);
    for (old, new) in [(0, 1), (1, 0)] {
        let moved = |dueq: &Dueq| dueq.log().matches("the primary has moved").count();
        let before = dueq.each_ref().map(moved);
        ground.sentinels.fail_over(0, NAME).await;
        ground.sentinels.names(0, NAME, ground.servers[new].port()).await;
        for (dueq, before) in dueq.iter().zip(before) {
            eventually("it has moved", || async { (moved(dueq) > before).then_some(()) }).await;
        }
        is_left(&ground.servers[old]).await;
        let _: () = ground.servers[old].command(&["ACL", "SETUSER", "default", "+@all"]).await;
        // As a Sentinel would tell it after ten seconds.
        follow(&ground.servers[old], &ground.servers[new]).await;
        for client in &clients {
            works_again(client).await;
        }
        eventually("the Sentinel knows the replica", || async {
            let known: Vec<BTreeMap<String, String>> =
                ground.sentinels.ask(0, &["REPLICAS", NAME]).await.ok()?;
            known
                .iter()
                .any(|one| one["flags"] == "slave" && one["master-link-status"] == "ok")
                .then_some(())
        })
        .await;
    }
    let again = clients[0].lease_one_with(name, json!({"lease_ms": 600_000})).await;
    assert_eq!(text(&again, "id"), id);
    assert_eq!(again["attempt"], lost["attempt"], "nobody knows of the lost grant");
    for client in &clients {
        client.ack_leased(&lost).await.problem(409, "lease_lost");
        client.nack_leased(&lost, json!({})).await.problem(409, "lease_lost");
        client.extend_leased(&lost, 60_000).await.problem(409, "lease_lost");
    }
    clients[1].ack_leased(&again).await.expect(204);
    assert_eq!(text(&survivor, "id"), kept);
    clients[1].ack_leased(&survivor).await.expect(204);
}

/// Waits until the replica has everything.
async fn follow_up([primary, replica]: &[Redis; 2]) {
    eventually("the replica has everything", || async {
        let own = primary.info("master_repl_offset").await;
        (replica.info("slave_repl_offset").await >= own).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_guard_of_a_replicated_primary_is_watched_while_it_works() {
    let [primary, _replica] = pair(Redis::options()).await;
    let dueq = Dueq::on(&primary).start().await;
    let warned = async || {
        let ready: Value = dueq.client().get_path("/readyz").await.expect(200).json();
        ready["warnings"].to_string().contains("min-replicas-to-write")
    };
    assert!(warned().await);
    assert_eq!(dueq.log().matches("min-replicas-to-write").count(), 1, "{}", dueq.log());
    for (number, expected) in [("1", false), ("0", true)] {
        let _: () = primary.command(&["CONFIG", "SET", "min-replicas-to-write", number]).await;
        eventually("readyz says so", || async { (warned().await == expected).then_some(()) }).await;
    }
    assert_eq!(dueq.log().matches("min-replicas-to-write").count(), 1, "{}", dueq.log());
}
