//! What the fields of a message cost: publish with key, TTL, priority and
//! headers all set, against plain publish on the same server, in turn.

use serde_json::json;

use super::report::{Section, Table};
use super::servers::Mode;
use super::site::Site;
use super::stats::{Samples, median, millis, paired_ratio, percent, thousands};
use super::targets::{Target, Verdict};
use super::{Bench, Fallible, ROUNDS};

const CONNECTIONS: usize = 64;

/// A ratio that decides wants more rounds than a rate that is only shown.
const MORE_ROUNDS: u32 = 2 * ROUNDS;

const NAMES: [&str; 2] = ["plain", "with fields"];

/// `--only fields`.
pub async fn measure(bench: &Bench) -> Fallible<Section> {
    let server = bench.group().await?;
    let mut plain = Site::new(&server, Mode::Group, bench.topic("plain"));
    let mut rich = Site::new(&server, Mode::Group, bench.topic("fields"));
    let mut rates = [const { Vec::new() }; 2];
    let mut latencies = [Samples::default(), Samples::default()];
    let mut failure = None;
    // The first round warms.
    for round in 0..=MORE_ROUNDS {
        // Neither is always the one that comes first.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for which in order {
            let site = if which == 0 { &mut plain } else { &mut rich };
            let measured = match which {
                0 => site.publish(CONNECTIONS, bench.round()).await?,
                _ => site.publish_rich(CONNECTIONS, bench.round()).await?,
            };
            site.clear().await?;
            bench.say(format_args!(
                "publish {}, round {round} of {MORE_ROUNDS}: {}/s",
                NAMES[which],
                thousands(measured.rate())
            ));
            failure = failure.or(measured.first_failure.clone());
            if round > 0 {
                rates[which].push(measured.rate());
                latencies[which].merge(measured.latencies);
            }
        }
    }
    let share = paired_ratio(&rates[1], &rates[0]);
    let title = "Publish with key, TTL, priority and headers";
    let columns = ["message", "connections", "per s", "p50 ms", "p99 ms", "of plain"];
    let mut table = Table::new(title, &columns);
    let mut figures = json!({"connections": CONNECTIONS, "of_plain": share});
    for (which, figure) in ["plain", "fields"].into_iter().enumerate() {
        let (p50, p99) = (latencies[which].percentile(0.5), latencies[which].percentile(0.99));
        let of_plain = if which == 0 { "-".to_owned() } else { percent(share) };
        table.row([
            NAMES[which].to_owned(),
            CONNECTIONS.to_string(),
            thousands(median(&rates[which])),
            millis(p50),
            millis(p99),
            of_plain,
        ]);
        figures[figure] = json!({"per_s": median(&rates[which]), "p50_us": p50, "p99_us": p99});
    }
    if let Some(failure) = failure {
        table.note(format!("FAILED, first: {failure}"));
    }
    let verdicts = vec![Verdict { target: Target::Fields, measured: share * 100.0 }];
    Ok(Section { name: "fields", table, figures, verdicts })
}
