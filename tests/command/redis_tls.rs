//! A Redis that speaks TLS only: who is believed, who is let in, and what is said where that fails. The user has the rights
//! that the guide gives it, and no CONFIG.

use std::path::Path;

use serde_json::json;

use crate::harness::*;
use crate::refusals::one_line;

/// The rights of the user in the guide.
fn rights() -> Vec<String> {
    let page = include_str!("../../src/guide/redis-tls.md");
    let rule = page.lines().find_map(|line| line.split_once("ACL SETUSER dueq ")).unwrap().1;
    let words = rule.split_whitespace().map(|word| word.trim_matches('"').to_owned());
    words.filter(|word| !word.starts_with('>')).collect()
}

/// A Redis that listens by TLS under this certificate.
pub struct TlsRedis {
    redis: Redis,
    port: u16,
}

impl TlsRedis {
    /// `auth` is of `--tls-auth-clients`.
    pub async fn start(authority: &Authority, identity: &Identity, auth: &str) -> TlsRedis {
        let port = free_port();
        let file = |path: &Path| path.to_str().unwrap().to_owned();
        let redis = Redis::options().socket().args([
            "--tls-port".to_owned(),
            port.to_string(),
            "--tls-cert-file".to_owned(),
            file(&identity.cert),
            "--tls-key-file".to_owned(),
            file(&identity.key),
            "--tls-ca-cert-file".to_owned(),
            file(&authority.ca()),
            "--tls-auth-clients".to_owned(),
            auth.to_owned(),
        ]);
        let redis = redis.start().await;
        let this = TlsRedis { redis, port };
        this.user("sesame").await;
        this
    }

    /// Gives the user dueq another password, besides.
    async fn user(&self, password: &str) {
        let rights = rights();
        let password = format!(">{password}");
        let mut words = vec!["ACL", "SETUSER", "dueq", &password];
        words.extend(rights.iter().map(String::as_str));
        let _: () = self.redis.command(&words).await;
    }

    pub fn url(&self, user: &str) -> String {
        format!("rediss://{user}localhost:{}/", self.port)
    }
}

