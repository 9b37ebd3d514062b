//! The OpenAPI document walked by schemathesis: requests that it makes up from the document, right ones and wrong ones,
//! find no 5xx, no undocumented status and no answer of another shape.
//!
//! What is asked of each answer, and what is not, stands in `schemathesis.toml` alongside this file. A walk is as long as that
//! says; [`schemathesis`] takes one after another, each with a seed of its own, until its time is over.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::rss_kib;
use crate::harness::*;

/// What a busy machine adds to a walk's own time.
const MORE: Duration = Duration::from_secs(180);
/// A walk of the long form, seconds: several of them show whether memory grows from one to the next.
const ROUND: u64 = 240;
/// The shortest walk that reaches every operation, seconds.
const LEAST: u64 = 30;
/// Examples that a walk of the long form makes up for an operation; the short form has what the settings say.
const EXAMPLES: u64 = 100;
/// What memory may grow by after the first walk: a quarter and so many KiB.
const GROWTH_KIB: u64 = 32 * 1024;

/// How a walk differs from the settings.
#[derive(Clone, Copy)]
pub struct Round {
    pub seed: u64,
    pub examples: u64,
    pub seconds: u64,
}

/// What came of a walk.
pub struct Walked {
    /// Requests that schemathesis made up.
    pub requests: u64,
    /// What is wrong; nothing where all was as the document says.
    pub failure: Option<String>,
    /// What it printed, without the bodies that it repeats in full.
    pub shown: String,
}

/// What came of all walks of a long form.
#[derive(Debug)]
pub struct SchemaReport {
    pub rounds: u64,
    pub requests: u64,
    pub failures: Vec<String>,
    /// The most resident memory of dueq in the first walk, and in those after it, KiB.
    pub rss_before: u64,
    pub rss_peak: u64,
}

impl SchemaReport {
    /// Demands that nothing failed and that memory is bounded: what dueq took in the first walk, it took in every other,
    /// a quarter and 32 MiB apart; what walks leave in Redis is removed after each.
    ///
    /// # Panics
    /// When it is not so.
    #[track_caller]
    pub fn expect_clean(&self) {
        let failures = self.failures.join("\n---\n");
        assert!(self.failures.is_empty(), "{} failures\n{failures}", self.failures.len());
        let most = self.rss_before + self.rss_before / 4 + GROWTH_KIB;
        assert!(self.rss_peak <= most, "memory grows: {self:?}");
    }
}

/// schemathesis, where `tests/setup.sh` puts it.
fn program() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join(target).join("checkers/bin/schemathesis");
    assert!(path.exists(), "no {}: `tests/setup.sh checkers` installs it", path.display());
    path
}

fn shortened(printed: &str) -> String {
    let cut = |line: &str| line.chars().take(600).collect::<String>();
    printed.lines().map(cut).collect::<Vec<_>>().join("\n")
}

/// The numbers of the line that begins so: `Selected: 13/13` has 13 and 13.
fn numbers(printed: &str, begin: &str) -> Vec<u64> {
    let line = printed.lines().find_map(|line| line.trim().strip_prefix(begin)).unwrap_or("");
    line.split('/').filter_map(|number| number.trim().parse().ok()).collect()
}

/// Makes something to meet: a keyed message in each of the topics that the settings name, and messages
/// in every state elsewhere. Returns the ids of those, and the tokens of the leased ones.
async fn furnish(client: &Client) -> (Vec<String>, serde_json::Map<String, Value>) {
    for n in 0..10 {
        client.published(&format!("orders-{n}"), json!({"payload": n, "key": "order-42"})).await;
    }
    let (mut ids, mut leases) = (Vec::new(), serde_json::Map::new());
    for n in 0..300 {
        let message = match n % 3 {
            0 => json!({"payload": n, "delay_ms": 600_000, "priority": 1}),
            _ => json!({"payload": n, "headers": {"n": n.to_string()}, "max_attempts": 5}),
        };
        ids.push(client.published("furnished", message).await);
    }
    let want = json!({"max_messages": 150, "lease_ms": 43_200_000});
    for (n, held) in client.leased("furnished", want).await.iter().enumerate() {
        if n % 3 == 0 {
            client.nack_leased(held, json!({"dead": true, "reason": "no use"})).await.expect(200);
        } else {
            leases.insert(text(held, "id").to_owned(), held["lease_token"].clone());
        }
    }
    (ids, leases)
}

/// The settings with what the round says in place of their own.
fn settings(round: Option<Round>, ids: &[String]) -> String {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proof/fuzz/schemathesis.toml");
    let settings = fs::read_to_string(beside).unwrap();
    let line = |line: &str| match (round, line.split(" = ").next()) {
        (Some(round), Some("seed")) => format!("seed = {}", round.seed),
        (Some(round), Some("max-time")) => format!("max-time = {}", round.seconds),
        (Some(round), Some("max-examples")) => format!("max-examples = {}", round.examples),
        _ => line.to_owned(),
    };
    let lines: Vec<_> = settings.lines().map(line).collect();
    format!("{}\n[dictionaries.ids]\nvalues = {ids:?}\n", lines.join("\n"))
}

