//! An instance that sleeps through the leases of its clients.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use tokio::time::sleep;

use super::crew::Crew;
use super::findings::{BITE, Findings};
use crate::proof::actor::{Actor, Options};
use crate::proof::history::{FaultKind, Grant, Ms, Outcome, now};
use crate::proof::load::{Load, only};
use crate::proof::stage::{Report, Setting};

/// The lease that is slept through, twice.
const LEASE: Ms = 1_000;
/// Messages of a round.
const HELD: usize = 12;
/// How late a message may come that a client waits for (I12).
const LATE: Ms = 1_000;

/// Of two instances under the usual load one is stopped with SIGSTOP for twice a lease, while its clients send it their
/// acks. Others are granted the messages when the leases end, not later; the acks, which run when the instance goes on, are
/// answered 409.
pub async fn instance_paused(setting: Setting) -> Report {
    let mut findings = Findings::new("instance_paused", &setting);
    let mut crew = Crew::start(&setting, 2).await;
    let load = crew.load("instance-paused");
    let held = Load::start(&crew.fleet, "slept-through", 0, 0);
    for round in 0..setting.rounds {
        let index = round % 2;
        sleep(Duration::from_millis(300)).await;
        let first = 100 * (round as u64 + 1);
        let (sleeping, awake) = (only(crew.client(index)), only(crew.client(1 - index)));
        let actor = |fleet, n| Actor::new(&held.recorder, fleet, &held.topic, first + n);
        let (mut sleeper, mut other) = (actor(&sleeping, 0), actor(&awake, 1));
        for _ in 0..HELD {
            other.publish(Options::default()).await.ok().expect("a publish before the pause");
        }
        let grants = sleeper.lease(HELD, LEASE, 1_000, &[]).await.ok().expect("a lease").clone();
        findings.demand(grants.len() == HELD, BITE, || format!("{} are held", grants.len()));
        let (from, begin) = (now(), Instant::now());
        crew.instances[index].pause();
        // Each by a client of its own, so that none waits for another's answer.
        let late = grants.iter().cloned().zip(10..).map(|(grant, n)| {
            let mut client = actor(&sleeping, n);
            async move { client.ack(&grant).await }
        });
        let acks = tokio::spawn(join_all(late.collect::<Vec<_>>()));
        let again = take_over(&mut other, &grants).await;
        sleep(Duration::from_millis(2 * LEASE as u64).saturating_sub(begin.elapsed())).await;
        findings.demand(!acks.is_finished(), BITE, || "the acks did not wait".into());
        crew.instances[index].resume();
        load.recorder.fault(FaultKind::InstancePaused(index), from);
        held.recorder.fault(FaultKind::InstancePaused(index), from);
        for (grant, late) in grants.iter().zip(acks.await.expect("the late acks")) {
            let id = &grant.id;
            findings.tally().stale_tried += 1;
            findings.tally().stale_accepted += u64::from(late.is_ok());
            let refused = late == Outcome::Refused(409, "lease_lost".into());
            findings
                .demand(refused, "I5", || format!("the late ack of {id} was answered {late:?}"));
            match again.iter().find(|again| again.id == *id) {
                Some(again) => {
                    let late = again.granted_at - grant.deadline;
                    findings.demand(late >= 0, "I4", || {
                        format!("{id} granted {late} ms after its lease")
                    });
                    findings.demand(late <= LATE, "I12", || {
                        format!("{id} was held {late} ms too long")
                    });
                    let acked = other.ack(again).await;
                    findings.demand(acked.is_ok(), "I5", || {
                        format!("its next holder's ack: {acked:?}")
                    });
                }
                None => findings.broken("I12", format!("{id} was held longer than its lease")),
            }
        }
    }
    findings.add(crew.finish(held).await);
    findings.add(crew.finish(load).await);
    findings.report()
}

/// Leases what others held, until all of it is there or is late.
async fn take_over(other: &mut Actor, held: &[Grant]) -> Vec<Grant> {
    let end = held.iter().map(|grant| grant.deadline).max().unwrap_or(0) + LATE;
    let mut taken: Vec<Grant> = Vec::new();
    while taken.len() < held.len() && now() < end {
        let outcome = other.lease(HELD, 30_000, 500, &[]).await;
        taken.extend(outcome.ok().cloned().unwrap_or_default());
    }
    taken
}