/// `dueq serve` at a Redis, run to its end.
async fn refused(args: &[&str]) -> Finished {
    Launch::command(["serve", "--listen", "127.0.0.1:0"]).args(args).finish().await
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn everything_goes_by_tls_for_a_user_with_the_rights_of_the_guide() {
    let authority = Authority::new();
    let identity = authority.sign("redis", &["localhost"]);
    let server = TlsRedis::start(&authority, &identity, "no").await;
    let (url, ca) = (server.url("dueq:sesame@"), authority.ca());
    let args = ["--redis-url", &url, "--redis-ca", text(&ca)];
    let dueq = Launch::command(["serve"]).args(args).start().await;
    let client = dueq.client();
    let warnings = client.get_path("/readyz").await.expect(200).json();
    assert_eq!(warnings["warnings"], json!(null), "{warnings}");
    assert!(!dueq.log().contains("WARN"), "{}", dueq.log());

    // A consumer that waits is woken by another instance, so the subscription works too.
    let other = Launch::command(["serve"]).args(args).start().await;
    let topic = topic("tls");
    let mut poll = Wire::long_poll(dueq.addr(), &topic).await;
    waiters(&client, 1).await;
    other.client().published(&topic, json!({"payload": 1})).await;
    let answer = poll.answer("the poll", std::time::Duration::from_secs(10)).await.unwrap();
    assert_eq!(answer.expect(200).json()["messages"].as_array().unwrap().len(), 1);
    // What else asks Redis: configuration, schedules, keys, priorities, pages, counts, deletion.
    client.configure(&topic, json!({"max_messages": 100, "retention": {"acked_ms": 1000}})).await;
    let message =
        json!({"payload": 2, "key": "k", "idempotency_key": "i", "priority": 3, "delay_ms": 50});
    client.published(&topic, message).await;
    let message = client.lease_one(&topic).await;
    client.ack_leased(&message).await.expect(204);
    client.get_path("/topics").await.expect(200);
    client.get_path(&format!("/topics/{topic}/messages?state=leased")).await.expect(200);
    let schedule = json!({"every_ms": 1000, "topic": topic, "message": {"payload": 1}});
    client.send_json("PUT", "/schedules/tls", &schedule).await.expect(201);
    client.lease_one(&topic).await;
    client.send("DELETE", "/schedules/tls", &[], None).await.expect(204);
    client.send("DELETE", &format!("/topics/{topic}?force=true"), &[], None).await.expect(204);

    for words in [&["migrate"][..], &["audit"], &["audit", "--repair"]] {
        let finished = Launch::command(words).args(args).finish().await;
        assert_eq!(finished.code, 0, "{words:?}: {finished:?}");
    }
    let bench = ["bench", "--json", "--seconds", "0.2", "--only", "publish", "--connections", "1"];
    let finished = Launch::command(bench).args(["--server", &dueq.url()]).args(args).finish().await;
    assert!(finished.stdout.contains("redis_cpu_us"), "{finished:?}");
    let denied: Vec<deadpool_redis::redis::Value> = server.redis.command(&["ACL", "LOG"]).await;
    assert!(denied.is_empty(), "the user lacks rights: {denied:?}");
}

#[tokio::test]
async fn a_redis_that_is_not_believed_or_does_not_believe_is_told_in_one_line() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let identity = authority.sign("redis", &["redis.example", "127.0.0.1"]);
    let server = TlsRedis::start(&authority, &identity, "yes").await;
    let ours = authority.sign("dueq", &["dueq"]);
    let theirs = stranger.sign("dueq", &["dueq"]);
    let (ca, other_ca) = (authority.ca(), stranger.ca());
    let named = server.url("dueq:sesame@");
    let by_address = named.replace("localhost", "127.0.0.1");
    let plain = by_address.replace("rediss:", "redis:");
    let pair = |identity: &Identity| {
        let (cert, key) = (text(&identity.cert).to_owned(), text(&identity.key).to_owned());
        ["--redis-cert".to_owned(), cert, "--redis-key".to_owned(), key]
    };
    let (ours, theirs) = (pair(&ours), pair(&theirs));
    let none: [String; 0] = [];
    for (url, ca, identity, words) in [
        (&named, &ca, &ours[..], &["not for localhost", "redis.example", "127.0.0.1"][..]),
        (&by_address, &other_ca, &ours, &["not signed by a trusted authority", "--redis-ca"]),
        (&by_address, &ca, &none, &["wants a client certificate", "--redis-cert"]),
        (&by_address, &ca, &theirs, &["cannot reach Redis"]),
    ] {
        let finished = Launch::command(["serve", "--listen", "127.0.0.1:0", "--redis-url", url])
            .args(["--redis-ca", text(ca)])
            .args(identity)
            .finish()
            .await;
        one_line(&finished, words);
        assert!(!finished.stderr.contains("sesame"), "{finished:?}");
    }
    let finished = refused(&["--redis-url", &by_address]).await;
    one_line(&finished, &["not signed by a trusted authority", "--redis-ca"]);
    one_line(&refused(&["--redis-url", &plain]).await, &["cannot reach Redis", "rediss://"]);
    let good = Launch::command(["serve", "--redis-url", &by_address]).args(&ours);
    good.args(["--redis-ca", text(&ca)]).start().await;
    let plain = shared().await.redis.url().replace("redis:", "rediss:");
    let finished = refused(&["--redis-url", &plain, "--redis-timeout-ms", "500"]).await;
    one_line(&finished, &["speak TLS", "redis://"]);
}

