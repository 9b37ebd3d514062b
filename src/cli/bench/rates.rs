//! Publish, lease, ack and the consumer's loop: messages a second and
//! latencies, each at every number of connections, with the ceiling (and for
//! publish one script call a request) in turn with it.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::load::Measured;
use super::report::{Section, Table};
use super::servers::Mode;
use super::site::Site;
use super::stats::{Samples, median, millis, paired_ratio, percent, thousands};
use super::targets::{Target, Verdict};
use super::{Bench, Fallible, ROUNDS, batches};

/// Messages a request in the batched loop.
const BATCH: usize = batches::BATCH;

/// Enough ready messages for the fastest answer that is likely, a second and
/// connection, while nothing has been measured yet.
const GUESS_PER_CONNECTION: f64 = 10_000.0;
/// The same for all connections together.
const GUESS_AT_MOST: f64 = 50_000.0;

/// Messages for a round of the batched loop: so many take memory, and time to be published.
const BATCH_LOOP_AT_MOST: usize = 300_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Operation {
    Publish,
    Lease,
    Ack,
    Loop,
    BatchLoop,
    BatchPublish,
}

impl Operation {
    fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Lease => "lease",
            Self::Ack => "ack",
            Self::Loop => "loop: lease 1, ack 1",
            Self::BatchLoop => "loop: lease 100, ack 100",
            Self::BatchPublish => "publish by 100",
        }
    }

    async fn play(
        self,
        site: &mut Site<'_>,
        connections: usize,
        limit: Duration,
    ) -> Fallible<Measured> {
        match self {
            Self::Publish => site.publish(connections, limit).await,
            Self::Lease => site.lease(connections, limit).await,
            Self::Ack => site.ack(connections, limit).await,
            Self::Loop => site.consume(connections, limit, 1).await,
            Self::BatchLoop => site.consume(connections, limit, BATCH).await,
            Self::BatchPublish => {
                let measured = site.publish_batches(connections, limit).await?;
                // At this rate they would take gigabytes in the end.
                site.clear().await?;
                Ok(measured)
            }
        }
    }

    /// How many messages must be ready for `limit` of this.
    fn wants(self, connections: usize, limit: Duration, before: Option<f64>) -> u64 {
        let rate = before
            .unwrap_or_else(|| (connections as f64 * GUESS_PER_CONNECTION).min(GUESS_AT_MOST));
        let seconds = limit.as_secs_f64();
        match self {
            Self::Publish | Self::Ack | Self::BatchPublish => 0,
            Self::Lease | Self::Loop => (rate * seconds * 1.3) as u64 + connections as u64,
            // A few requests for each connection to begin with.
            Self::BatchLoop => {
                let guess = (connections * BATCH * 3).max(40_000);
                let known = before.map_or(guess, |rate| (rate * seconds * 1.3) as usize);
                known.min(BATCH_LOOP_AT_MOST) as u64
            }
        }
    }
}

/// The rounds of one operation, number of connections and mode.
type Rounds = BTreeMap<(Operation, usize, Mode), Vec<Measured>>;

/// `--only publish`.
pub async fn publish(bench: &Bench) -> Fallible<Section> {
    let modes = [Mode::Ceiling, Mode::Group, Mode::Direct];
    let rounds = measure(bench, &[Operation::Publish], &modes).await?;
    Ok(section("publish", "Publish, one message a request", &rounds))
}

/// `--only loop`.
pub async fn consume(bench: &Bench) -> Fallible<Section> {
    let operations = [Operation::Lease, Operation::Ack, Operation::Loop, Operation::BatchLoop];
    let rounds = measure(bench, &operations, &[Mode::Ceiling, Mode::Group]).await?;
    Ok(section("loop", "Lease, ack, and the consumer's loop", &rounds))
}

/// `--only batch`.
pub async fn batch(bench: &Bench) -> Fallible<Section> {
    let modes = [Mode::Ceiling, Mode::Group];
    let rounds = measure(bench, &[Operation::BatchPublish], &modes).await?;
    Ok(section("batch", "Publish, 100 messages a request", &rounds))
}

async fn measure(bench: &Bench, operations: &[Operation], modes: &[Mode]) -> Fallible<Rounds> {
    let mut servers = Vec::new();
    for mode in modes {
        if let Some(server) = bench.start(*mode, "everysec").await? {
            servers.push((*mode, server));
        }
    }
    let mut sites: Vec<Site> = servers
        .iter()
        .map(|(mode, server)| Site::new(server, *mode, bench.topic("rates")))
        .collect();
    for site in &mut sites {
        site.publish(16, Duration::from_millis(300)).await?;
    }
    let mut rounds = Rounds::new();
    for &connections in &bench.args.connections {
        for round in 1..=ROUNDS {
            for &operation in operations {
                for site in &mut sites {
                    let key = (operation, connections, site.mode());
                    let before = rounds.get(&key).and_then(|all| all.last()).map(Measured::rate);
                    let wanted = operation.wants(connections, bench.round(), before);
                    site.fill(wanted).await?;
                    let measured = operation.play(site, connections, bench.round()).await?;
                    bench.say(format_args!(
                        "{} at {connections}, round {round} of {ROUNDS}, {}: {}/s",
                        operation.name(),
                        site.mode().name(),
                        thousands(measured.rate()),
                    ));
                    rounds.entry(key).or_default().push(measured);
                }
            }
        }
    }
    Ok(rounds)
}

