//! The client commands, on a real server: what they print, and how they end.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::harness::*;

/// A command that asks the shared server.
pub async fn dueq<S: AsRef<std::ffi::OsStr>>(words: impl IntoIterator<Item = S>) -> Launch {
    Launch::command(words).env("DUEQ_SERVER", shared().await.dueq.url())
}

/// Runs a command that must be done; what it printed.
pub async fn done(words: &[&str]) -> String {
    let finished = dueq(words).await.finish().await;
    assert_eq!((finished.code, &*finished.stderr), (0, ""), "{words:?}: {finished:?}");
    finished.stdout
}

/// The same with `--json`: the answer.
pub async fn answer(words: &[&str]) -> Value {
    let text = done(&[words, &["--json"]].concat()).await;
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Runs a command that must fail with this exit code; what it said on stderr.
pub async fn failed(code: i32, words: &[&str]) -> String {
    let finished = dueq(words).await.finish().await;
    assert_eq!((finished.code, &*finished.stdout), (code, ""), "{words:?}: {finished:?}");
    finished.stderr
}

/// Runs a command with this standard input.
async fn fed(words: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(binary())
        .args(words)
        .env("DUEQ_SERVER", shared().await.dueq.url())
        .env_remove("DUEQ_API_KEY")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

#[tokio::test]
async fn a_message_is_published_leased_and_acknowledged() {
    let topic = topic("people");
    let shown = done(&["publish", &topic, r#"{"order": 42}"#, "--header", "a=b"]).await;
    assert!(shown.starts_with("id  ") && shown.contains("ready"), "{shown}");
    let leased = answer(&["lease", &topic, "--wait", "5s", "--lease", "5m"]).await;
    let message = &leased["messages"][0];
    assert_eq!(
        (&message["payload"], &message["headers"]),
        (&json!({"order": 42}), &json!({"a": "b"}))
    );
    assert!(number(message, "lease_ms") > 290_000, "{message}");
    let (id, token) = (text(message, "id"), text(message, "lease_token"));
    assert_eq!(done(&["ack", id, token]).await, format!("acknowledged {id}\n"));
    let told = failed(1, &["get", id]).await;
    assert!(told.starts_with("dueq: ") && told.ends_with("(404 message_not_found)\n"), "{told}");
}

#[tokio::test]
async fn a_lease_shows_payload_and_token() {
    let topic = topic("people");
    done(&["publish", &topic, "hello", "--priority", "7"]).await;
    let shown = done(&["lease", &topic, "--wait", "5s"]).await;
    for part in ["payload", "\"hello\"", "priority", "7", "1 (9 left)", "lease token", "lease ends"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(done(&["lease", &topic]).await, "no message is due\n");
}

#[tokio::test]
async fn a_delay_and_an_instant_say_when_it_is_due() {
    let topic = topic("people");
    let shown = done(&["publish", &topic, "1", "--delay", "10m"]).await;
    assert!(shown.contains("delayed") && shown.contains(" (in "), "{shown}");
    let published = answer(&["publish", &topic, "1", "--at", "2099-01-01T00:00:00+01:00"]).await;
    assert_eq!(published["due_at"], "2098-12-31T23:00:00.000Z");
}

#[tokio::test]
async fn a_payload_comes_byte_for_byte_from_standard_input() {
    let topic = topic("people");
    let (client, json) = (client().await, r#"{"z": 1.50, "a":[1E400 ,"\u0041"]}"#);
    for (input, wanted) in [(json, json), ("two\nlines", r#""two\nlines""#)] {
        let output = fed(&["publish", &topic, "-", "--json"], input.as_bytes()).await;
        assert!(output.status.success(), "{output:?}");
        let id: Value = serde_json::from_slice(&output.stdout).unwrap();
        let message = client.get(text(&id, "id")).await.expect(200);
        let body = String::from_utf8(message.body).unwrap();
        assert!(body.contains(&format!("\"payload\":{wanted}")), "{body}");
    }
}

#[tokio::test]
async fn a_payload_that_only_begins_like_json_is_warned_of_and_sent_as_a_string() {
    let topic = topic("people");
    for payload in ["{order: 42}", " [1, 2", r#"{"a": 1} x"#] {
        let finished = dueq(["publish", &topic, payload]).await.finish().await;
        assert_eq!(finished.code, 0, "{finished:?}");
        let told = finished.stderr;
        assert!(told.starts_with("dueq: the payload is not JSON (") && told.contains("column"));
        assert!(told.ends_with("), so it is sent as a string\n"), "{told}");
        assert_eq!(client().await.lease_one(&topic).await["payload"], payload);
    }
    for payload in [" [1, 2]", "(a]", "a {b", "\"{\""] {
        done(&["publish", &topic, payload]).await;
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_are_published_as_bytes() {
    let topic = topic("people");
    let output = fed(&["publish", &topic, "-"], b"\xff\x00").await;
    assert!(output.status.success(), "{output:?}");
    let shown = done(&["lease", &topic, "--wait", "5s"]).await;
    assert!(shown.contains("/wA= (base64 of application/octet-stream)"), "{shown}");
}

#[tokio::test]
async fn a_payload_can_be_a_file() {
    let topic = topic("people");
    let file = temp_dir("payload").join("file");
    std::fs::write(&file, "[1, 2]\n").unwrap();
    let file = file.to_str().unwrap();
    done(&["publish", &topic, "--file", file]).await;
    assert_eq!(client().await.lease_one(&topic).await["payload"], json!([1, 2]));
    failed(2, &["publish", &topic, "--file", &format!("{file}-not-there")]).await;
}

#[tokio::test]
async fn a_message_is_given_back() {
    let topic = topic("people");
    done(&["publish", &topic, "1"]).await;
    let message = client().await.lease_one(&topic).await;
    let shown =
        done(&["nack", text(&message, "id"), text(&message, "lease_token"), "--delay", "1h"]).await;
    assert!(shown.contains("delayed") && shown.contains(" (in "), "{shown}");
}

#[tokio::test]
async fn a_message_is_shown_and_deleted() {
    let topic = topic("people");
    let published = answer(&["publish", &topic, "1", "--delay", "1h"]).await;
    let id = text(&published, "id");
    let shown = done(&["get", id]).await;
    for part in [id, &*topic, "delayed", "payload", "0 (10 left)"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(done(&["delete", id]).await, format!("deleted {id}\n"));
    failed(1, &["delete", id]).await;
}

#[tokio::test]
async fn topics_are_listed_and_shown() {
    let topic = topic("client-list");
    done(&["publish", &topic, "1"]).await;
    done(&["publish", &topic, "1", "--delay", "1h"]).await;
    let list = done(&["topics", "--prefix", &topic]).await;
    let words: Vec<&str> = list.lines().last().unwrap().split_whitespace().collect();
    assert_eq!(words, [&*topic, "1", "1", "0", "0", "0", "0"]);
    assert_eq!(done(&["topics", "--prefix", "nobody-has-this"]).await, "no topics\n");
    let shown = done(&["topic", &topic]).await;
    for part in ["published 2", "DELAYED", "lease", "30s", "next due"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert_eq!(answer(&["topic", &topic]).await["counts"]["delayed"], 1);
}

#[tokio::test]
async fn a_refusal_ends_with_1_and_names_the_fields() {
    let words = ["publish", &topic("people"), "1", "--priority", "256", "--max-attempts", "0"];
    let told = failed(1, &words).await;
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].ends_with("(422 invalid_input)"), "{told}");
    for field in ["priority", "max_attempts"] {
        assert!(lines[1..].iter().any(|line| line.starts_with(&format!("  {field}: "))), "{told}");
    }
    let refused = dueq(["topic", "nobody-has-this", "--json"]).await.finish().await;
    let problem: Value = serde_json::from_str(&refused.stdout).unwrap();
    assert_eq!((refused.code, text(&problem, "code")), (1, "topic_not_found"));
}

#[tokio::test]
async fn an_unreachable_server_ends_with_1_and_is_named() {
    let server = format!("http://127.0.0.1:{}", free_port());
    let told = failed(1, &["topics", "--server", &server]).await;
    assert_eq!(
        told,
        format!(
            "dueq: nothing listens on {server}: start a server with `dueq serve`, or set DUEQ_SERVER\n"
        )
    );
}

#[tokio::test]
async fn a_server_needs_no_scheme() {
    let address = shared().await.dueq.addr();
    assert_eq!(done(&["healthcheck", "--server", address]).await, "ready\n");
}

#[tokio::test]
async fn a_healthcheck_of_an_unusable_server_ends_with_1() {
    for server in ["http://", "127.0.0.1:99999", ""] {
        let told = failed(1, &["healthcheck", "--server", server]).await;
        assert!(told.contains("expected one such as 127.0.0.1:8080"), "{server}: {told}");
    }
}

#[tokio::test]
async fn wrong_usage_ends_with_2() {
    for words in [
        &["publish", "a"][..],
        &["publish", "a", "1", "--file", "b"],
        &["publish", "a", "1", "--delay", "10"],
        &["publish", "a", "1", "--delay", "ten"],
        &["publish", "a", "1", "--at", "tomorrow"],
        &["publish", "a", "1", "--delay", "1s", "--at", "2030-01-01T00:00:00Z"],
        &["publish", "a", "1", "--header", "b"],
        &["publish", "a", "1", "--on-duplicate", "reject"],
        &["lease"],
        &["lease", "a", "--wait", "20"],
        &["ack", "1"],
        &["nack", "1", "t", "--dead", "--release"],
        &["get"],
        &["get", "1", "--topic", "a", "--key", "k"],
        &["get", "--key", "k"],
        &["redrive"],
        &["redrive", "a", "--id", "1"],
        &["purge", "a"],
        &["purge", "a", "--state", "leased"],
        &["topics", "--server", "ftp://127.0.0.1:8080"],
        &["topics", "--server", ""],
        &["topics", "--server", "127.0.0.1:99999"],
        &["topics", "--api-key", "a\nb"],
        &["completions", "cmd"],
    ] {
        let told = failed(2, words).await;
        assert!(!told.contains("panicked") && !told.is_empty(), "{words:?}: {told}");
    }
}

#[tokio::test]
async fn a_bad_duration_is_explained() {
    let told = failed(2, &["publish", "a", "1", "--delay", "10"]).await;
    assert!(told.contains("a duration looks like 10m, 1h30m or 500ms"), "{told}");
}

#[tokio::test]
async fn a_closed_standard_output_ends_quietly() {
    let url = shared().await.dueq.url();
    for words in ["topics", "completions bash", "completions zsh"] {
        let line = format!("{} {words} | true; echo ${{PIPESTATUS[0]}}", binary().display());
        let output =
            Command::new("bash").args(["-c", &line]).env("DUEQ_SERVER", &url).output().unwrap();
        assert_eq!(
            (&*output.stdout, &*output.stderr),
            (&b"0\n"[..], &b""[..]),
            "{words}: {output:?}"
        );
    }
}

#[tokio::test]
async fn the_api_key_is_never_shown() {
    let launch = dueq(["topics", "--help"]).await.env("DUEQ_API_KEY", "s3cret");
    let help = launch.finish().await.stdout;
    assert!(help.contains("DUEQ_API_KEY") && !help.contains("s3cret"), "{help}");
}

#[tokio::test]
async fn the_examples_of_the_help_work() {
    let topic = topic("client-examples");
    let dir = temp_dir("examples");
    std::os::unix::fs::symlink(binary(), dir.join("dueq")).unwrap();
    let mut script = "set -euo pipefail\n".to_owned();
    for command in ["publish", "messages", "lease", "search", "redrive"] {
        let help = done(&[command, "--help"]).await;
        let (_, examples) = help.split_once("\nExamples:\n").unwrap();
        assert!(examples.lines().count() >= 3, "{help}");
        script.push_str(&examples.replace("orders", &topic));
    }
    let programs = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-c", &script])
        .envs([("PATH", programs), ("DUEQ_SERVER", shared().await.dueq.url())])
        .env_remove("DUEQ_API_KEY")
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{script}\n{output:?}");
}

#[tokio::test]
async fn every_command_that_is_shown_has_a_manual_page() {
    let dir = temp_dir("man");
    done(&["man", dir.to_str().unwrap()]).await;
    let page = |name: &str| std::fs::read_to_string(dir.join(format!("dueq{name}.1")));
    for (name, words) in [
        ("", ["publish", "serve"]),
        ("-serve", ["DUEQ_LISTEN", "Address to listen on"]),
        ("-schedules-put", ["cron", "every"]),
    ] {
        let page = page(name).unwrap();
        assert!(page.starts_with(".ie") && words.iter().all(|word| page.contains(word)), "{page}");
    }
    assert!(
        page("-exec-child").is_err() && page("-man").is_err(),
        "what is dueq's own is left out"
    );
}

#[tokio::test]
async fn completions_know_the_commands_of_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = done(&["completions", shell]).await;
        for word in ["publish", "redrive", "on-duplicate", "healthcheck", "search", "dry-run"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        assert!(!script.contains("exec-child"), "{shell}: what is dueq's own is offered");
    }
}