#[tokio::test]
async fn no_certificate_is_checked_only_if_that_is_said_twice() {
    let authority = Authority::new();
    let identity = authority.sign("redis", &["elsewhere"]);
    let server = TlsRedis::start(&authority, &identity, "no").await;
    let url = server.url("dueq:sesame@") + "#insecure";
    one_line(&refused(&["--redis-url", &url]).await, &["#insecure", "--redis-ca", "--insecure"]);
    let finished = Launch::command(["audit", "--redis-url", &url]).finish().await;
    one_line(&finished, &["--insecure"]);
    Launch::command(["serve", "--redis-url", &url, "--insecure"]).start().await;
    let finished = Launch::command(["audit", "--insecure", "--redis-url", &url]).finish().await;
    assert_eq!(finished.code, 0, "{finished:?}");
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new();
    let good = authority.sign("good", &["localhost"]);
    let old = authority.sign_for_years("old", &["localhost"], 2020, 2021);
    let new = authority.sign_for_years("new", &["localhost"], 3000, 3001);
    let url = "rediss://127.0.0.1:1/";
    for (cert, key, words) in [
        (&old.cert, &old.key, &["old.pem", "expired at 2021-01-01T00:00:00Z"][..]),
        (&new.cert, &new.key, &["new.pem", "not valid before 3000-01-01T00:00:00Z"]),
        (&good.cert, &old.key, &["old-key.pem", "good.pem"]),
        (&good.key, &good.key, &["no certificate", "good-key.pem"]),
        (&good.cert, &good.cert, &["no private key", "good.pem"]),
    ] {
        let files = ["--redis-cert", text(cert), "--redis-key", text(key)];
        let finished = refused(&[&["--redis-url", url][..], &files].concat()).await;
        one_line(&finished, words);
    }
    let ca = ["--redis-ca", text(&good.key)];
    one_line(&refused(&[&["--redis-url", url][..], &ca].concat()).await, &["no certificate"]);
    let ca = ["--redis-ca", text(&good.cert)];
    let plain = ["--redis-url", "redis://127.0.0.1:1/"];
    one_line(&refused(&[&plain[..], &ca].concat()).await, &["--redis-ca", "rediss://"]);
    for args in [&ca[..], &["--redis-url", url, "--redis-cert", text(&good.cert)]] {
        let finished = refused(args).await;
        assert_eq!(finished.code, 2, "{finished:?}");
        assert!(finished.stderr.contains("--redis-"), "{finished:?}");
    }
}

#[tokio::test]
async fn passwords_and_certificates_are_read_again() {
    let authority = Authority::new();
    let identity = authority.sign("redis", &["localhost"]);
    let server = TlsRedis::start(&authority, &identity, "yes").await;
    let ours = authority.sign("dueq", &["dueq"]);
    let password = temp_dir("secrets").join("password");
    replace(&password, "sesame\n");
    let (url, ca) = (server.url("dueq@"), authority.ca());
    let dueq = Launch::command(["serve", "--redis-url", &url, "--redis-ca", text(&ca)])
        .args(["--redis-password-file", text(&password)])
        .args(["--redis-cert", text(&ours.cert), "--redis-key", text(&ours.key)])
        .start()
        .await;
    let times = |words: &str| dueq.log().matches(words).count();
    // What cannot be used is said once, and the old stays.
    replace(&password, "\n");
    eventually("a complaint", || async { (times("is empty") == 1).then_some(()) }).await;
    tokio::time::sleep(std::time::Duration::from_secs(2)).await;
    assert_eq!(times("is empty"), 1, "{}", dueq.log());
    // Redis wants another password and another authority's certificates from now on.
    server.user("mesase").await;
    let _: () = server.redis.command(&["ACL", "SETUSER", "dueq", "<sesame"]).await;
    let next = Authority::new();
    let next_ca = next.ca();
    let set = ["CONFIG", "SET", "tls-ca-cert-file", text(&next_ca)];
    let _: () = server.redis.command(&set).await;
    let renewed = next.sign("dueq", &["dueq"]);
    std::fs::rename(&renewed.key, &ours.key).unwrap();
    std::fs::rename(&renewed.cert, &ours.cert).unwrap();
    replace(&password, "mesase");
    eventually("it was read", || async { (times("read again") >= 1).then_some(()) }).await;
    // One that Redis refuses is not taken, until it does not refuse it any more.
    replace(&password, "third");
    eventually("a refusal", || async {
        (dueq.log().lines().filter(|l| l.contains("ERROR") && l.contains("cannot reach")).count()
            > 0)
        .then_some(())
    })
    .await;
    let read = times("read again");
    server.user("third").await;
    eventually("it was read", || async { (times("read again") > read).then_some(()) }).await;
    let _: () = server.redis.command(&["ACL", "SETUSER", "dueq", "<mesase"]).await;
    let _: i64 = server.redis.command(&["CLIENT", "KILL", "USER", "dueq"]).await;
    works_again(&dueq.client()).await;
}

