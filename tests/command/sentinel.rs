//! Sentinels on the command line: how they are named and entered, and what is said of those that cannot be used. Redis and
//! Sentinels are real.

use serde_json::json;
use tokio::net::TcpListener;

use crate::harness::*;
use crate::refusals::one_line;

/// `dueq serve` with these arguments, run to its end.
async fn serve(args: &[&str]) -> Finished {
    let short = ["serve", "--listen", "127.0.0.1:0", "--redis-timeout-ms", "1500"];
    Launch::command(short).args(args).finish().await
}

fn file(text: &str) -> String {
    let path = temp_dir("secrets").join("secret");
    replace(&path, text);
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn one_url_of_a_sentinel_is_enough() {
    let redis = Redis::start().await;
    let sentinels = Sentinels::start(3, &[Group::of("orders", &redis)], "").await;
    let (urls, addresses) = (sentinels.urls(), sentinels.addresses());
    let first = urls.split(',').next().unwrap();
    for launch in [
        Dueq::at(first),
        Dueq::at(first).args(["--redis-mode", "sentinel", "--sentinel-master", "orders"]),
        Dueq::at(first).args(["--redis-url", &format!("redis://{}", addresses[1])]),
        Launch::command(["serve"]).env("DUEQ_REDIS_URL", &urls),
        Launch::command(["serve"])
            .env("DUEQ_REDIS_URL", urls.replace(',', " "))
            .env("DUEQ_SENTINEL_MASTER", "orders"),
        Launch::command(["serve"]).env("DUEQ_REDIS_URL_FILE", file(&urls)),
    ] {
        let dueq = launch.start().await;
        dueq.client().published(&topic("sentinel"), json!({"payload": 1})).await;
        let ready = dueq.client().get_path("/readyz").await.expect(200).json();
        let warnings = ready["warnings"].to_string();
        assert!(warnings.contains("min-replicas-to-write"), "{warnings}");
        assert_eq!(dueq.log().matches("min-replicas-to-write").count(), 1, "{}", dueq.log());
    }
    let _: () = redis.command(&["CONFIG", "SET", "min-replicas-to-write", "1"]).await;
    let _: () = redis.command(&["CONFIG", "SET", "min-replicas-max-lag", "0"]).await;
    for words in [&["migrate"][..], &["audit"]] {
        let finished = Launch::command(words).args(["--redis-url", &urls]).finish().await;
        assert_eq!(finished.code, 0, "{words:?}: {finished:?}");
    }
}

#[tokio::test]
async fn sentinels_and_the_primary_have_credentials_of_their_own() {
    let redis = Redis::start().await;
    let rule = ["ACL", "SETUSER", "app", "on", ">open sesame", "~*", "&*", "+@all"];
    let _: () = redis.command(&rule).await;
    let groups = [Group::of("orders", &redis)];
    let sentinels = Sentinels::start(3, &groups, "requirepass watchman").await;
    let urls = sentinels.urls();
    let password = file("open sesame");
    let _: () = redis.command(&["ACL", "SETUSER", "default", "resetpass", ">hidden"]).await;
    let args = ["--redis-user", "app", "--redis-password-file", &password, "--redis-db", "3"];
    let dueq = Dueq::at(&urls).args(args).start().await;
    let name = topic("sentinel");
    dueq.client().published(&name, json!({"payload": 1})).await;
    let url = redis.url();
    let own = url.replace("redis://", "redis://:hidden@") + "3";
    let client = deadpool_redis::redis::Client::open(own).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let list: String = deadpool_redis::redis::cmd("CLIENT")
        .arg("LIST")
        .query_async(&mut connection)
        .await
        .unwrap();
    let ours = list.lines().filter(|line| line.contains("user=app")).collect::<Vec<_>>();
    assert!(ours.iter().any(|line| line.contains("db=3")), "{list}");
    let bench = ["bench", "--json", "--seconds", "0.2", "--only", "publish", "--connections", "1"];
    let bench = Launch::command(bench).args(["--server", &dueq.url(), "--redis-url", &urls]);
    let finished = bench.args(args).finish().await;
    assert!(finished.stdout.contains("redis_cpu_us"), "{finished:?}");

    // Passwords are read again; a new one counts once Redis takes it.
    let mut user = async |words: &[&str]| {
        let mut command = deadpool_redis::redis::cmd("ACL");
        let set = command.arg("SETUSER").arg("app").arg(words);
        let _: () = set.query_async(&mut connection).await.unwrap();
    };
    user(&[">new"]).await;
    replace(password.as_ref(), "new");
    eventually("it was read", || async { dueq.log().contains("read again").then_some(()) }).await;
    user(&["resetpass", ">new"]).await;
    let _: i64 = deadpool_redis::redis::cmd("CLIENT")
        .arg(&["KILL", "USER", "app"])
        .query_async(&mut connection)
        .await
        .unwrap();
    works_again(&dueq.client()).await;

    let without = sentinels.urls().replace(":watchman@", "");
    one_line(&serve(&["--redis-url", &without]).await, &["127.0.0.1:", "NOAUTH", "in its URL"]);
    let wrong = sentinels.urls().replace("watchman", "somebody");
    let finished = serve(&["--redis-url", &wrong]).await;
    one_line(&finished, &["refuses", "in its URL"]);
    assert!(!finished.stderr.contains("somebody"), "{finished:?}");
    let args = ["--redis-url", &urls, "--redis-user", "app"];
    let primary = format!("127.0.0.1:{}", redis.port());
    one_line(&serve(&args).await, &[&primary, "orders", "NOAUTH"]);
}

#[tokio::test]
async fn names_that_do_not_fit_are_told() {
    let (one, other) = (Redis::start().await, Redis::start().await);
    let groups = [Group::of("orders", &one), Group::of("mails", &other)];
    let sentinels = Sentinels::start(3, &groups, "").await;
    let urls = sentinels.urls();
    one_line(
        &serve(&["--redis-url", &urls, "--sentinel-master", "order"]).await,
        &["no primary order", "mails, orders"],
    );
    one_line(&serve(&["--redis-url", &urls]).await, &["mails, orders", "--sentinel-master"]);
    Dueq::at(&urls).args(["--sentinel-master", "mails"]).start().await;
    let empty = Sentinels::start(1, &[], "").await;
    one_line(
        &serve(&["--redis-url", &empty.urls(), "--redis-mode", "sentinel"]).await,
        &["watches no primary"],
    );
    // Another group that uses the same name.
    let strangers = Sentinels::start(2, &[Group::of("orders", &other)], "").await;
    let mixed = [sentinels.urls(), strangers.urls()].join(",");
    let ports = [one.port(), other.port()].map(|port| format!("127.0.0.1:{port}"));
    let words = ["different primaries as orders", &ports[0], &ports[1]];
    one_line(&serve(&["--redis-url", &mixed, "--sentinel-master", "orders"]).await, &words);
    let alone = strangers.urls();
    let first = sentinels.addresses()[0].clone();
    let two = format!("{alone},redis://{first}");
    one_line(&serve(&["--redis-url", &two]).await, &["mails, orders", "--sentinel-master"]);
}

#[tokio::test]
async fn what_is_no_sentinel_or_no_redis_is_told() {
    let [redis, replica] = pair(Redis::options()).await;
    let sentinels = Sentinels::start(2, &[Group::of("orders", &redis)], "").await;
    let urls = sentinels.urls();
    let first = urls.split(',').next().unwrap();
    let (url, of_replica) = (redis.url(), replica.url());
    let alone = ["--redis-url", first, "--redis-mode", "standalone"];
    one_line(&serve(&alone).await, &["is a Sentinel", "--redis-mode sentinel"]);
    for flags in [
        &["--redis-url", &urls][..],
        &["--redis-url", &url, "--sentinel-master", "orders"],
        &["--redis-url", &url, "--redis-db", "1"],
        &["--redis-url", &url, "--redis-user", "app"],
        &["--redis-url", &url, "--redis-tls"],
    ] {
        let args = [flags, &["--redis-mode", "standalone"]].concat();
        one_line(&serve(&args).await, &["--redis-mode standalone", "--sentinel-master"]);
    }
    let cluster = Redis::options().cluster().start().await;
    let nobody = serve(&["--redis-url", &cluster.url()]).await;
    one_line(&nobody, &["16384 of 16384 slots have no primary"]);
    for (seed, what) in [
        (&url, "no Sentinel but a Redis:"),
        (&of_replica, "no Sentinel but a replica:"),
        (&cluster.url(), "no Sentinel but a Redis in cluster mode:"),
    ] {
        let args = ["--redis-url", seed, "--redis-url", &urls, "--redis-mode", "sentinel"];
        one_line(&serve(&args).await, &[what]);
        let alone = ["--redis-url", seed, "--redis-mode", "sentinel"];
        one_line(&serve(&alone).await, &[what]);
    }
    one_line(
        &serve(&["--redis-url", &url, "--redis-url", &urls]).await,
        &["no Sentinel but a Redis:"],
    );
    let mixed = ["--redis-url", &cluster.url(), "--redis-url", &urls];
    one_line(&serve(&mixed).await, &["not in cluster mode"]);
    // A Redis with a database that is away, and one that has no such database, are no Sentinels.
    let away = format!("redis://127.0.0.1:{}/1", free_port());
    one_line(&serve(&["--redis-url", &away]).await, &["cannot reach Redis"]);
    let finished = serve(&["--redis-url", &format!("{url}99")]).await;
    assert!(!finished.stderr.contains("Sentinel"), "{finished:?}");
    // A database, by itself and as one of several.
    for list in [format!("{first}2"), format!("{first}2,redis://{}", sentinels.addresses()[1])] {
        let words = [&sentinels.addresses()[0], "--redis-db"];
        one_line(&serve(&["--redis-url", &list]).await, &words);
    }
    for wrong in [
        &["--redis-mode", "sentinel"][..],
        &["--sentinel-master", "orders"],
        &["--redis-url", &url, "--redis-mode", "cluster"],
        &["--redis-url", &url, "--redis-db=-1"],
        &["--redis-url", &url, "--redis-db", "x"],
    ] {
        let finished = serve(wrong).await;
        assert_eq!(finished.code, 2, "{finished:?}");
        assert!(finished.stderr.contains("--redis-") || finished.stderr.contains("--sentinel"));
    }
}

#[tokio::test]
async fn an_address_that_cannot_be_reached_is_named() {
    let redis = Redis::start().await;
    let nobody = free_port();
    let nowhere = Group { port: nobody, ..Group::of("orders", &redis) };
    let sentinels = Sentinels::start(1, &[nowhere], "").await;
    let address = format!("127.0.0.1:{nobody}");
    let args = ["--redis-url", &sentinels.urls()];
    one_line(&serve(&args).await, &[&address, "orders", "cannot reach Redis"]);
    // As behind NAT: nobody answers.
    let outside = Group { host: "192.0.2.1".to_owned(), ..Group::of("orders", &redis) };
    let sentinels = Sentinels::start(1, &[outside], "").await;
    let address = format!("192.0.2.1:{}", redis.port());
    let args = ["--redis-url", &sentinels.urls()];
    one_line(&serve(&args).await, &[&address, "cannot reach Redis"]);
    // What was the primary is a replica.
    let [primary, replica] = pair(Redis::options()).await;
    let other = Sentinels::start(1, &[Group::of("orders", &primary)], "").await;
    let args = ["--redis-url", &other.urls()];
    let _: () = primary.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    one_line(&serve(&args).await, &["replica", &format!("127.0.0.1:{}", primary.port())]);
    drop(replica);
}

#[tokio::test]
async fn sentinels_that_do_not_answer_are_done_without() {
    let redis = Redis::start().await;
    let mut sentinels = Sentinels::start(3, &[Group::of("orders", &redis)], "").await;
    let urls = sentinels.urls();
    // One refuses, one accepts and says nothing.
    sentinels.kill9(0);
    sentinels.process(1).stop();
    let dueq = Dueq::at(&urls).start().await;
    dueq.client().published(&topic("sentinel"), json!({"payload": 1})).await;
    for address in &sentinels.addresses()[..2] {
        eventually("it is said", || async {
            let log = dueq.log();
            log.lines()
                .any(|line| line.contains("not heard") && line.contains(address))
                .then_some(())
        })
        .await;
    }
    // The last one goes, too, and connections break: the primary is known.
    sentinels.kill9(2);
    let _: i64 = redis.command(&["CLIENT", "KILL", "TYPE", "normal"]).await;
    works_again(&dueq.client()).await;
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = silent.local_addr().unwrap().to_string();
    let (dead, list) = (&sentinels.addresses()[0], format!("redis://{silent}"));
    let finished = serve(&["--redis-url", &list, "--redis-url", &format!("redis://{dead}")]).await;
    one_line(&finished, &["no Sentinel answers", dead, &silent]);
}
