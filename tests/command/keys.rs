//! `dueq keys new`, and key files with names: what is refused at the start, and what is warned of.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use ring::digest::{SHA256, digest};

use crate::harness::*;
use crate::refusals::one_line;

const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

async fn new(args: &[&str]) -> Finished {
    Launch::command(["keys", "new"]).args(args).finish().await
}

fn file(text: &str) -> PathBuf {
    let path = temp_dir("keys").join("keys");
    replace(&path, text);
    path
}

#[tokio::test]
async fn a_new_key_goes_to_stderr_its_line_to_stdout_and_the_server_knows_it() {
    let finished =
        new(&["--name", "shop", "--allow", "publish:orders.*", "--allow", "read:*"]).await;
    assert_eq!(finished.code, 0, "{finished:?}");
    let key = finished.stderr.trim_end();
    assert!(
        key.starts_with("dq_") && key.len() == 46 && !key.contains(char::is_whitespace),
        "{finished:?}"
    );
    let line = finished.stdout.trim_end();
    assert!(
        line.starts_with("shop sha256:") && line.ends_with(" publish:orders.* read:*"),
        "{finished:?}"
    );
    assert!(!line.contains('\n') && !line.contains(key), "{finished:?}");
    let path = file(&finished.stdout);
    let dueq = Dueq::on(&shared().await.redis).args(["--api-key-file"]).args([&path]).start().await;
    let client = dueq.client().with_key(key);
    client.get_path("/topics").await.expect(200);
    client.lease("orders", serde_json::json!({})).await.problem(403, "not_allowed");
    assert!(!dueq.log().contains(key));
}

#[tokio::test]
async fn a_wrong_name_or_scope_is_refused() {
    for (name, scope, reason) in [
        ("", "read:*", "a name has"),
        ("a b", "read:*", "a name has"),
        ("_a", "read:*", "a name has"),
        ("a", "sell:*", "is no verb"),
        ("a", "read", "needs a pattern"),
        ("a", "read:", "needs a pattern"),
        ("a", "admin:*", "admin takes no pattern"),
        ("a", "read:*.x", "the pattern of read"),
        ("a", "", "is no verb"),
    ] {
        one_line(&new(&["--name", name, "--allow", scope]).await, &[reason]);
    }
    for missing in [&["--name", "a"][..], &["--allow", "read:*"], &[]] {
        assert_eq!(new(missing).await.code, 2);
    }
}

#[tokio::test]
async fn every_wrong_line_of_a_file_is_named_at_the_start() {
    let path = file(&format!(
        "good sha256:{HASH} read:*\nshort sha256:abc read:*\n\nother sha256:{HASH} see:*\n"
    ));
    let path = path.to_str().unwrap();
    let url = shared().await.redis.url();
    let finished =
        Launch::command(["serve", "--redis-url", &url, "--api-key-file", path]).finish().await;
    one_line(&finished, &[path, "line 2: sha256:", "line 4: word 3 is no verb"]);
}

#[tokio::test]
async fn a_line_that_may_do_more_than_it_says_is_refused_and_shows_no_secret() {
    let url = shared().await.redis.url();
    let given = "the-flag's-own-sesame";
    let hash = hex::encode(digest(&SHA256, given.as_bytes()));
    let named = format!("good sha256:{HASH} read:*\n");
    for (text, reason) in [
        (format!("{named}sesame\n"), "line 2: next to named keys"),
        (
            format!("{named}other sha256:{hash} read:*\n"),
            "line 2: its key is also one of --api-key",
        ),
        (format!("{named}{given}\n"), "line 2: its key is also one of --api-key"),
        (format!("good sha256:{HASH} read:* sesame\n"), "line 1: word 4 is no verb"),
        (format!("good sha256:{HASH} read:*\rsesame\r"), "line 1: it has a carriage return"),
    ] {
        let path = file(&text);
        let path = path.to_str().unwrap();
        let launch = Launch::command(["serve", "--redis-url", &url, "--api-key-file", path]);
        let finished = launch.args(["--api-key", given]).finish().await;
        one_line(&finished, &[path, reason]);
        assert!(!finished.stderr.contains("sesame"), "{finished:?}");
    }
}

#[tokio::test]
async fn a_key_file_that_has_no_beginning_or_no_end_is_refused_soon() {
    let url = shared().await.redis.url();
    let pipe = temp_dir("keys").join("pipe");
    fifo(&pipe);
    for (path, reason) in
        [(pipe.to_str().unwrap(), "no API key in"), ("/dev/zero", "larger than 16 MiB")]
    {
        let launch = Launch::command(["serve", "--redis-url", &url, "--api-key-file", path]);
        one_line(&launch.finish().await, &[path, reason]);
    }
}

#[tokio::test]
async fn bare_keys_and_files_for_every_user_are_warned_of() {
    let named = format!("shop sha256:{HASH} read:*\n");
    let start = async |text: &str, mode: u32| {
        let path = file(text);
        std::fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        Dueq::on(&shared().await.redis).args(["--api-key-file"]).args([path]).start().await.log()
    };
    let log = start(&named, 0o640).await;
    assert!(!log.contains("WARN"), "{log}");
    let log = start(&named, 0o644).await;
    assert!(log.contains("WARN") && log.contains("every user of this machine may read"), "{log}");
    let log = start(&format!("{named}sesame-open-sesame\n"), 0o600).await;
    assert!(log.contains("WARN") && log.contains("without a name in the key file: 1"), "{log}");
    assert!(!log.contains("sesame"), "{log}");
}

#[tokio::test]
async fn an_audit_log_that_cannot_be_written_is_refused() {
    let url = shared().await.redis.url();
    let finished = Launch::command(["serve", "--redis-url", &url, "--audit-log", "/nowhere/audit"]);
    one_line(&finished.finish().await, &["cannot write the audit log /nowhere/audit"]);
    // A pipe that nobody reads would hold up the start.
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RWXU).unwrap();
    let pipe = pipe.to_str().unwrap();
    let finished = Launch::command(["serve", "--redis-url", &url, "--audit-log", pipe]);
    one_line(&finished.finish().await, &[pipe, "it is not a regular file"]);
}
