//! `dueq search`, `dead`, `redrive`, `run`, `purge` and `delete` on a real server: what they find, what they do to it, and that
//! nothing that was published commands the terminal.

use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::client::{answer, done, dueq, failed};
use crate::harness::*;

/// What a terminal would act on, or a reader be misled by.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}31m\u{7f}\u{202e}'; exit 9 #\"\r\n";

/// A dead message, with this key and reason.
async fn died(topic: &str, key: &str, reason: &str) -> String {
    let client = client().await;
    let id = client.published(topic, json!({"payload": {"order": 42}, "key": key})).await;
    let message = client.lease_one(topic).await;
    client.nack_leased(&message, json!({"dead": true, "reason": reason})).await.expect(200);
    id
}

/// Runs the words in a shell that finds `dueq`; its output.
async fn shell(line: &str) -> (bool, String) {
    let dir = temp_dir("shell");
    std::os::unix::fs::symlink(binary(), dir.join("dueq")).unwrap();
    let programs = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap());
    let output = Command::new("bash")
        .args(["-c", line])
        .envs([("PATH", programs), ("DUEQ_SERVER", shared().await.dueq.url())])
        .env_remove("DUEQ_API_KEY")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    (output.status.success(), text.concat())
}

#[tokio::test]
async fn a_search_finds_the_dead_first_and_says_what_it_looked_at() {
    let (topic, client) = (topic("client-search"), client().await);
    let dead = died(&topic, "cart/1", "timeout after 3 s").await;
    died(&topic, "cart/2", "no such order").await;
    let late = client
        .published(&topic, json!({"payload": 1, "key": "cart/3", "delay_ms": 3_600_000}))
        .await;
    let shown = done(&["search", &topic, "key:cart/*"]).await;
    let ids: Vec<&str> = shown.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!((ids[1], ids[3]), (&*dead, &*late), "{shown}");
    assert!(shown.ends_with("\n\nfound 3, looked at 3\n"), "{shown}");
    let lines = done(&["search", &topic, "error:timeout", "--json"]).await;
    let found: Value = serde_json::from_str(&lines).unwrap();
    assert_eq!(found["id"], dead);
    let shown = done(&["search", &topic, "error:timeout", "--state", "delayed"]).await;
    assert_eq!(shown, "found 0, looked at 1\n");
    let shown = done(&["search", &topic, "key:cart/* -error:timeout -key:cart/2"]).await;
    assert!(shown.lines().nth(1).unwrap().starts_with(&late), "{shown}");
    assert!(shown.ends_with("\n\nfound 1, looked at 3\n"), "{shown}");
    let shown = done(&["search", &topic, "--state", "dead", "--", "-error:timeout"]).await;
    assert!(!shown.contains(&dead) && shown.ends_with("found 1, looked at 2\n"), "{shown}");
    let bounded = done(&["search", &topic, "key:cart/*", "--limit", "1"]).await;
    assert!(bounded.contains("found 1, "), "{bounded}");
}

#[tokio::test]
async fn a_search_looks_at_more_than_a_request_does() {
    let (topic, client) = (topic("client-search"), client().await);
    for _ in 0..11 {
        client.published_batch(&topic, &vec![json!({"payload": 1}); 1_000]).await;
    }
    client.published(&topic, json!({"payload": 1, "key": "needle"})).await;
    let shown = done(&["search", &topic, "key:needle"]).await;
    assert!(shown.ends_with("found 1, looked at 11001\n"), "{shown}");
    let shown = done(&["purge", &topic, "--state", "ready", "--query", "key:needle"]).await;
    assert_eq!(shown, "purged 1, still there 11000, looked at 11001\n");
}

#[tokio::test]
async fn the_dead_are_shown_by_reason_with_commands_that_work() {
    let topic = topic("client-dead");
    for seconds in 1..=3 {
        died(&topic, &format!("k{seconds}"), &format!("timeout \"after\" it's {seconds} s")).await;
    }
    died(&topic, "other", "no such order").await;
    let shown = done(&["dead", &topic]).await;
    let rows: Vec<&str> = shown.lines().collect();
    assert!(rows[0].starts_with("COUNT  FIRST "), "{shown}");
    assert!(
        rows[1].trim_start().starts_with("3  ") && rows[1].ends_with("timeout \"after\" it's * s"),
        "{shown}"
    );
    assert!(
        rows[2].trim_start().starts_with("1  ") && rows[2].ends_with("no such order"),
        "{shown}"
    );
    let hints: Vec<&str> = shown.lines().filter(|line| line.starts_with("  dueq ")).collect();
    for (hint, told) in
        hints.iter().zip(["found 3, looked at 4", "would be redriven 3", "would be purged 3"])
    {
        let (ok, said) = shell(hint).await;
        assert!(ok && said.contains(told), "{hint}: {said}");
    }
    assert_eq!(hints.len(), 3, "{shown}");
    assert_eq!(answer(&["dead", &topic]).await["items"][0]["count"], 3);
}

