//! `dueq-bench`, which `dueq bench` starts: how many messages a second a server handles, and how late it delivers them, as an
//! HTTP client sees it.
//!
//! It measures the server that `--server` names, or starts one with a private Redis. `load` generates the load over the
//! connections of `client`, `work` defines what each connection sends, and `lateness` measures due times.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod client;
mod lateness;
mod load;
mod report;
mod server;
mod work;

use clap::{Arg, Parser as _};
use client::Address;
use dueq_base::{files::raise_limit, remote::TlsArgs};
use dueq_store::RedisArgs;
use mimalloc::MiMalloc;
use report::{Report, Row};
use server::Server;
use std::{
    io::{IsTerminal as _, stderr},
    pin::pin,
    process::ExitCode,
    time::{Duration, Instant},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    time::interval,
};
use work::{Lease, Requests, message};

/// That of `dueq`.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// The bench only prints its errors, so their type does not matter.
type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Messages in one request of the part `batch`.
const BATCH: usize = 100;

/// The longest possible lease, so that messages that one measurement leaves leased do not come back during another.
const LEASE_MS: i64 = 43_200_000;

/// The expected maximum of messages that one connection, and all together, consume per second.
const MAX_RATE_PER_CONNECTION: f64 = 15_000.0;
const MAX_RATE: f64 = 60_000.0;

/// Between two reports of progress.
const PROGRESS: Duration = Duration::from_millis(500);

/// The maximum of messages published ahead for consumers. They cost memory, and time to publish.
const MAX_FILL: usize = 300_000;

/// Measure a dueq server, by default one started for the purpose.
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "dueq-bench", bin_name = "dueq bench", version, mut_args(of_server))]
struct Args {
    /// Measure the server at this URL (http://host:port or https://host:port) instead of one started for the purpose. The
    /// bench creates topics named bench-… there, and deletes them.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// API key of --server.
    #[arg(long, env = "DUEQ_API_KEY", value_name = "KEY", hide_env_values = true)]
    api_key: Option<dueq_model::Secret>,
    #[command(flatten)]
    tls: TlsArgs,
    /// Redis of --server, to show its CPU time per message.
    #[command(flatten)]
    redis: RedisArgs,
    /// Allow a Redis URL that ends in #insecure: any certificate is then accepted.
    #[arg(long)]
    insecure: bool,
    /// Run only these parts, comma-separated.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    only: Vec<Part>,
    /// Seconds for each measurement.
    #[arg(long, default_value_t = 3.0, value_parser = seconds, value_name = "N")]
    seconds: f64,
    /// Numbers of connections, comma-separated.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64, 256],
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=4096))]
    connections: Vec<usize>,
    /// Settings of each topic, as PUT /topics/{topic} takes them: '{"partitions":16}'.
    #[arg(long, default_value = "{}", value_name = "JSON")]
    settings: String,
    /// Publish to this many groups in turn; 0: to none.
    #[arg(long, default_value_t = 0, value_name = "N",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(0..=1_000_000))]
    groups: usize,
    /// Send a sampled traceparent with every Nth request; 0: with none.
    #[arg(long, default_value_t = 0, value_name = "N")]
    trace_every: usize,
    /// Print one JSON object instead of the table.
    #[arg(long)]
    json: bool,
}

/// A part of the bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// GET /healthz: what HTTP alone costs.
    Healthz,
    /// Publish, one message per request.
    Publish,
    /// Lease, one message per request.
    Lease,
    /// Ack, one message per request.
    Ack,
    /// A consumer's loop: each request leases a message and acks the one before.
    Loop,
    /// Publish by 100, and the loop by 100.
    Batch,
    /// How long after their due time waiting consumers lease messages.
    Lateness,
}

/// The Redis of `--server` is another than that of the user's own dueq, which the environment may name.
fn of_server(arg: Arg) -> Arg {
    match arg.get_id().as_str() {
        "redis_url" => {
            let help = "Redis of --server, to show its CPU time per message";
            arg.env(None).requires("server").help(help)
        }
        id if id.starts_with("redis_") || id == "sentinel_master" => arg.env(None),
        _ => arg,
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number from 0.1 to 600".to_owned()),
    }
}

