//! The key file while dueq serves: what changes in it holds within two seconds, on every instance, and nobody else notices.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::scopes::{KeyFile, bearer};
use crate::harness::*;

/// The status of a request with this key.
async fn status(dueq: &Dueq, key: &str) -> u16 {
    let authorization = bearer(key);
    dueq.client().send("GET", "/topics", &[("authorization", &authorization)], None).await.status
}

/// Waits for this status of requests with this key: how long it took.
async fn until(dueq: &Dueq, key: &str, wanted: u16) -> Duration {
    let begun = Instant::now();
    eventually(&format!("a {wanted}"), || async {
        (status(dueq, key).await == wanted).then_some(())
    })
    .await;
    begun.elapsed()
}

#[tokio::test]
async fn a_revoked_key_is_refused_everywhere_and_others_see_no_failed_request() {
    let mine = topic("reload");
    let file =
        KeyFile::of(&[("stays", &format!("publish:{mine} read:*")), ("goes", "consume:* read:*")]);
    let (one, other) = (file.start().await, file.start().await);
    let over = AtomicBool::new(false);
    let load = async |dueq: &Dueq| {
        let (client, mut count) = (file.client(dueq, "stays"), 0);
        while !over.load(Ordering::Relaxed) {
            client.publish(&mine, json!({"payload": 1})).await.expect(201);
            count += 1;
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        count
    };
    // Two long polls on a topic without messages.
    let empty = topic("reload");
    let poll = async |dueq: &Dueq| {
        let answer =
            file.client(dueq, "goes").lease(&empty, json!({"wait_ms": 50_000})).await.expect(200);
        assert_eq!(answer.json()["messages"], json!([]));
        Instant::now()
    };
    let revoke = async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        let key = file.key("goes").to_owned();
        let mut without = file.clone();
        without.remove("goes");
        without.write();
        let written = Instant::now();
        // How long after that a request was still let in: what a busy machine adds to the answer does not count.
        let let_in = async |dueq: &Dueq| {
            let mut last = Duration::ZERO;
            loop {
                let sent = written.elapsed();
                if status(dueq, &key).await == 401 {
                    return last;
                }
                last = sent;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let (one, other) = tokio::join!(let_in(&one), let_in(&other));
        tokio::time::sleep(Duration::from_millis(500)).await;
        over.store(true, Ordering::Relaxed);
        (written, one.max(other))
    };
    let ((written, let_in), of_one, of_other, polled, polled_too) =
        tokio::join!(revoke, load(&one), load(&other), poll(&one), poll(&other));
    assert!(of_one > 10 && of_other > 10, "{of_one} {of_other}");
    assert!(let_in < Duration::from_secs(2), "{let_in:?}");
    let (polled, end) = (polled.max(polled_too), written + Duration::from_secs(8));
    assert!(polled > written && polled < end, "{:?}", polled - written);
}

#[tokio::test]
async fn a_key_revoked_while_a_body_is_sent_does_nothing_more() {
    let mine = topic("reload");
    let mut file = KeyFile::of(&[
        ("stays", &format!("publish:{mine} read:*")),
        ("goes", "publish:* consume:*"),
    ]);
    let dueq = file.start().await;
    let (key, stays) = (file.key("goes").to_owned(), file.client(&dueq, "stays"));
    stays.published(&mine, json!({"payload": 1})).await;
    let mut halves = Vec::new();
    for path in ["messages", "messages/raw", "messages/batch", "lease"] {
        let mut wire = Wire::connect(dueq.addr()).await;
        let head = format!(
            "POST /topics/{mine}/{path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\ncontent-length: 100"
        );
        assert!(wire.request(&head, b"{").await);
        halves.push((path, wire));
    }
    file.remove("goes");
    file.write();
    until(&dueq, &key, 401).await;
    for (path, mut wire) in halves {
        // The rest need not come.
        let answer = wire.answer(path, Duration::from_secs(3)).await.expect("an answer");
        answer.check().problem(401, "unauthorized");
    }
    let counts = stays.get_path(&format!("/topics/{mine}")).await.expect(200).json();
    assert_eq!((&counts["counts"]["ready"], &counts["counts"]["leased"]), (&json!(1), &json!(0)));
}

#[tokio::test]
async fn a_key_that_comes_is_let_in_and_one_that_may_do_more_may() {
    let file = KeyFile::of(&[("first", "publish:*")]);
    let mut dueq = file.start().await;
    assert_eq!(status(&dueq, file.key("first")).await, 403);
    let mut more = file.anew();
    more.add("first", &["publish:*", "read:*"]);
    more.add("second", &["read:*"]);
    assert_eq!(status(&dueq, more.key("second")).await, 401);
    more.write();
    dueq.process.signal(Signal::HUP);
    until(&dueq, more.key("second"), 200).await;
    until(&dueq, more.key("first"), 200).await;
}

#[tokio::test]
async fn a_file_that_is_wrong_or_gone_keeps_the_keys_and_says_so_once() {
    mostly_waits();
    let file = KeyFile::of(&[("mine", "read:*")]);
    let dueq = file.start().await;
    std::fs::write(&file.path, "sesame open\n").unwrap();
    let said = |words: &str| {
        dueq.log().lines().filter(|line| line.contains("ERROR") && line.contains(words)).count()
    };
    eventually("the log says so", || async { (said("line 1: ") > 0).then_some(()) }).await;
    let warnings = async || dueq.client().get_path("/readyz").await.expect(200).json();
    let warning = warnings().await["warnings"][0].as_str().unwrap().to_owned();
    assert!(warning.contains("the API key file cannot be used"), "{warning}");
    std::fs::remove_file(&file.path).unwrap();
    eventually("the log says so", || async { (said("cannot read") > 0).then_some(()) }).await;
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert_eq!((said("line 1: "), said("cannot read")), (1, 1), "{}", dueq.log());
    assert_eq!(status(&dueq, file.key("mine")).await, 200);
    assert!(!dueq.log().contains("sesame"), "{}", dueq.log());
    let mut other = file.anew();
    other.add("other", &["read:*"]);
    other.write();
    until(&dueq, file.key("mine"), 401).await;
    assert_eq!(status(&dueq, other.key("other")).await, 200);
    assert!(warnings().await["warnings"].is_null());
}

#[tokio::test]
async fn an_empty_file_refuses_everybody_once_it_has_been_seen_twice() {
    let file = KeyFile::of(&[("mine", "read:*")]);
    let dueq = file.start().await;
    for empty in ["", "# no keys\n"] {
        std::fs::write(&file.path, empty).unwrap();
        assert_eq!(status(&dueq, file.key("mine")).await, 200);
        until(&dueq, file.key("mine"), 401).await;
        dueq.client().get_path("/healthz").await.expect(200);
        file.write();
        until(&dueq, file.key("mine"), 200).await;
    }
    assert!(dueq.log().contains("every request is refused"), "{}", dueq.log());
}

#[tokio::test]
async fn keys_from_a_pipe_are_read_once_and_stay() {
    let file = KeyFile::of(&[("mine", "read:*")]);
    file.write();
    let pipe = file.path.with_extension("pipe");
    fifo(&pipe);
    let (text, to) = (std::fs::read(&file.path).unwrap(), pipe.clone());
    let writer = std::thread::spawn(move || std::fs::write(to, text).unwrap());
    let redis = &shared().await.redis;
    let mut dueq = Dueq::on(redis).args(["--api-key-file"]).args([&pipe]).start().await;
    writer.join().unwrap();
    dueq.process.signal(Signal::HUP);
    tokio::time::sleep(Duration::from_millis(3500)).await;
    assert_eq!(status(&dueq, file.key("mine")).await, 200);
    let log = dueq.log();
    assert!(log.contains("it is not read again") && !log.contains("ERROR"), "{log}");
}

#[tokio::test]
async fn a_pipe_in_the_place_of_the_file_is_not_waited_for() {
    let mut file = KeyFile::of(&[("mine", "read:*")]);
    let dueq = file.start().await;
    let pipe = file.path.with_extension("pipe");
    fifo(&pipe);
    std::fs::rename(&pipe, &file.path).unwrap();
    eventually("the log says so", || async {
        dueq.log().contains("is not a regular file").then_some(())
    })
    .await;
    assert_eq!(status(&dueq, file.key("mine")).await, 200);
    file.add("other", &["read:*"]);
    file.write();
    until(&dueq, file.key("other"), 200).await;
}

#[tokio::test]
async fn a_file_that_could_not_be_read_is_read_once_it_can_be() {
    let file = KeyFile::of(&[("mine", "read:*")]);
    // Root may read everything, unless it has no capabilities.
    let words = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];
    let launch = file.launch().await;
    let dueq = match rustix::process::geteuid().is_root() {
        true => launch.within(words).start().await,
        false => launch.start().await,
    };
    let mode = |mode| std::fs::set_permissions(&file.path, Permissions::from_mode(mode)).unwrap();
    let mut other = file.anew();
    other.add("other", &["read:*"]);
    other.write();
    mode(0o000);
    eventually("the log says so", || async { dueq.log().contains("cannot read").then_some(()) })
        .await;
    mode(0o600);
    until(&dueq, other.key("other"), 200).await;
    until(&dueq, file.key("mine"), 401).await;
}

#[tokio::test]
async fn a_key_of_the_flag_in_the_file_keeps_the_keys_as_they_were() {
    let file = KeyFile::of(&[("mine", "read:*")]);
    let mut more = file.anew();
    more.add("flag", &["read:*"]);
    let dueq = file.launch().await.args(["--api-key", more.key("flag")]).start().await;
    more.write();
    eventually("the log says so", || async {
        dueq.log().contains("line 1: its key is also one of --api-key").then_some(())
    })
    .await;
    assert_eq!(status(&dueq, file.key("mine")).await, 200);
}

#[tokio::test]
async fn keys_of_the_flag_stay_whatever_becomes_of_the_file() {
    let file = KeyFile::of(&[("mine", "read:*")]);
    let dueq = file.launch().await.args(["--api-key", "the-flag's-own-key"]).start().await;
    std::fs::write(&file.path, "").unwrap();
    until(&dueq, file.key("mine"), 401).await;
    assert_eq!(status(&dueq, "the-flag's-own-key").await, 200);
}

#[tokio::test]
async fn ten_thousand_keys_are_read_again_at_once() {
    let mut file = KeyFile::new();
    for number in 0..10_000 {
        file.add(&format!("key-{number}"), &["publish:orders.*", "read:*"]);
    }
    let dueq = file.start().await;
    for name in ["key-0", "key-9999"] {
        assert_eq!(status(&dueq, file.key(name)).await, 200);
    }
    let last = file.key("key-9999").to_owned();
    file.remove("key-9999");
    file.write();
    until(&dueq, &last, 401).await;
    let find =
        || async { dueq.log().lines().find(|line| line.contains("count=9999")).map(str::to_owned) };
    let line = eventually("the log says so", find).await;
    let ms: u64 =
        line.split("ms=").nth(1).unwrap().split_whitespace().next().unwrap().parse().unwrap();
    // Of a build without optimization on a busy machine; a release takes far less.
    assert!(ms < 5000, "{line}");
}
