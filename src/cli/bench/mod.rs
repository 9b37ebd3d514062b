//! `dueq bench`: how fast, how late, how large, how idle, measured over HTTP
//! as a client would see it, beside the ceiling of the same run and against
//! the numbers to reach.
//!
//! By default it starts the servers that it needs itself (`servers`), so that
//! everything that is compared runs side by side, in short rounds that take
//! turns: a machine drifts, and a figure from ten seconds earlier is no
//! reference. One file per part; `load` and `client` make the load, `site` is
//! one topic on one server, `report` and `targets` print.

mod batches;
mod burst;
mod callbacks;
mod client;
mod cpu;
mod fields;
mod fsync;
mod idle;
mod idle_topics;
mod lateness;
mod load;
mod looking;
mod memory;
mod million;
mod rates;
mod report;
mod servers;
mod site;
mod stats;
mod steady;
mod targets;
mod wire;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use report::{Report, Section};
use servers::{Mode, Server};

/// Whatever keeps the bench from measuring; only its text is of interest.
type Failure = Box<dyn std::error::Error + Send + Sync>;
type Fallible<T> = Result<T, Failure>;

/// How often what is compared takes turns within a measurement.
const ROUNDS: u32 = 3;

/// Measure a dueq over HTTP and print what it came to.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Measure the dueq at this URL (http://host:port) instead of servers
    /// started for the purpose. What bench publishes there stays there, in
    /// topics named bench-…
    #[arg(long, value_name = "URL")]
    server: Option<String>,
    /// The Redis of --server, for the parts that read its counters.
    #[arg(long, value_name = "URL", requires = "server")]
    redis_url: Option<String>,
    /// Only these parts, comma-separated. Default: all (with --server: those
    /// that it can answer, without the large ones).
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PART")]
    only: Vec<Part>,
    /// Seconds for each measurement.
    #[arg(long, default_value_t = 3.0, value_parser = seconds, value_name = "N")]
    seconds: f64,
    /// Numbers of connections, comma-separated.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16, 64, 256],
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=4096))]
    connections: Vec<usize>,
    /// Delayed messages that are present in the part `million`.
    #[arg(long, default_value_t = 1_000_000, value_name = "N")]
    backlog: u64,
    /// Messages that fall due at once in the part `burst`.
    #[arg(long, default_value_t = 200_000, value_name = "N",
          value_parser = clap::value_parser!(u64).range(1_000..=10_000_000))]
    burst: u64,
    /// Topics in the part `idle-topics`.
    #[arg(long, default_value_t = 10_000, value_name = "N")]
    topics: usize,
    /// Print one JSON object instead of tables.
    #[arg(long)]
    json: bool,
    /// Where the servers' directories go for the time of the run. Default: the
    /// system's directory for temporary files.
    #[arg(long, value_name = "PATH")]
    dir: Option<PathBuf>,
    /// The dueq to start, instead of this one.
    #[arg(long, value_name = "PATH", hide = true)]
    dueq_bin: Option<PathBuf>,
}

/// A part of the bench.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Publish: group commit, ceiling, and one script call a request.
    Publish,
    /// Lease, ack, and the consumer's loop, single and in batches.
    Loop,
    /// How long after its due time a message is granted.
    Lateness,
    /// Redis memory of a delayed message.
    Memory,
    /// Redis CPU of a message's life.
    Cpu,
    /// Redis commands while 1,000 long polls wait.
    Idle,
    /// Rates with a million delayed messages present.
    Million,
    /// Publish with `--fsync always`.
    Fsync,
    /// Publish by batches of 100.
    Batch,
    /// Publish with key, TTL, priority and headers, beside plain publish.
    Fields,
    /// 200,000 messages that fall due in the same millisecond.
    Burst,
    /// Redis commands while 10,000 topics have nothing to do.
    IdleTopics,
    /// Callbacks a second, their lateness, memory, fairness and rate.
    Callbacks,
}

impl Part {
    const ALL: [Part; 13] = [
        Self::Publish,
        Self::Loop,
        Self::Lateness,
        Self::Memory,
        Self::Cpu,
        Self::Idle,
        Self::Million,
        Self::Fsync,
        Self::Batch,
        Self::Fields,
        Self::Burst,
        Self::IdleTopics,
        Self::Callbacks,
    ];