/// Exit code 0: measured, whatever the figures; 1: not measured, with the reason on stderr; 130 and 143: interrupted and
/// terminated.
#[tokio::main(worker_threads = 1)]
async fn main() -> ExitCode {
    let args = Args::parse();
    let json = args.json;
    let signals = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    let [Ok(mut interrupted), Ok(mut terminated)] = signals else {
        eprintln!("dueq bench: signals cannot be received");
        return ExitCode::FAILURE;
    };
    // A signal drops the future, which stops its server.
    let outcome = tokio::select! {
        outcome = measure(args) => outcome,
        _ = interrupted.recv() => return ExitCode::from(130),
        _ = terminated.recv() => return ExitCode::from(143),
    };
    match outcome {
        Ok(report) if json => println!("{:#}", report.to_json()),
        Ok(report) => print!("{}", report.render()),
        Err(failure) => {
            eprintln!("dueq bench: {failure}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

async fn measure(args: Args) -> Fallible<Report> {
    let _ = raise_limit();
    if cfg!(debug_assertions) {
        eprintln!("bench: this is a debug build: the figures say little");
    }
    let key = args.api_key.as_ref().map(|key| key.reveal()).filter(|key| !key.is_empty());
    let every = args.trace_every;
    let server = match &args.server {
        Some(url) => {
            let redis = RedisArgs { insecure: args.insecure, ..args.redis.clone() };
            let address = Address::of(url, &args.tls)?.tracing(every);
            Server::connect(address, key, redis.are_given().then_some(&redis)).await?
        }
        None => Server::start(&args.tls, every).await?,
    };
    let mut bench = Bench { args, server, report: Report::default() };
    for connections in bench.args.connections.clone() {
        bench.rates(connections).await?;
    }
    if bench.wants(Part::Lateness) {
        bench.lateness().await?;
    }
    Ok(bench.report)
}

struct Bench {
    args: Args,
    server: Server,
    report: Report,
}

impl Bench {
    fn wants(&self, part: Part) -> bool {
        self.args.only.is_empty() || self.args.only.contains(&part)
    }

    fn limit(&self) -> Duration {
        Duration::from_secs_f64(self.args.seconds)
    }

    /// Measures every rate with this number of connections.
    async fn rates(&mut self, connections: usize) -> Fallible<()> {
        if self.wants(Part::Healthz) {
            let request = self.server.target.request("GET", "/healthz", "");
            let works = vec![Requests::new(vec![request], usize::MAX, 200, 1); connections];
            self.timed("healthz", works).await?;
        }
        if self.wants(Part::Publish) {
            let topic = self.server.topic(&self.args.settings).await?;
            let path = format!("/topics/{topic}/messages");
            let request = |n| self.server.target.request("POST", &path, &self.message(n));
            let requests = (0..self.args.groups.max(1)).map(request).collect();
            let works = vec![Requests::new(requests, usize::MAX, 201, 1); connections];
            self.timed("publish", works).await?;
            self.server.delete(&topic).await?;
        }
        if self.wants(Part::Lease) || self.wants(Part::Ack) {
            self.lease_and_ack(connections).await?;
        }
        if self.wants(Part::Loop) {
            self.consume("loop: lease 1, ack 1", connections, 1).await?;
        }
        if self.wants(Part::Batch) {
            let topic = self.server.topic(&self.args.settings).await?;
            self.timed("publish by 100", vec![self.batches(&topic, usize::MAX); connections])
                .await?;
            self.server.delete(&topic).await?;
            self.consume("loop: lease 100, ack 100", connections, BATCH).await?;
        }
        Ok(())
    }

    /// Leases messages without acking them, then acks them.
    async fn lease_and_ack(&mut self, connections: usize) -> Fallible<()> {
        let topic = self.filled(connections, 1).await?;
        let works = vec![Lease { acks: false, ..self.server.lease(&topic, 1) }; connections];
        let works = if self.wants(Part::Lease) {
            self.timed("lease", works).await?
        } else {
            load::drive(&self.server.address, works, self.limit()).await?.1
        };
        if self.wants(Part::Ack) {
            let ack = |(id, token): (String, String)| {
                let body = format!(r#"{{"lease_token":"{token}"}}"#);
                self.server.target.request("POST", &format!("/messages/{id}/ack"), &body)
            };
            let held = works.into_iter().flat_map(|lease| lease.held);
            let requests: Vec<_> = held.map(ack).collect();
            let count = requests.len();
            self.timed("ack", vec![Requests::new(requests, count, 204, 1); connections]).await?;
        }
        self.server.delete(&topic).await
    }

    /// Runs consumer loops of `batch` messages per request, until the time is over or the topic is empty.
    async fn consume(&mut self, operation: &str, connections: usize, batch: usize) -> Fallible<()> {
        let topic = self.filled(connections, batch).await?;
        self.timed(operation, vec![self.server.lease(&topic, batch); connections]).await?;
        self.server.delete(&topic).await
    }

    /// Creates a topic with as many ready messages as the consumers are expected to take.
    async fn filled(&self, connections: usize, batch: usize) -> Fallible<String> {
        let topic = self.server.topic(&self.args.settings).await?;
        let requests = (connections as f64 * MAX_RATE_PER_CONNECTION).min(MAX_RATE);
        // No machine takes as many in one second as are filled at most.
        let rate = (requests * batch as f64).min(MAX_FILL as f64);
        let wanted = ((rate * self.args.seconds) as usize).min(MAX_FILL);
        let works = vec![self.batches(&topic, wanted.div_ceil(BATCH)); 8];
        let (filled, _) =
            load::drive(&self.server.address, works, Duration::from_secs(600)).await?;
        match filled.first_failure {
            Some(failure) => Err(format!("filling a topic: {failure}").into()),
            None => Ok(topic),
        }
    }

    /// `count` publish requests of a batch each.
    fn batches(&self, topic: &str, count: usize) -> Requests {
        let path = format!("/topics/{topic}/messages/batch");
        let request = |first: usize| {
            let messages: Vec<_> = (first..first + BATCH).map(|n| self.message(n)).collect();
            let body = format!(r#"{{"messages":[{}]}}"#, messages.join(","));
            self.server.target.request("POST", &path, &body)
        };
        let requests = (0..self.args.groups.div_ceil(BATCH).max(1)).map(|n| request(n * BATCH));
        Requests::new(requests.collect(), count, 200, BATCH as u64)
    }

    /// The body of message number `n`.
    fn message(&self, n: usize) -> String {
        match self.args.groups {
            0 => message(""),
            groups => message(&format!(r#","group":"g-{}""#, n % groups)),
        }
    }

    /// Drives the works, one per connection, and reports the result.
    async fn timed<W: load::Work>(&mut self, operation: &str, works: Vec<W>) -> Fallible<Vec<W>> {
        let connections = works.len();
        let before = self.server.cpu_us().await?;
        let drive = load::drive(&self.server.address, works, self.limit());
        let shown = (!self.args.json && stderr().is_terminal())
            .then(|| format!("{operation} at {connections} connections"));
        let (mut measured, works) = meanwhile(shown, self.limit(), drive).await?;
        let after = self.server.cpu_us().await?;
        let each = |of: usize| Some((after[of]? - before[of]?) / measured.messages.max(1) as f64);
        let row = Row {
            operation: operation.to_owned(),
            connections,
            messages: measured.messages,
            per_s: measured.rate(),
            dueq_cpu_us: each(0),
            redis_cpu_us: each(1),
            p50_ms: f64::from(load::percentile(&mut measured.latencies_us, 0.5)) / 1000.0,
            p99_ms: f64::from(load::percentile(&mut measured.latencies_us, 0.99)) / 1000.0,
            failed: measured.failed,
            ..Row::default()
        };
        self.add(row, measured.first_failure);
        Ok(works)
    }

    async fn lateness(&mut self) -> Fallible<()> {
        for due_per_s in [1_000, 5_000] {
            let window = Duration::from_secs_f64(self.args.seconds.max(5.0));
            let topic = self.server.topic(&self.args.settings).await?;
            let row = lateness::measure(&self.server, &topic, due_per_s, window).await?;
            self.server.delete(&topic).await?;
            self.add(row, None);
        }
        Ok(())
    }

    /// Adds a row, and shows progress on stderr, so that stdout has only the result.
    fn add(&mut self, row: Row, failure: Option<String>) {
        let Row { operation, connections, per_s, .. } = &row;
        eprintln!("bench: {operation} at {connections} connections: {per_s:.0}/s");
        if let Some(failure) = failure {
            eprintln!("bench: {} failed: {failure}", row.failed);
        }
        self.report.rows.push(row);
    }
}

/// Shows on the terminal how much of the time `limit` is left while `work` goes on.
async fn meanwhile<W: Future>(what: Option<String>, limit: Duration, work: W) -> W::Output {
    let (began, mut tick, mut work) = (Instant::now(), interval(PROGRESS), pin!(work));
    tick.tick().await;
    loop {
        tokio::select! {
            done = &mut work => {
                if what.is_some() {
                    eprint!("\r\x1b[K");
                }
                return done;
            }
            _ = tick.tick() => if let Some(what) = &what {
                let left = limit.saturating_sub(began.elapsed()).as_secs_f64();
                eprint!("\r\x1b[K{what} {left:.0}s left");
            }
        }
    }
}
