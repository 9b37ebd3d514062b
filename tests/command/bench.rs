//! `dueq bench`, on a server of its own and on one that runs.

use crate::harness::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs::{read_dir, read_to_string},
    net::TcpStream,
    process::{Command, Stdio},
};
use tempfile::TempDir;

async fn rows(words: &[&str]) -> Vec<Value> {
    let words = ["bench", "--json", "--seconds", "0.2"].iter().chain(words);
    let finished = Launch::command(words).limit(std::time::Duration::from_secs(300)).finish().await;
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
async fn topics_have_the_settings_and_messages_the_groups_that_are_asked_for() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let server = ["--server", &dueq.url(), "--connections", "2"];
    let settings = ["--settings", r#"{"partitions":4,"group_concurrency":2}"#, "--groups", "150"];
    let words = [&server[..], &settings, &["--only", "publish,loop"]].concat();
    let client = dueq.client();
    let seen = eventually("a topic of the bench with all groups", || async {
        let topics = client.get_path("/topics").await.expect(200).json();
        let name = topics["items"][0]["name"].as_str()?.to_owned();
        let found = client.get_path(&format!("/topics/{name}/groups?limit=500")).await;
        let many = found.json()["items"].as_array()?.len();
        let config = client.topic(&name).await.json()["config"].clone();
        let known = [&config["partitions"], &config["group_concurrency"]].map(Value::as_i64);
        (many == 150 && known == [Some(4), Some(2)]).then_some(())
    });
    let (rows, ()) = tokio::join!(rows(&words), seen);
    assert!(rows.iter().all(|row| row["per_s"].as_f64() > Some(0.0) && row["failed"] == 0));
    for (words, why) in [
        (["--settings", "partitions=4"], "answered 400"),
        (["--settings", r#"{"partitions":3}"#], "answered 422"),
        (["--groups", "1000001"], "--groups"),
    ] {
        let words = [&["bench"], &server[..], &words].concat();
        let finished = Launch::command(words).finish().await;
        assert!(finished.code != 0 && finished.stderr.contains(why), "{finished:?}");
    }
}

#[tokio::test]
async fn a_server_is_measured_by_tls() {
    let authority = Authority::new();
    let (served, client) = (authority.sign("dueq", &["localhost"]), authority.sign("c", &["c"]));
    let dueq = Dueq::on(&shared().await.redis)
        .args(["--tls-cert"])
        .args([&served.cert])
        .args(["--tls-key"])
        .args([&served.key])
        .args(["--tls-client-ca"])
        .args([authority.ca()])
        .tls(authority.client(Some(&client)))
        .start()
        .await;
    let url = dueq.url().replace("http://127.0.0.1", "https://localhost");
    let path = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let (ca, cert, key) = (path(&authority.ca()), path(&client.cert), path(&client.key));
    let words = ["--server", &url, "--ca", &ca, "--client-cert", &cert, "--client-key", &key];
    let only = ["--only", "publish,loop", "--connections", "4"];
    let rows = rows(&[&words[..], &only].concat()).await;
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(rows.iter().all(|row| row["per_s"].as_f64() > Some(0.0) && row["failed"] == 0));
    let by_address = url.replace("localhost", "127.0.0.1");
    for (words, why) in [
        (&["--server", &url, "--ca", &path(&Authority::new().ca())][..], "--ca"),
        (&["--server", &url, "--ca", &ca], "--client-cert"),
        (&[&["--server", &by_address], &words[2..]].concat(), "--server-name"),
        (&["--server", &url, "--ca", "/nowhere/ca"], "cannot read /nowhere/ca"),
        (&["--server", &url, "--client-cert", &cert], "--client-key"),
    ] {
        let finished = Launch::command([&["bench"], words].concat()).finish().await;
        assert_eq!(finished.code, 1, "{finished:?}");
        assert!(finished.stderr.contains(why), "{finished:?}");
    }
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
async fn it_is_a_program_beside_dueq() {
    let help = Launch::command(["bench", "--help"]).finish().await;
    assert!(help.code == 0 && help.stdout.contains("Usage: dueq bench"), "{help:?}");
    let alone = temp_dir("alone").join("dueq");
    if std::fs::hard_link(binary(), &alone).is_err() {
        std::fs::copy(binary(), &alone).unwrap();
    }
    let output = Command::new(&alone).arg("bench").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("dueq-bench, which comes with dueq: No such file"), "{said}");
}

#[tokio::test]
async fn it_says_why_it_cannot_measure() {
    let plain = format!("https://{}", shared().await.dueq.addr());
    for (server, why) in [
        ("http://a/path", "must be http://host:port"),
        ("ftp://a", "--server"),
        ("http://127.0.0.1:1", "refused"),
        (&plain, "speaks plain HTTP: use http://"),
    ] {
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
        // Its name is random: nobody can have made it before.
        let directory = eventually("a directory", || async {
            let made = read_dir(temporary.path()).unwrap().next()?.unwrap().path();
            made.file_name()?.to_str()?.starts_with("dueq-bench-").then_some(made)
        })
        .await;
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
