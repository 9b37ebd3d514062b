//! An operator's first day, in one piece: a Redis that insists on TLS and on a user of its own, dueq by TLS at a public
//! URL, a key each for who publishes, who consumes and who monitors, a key that is revoked under load, and the API page
//! in a browser. Nothing secret is on a command line.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::docs::{HOST, browser::Browser, log_in, tries_out};
use crate::harness::*;
use crate::redis_tls::TlsRedis;

/// `dueq keys new`: the key and its line.
async fn key(name: &str, scope: &str) -> (String, String) {
    let made = Launch::command(["keys", "new", "--name", name, "--allow", scope]).finish().await;
    assert_eq!(made.code, 0, "{made:?}");
    (made.stderr.trim().to_owned(), made.stdout)
}

#[tokio::test]
#[ignore = "needs a browser: make test-all"]
async fn a_queue_behind_tls_with_three_keys_of_which_one_is_revoked() {
    let authority = Authority::new();
    let redis = TlsRedis::start(&authority, &authority.sign("redis", &["localhost"]), "no").await;
    let identity = authority.sign("dueq", &[HOST, "localhost"]);
    let dir = temp_dir("operator");
    let [keys, password, audit] = ["keys", "password", "audit"].map(|name| dir.join(name));
    replace(&password, "sesame\n");
    let (shop, shop_line) = key("shop", "publish:orders").await;
    let (new_shop, new_shop_line) = key("shop-2", "publish:orders").await;
    let (worker, worker_line) = key("worker", "consume:orders").await;
    let (monitor, monitor_line) = key("monitor", "read:*").await;
    replace(&keys, &format!("{shop_line}{worker_line}{monitor_line}"));
    let port = free_port();
    let public = format!("https://{HOST}:{port}/dueq");
    let dueq = Launch::command(["serve", "--redis-url", &redis.url("dueq@")])
        .args(["--public-url", &public])
        .listen(&format!("127.0.0.1:{port}"))
        .tls(authority.client(None));
    let dueq = [
        ("--redis-password-file", &password),
        ("--redis-ca", &authority.ca()),
        ("--tls-cert", &identity.cert),
        ("--tls-key", &identity.key),
        ("--api-key-file", &keys),
        ("--audit-log", &audit),
    ]
    .into_iter()
    .fold(dueq, |dueq, (flag, path)| dueq.args([flag.as_ref(), path.as_os_str()]))
    .start()
    .await;

    let client = dueq.https_client().await;
    let by = |key: &str| client.clone().with_key(key);
    let ends = Arc::new(AtomicBool::new(false));
    // The shop publishes until it may not, and then with its new key.
    let published = Arc::new(AtomicUsize::new(0));
    let publishing = {
        let (old, new, published, ends) =
            (by(&shop), by(&new_shop), published.clone(), ends.clone());
        tokio::spawn(async move {
            let mut refused_at = None;
            while !ends.load(Ordering::Relaxed) {
                let client = if refused_at.is_none() { &old } else { &new };
                let answer = client.publish("orders", json!({"payload": 1})).await;
                if refused_at.is_none() && answer.status == 401 {
                    refused_at = Some(Instant::now());
                    continue;
                }
                let answer = answer.expect(201);
                let location = answer.header("location");
                assert!(location.starts_with(&format!("https://{HOST}:")), "{location}");
                published.fetch_add(1, Ordering::Relaxed);
            }
            refused_at.expect("the old key is refused")
        })
    };
    let consuming = {
        let (worker, ends) = (by(&worker), ends.clone());
        tokio::spawn(async move {
            let mut acked = 0;
            loop {
                let ended = ends.load(Ordering::Relaxed);
                let want = json!({"max_messages": 100, "wait_ms": 200});
                let leased = worker.leased("orders", want).await;
                for message in &leased {
                    worker.ack_leased(message).await.expect(204);
                }
                acked += leased.len();
                if ended && leased.is_empty() {
                    return acked;
                }
            }
        })
    };
    let monitoring = {
        let (monitor, ends) = (by(&monitor), ends.clone());
        tokio::spawn(async move {
            let mut scrapes = 0;
            while !ends.load(Ordering::Relaxed) {
                monitor.get_path("/metrics").await.expect(200);
                scrapes += 1;
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            scrapes
        })
    };
    let many = async |least: usize| {
        eventually("messages are published", || async {
            (published.load(Ordering::Relaxed) >= least).then_some(())
        })
        .await;
    };
    many(50).await;
    // Nobody may do what is not theirs.
    by(&worker).publish("orders", json!({"payload": 1})).await.problem(403, "not_allowed");
    by(&monitor).lease("orders", json!({})).await.problem(403, "not_allowed");
    by(&shop).get_path("/metrics").await.problem(403, "not_allowed");
    client.get_path("/metrics").await.problem(401, "unauthorized");
    let revoked_at = Instant::now();
    replace(&keys, &format!("{new_shop_line}{worker_line}{monitor_line}"));
    eventually("the old key is refused", || async {
        let answer = by(&shop).publish("orders", json!({"payload": 1})).await;
        if answer.status == 201 {
            published.fetch_add(1, Ordering::Relaxed);
        }
        (answer.status == 401).then_some(())
    })
    .await;
    many(published.load(Ordering::Relaxed) + 50).await;
    ends.store(true, Ordering::Relaxed);
    let refused_at = publishing.await.unwrap();
    // Two seconds, and as much again for a machine that is busy.
    let took = refused_at.saturating_duration_since(revoked_at);
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!(consuming.await.unwrap(), published.load(Ordering::Relaxed));
    assert!(monitoring.await.unwrap() > 0);

    let mut browser = Browser::at(&format!("{public}/docs/")).await;
    log_in(&mut browser, &monitor).await;
    tries_out(&mut browser, "topics-listTopics").await;
    let shown = "document.querySelector('#logged-in').textContent.includes('monitor')";
    assert_eq!(browser.eval(shown).await, true);

    let told = dueq.log() + &text_of(&audit);
    assert!(told.contains("\"key\":\"worker\"") && told.contains("not_allowed"), "{told}");
    for secret in [&*shop, &new_shop, &worker, &monitor, "sesame"] {
        assert!(!told.contains(secret), "a secret is in the log");
    }
}