/// One mode's rounds of an operation, drawn together.
struct Drawn {
    rates: Vec<f64>,
    latencies: Samples,
    failed: u64,
    first_failure: Option<String>,
}

impl Drawn {
    fn from(rounds: &[Measured]) -> Self {
        let mut latencies = Samples::default();
        for round in rounds {
            latencies.merge(round.latencies.clone());
        }
        Self {
            rates: rounds.iter().map(Measured::rate).collect(),
            latencies,
            failed: rounds.iter().map(|round| round.failed).sum(),
            first_failure: rounds.iter().find_map(|round| round.first_failure.clone()),
        }
    }

    fn figures(&mut self) -> Value {
        json!({
            "per_s": median(&self.rates),
            "p50_us": self.latencies.percentile(0.50),
            "p99_us": self.latencies.percentile(0.99),
            "failed": self.failed,
        })
    }
}

fn section(name: &'static str, title: &str, rounds: &Rounds) -> Section {
    let columns = [
        "operation",
        "connections",
        "per s",
        "p50 ms",
        "p99 ms",
        "ceiling per s",
        "of ceiling",
        "direct per s",
        "of direct",
    ];
    let (mut table, mut figures, mut verdicts) = (Table::new(title, &columns), vec![], vec![]);
    let groups = rounds.iter().filter(|((_, _, mode), _)| *mode == Mode::Group);
    for ((operation, connections, _), measured) in groups {
        let other = |mode| rounds.get(&(*operation, *connections, mode));
        let mut group = Drawn::from(measured);
        let mut figure = json!({
            "operation": operation.name(),
            "connections": connections,
            "group": group.figures(),
        });
        let mut cells = vec![
            operation.name().to_owned(),
            connections.to_string(),
            thousands(median(&group.rates)),
            millis(group.latencies.percentile(0.50)),
            millis(group.latencies.percentile(0.99)),
        ];
        verdicts.extend(absolute(*operation, *connections, median(&group.rates)));
        for mode in [Mode::Ceiling, Mode::Direct] {
            let Some(reference) = other(mode) else {
                cells.extend(["-".to_owned(), "-".to_owned()]);
                continue;
            };
            let mut reference = Drawn::from(reference);
            let share = paired_ratio(&group.rates, &reference.rates);
            cells.extend([thousands(median(&reference.rates)), percent(share)]);
            figure[mode.name()] = reference.figures();
            figure[format!("of_{}", mode.name())] = json!(share);
            let slower = f64::from(group.latencies.percentile(0.5))
                / f64::from(reference.latencies.percentile(0.5).max(1));
            verdicts.extend(verdict(*operation, *connections, mode, share, slower));
            note_failures(&mut table, *operation, mode, &reference);
        }
        note_failures(&mut table, *operation, Mode::Group, &group);
        table.row(cells);
        figures.push(figure);
    }
    table.note("medians of the rounds, which took turns; shares are medians of the rounds' own");
    Section { name, table, figures: Value::Array(figures), verdicts }
}

/// The number to reach that this comparison is about, if there is one.
fn verdict(
    operation: Operation,
    connections: usize,
    mode: Mode,
    share: f64,
    slower: f64,
) -> Option<Verdict> {
    let (target, measured) = match (operation, connections, mode) {
        (Operation::Publish, 64, Mode::Ceiling) => (Target::PublishShare, share * 100.0),
        (Operation::Loop, 64, Mode::Ceiling) => (Target::LoopShare, share * 100.0),
        (Operation::Publish, 1, Mode::Direct) => (Target::Latency, slower),
        _ => return None,
    };
    Some(Verdict { target, measured })
}

/// The number to reach that messages a second are about, if there is one.
fn absolute(operation: Operation, connections: usize, rate: f64) -> Option<Verdict> {
    let target = match (operation, connections) {
        (Operation::BatchPublish, 16) => Target::BatchPublish,
        (Operation::BatchLoop, 16) => Target::BatchLoop,
        _ => return None,
    };
    Some(Verdict { target, measured: rate })
}

fn note_failures(table: &mut Table, operation: Operation, mode: Mode, drawn: &Drawn) {
    if let Some(failure) = &drawn.first_failure {
        table.note(format!(
            "{} ({}): {} FAILED, first: {failure}",
            operation.name(),
            mode.name(),
            drawn.failed
        ));
    }
}
