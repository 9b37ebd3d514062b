//! Events of customers, each customer's in order or customers in turn, through a topic of several partitions, while those who
//! work on them, dueq and Redis are killed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::ground::{Run, redis};
use crate::harness::{Dueq, Launch, Redis, tag_of_partition, topic, works_again};
use crate::proof::actor::Fleet;
use crate::proof::audit::{Audit, Place, connect};
use crate::proof::checker;
use crate::proof::clients::Mix;
use crate::proof::history::{FaultKind, Ms, Op, Outcome, What, now};
use crate::proof::record::Recorder;
use crate::proof::shim::Shim;
use crate::proof::stage::{Durability, Report, Setting};

/// The events of 1,000 customers (100 in the short form). Each customer is a group, and has one publisher.
pub async fn customers(setting: Setting) -> Report {
    let customers = if setting.messages > 0 { 1_000 } else { 100 };
    let mix = Mix::events(customers);
    let worked = worked_on("customers", &setting, 16, json!({}), mix).await;
    let Worked { mut report, recorder, topic, losses, .. } = worked;
    let logs = logs(&recorder.of(&topic));
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

/// The same where customers take turns; one of each publisher has most of the events.
pub async fn tenants(setting: Setting) -> Report {
    let config = json!({"group_order": "fair"});
    let worked = worked_on("tenants", &setting, 2, config, Mix::tenants()).await;
    let Worked { mut report, recorder, topic, losses, redis } = worked;
    let mut connection = connect(&redis.url()).await.expect("a connection");
    let audit = Audit::read(&mut connection, &topic).await.expect("an audit");
    let turns = checker::turns(&recorder.history(&topic), &audit);
    eprintln!("tenants: {turns} waits for a turn were compared");
    if turns < 20 && !losses {
        report.violations.push(format!("the harness: {turns} waits for a turn").into());
    }
    report
}

/// What came of the work, and whether Redis may have forgotten some of it.
struct Worked {
    report: Report,
    recorder: Arc<Recorder>,
    topic: String,
    losses: bool,
    redis: Redis,
}

/// Works on a topic of so many partitions. Of the four who do some never come back with what they hold, and some go away in
/// the middle of a request. Each round kills one of two instances, and a moment later Redis.
async fn worked_on(
    scenario: &'static str,
    setting: &Setting,
    partitions: u8,
    mut config: Value,
    mix: Mix,
) -> Worked {
    assert_ne!(setting.durability, Durability::Memory, "what Redis forgets has no order");
    let shim = Shim::new();
    let mut redis = shim.redis(redis(setting)).start().await;
    let launch = |redis: &Redis| -> Launch { Dueq::on(redis).bug(setting.bug) };
    let mut dueq = [launch(&redis).start().await, launch(&redis).start().await];
    let fleet = Fleet::new(dueq.iter().map(Dueq::client));
    let name = topic(scenario);
    config["partitions"] = json!(partitions);
    dueq[0].client().new_topic(&name, config).await;
    let mut run = Run::on_with(scenario, name.clone(), setting, &fleet, mix);
    let mut losses = false;
    for round in 0..setting.rounds {
        run.pace(round, if setting.messages > 0 { 3_000 } else { 800 }).await;
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
        (0..partitions).map(|p| Place { tag: tag(p), url: redis.url() }).collect();
    let report = run.report_at(&places).await;
    Worked { report, recorder, topic: name, losses, redis }
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
