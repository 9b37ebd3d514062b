//! The OpenAPI document walked by schemathesis: requests that it makes up from the document, right
//! ones and wrong ones, find no 5xx, no undocumented status and no answer of another shape.
//!
//! What is asked of each answer, and what is not, stands in `schemathesis.toml` beside this file.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../harness/mod.rs"]
mod harness;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::*;

/// More than `max-time` of the configuration and what a busy machine adds to it.
const LIMIT: Duration = Duration::from_secs(240);

/// schemathesis, where `tests/setup.sh` puts it.
fn schemathesis() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join(target).join("checkers/bin/schemathesis");
    assert!(path.exists(), "no {}: `tests/setup.sh checkers` installs it", path.display());
    path
}

/// What it printed, without the bodies that it repeats in full.
fn shortened(printed: &str) -> String {
    let cut = |line: &str| line.chars().take(600).collect::<String>();
    printed.lines().map(cut).collect::<Vec<_>>().join("\n")
}

/// The numbers of the line that begins so: `Selected: 13/13` has 13 and 13.
fn numbers(printed: &str, begin: &str) -> Vec<u32> {
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

#[tokio::test]
async fn whatever_the_document_allows_or_forbids_is_answered_as_it_says() {
    let program = schemathesis();
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).args(["--no-dispatch"]).start().await;
    let dir = temp_dir("schema"); // it reads its settings there, and leaves its files
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/schema");
    let (ids, leases) = furnish(&dueq.client()).await;
    fs::write(dir.join("leases.json"), Value::from(leases).to_string()).unwrap();
    fs::copy(beside.join("hooks.py"), dir.join("hooks.py")).unwrap();
    let settings = fs::read_to_string(beside.join("schemathesis.toml")).unwrap();
    let settings = format!("{settings}\n[dictionaries.ids]\nvalues = {ids:?}\n");
    fs::write(dir.join("schemathesis.toml"), settings).unwrap();
    let out = dir.join("out");
    let mut run = Process::start(
        Command::new(program)
            .args(["run", "--no-color", &format!("{}/openapi.json", dueq.url())])
            .current_dir(&dir)
            .env_remove("SCHEMATHESIS_HOOKS")
            .stdin(Stdio::null())
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(dir.join("errors")).unwrap()),
    );
    let status = run.wait(LIMIT).await;
    let printed = text_of(&out);
    let shown = || format!("{}\n{}", shortened(&printed), text_of(&dir.join("errors")));
    assert!(status.success(), "schemathesis: {status}\n{}", shown());
    let selected = numbers(&printed, "Selected:");
    assert!(selected[0] > 0 && selected[0] == selected[1], "not every operation: {}", shown());
    assert_eq!(numbers(&printed, "Tested:"), selected[..1], "some were not reached: {}", shown());
    assert!(!dueq.log().contains("panicked"), "{}", dueq.log());
    println!("{}", shown());
}
