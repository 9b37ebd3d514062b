//! `make simulate`: what a Cluster of a hundred primaries would do with one topic of 256 partitions, by [`model`], in
//! tables. As a test (`cargo test --bench simulate`) it is short, and demands what must hold of any run.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod model;
mod plan;

use model::{owners, simulate};
use plan::{Outcome, Plan};
use rand::SeedableRng;
use rand::rngs::StdRng;

const PLAN: Plan = Plan {
    primaries: 100,
    replicas: 1,
    partitions: 256,
    instances: 50,
    consumers: 10_000,
    rate: 10_000.,
    keyed: 0.2,
    work: 5_000.,
    whole_bus: true,
    down: None,
    seconds: 1.,
};
/// How long a failover takes: `cluster-node-timeout 1000`, measured on Redis 7.0.15 from the kill to the first write.
const FAILOVER: f64 = 2_500_000.;

/// The fullest primary against the mean over many names, median and 95th percentile.
fn imbalance(primaries: usize, partitions: usize, steered: bool) -> (f64, f64) {
    let mut random = StdRng::seed_from_u64(1);
    let mut ratios: Vec<f64> = (0..1_000)
        .map(|_| {
            let mut held = vec![0; primaries];
            owners(primaries, partitions, steered, &mut random).iter().for_each(|p| held[*p] += 1);
            let fullest = *held.iter().max().unwrap();
            f64::from(fullest) * primaries as f64 / partitions as f64
        })
        .collect();
    ratios.sort_by(f64::total_cmp);
    (ratios[500], ratios[950])
}

fn tables() {
    let Plan { primaries, replicas, partitions, instances, consumers, keyed, work, .. } = PLAN;
    println!(
        "{primaries} primaries with {replicas} replica each, {partitions} partitions, {consumers} consumers on {instances} \
         instances, {} ms of work a message, {:.0} % with a key\n",
        work / 1e3,
        keyed * 100.
    );
    println!(
        "| published/s | wake-ups by | granted/s | group | p50, p99 ms | wake-ups/s | empty leases/s | bus into a node, MB/s | primaries busy | busiest/mean |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for rate in [1_000_f64, 10_000., 100_000., 500_000., 1_000_000., 3_000_000.] {
        for whole_bus in [true, false] {
            // A moment of many messages says as much as a long one of few.
            let seconds = (200_000. / rate).clamp(0.15, 4.);
            let o = simulate(Plan { rate, whole_bus, seconds, ..PLAN }, 1);
            let by = if whole_bus { "PUBLISH" } else { "SPUBLISH" };
            println!(
                "| {rate} | {by} | {:.0} | {:.1} | {:.1}, {:.1} | {:.0} | {:.0} | {:.1} | {:.1} % | {:.2} |",
                o.granted,
                o.group,
                o.p50,
                o.p99,
                o.wakes,
                o.empty,
                o.bus,
                o.busy * 100.,
                o.busiest / o.busy
            );
        }
    }
    println!(
        "\n| primaries | partitions | fullest/mean, steered: median, p95 | by chance: median, p95 |\n|---|---|---|---|"
    );
    for (primaries, partitions) in [(3, 16), (10, 64), (100, 256)] {
        let (one, other) =
            (imbalance(primaries, partitions, true), imbalance(primaries, partitions, false));
        println!(
            "| {primaries} | {partitions} | {:.2}, {:.2} | {:.2}, {:.2} |",
            one.0, one.1, other.0, other.1
        );
    }
    println!(
        "\n| one primary gone for 2.5 s | publishes refused | messages that waited there | granted/s |\n|---|---|---|---|"
    );
    for rate in [3_000., 30_000.] {
        let o = failover(rate, 4.);
        let of = rate * FAILOVER / 1e6;
        let part = 100. * o.refused as f64 / of;
        println!(
            "| {rate}/s | {} of {of:.0} ({part:.2} %) | {} | {:.0} |",
            o.refused, o.held_up, o.granted
        );
    }
}

fn failover(rate: f64, seconds: f64) -> Outcome {
    simulate(Plan { rate, whole_bus: false, seconds, down: Some((1e6, FAILOVER)), ..PLAN }, 1)
}

/// What holds whatever the costs are.
fn check() {
    let small =
        Plan { primaries: 4, partitions: 16, instances: 3, consumers: 90, rate: 3_000., ..PLAN };
    let calm = simulate(small, 7);
    assert_eq!(calm, simulate(small, 7), "the same seed");
    assert_ne!(calm, simulate(small, 8), "another seed");
    assert!((calm.granted / small.rate - 1.).abs() < 0.1, "all is granted: {calm:?}");
    assert_eq!((calm.refused, calm.held_up), (0, 0));
    assert!(calm.busiest < 1. && calm.group >= 1., "{calm:?}");
    let flooded = simulate(Plan { rate: 300_000., seconds: 0.1, ..small }, 7);
    assert!(flooded.granted < 40_000. && flooded.group > 2. * calm.group, "{flooded:?}");
    let down = simulate(Plan { seconds: 2., down: Some((5e5, 5e5)), ..small }, 7);
    let named = small.rate * 0.5 * small.keyed / 4.;
    assert!((down.refused as f64 / named - 1.).abs() < 0.5, "a fourth of the named: {down:?}");
    for (primaries, partitions) in [(3, 16), (10, 64), (100, 256)] {
        assert!(imbalance(primaries, partitions, true).1 <= 1.26, "{primaries}");
    }
}

fn main() {
    check();
    // `cargo bench` says so.
    if std::env::args().any(|word| word == "--bench") {
        tables();
    }
}