#[tokio::test]
async fn what_a_query_finds_is_redriven_run_and_purged() {
    let (topic, client) = (topic("client-bulk"), client().await);
    for n in 1..=3 {
        died(&topic, &format!("k{n}"), if n < 3 { "timeout" } else { "no such order" }).await;
    }
    let redrive = ["redrive", &topic, "--query", "error:timeout", "--spread", "1h"];
    let dry = done(&[&redrive[..], &["--dry-run"]].concat()).await;
    assert_eq!(dry, "would be redriven 2, looked at 3\n");
    let some = done(&[&redrive[..], &["--max", "1"]].concat()).await;
    assert!(some.starts_with("redriven 1, still dead 2, looked at "), "{some}");
    assert_eq!(done(&redrive).await, "redriven 1, still dead 1, looked at 2\n");
    client.published(&topic, json!({"payload": 1, "key": "late", "delay_ms": 3_600_000})).await;
    assert_eq!(
        done(&["run", &topic, "--q", "key:late"]).await.split(',').next(),
        Some("made due 1")
    );
    let purge = ["purge", &topic, "--state", "dead", "--query", "error:\"no such\""];
    assert_eq!(done(&purge).await, "purged 1, still there 0, looked at 1\n");
    let told = failed(1, &["redrive", &topic, "--query", "colour:red"]).await;
    assert!(told.contains("(422 "), "{told}");
}

#[tokio::test]
async fn what_a_search_finds_is_changed_by_its_ids() {
    let (topic, client) = (topic("client-ids"), client().await);
    let dead = died(&topic, "a", "timeout").await;
    let second = died(&topic, "b", "timeout").await;
    let list = format!("dueq search {topic} error:timeout --json | jq -r .id");
    let (ok, said) = shell(&format!("set -o pipefail; {list} | dueq redrive --id -")).await;
    assert_eq!((ok, &*said), (true, "redriven 2\n"));
    let finished = dueq(["redrive", "--id", &dead, &second]).await.finish().await;
    assert_eq!(
        (finished.code, &*finished.stderr),
        (1, "dueq: not redriven 2 of 2\n"),
        "{finished:?}"
    );
    assert!(finished.stdout.contains("message_not_dead"), "{finished:?}");
    let delayed = client.published(&topic, json!({"payload": 1, "delay_ms": 3_600_000})).await;
    assert_eq!(done(&["run", "--id", &delayed]).await, "made due 1\n");
    let missing = "01a1fd9c-3ca5-8000-8001-000000100000";
    let finished = dueq(["delete", &delayed, missing]).await.finish().await;
    assert_eq!(
        (finished.code, &*finished.stderr),
        (1, "dueq: not deleted 1 of 2\n"),
        "{finished:?}"
    );
    assert!(
        finished.stdout.starts_with("deleted 1\n") && finished.stdout.contains("message_not_found")
    );
    failed(1, &["redrive", "--id", "x", "y"]).await;
}

#[tokio::test]
async fn wrong_words_end_with_2() {
    for words in [
        &["search", "a"][..],
        &["search", "a", "key:b", "--state", "done"],
        &["search", "a", "key:b", "--limit", "0"],
        &["dead"],
        &["dead", "a", "b"],
        &["run"],
        &["run", "a", "--max", "-1"],
        &["redrive", "a", "--spread", "soon"],
        &["redrive", "--id", "1", "--query", "key:b"],
        &["purge", "a", "--query", "key:b"],
        &["delete", "1", "2", "--force"],
        &["delete", "1", "--topic", "a", "--key", "b"],
        &["hosts", "pause"],
        &["top", "a"],
    ] {
        failed(2, words).await;
    }
    for words in [&["search", "nobody-has-this", "key:b"][..], &["dead", "nobody-has-this"]] {
        let told = failed(1, words).await;
        assert!(told.ends_with("(404 topic_not_found)\n"), "{told}");
    }
}

