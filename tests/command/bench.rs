//! `dueq bench`, on a server of its own and on one that runs.

use crate::harness::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs::read_to_string,
    net::TcpStream,
    process::{Command, Stdio},
};
use tempfile::TempDir;

async fn rows(words: &[&str]) -> Vec<Value> {
    let words = ["bench", "--json", "--seconds", "0.2"].iter().chain(words);
    let finished = Launch::command(words).limit(std::time::Duration::from_secs(120)).finish().await;
    assert_eq!(finished.code, 0, "{finished:?}");
    let mut report: Value = serde_json::from_str(&finished.stdout).unwrap();
    report["rows"].as_array_mut().unwrap().drain(..).collect()
}

#[tokio::test]
async fn every_part_is_measured_on_a_server_of_its_own() {
    let only = "healthz,publish,lease,ack,loop,batch";
    let rows = rows(&["--only", only, "--connections", "1,4"]).await;
    assert_eq!(rows.len(), 14, "{rows:?}");
    for row in &rows {
        assert!(row["per_s"].as_f64() > Some(0.0) && row["failed"] == 0, "{row}");
        assert!(row["redis_cpu_us"].is_number(), "{row}");
    }
}

#[tokio::test]
async fn a_running_server_is_measured_and_left_as_it_was() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).args(["--api-key", "s3cret"]).start().await;
    let words = ["--server", &dueq.url(), "--redis-url", &redis.url(), "--api-key", "s3cret"];
    let rows = rows(&[&words[..], &["--only", "loop", "--connections", "2"]].concat()).await;
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert!(rows[0]["redis_cpu_us"].is_number() && rows[0]["failed"] == 0, "{rows:?}");
    let left = Launch::command(["topics", "--server", &dueq.url(), "--api-key", "s3cret"]);
    assert_eq!(left.finish().await.stdout, "no topics\n");
}

#[tokio::test]
async fn lateness_counts_every_message() {
    let rows = rows(&["--only", "lateness", "--connections", "1"]).await;
    // Under load a debug build leases some too late to be seen.
    let counts = rows.iter().map(|row| number(row, "messages") + number(row, "missing"));
    assert_eq!(counts.collect::<Vec<_>>(), [5_000, 25_000]);
    assert!(rows.iter().all(|row| row["early"] == 0), "{rows:?}");
}

#[tokio::test]
async fn it_says_why_it_cannot_measure() {
    for (server, why) in
        [("https://a", "must be http://host:port"), ("http://127.0.0.1:1", "refused")]
    {
        let finished = Launch::command(["bench", "--server", server]).finish().await;
        assert_eq!(finished.code, 1, "{finished:?}");
        assert!(finished.stderr.contains(why), "{finished:?}");
    }
}

#[tokio::test]
async fn a_server_of_its_own_ends_with_it_even_if_it_is_killed() {
    for signal in [Signal::TERM, Signal::KILL] {
        let temporary = TempDir::new().unwrap();
        let mut bench = Command::new(env!("CARGO_BIN_EXE_dueq"))
            .args(["bench", "--only", "publish", "--connections", "1", "--seconds", "60"])
            .env("TMPDIR", temporary.path())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let directory = temporary.path().join(format!("dueq-bench-{}", bench.id()));
        let address = eventually("an address", || async {
            read_to_string(directory.join("address")).ok().filter(|address| !address.is_empty())
        })
        .await;
        kill_process(Pid::from_child(&bench), signal).unwrap();
        bench.wait().unwrap();
        eventually("the end of its server", || async {
            TcpStream::connect(address.trim()).is_err().then_some(())
        })
        .await;
        assert_eq!(directory.exists(), signal == Signal::KILL);
    }
}