/// Furnishes the server and lets schemathesis walk its document once; `look` is called now and then meanwhile.
pub async fn walk(dueq: &Dueq, round: Option<Round>, mut look: impl FnMut()) -> Walked {
    let dir = temp_dir("schema"); // it reads its settings there, and leaves its files
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/proof/fuzz");
    let (ids, leases) = furnish(&dueq.client()).await;
    fs::write(dir.join("leases.json"), Value::from(leases).to_string()).unwrap();
    fs::copy(beside.join("hooks.py"), dir.join("hooks.py")).unwrap();
    fs::write(dir.join("schemathesis.toml"), settings(round, &ids)).unwrap();
    let out = dir.join("out");
    let mut run = Process::start(
        Command::new(program())
            .args(["run", "--no-color", &format!("{}/openapi.json", dueq.url())])
            .current_dir(&dir)
            .env_remove("SCHEMATHESIS_HOOKS")
            .stdin(Stdio::null())
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(dir.join("errors")).unwrap()),
    );
    let end = Instant::now() + Duration::from_secs(round.map_or(60, |round| round.seconds)) + MORE;
    let status = loop {
        if let Some(status) = run.ended() {
            break Some(status);
        }
        if Instant::now() > end {
            break None;
        }
        look();
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let printed = text_of(&out);
    let shown = format!("{}\n{}", shortened(&printed), text_of(&dir.join("errors")));
    let (selected, tested) = (numbers(&printed, "Selected:"), numbers(&printed, "Tested:"));
    let wrong = match status {
        None => Some("schemathesis goes on and on".to_owned()),
        Some(status) if !status.success() => Some(format!("schemathesis: {status}")),
        _ if selected.len() < 2 || selected[0] == 0 || selected[0] != selected[1] => {
            Some("not every operation".to_owned())
        }
        _ if tested.first() != selected.first() => Some("some were not reached".to_owned()),
        _ if dueq.log().contains("panicked") => Some("dueq panicked".to_owned()),
        _ => None,
    };
    let failure = wrong.map(|wrong| format!("{wrong}\n{shown}\n{}", dueq.log()));
    // "533 generated, 533 passed"
    let generated =
        printed.lines().find_map(|line| line.trim().split_once(" generated")?.0.parse().ok());
    let requests = generated.unwrap_or(0);
    Walked { requests, failure, shown }
}

/// Removes all that a walk has left, so that what lies in Redis is bounded by what one leaves.
async fn clean(client: &Client) {
    for (list, query) in [("topics", "?force=true"), ("schedules", "")] {
        loop {
            let page = client.get_path(&format!("/{list}?limit=1000")).await.expect(200).json();
            let names = page["items"].as_array().unwrap().iter().map(|item| text(item, "name"));
            let names: Vec<_> = names.filter(|name| !name.starts_with('_')).collect();
            if names.is_empty() {
                break;
            }
            for name in names {
                client.send("DELETE", &format!("/{list}/{name}{query}"), &[], None).await;
            }
        }
    }
    client.purge("_callbacks", &["ready", "delayed", "dead"]).await;
}

/// Lets schemathesis walk the document, each time with another seed and more examples than the settings say, until so
/// many minutes are over. One dueq serves all walks.
pub async fn schemathesis(minutes: u64) -> SchemaReport {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).args(["--no-dispatch"]).start().await;
    let began = Instant::now();
    let mut report =
        SchemaReport { rounds: 0, requests: 0, failures: Vec::new(), rss_before: 0, rss_peak: 0 };
    loop {
        let left = (minutes * 60).saturating_sub(began.elapsed().as_secs());
        if left < LEAST && report.rounds > 0 {
            return report;
        }
        // The last one takes what would be too short for one more.
        let seconds = if left < ROUND + LEAST { left.max(LEAST) } else { ROUND };
        let seed = rand::random::<u32>().into();
        let mut peak = 0;
        let round = Round { seed, examples: EXAMPLES, seconds };
        let walked = walk(&dueq, Some(round), || peak = peak.max(rss_kib(dueq.pid()))).await;
        println!("schemathesis: seed {seed}, {} requests, {peak} KiB", walked.requests);
        report.requests += walked.requests;
        report.failures.extend(walked.failure.map(|failure| format!("seed {seed}: {failure}")));
        let place = if report.rounds == 0 { &mut report.rss_before } else { &mut report.rss_peak };
        *place = peak.max(*place);
        report.rounds += 1;
        clean(&dueq.client()).await;
    }
}