#[tokio::test]
async fn a_host_of_callbacks_is_listed_paused_and_resumed() {
    let host = format!("{}.example:8443", topic("host"));
    assert_eq!(done(&["hosts", "pause", &host]).await, format!("{host} is paused\n"));
    let listed = async |what: &'static str, is_there: bool| {
        let found = || async {
            let lines = done(&["hosts"]).await;
            let line = lines.lines().find(|line| line.starts_with(&host)).unwrap_or_default();
            (line.contains("paused") == is_there).then_some(())
        };
        eventually(what, found).await;
    };
    listed("it is listed as paused", true).await;
    assert_eq!(answer(&["hosts", "resume", &host]).await["paused"], false);
    listed("it is not paused any more", false).await;
    let told = failed(1, &["hosts", "pause", "no host\u{1b}[2J"]).await;
    assert!(!told.contains('\u{1b}'), "{told:?}");
}

/// Runs the words on a terminal; all that reached it.
async fn on_a_terminal(words: &[&str], variables: &str) -> String {
    let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let line = format!("stty rows 30 cols 100; {variables} dueq {}", words.join(" "));
    let (ok, said) = shell(&format!("script -qec {} /dev/null", quoted(&line))).await;
    assert!(ok, "{line}: {said}");
    said
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// The text without the colours that dueq puts around words, and without what erases a line of progress.
fn uncoloured(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap().to_owned();
    for part in parts {
        // A request that takes long shows its progress, whose line is erased like this.
        if let Some(after) = part.strip_prefix("2K") {
            plain.push_str(after);
            continue;
        }
        let (codes, after) = part.split_once('m').unwrap_or((part, ""));
        assert!(codes.chars().all(|c| c.is_ascii_digit() || c == ';'), "{part:?}");
        plain.push_str(after);
    }
    plain
}

#[tokio::test]
async fn nothing_that_was_published_commands_the_terminal() {
    let (topic, client) = (topic("client-hostile"), client().await);
    let id = died(&topic, HOSTILE, HOSTILE).await;
    let body = json!({"payload": HOSTILE, "key": format!("{HOSTILE}2"), "delay_ms": 3_600_000});
    let alive = client.published(&topic, body).await;
    for words in [
        &["search", &topic, "attempts:>=0"][..],
        &["dead", &topic],
        &["messages", &topic],
        &["get", &id],
        &["get", &alive],
        &["topic", &topic],
        &["topics", "--prefix", &topic],
        &["top", "--once", "--prefix", &topic],
    ] {
        for json in [&[][..], &["--json"]] {
            let words = [words, json].concat();
            let said = uncoloured(&on_a_terminal(&words, "").await);
            let bad = |c: char| (c.is_control() && c != '\r' && c != '\n') || c == '\u{202e}';
            assert!(!said.contains(bad), "{words:?}: {said:?}");
        }
    }
    // What the hint says is one word, whatever the reason.
    let shown = done(&["dead", &topic]).await;
    let hint = shown.lines().find(|line| line.starts_with("  dueq search")).unwrap();
    let (ok, said) = shell(hint).await;
    assert!(ok && said.contains("found 1, "), "{hint}: {said}");
}

#[tokio::test]
async fn colours_are_for_terminals_that_want_them() {
    let topic = topic("client-colours");
    died(&topic, "a", "timeout").await;
    let words = ["messages", &topic];
    let red = "\u{1b}[31mdead";
    assert!(on_a_terminal(&words, "TERM=xterm").await.contains(red));
    for variables in ["TERM=xterm NO_COLOR=1", "TERM=dumb", "TERM=xterm CLICOLOR=0"] {
        let said = on_a_terminal(&words, &format!("env -u CI {variables}")).await;
        assert!(!said.contains('\u{1b}'), "{variables}: {said:?}");
    }
    assert!(!done(&words).await.contains('\u{1b}'), "a pipe");
    let forced = dueq(words).await.env("CLICOLOR_FORCE", "1").finish().await;
    assert!(forced.stdout.contains(red), "{forced:?}");
}

#[tokio::test]
async fn what_takes_long_shows_its_progress_on_a_terminal_only() {
    let url = shared().await.dueq.url();
    let words =
        ["bench", "--server", &url, "--only", "healthz", "--seconds", "2", "--connections", "1"];
    let said = on_a_terminal(&words, "TERM=xterm").await;
    assert!(said.contains("healthz at 1 connections ") && said.contains(" left"), "{said:?}");
    let said = on_a_terminal(&[&words[..], &["--json"]].concat(), "TERM=xterm").await;
    assert!(!said.contains(" left"), "{said:?}");
    let finished = dueq(words).await.finish().await;
    assert!(finished.code == 0 && !finished.stderr.contains(" left"), "{finished:?}");
}
