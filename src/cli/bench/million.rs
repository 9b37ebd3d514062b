//! The backlog: publish and lease with a million delayed messages present,
//! against the same on an empty server, in turn. Before that, how long looking
//! at them holds Redis (`looking`).

use std::time::Duration;

use serde_json::json;

use super::load::Measured;
use super::report::{Section, Table};
use super::servers::{Mode, Server};
use super::site::Site;
use super::stats::{median, paired_ratio, percent, thousands};
use super::targets::{Target, Verdict};
use super::{Bench, Fallible, ROUNDS, looking};

/// A ratio near one wants more rounds than others.
const MORE_ROUNDS: u32 = 2 * ROUNDS;

const CONNECTIONS: usize = 64;

/// Far enough away that none of them falls due meanwhile.
const DELAYS_MS: (u64, u64) = (3_600_000, 7_200_000);

/// Rates of the two sites, round by round.
#[derive(Default)]
struct Pair {
    full: Vec<f64>,
    empty: Vec<f64>,
}

impl Pair {
    fn add(&mut self, full: bool, measured: &Measured) {
        let rates = if full { &mut self.full } else { &mut self.empty };
        rates.push(measured.rate());
    }
}

/// `--only million`.
pub async fn measure(bench: &Bench) -> Fallible<Vec<Section>> {
    let (first, second) = (bench.group().await?, bench.group().await?);
    let mut full = Site::new(&first, Mode::Group, bench.topic("full"));
    let mut empty = Site::new(&second, Mode::Group, bench.topic("empty"));
    let backlog = bench.args.backlog;
    // In steps, so that something is seen to happen.
    let mut present = 0;
    while present < backlog {
        let step = (backlog - present).min(100_000);
        full.fill_delayed(step, DELAYS_MS).await?;
        present += step;
        bench.say(format_args!("million: {} present", thousands(present as f64)));
    }

    rewritten(bench, &first).await?;
    let looking = looking::measure(bench, &first, full.topic(), DELAYS_MS).await?;

    let (mut publish, mut lease) = (Pair::default(), Pair::default());
    // One round more than is counted: the first one warms.
    for round in 0..=MORE_ROUNDS {
        let mut sites = [(true, &mut full), (false, &mut empty)];
        // Neither is always the one that comes first.
        if round % 2 == 0 {
            sites.reverse();
        }
        for (is_full, site) in &mut sites {
            let measured = site.publish_delayed(CONNECTIONS, bench.round(), DELAYS_MS).await?;
            if round > 0 {
                publish.add(*is_full, &measured);
            }
        }
        // What is leased must be there first; both sides get the same.
        for (_, site) in &mut sites {
            site.fill((60_000.0 * bench.round().as_secs_f64()) as u64).await?;
        }
        for (is_full, site) in &mut sites {
            let measured = site.lease(CONNECTIONS, bench.round()).await?;
            if round > 0 {
                lease.add(*is_full, &measured);
            }
        }
        bench.say(format_args!("million: round {round} of {MORE_ROUNDS}"));
    }

    let title = format!("With {} delayed messages present", thousands(backlog as f64));
    let columns = ["operation", "connections", "per s", "empty per s", "of empty"];
    let mut table = Table::new(&title, &columns);
    let mut figures = json!({"present": backlog, "connections": CONNECTIONS});
    let mut verdicts = Vec::new();
    for (name, target, pair) in
        [("publish", Target::PublishFull, &publish), ("lease", Target::LeaseFull, &lease)]
    {
        let share = paired_ratio(&pair.full, &pair.empty);
        let label = match target {
            Target::PublishFull => "publish at random delays",
            _ => "lease",
        };
        table.row([
            label.to_owned(),
            CONNECTIONS.to_string(),
            thousands(median(&pair.full)),
            thousands(median(&pair.empty)),
            percent(share),
        ]);
        figures[name] = json!({
            "per_s": median(&pair.full),
            "empty_per_s": median(&pair.empty),
            "of_empty": share,
        });
        verdicts.push(Verdict { target, measured: share * 100.0 });
    }
    if backlog < 1_000_000 {
        table.note("the numbers to reach are for 1,000,000");
    }
    Ok(vec![Section { name: "million", table, figures, verdicts }, looking])
}

/// Waits until Redis has written its append-only file anew, which it does when
/// much has been added: the rewrite is a matter of growth, not of size.
pub async fn rewritten(bench: &Bench, server: &Server) -> Fallible<()> {
    let Some(redis) = server.redis().await? else {
        return Ok(());
    };
    for _ in 0..120 {
        // It is scheduled by a task that runs ten times a second.
        tokio::time::sleep(Duration::from_millis(500)).await;
        if !redis.facts().await?.rewriting {
            return Ok(());
        }
        bench.say("million: Redis rewrites its append-only file");
    }
    Ok(())
}
