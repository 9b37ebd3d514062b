//! Deaths and acks are published elsewhere, or messages move there, through kills: none is lost or doubled, whichever instance dies between the death,
//! the claim, the copy and the note that it was made.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::harness::{Client, Dueq, Redis, number, topic};
use crate::proof::actor::Fleet;

/// No message has the payload of another.
static PAYLOADS: AtomicI64 = AtomicI64::new(0);

/// Publishes, leases and gives up messages until told to stop, and remembers the payloads of those whose death was answered. Where it
/// `acks`, half of them are done instead.
async fn give_up(
    fleet: Fleet,
    topic: String,
    acks: bool,
    stop: Arc<AtomicBool>,
    died: Arc<Mutex<BTreeSet<i64>>>,
) {
    let json_type = [("content-type", "application/json")];
    let mut random = StdRng::from_os_rng();
    while !stop.load(Ordering::Relaxed) {
        let (_, client) = fleet.any(&mut random);
        let send = async |path: &str, body: Value| {
            let body = Some(body.to_string().into_bytes());
            let answer = client.try_send("POST", path, &json_type, body).await.ok()?;
            (answer.status == 200).then(|| answer.json())
        };
        let message = |_| json!({"payload": PAYLOADS.fetch_add(1, Ordering::Relaxed)});
        let batch = json!({"messages": (0..20).map(message).collect::<Vec<_>>()});
        if send(&format!("/topics/{topic}/messages/batch"), batch).await.is_none() {
            sleep(Duration::from_millis(20)).await;
            continue;
        }
        let want = json!({"max_messages": 20, "lease_ms": 1_000});
        let Some(held) = send(&format!("/topics/{topic}/lease"), want).await else { continue };
        let dead = |held: &Value| json!({"id": held["id"], "lease_token": held["lease_token"], "dead": true});
        let payloads: Vec<i64> =
            held["messages"].as_array().unwrap().iter().map(|it| number(it, "payload")).collect();
        let held: Vec<Value> = held["messages"].as_array().unwrap().iter().map(dead).collect();
        if held.is_empty() {
            continue;
        }
        let (path, held) = match acks && random.random_bool(0.5) {
            false => ("/messages/nack", held),
            true => ("/messages/ack", held.into_iter().map(without_death).collect()),
        };
        let Some(done) = send(path, json!({"messages": held})).await else { continue };
        let results = payloads.into_iter().zip(done["results"].as_array().unwrap());
        let gone = results.filter(|(_, result)| result["status"] == "ok");
        died.lock().unwrap().extend(gone.map(|(payload, _)| payload));
    }
}

fn without_death(mut held: Value) -> Value {
    held.as_object_mut().unwrap().remove("dead");
    held
}

/// How often each death is told of in a topic, or its message is there, by its payload.
async fn told(client: &Client, topic: &str) -> BTreeMap<i64, usize> {
    let mut told = BTreeMap::new();
    for letter in client.listed(topic, "state=ready&payload=true&limit=1000").await {
        let message =
            if letter["payload"].is_object() { &letter["payload"]["message"] } else { &letter };
        *told.entry(number(message, "payload")).or_default() += 1;
    }
    told
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_death_goes_untold_while_instances_are_killed() {
    die_while_instances_are_killed("letter").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_message_is_lost_or_doubled_on_its_way_while_instances_are_killed() {
    die_while_instances_are_killed("raw").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_completion_is_lost_or_doubled_while_instances_are_killed() {
    die_while_instances_are_killed("completion").await;
}

async fn die_while_instances_are_killed(form: &str) {
    let redis = Redis::start().await;
    let mut instances = [Dueq::on(&redis).start().await, Dueq::on(&redis).start().await];
    let fleet = Fleet::new(instances.iter().map(Dueq::client));
    let (here, there) = (topic("mortal"), topic("dead"));
    // Nothing dead is kept: what is not copied first is lost.
    let completes = form == "completion";
    let mut config = json!({"max_attempts": 1, "retention": {"dead_ms": 0}});
    for (name, value) in match completes {
        false => [("dead_topic", json!(there)), ("dead_form", json!(form))],
        true => [("on_done", json!({"topic": there})), ("on_dead", json!({"topic": there}))],
    } {
        config[name] = value;
    }
    instances[0].client().new_topic(&here, config).await;
    let (stop, died) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(BTreeSet::new())));
    let workers: Vec<_> = (0..3)
        .map(|_| {
            let (fleet, here) = (fleet.clone(), here.clone());
            tokio::spawn(give_up(fleet, here, completes, stop.clone(), died.clone()))
        })
        .collect();
    for round in 0..8 {
        sleep(Duration::from_millis(600)).await;
        let index = round % instances.len();
        instances[index].kill9();
        sleep(Duration::from_millis(100)).await;
        instances[index] = Dueq::on(&redis).start().await;
        fleet.replace(index, instances[index].client());
    }
    stop.store(true, Ordering::Relaxed);
    for worker in workers {
        worker.await.unwrap();
    }
    let client = instances[0].client();
    let died = died.lock().unwrap().clone();
    assert!(died.len() > 500, "only {} died", died.len());
    // What a killed instance had claimed is anybody's again after 30 s.
    let end = Instant::now() + Duration::from_secs(45);
    let told = loop {
        let seen = client.topic(&here).await.expect(200).json();
        if seen["counts"]["dead"] == 0 && seen["counts"]["leased"] == 0 {
            let told = told(&client, &there).await;
            let acked = if completes { number(&seen["totals"], "acked") } else { 0 };
            if number(&seen["totals"], "dead") + acked == told.len() as i64
                && died.iter().all(|it| told.contains_key(it))
            {
                break told;
            }
        }
        assert!(Instant::now() < end, "deaths untold: {seen}");
        sleep(Duration::from_millis(200)).await;
    };
    // Within ten minutes a repetition finds the first.
    let twice: Vec<_> = told.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "told of twice: {twice:?}");
    eprintln!("{} deaths, each told of once", told.len());
}
