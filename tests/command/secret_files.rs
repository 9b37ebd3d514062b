//! Secrets that come from files: nothing secret has to be on a command line.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use standardwebhooks::Webhook;

use crate::harness::*;
use crate::refusals::one_line;

const FIRST: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const SECOND: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

fn file(text: &str) -> PathBuf {
    let path = temp_dir("secrets").join("secret");
    replace(&path, text);
    path
}

fn warns(dueq: &Dueq, words: &str) -> bool {
    dueq.log().lines().any(|line| line.contains("WARN") && line.contains(words))
}

#[tokio::test]
async fn the_url_of_redis_comes_from_a_file() {
    let url = shared().await.redis.url();
    for text in [url.clone(), format!("{url}\n"), format!("{url}\r\n")] {
        let path = file(&text);
        let dueq = Launch::command(["serve", "--redis-url-file"]).args([&path]).start().await;
        assert!(!dueq.log().contains("WARN"), "{}", dueq.log());
    }
    let path = file(&url);
    Launch::command(["serve"]).env("DUEQ_REDIS_URL_FILE", &path).start().await;
    let audit = Launch::command(["audit", "--redis-url-file"]).args([&path]).finish().await;
    assert_eq!(audit.code, 0, "{audit:?}");
}

#[tokio::test]
async fn another_redis_is_not_taken_while_dueq_serves() {
    let (redis, other) = (Redis::start().await, Redis::start().await);
    let path = file(&redis.url());
    let dueq = Launch::command(["serve", "--redis-url-file"]).args([&path]).start().await;
    replace(&path, &other.url());
    eventually("it is said", || async {
        dueq.log().contains("restart dueq to use it").then_some(())
    })
    .await;
    dueq.client().published("files", json!({"payload": 1})).await;
    assert_eq!(other.command::<Vec<String>>(&["KEYS", "*"]).await, [""; 0]);
}

#[tokio::test]
async fn a_file_that_is_no_secret_is_refused_and_not_quoted() {
    let url = shared().await.redis.url();
    let dir = temp_dir("secrets");
    let directory = dir.to_str().unwrap();
    let (empty, blank, lines) = (file(""), file("\n"), file("sesame\nand more\n"));
    let [empty, blank, lines] = [&empty, &blank, &lines].map(|path| path.to_str().unwrap());
    for (path, why) in [
        (empty, "is empty"),
        (blank, "is empty"),
        (lines, "more than one line"),
        (directory, "cannot read"),
        ("/nowhere/secret", "cannot read"),
    ] {
        for args in
            [&["--redis-url-file", path][..], &["--redis-url", &url, "--redis-password-file", path]]
        {
            let launch = Launch::command(["serve", "--listen", "127.0.0.1:0"]);
            let finished = launch.args(args).finish().await;
            one_line(&finished, &[path, why]);
            assert!(!finished.stderr.contains("sesame"), "{finished:?}");
        }
    }
    for args in [
        &["--redis-url", &url, "--redis-url-file", lines][..],
        &["--redis-password-file", lines],
        &["--signing-secret", FIRST, "--signing-secret-file", lines],
    ] {
        let finished = Launch::command(["serve"]).args(args).finish().await;
        assert_eq!(finished.code, 2, "{finished:?}");
        assert!(finished.stderr.contains("--"), "{finished:?}");
        assert!(!finished.stderr.contains(FIRST), "{finished:?}");
    }
    let three = file(&[FIRST, SECOND, FIRST].join("\n"));
    let bad = file(&format!("{FIRST}\nsesame\n"));
    for (path, why) in [
        (three.to_str().unwrap(), "at most 2"),
        (bad.to_str().unwrap(), "whsec_"),
        (empty, "is empty"),
        ("/nowhere/secret", "cannot read"),
    ] {
        let launch = Launch::command(["serve", "--redis-url", &url, "--signing-secret-file", path]);
        let finished = launch.finish().await;
        one_line(&finished, &[path, why]);
        assert!(!finished.stderr.contains("sesame"), "{finished:?}");
    }
}

#[tokio::test]
async fn a_secret_that_others_may_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;
    let path = file(&shared().await.redis.url());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let dueq = Launch::command(["serve", "--redis-url-file"]).args([&path]).start().await;
    assert!(warns(&dueq, path.to_str().unwrap()), "{}", dueq.log());
}

#[tokio::test]
async fn signing_secrets_come_from_a_file_that_is_read_again() {
    let redis = Redis::start().await;
    let path = file(&format!("# ours\n\n{FIRST}\r\n"));
    let launch = Dueq::calling(&redis).args(["--signing-secret-file"]).args([&path]);
    let dueq = launch.start().await;
    let (client, receiver) = (dueq.client(), Receiver::start().await);
    // What is derived of the server's secret, and signs.
    let signed = async |number: usize| {
        let shown = client.get_path("/topics/_callbacks/push/secret").await.expect(200).json();
        let secret = shown["secrets"][0].as_str().unwrap().to_owned();
        client.post("/callbacks", &json!({"url": receiver.url("/")})).await.expect(201);
        let call = receiver.wait_for(number).await.remove(number - 1);
        Webhook::new(&secret).unwrap().verify(&call.body, &call.header_map()).unwrap();
        secret
    };
    let first = signed(1).await;
    replace(&path, SECOND);
    eventually("it was read", || async { dueq.log().contains("read again").then_some(()) }).await;
    let second = signed(2).await;
    assert!(![FIRST, SECOND, &first].contains(&second.as_str()), "{second}");
    replace(&path, "none");
    eventually("it is said", || async { dueq.log().contains("stays in force").then_some(()) })
        .await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(dueq.log().matches("stays in force").count(), 1, "{}", dueq.log());
    assert!(signed(3).await == second);
    for secret in [FIRST, SECOND, &first, &second] {
        assert!(!dueq.log().contains(secret), "{}", dueq.log());
    }
}
