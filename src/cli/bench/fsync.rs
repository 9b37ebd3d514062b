//! `--fsync always`: where every write waits for the disk, sharing the wait is
//! worth most. Group commit against one script call a request, in turn.

use serde_json::json;

use super::report::{Section, Table};
use super::servers::Mode;
use super::site::Site;
use super::stats::{Samples, median, millis, paired_ratio, thousands};
use super::targets::{Target, Verdict};
use super::{Bench, Fallible, ROUNDS};

const CONNECTIONS: usize = 128;

/// `--only fsync`.
pub async fn measure(bench: &Bench) -> Fallible<Section> {
    let mut servers = Vec::new();
    for mode in [Mode::Group, Mode::Direct] {
        let server = bench.start(mode, "always").await?;
        servers.push((mode, server.ok_or("fsync measures servers of its own only")?));
    }
    let mut sites: Vec<Site> = servers
        .iter()
        .map(|(mode, server)| Site::new(server, *mode, bench.topic("fsync")))
        .collect();
    let mut rates = [const { Vec::new() }; 2];
    let mut latencies = [Samples::default(), Samples::default()];
    for round in 0..=ROUNDS {
        for (index, site) in sites.iter_mut().enumerate() {
            let measured = site.publish(CONNECTIONS, bench.round()).await?;
            bench.say(format_args!(
                "fsync always, {}: {}/s",
                site.mode().name(),
                thousands(measured.rate())
            ));
            // The first round warms.
            if round > 0 {
                rates[index].push(measured.rate());
                latencies[index].merge(measured.latencies);
            }
        }
    }
    let times = paired_ratio(&rates[0], &rates[1]);
    let columns = ["mode", "connections", "per s", "p50 ms", "p99 ms"];
    let mut table = Table::new("Publish with --fsync always", &columns);
    let mut figures = json!({"connections": CONNECTIONS, "of_direct": times});
    for (index, (mode, _)) in servers.iter().enumerate() {
        let (p50, p99) = (latencies[index].percentile(0.5), latencies[index].percentile(0.99));
        table.row([
            mode.name().to_owned(),
            CONNECTIONS.to_string(),
            thousands(median(&rates[index])),
            millis(p50),
            millis(p99),
        ]);
        figures[mode.name()] = json!({
            "per_s": median(&rates[index]),
            "p50_us": p50,
            "p99_us": p99,
        });
    }
    table.note(format!("group commit gives {times:.2} x one script call a request"));
    Ok(Section {
        name: "fsync",
        table,
        figures,
        verdicts: vec![Verdict { target: Target::Fsync, measured: times }],
    })
}