#[tokio::test]
async fn a_client_certificate_is_warned_of_before_its_end_until_it_is_renewed() {
    let authority = Authority::new();
    let identity = authority.sign("redis", &["localhost"]);
    let server = TlsRedis::start(&authority, &identity, "yes").await;
    let day = std::time::Duration::from_secs(24 * 3600);
    let ours = authority.sign_for("dueq", &["dueq"], day * 6);
    let (url, ca) = (server.url("dueq:sesame@"), authority.ca());
    let dueq = Launch::command(["serve", "--redis-url", &url, "--redis-ca", text(&ca)])
        .args(["--redis-cert", text(&ours.cert), "--redis-key", text(&ours.key)])
        .start()
        .await;
    let client = dueq.client();
    let warnings = async || client.get_path("/readyz").await.expect(200).json()["warnings"].clone();
    let said = warnings().await[0].as_str().unwrap().to_owned();
    assert!(said.starts_with("the client certificate for Redis expires at 20"), "{said}");
    eventually("a warning", || async { dueq.log().contains(&said).then_some(()) }).await;
    authority.sign_for("dueq", &["dueq"], day * 8);
    eventually("no warning", || async { warnings().await.is_null().then_some(()) }).await;
}

#[tokio::test]
async fn sentinels_and_the_primary_are_reached_by_tls() {
    let authority = Authority::new();
    let identity = authority.sign("redis", &["127.0.0.1"]);
    let path = |path: &std::path::Path| path.to_str().unwrap().to_owned();
    let (ca, cert, key) = (path(&authority.ca()), path(&identity.cert), path(&identity.key));
    let files = ["tls-cert-file", &cert, "tls-key-file", &key, "tls-ca-cert-file", &ca];
    let own = [&files[..], &["tls-replication", "yes", "tls-auth-clients", "no"]].concat();
    let port = free_port();
    let args = own.iter().enumerate().map(|(at, word)| match at % 2 {
        0 => format!("--{word}"),
        _ => (*word).to_owned(),
    });
    let args = args.chain(["--tls-port".to_owned(), port.to_string()]);
    let redis = Redis::options().socket().args(args).start().await;
    let of_sentinel = free_port();
    let mut lines = format!("tls-port {of_sentinel}\n");
    own.chunks(2).for_each(|pair| lines += &format!("{} {}\n", pair[0], pair[1]));
    let group = Group { port, ..Group::of("orders", &redis) };
    let _sentinel = Sentinels::start(1, &[group], &lines).await;
    let url = format!("rediss://127.0.0.1:{of_sentinel}/");
    let args = ["--redis-url", &url, "--redis-tls", "--redis-ca", &ca];
    let dueq = Launch::command(["serve"]).args(args).start().await;
    dueq.client().published(&topic("sentinel"), json!({"payload": 1})).await;
    let list: String = redis.command(&["CLIENT", "LIST", "TYPE", "pubsub"]).await;
    assert!(list.contains("sub=1"), "its subscription goes there, too: {list}");
    one_line(&refused(&args[..3]).await, &["authority", "--redis-ca"]);
    let address = format!("127.0.0.1:{port}");
    let plain = ["--redis-url", &url, "--redis-ca", &ca];
    one_line(&refused(&plain).await, &[&address, "orders", "cannot reach Redis"]);
}
