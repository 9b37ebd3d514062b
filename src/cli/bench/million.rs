//! The backlog: publish and lease with a million delayed messages present,
//! against the same on an empty server, in turn.

use serde_json::json;

use super::load::Measured;
use super::report::{Section, Table};
use super::servers::Mode;
use super::site::Site;
use super::stats::{median, paired_ratio, percent, thousands};
use super::targets::{Target, Verdict};
use super::{Bench, Fallible, ROUNDS};

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
pub async fn measure(bench: &Bench) -> Fallible<Section> {
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

    let (mut publish, mut lease) = (Pair::default(), Pair::default());
    // One round more than is counted: the first one warms.
    for round in 0..=ROUNDS {
        for (is_full, site) in [(true, &mut full), (false, &mut empty)] {
            let limit = bench.round();
            let published = site.publish_delayed(CONNECTIONS, limit, DELAYS_MS).await?;
            if round > 0 {
                publish.add(is_full, &published);
            }
        }
        for (is_full, site) in [(true, &mut full), (false, &mut empty)] {
            // What is leased must be there first; both sides get the same.
            site.fill((50_000.0 * bench.round().as_secs_f64()) as u64).await?;
            let leased = site.lease(CONNECTIONS, bench.round()).await?;
            if round > 0 {
                lease.add(is_full, &leased);
            }
        }
        bench.say(format_args!("million: round {round} of {ROUNDS}"));
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
    Ok(Section { name: "million", table, figures, verdicts })
}