    async fn measure(self, bench: &Bench) -> Fallible<Vec<Section>> {
        let section = match self {
            Self::Publish => rates::publish(bench).await,
            Self::Loop => rates::consume(bench).await,
            Self::Lateness => lateness::measure(bench).await,
            Self::Memory => memory::measure(bench).await,
            Self::Cpu => cpu::measure(bench).await,
            Self::Idle => idle::measure(bench).await,
            // What is there to be looked at takes longest to make: two sections share it.
            Self::Million => return million::measure(bench).await,
            Self::Fsync => fsync::measure(bench).await,
            Self::Batch => rates::batch(bench).await,
            Self::Fields => fields::measure(bench).await,
            Self::Burst => burst::measure(bench).await,
            Self::IdleTopics => idle_topics::measure(bench).await,
            Self::Callbacks => return callbacks::measure(bench).await,
        };
        Ok(vec![section?])
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number from 0.1 to 600".to_owned()),
    }
}

/// What every part needs.
struct Bench {
    args: Args,
}

impl Bench {
    /// A server in `mode`; None where `--server` names one that runs, which is
    /// taken for group commit and nothing else.
    async fn start(&self, mode: Mode, fsync: &str) -> Fallible<Option<Server>> {
        match (&self.args.server, mode) {
            (None, _) => Server::start(&self.args, mode, fsync).await.map(Some),
            (Some(url), Mode::Group) => Server::foreign(url, self.args.redis_url.clone()).map(Some),
            (Some(_), _) => Ok(None),
        }
    }

    /// The server of a part that needs but one.
    async fn group(&self) -> Fallible<Server> {
        let server = self.start(Mode::Group, "everysec").await?;
        server.ok_or_else(|| "there is no server".into())
    }

    /// The time of a whole measurement.
    fn whole(&self) -> Duration {
        Duration::from_secs_f64(self.args.seconds)
    }

    /// The time of one of its `ROUNDS`.
    fn round(&self) -> Duration {
        self.whole() / ROUNDS
    }

    /// A topic's name that no other run has used.
    fn topic(&self, name: &str) -> String {
        let now = chrono::Utc::now().timestamp_millis();
        format!("bench-{now}-{}-{name}", std::process::id())
    }

    /// Shows progress, on standard error, so that the result stays clean.
    fn say(&self, text: impl std::fmt::Display) {
        eprintln!("bench: {text}");
    }

    fn parts(&self) -> Vec<Part> {
        if !self.args.only.is_empty() {
            return self.args.only.clone();
        }
        let answerable = |part: &Part| match part {
            _ if self.args.server.is_none() => true,
            Part::Publish | Part::Loop | Part::Lateness | Part::Batch | Part::Fields => true,
            Part::Memory | Part::Cpu | Part::Idle => self.args.redis_url.is_some(),
            Part::Million | Part::Fsync | Part::Burst | Part::IdleTopics | Part::Callbacks => false,
        };
        Part::ALL.into_iter().filter(answerable).collect()
    }

    async fn report(&self) -> Fallible<Report> {
        let most = self.args.connections.iter().max().copied().unwrap_or(0);
        servers::allow_open_files(1200.max(most as u64 + 200))?;
        if cfg!(debug_assertions) {
            self.say("this is a debug build: the figures say little");
        }
        let mut report = Report::default();
        for part in self.parts() {
            part.measure(self).await?.into_iter().for_each(|section| report.add(section));
        }
        Ok(report)
    }
}

/// Runs the bench. Exit 0: measured, whatever the figures; 1: it could not be
/// measured, and why stands on standard error; 130: interrupted.
pub async fn run(args: Args) -> ExitCode {
    let bench = Bench { args };
    // On Ctrl-C the future is dropped, and its servers are stopped by that.
    let outcome = tokio::select! {
        outcome = bench.report() => outcome,
        _ = tokio::signal::ctrl_c() => return ExitCode::from(130),
    };
    match outcome {
        Ok(report) if bench.args.json => println!("{:#}", report.to_json()),
        Ok(report) => print!("{}", report.render()),
        Err(failure) => {
            eprintln!("dueq bench: {failure}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
