//! Events of customers, each customer's in order, through a topic of several partitions, while those who work on them, dueq
//! and Redis are killed.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::ground::{Run, redis};
use crate::harness::{Dueq, Launch, Redis, tag_of_partition, topic, works_again};
use crate::proof::actor::Fleet;
use crate::proof::audit::Place;
use crate::proof::clients::Mix;
use crate::proof::history::{FaultKind, Ms, Op, Outcome, What, now};
use crate::proof::shim::Shim;
use crate::proof::stage::{Durability, Report, Setting};

const PARTITIONS: u8 = 16;

/// The events of 1,000 customers (100 in the short form). Each customer is a group, and has one publisher. Of the four who
/// work on them some never come back with what they hold, and some go away in the middle of a request. Each round kills one
/// of two instances, and a moment later Redis.
pub async fn customers(setting: Setting) -> Report {
    assert_ne!(setting.durability, Durability::Memory, "what Redis forgets has no order");
    let shim = Shim::new();
    let mut redis = shim.redis(redis(&setting)).start().await;
    let launch = |redis: &Redis| -> Launch { Dueq::on(redis).bug(setting.bug) };
    let mut dueq = [launch(&redis).start().await, launch(&redis).start().await];
    let fleet = Fleet::new(dueq.iter().map(Dueq::client));
    let name = topic("customers");
    dueq[0].client().new_topic(&name, json!({"partitions": PARTITIONS})).await;
    let long = setting.messages > 0;
    let customers = if long { 1_000 } else { 100 };
    let mut run = Run::on_with("customers", name.clone(), &setting, &fleet, Mix::events(customers));
    let mut losses = false;
    for round in 0..setting.rounds {
        run.pace(round, if long { 3_000 } else { 800 }).await;
        let (from, index) = (now(), round % dueq.len());
        dueq[index].kill9();
        dueq[index] = launch(&redis).start().await;
        fleet.replace(index, dueq[index].client());
        run.fault(FaultKind::InstanceKilled(index), from);
        sleep(Duration::from_millis(400)).await;
        let from = now();
        let held_back = shim.kill(&mut redis);
        redis.restart().await;
        run.fault(FaultKind::RedisKilled, from);
        if let (Durability::Everysec, Some(window)) = (setting.durability, held_back) {
            run.fault(FaultKind::PowerLost(window), from);
            losses = true;
        }
        for instance in &dueq {
            works_again(&instance.client()).await;
        }
    }
    sleep(Duration::from_millis(800)).await;
    let recorder = run.load.recorder.clone();
    let tag = |partition| tag_of_partition(&name, partition);
    let places: Vec<Place> =
        (0..PARTITIONS).map(|p| Place { tag: tag(p), url: redis.url() }).collect();
    let mut report = run.report_at(&places).await;
    let logs = logs(&recorder.of(&name));
    let longest = logs.values().map(Vec::len).max().unwrap_or(0);
    let again = logs.values().flat_map(|log| log.windows(2)).filter(|two| two[0].1 == two[1].1);
    let again = again.count();
    eprintln!("customers: {} logs, the longest of {longest}, {again} repeated", logs.len());
    let mut demand = |kept: bool, what: String| {
        if !kept {
            report.violations.push(what.into());
        }
    };
    let some = logs.len() as u64 > customers / 2 && longest > 3 && again > 0;
    demand(some, format!("the harness: {} logs, of {longest}, {again} repeated", logs.len()));
    for (customer, log) in logs.iter().filter(|_| !losses) {
        let wrong = log.windows(2).find(|two| two[1].1 < two[0].1);
        demand(wrong.is_none(), format!("I17 groups: in the log of {customer:?}: {wrong:?}"));
    }
    report
}

/// What each customer's log would say: when an event was granted, and its number among those of its publisher.
pub(super) fn logs(ops: &[Op]) -> BTreeMap<String, Vec<(Ms, u64)>> {
    let mut logs: BTreeMap<String, Vec<(Ms, u64)>> = BTreeMap::new();
    for op in ops {
        let What::Lease { outcome: Outcome::Ok(grants), .. } = &op.what else { continue };
        for grant in grants {
            let payload: Value = serde_json::from_str(&grant.payload).expect("a payload");
            let number =
                payload["u"].as_str().and_then(|text| text.split_once('-')?.1.parse().ok());
            // A publish that shows that dueq works again has no customer.
            if let (Some(customer), Some(number)) = (&grant.group, number) {
                logs.entry(customer.clone()).or_default().push((grant.granted_at, number));
            }
        }
    }
    logs.values_mut().for_each(|log| log.sort_unstable());
    logs
}
