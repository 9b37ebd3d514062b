//! The subcommands beside `serve`.

use serde_json::Value;

use crate::harness::*;

#[tokio::test]
async fn healthcheck_ends_with_0_when_ready_and_1_when_not() {
    let mut redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let check = || Launch::command(["healthcheck", "--server"]).args([dueq.url()]).finish();
    let ready = check().await;
    assert_eq!(ready.code, 0, "{ready:?}");
    redis.kill9();
    let finished = eventually("not ready", || async {
        let finished = check().await;
        (finished.code != 0).then_some(finished)
    })
    .await;
    assert_eq!(finished.code, 1, "{finished:?}");
    assert!(!finished.stderr.trim().is_empty(), "it says why: {finished:?}");
}

#[tokio::test]
async fn healthcheck_ends_with_1_where_nothing_listens() {
    let url = format!("http://127.0.0.1:{}", free_port());
    let finished = Launch::command(["healthcheck", "--server", &url]).finish().await;
    assert_eq!(finished.code, 1, "{finished:?}");
    assert_eq!(finished.stderr.lines().count(), 1, "{finished:?}");
}

#[tokio::test]
async fn healthcheck_takes_the_server_from_the_environment() {
    let url = shared().await.dueq.url();
    let finished = Launch::command(["healthcheck"]).env("DUEQ_SERVER", url).finish().await;
    assert_eq!(finished.code, 0, "{finished:?}");
}

#[tokio::test]
async fn openapi_prints_the_document() {
    let finished = Launch::command(["openapi"]).finish().await;
    assert_eq!((finished.code, finished.stderr.as_str()), (0, ""), "{finished:?}");
    let document: Value = serde_json::from_str(&finished.stdout).unwrap();
    assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
}

#[tokio::test]
async fn openapi_prints_the_version_that_is_asked_for_and_knows_no_other() {
    for (version, begins) in [("3.1", "3.1."), ("3.0", "3.0.")] {
        let finished = Launch::command(["openapi", "--openapi-version", version]).finish().await;
        assert_eq!(finished.code, 0, "{finished:?}");
        let document: Value = serde_json::from_str(&finished.stdout).unwrap();
        assert!(document["openapi"].as_str().unwrap().starts_with(begins), "{version}");
    }
    for wrong in ["2.0", "3", "", "3.0.3"] {
        let finished = Launch::command(["openapi", "--openapi-version", wrong]).finish().await;
        assert_eq!((finished.code, finished.stdout.as_str()), (2, ""), "{finished:?}");
        assert!(finished.stderr.contains("3.0") && finished.stderr.contains("3.1"));
    }
}

#[tokio::test]
async fn migrate_ends_with_0_on_a_redis_of_the_present_schema() {
    let redis = Redis::start().await;
    for _ in 0..2 {
        let finished = Launch::command(["migrate", "--redis-url", &redis.url()]).finish().await;
        assert_eq!(finished.code, 0, "{finished:?}");
        let schema: String = redis.command(&["GET", "dueq:{service}:schema"]).await;
        assert_eq!(schema, "2");
    }
}

#[tokio::test]
async fn the_doctor_says_what_to_change_and_ends_with_1_if_something_is() {
    let mut redis = Redis::start().await;
    let url = redis.url();
    let doctor = async |more: &[&str]| {
        let launch = Launch::command(["doctor", "--json", "--redis-url", &url]);
        let finished = launch.args(more).finish().await;
        let report: Value = serde_json::from_str(&finished.stdout).expect("JSON");
        assert_eq!(finished.code, i32::from(report["ok"] == false), "{finished:?}");
        assert!(!finished.stdout.contains("sesame") && finished.stderr.is_empty(), "{finished:?}");
        report["checks"].as_array().unwrap().clone()
    };
    let of = |checks: &[Value], name: &str, is_good: bool| {
        let of = checks.iter().filter(|it| it["check"] == name && it["ok"] == is_good);
        of.map(|it| it["found"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join("; ")
    };
    let _: () = redis.command(&["CONFIG", "SET", "appendonly", "yes"]).await;
    let checks =
        doctor(&["--api-key", "sesame-open-sesame-open-sesame", "--max-connections", "64"]).await;
    // A machine with other work may be slow.
    let bad = checks.iter().find(|it| it["ok"] == false && it["check"] != "latency");
    assert!(bad.is_none(), "{bad:?}");
    assert!(of(&checks, "version", true).contains(&format!("at 127.0.0.1:{}", redis.port())));
    assert_eq!(of(&checks, "persistence", true).split(" at ").next(), Some("append-only file"));
    for name in [
        "keys",
        "signing",
        "certificates",
        "callbacks",
        "tzdata",
        "descriptors",
        "redis",
        "replicas",
        "clock",
        "memory",
    ] {
        assert!(!of(&checks, name, true).is_empty(), "{name}: {checks:?}");
    }

    let _: () = redis.command(&["CONFIG", "SET", "appendonly", "no"]).await;
    let _: () = redis.command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]).await;
    let keys = temp_dir("doctor").join("keys");
    std::fs::write(&keys, "name sha256:sesame\n").unwrap();
    let checks = doctor(&[
        "--api-key-file",
        keys.to_str().unwrap(),
        "--tzdata-dir",
        "/nowhere",
        "--max-connections",
        "999999",
        "--notify-url",
        "ftp://sesame.example/",
        "--log",
        "a=b=c",
        "--audit-log",
        "/nowhere/audit",
    ])
    .await;
    for (name, words) in [
        ("redis", "its maxmemory-policy is allkeys-lru, noeviction is needed"),
        ("persistence", "set appendonly yes"),
        ("keys", keys.to_str().unwrap()),
        ("tzdata", "/nowhere"),
        ("descriptors", "raise LimitNOFILE"),
        ("notices", "--notify-url: must be"),
        ("log", "--log: invalid filter"),
        ("files", "/nowhere/audit has no directory"),
    ] {
        assert!(of(&checks, name, false).contains(words), "{name}: {checks:?}");
    }
    redis.kill9();
    let gone = of(&doctor(&[]).await, "redis", false);
    assert!(gone.contains(&format!("cannot reach Redis: 127.0.0.1:{}", redis.port())), "{gone}");
    let finished = Launch::command(["doctor", "--redis-url", &url]).finish().await;
    assert_eq!(finished.code, 1, "{finished:?}");
    assert!(finished.stdout.contains("change  redis "), "{finished:?}");
}

#[tokio::test]
async fn help_and_version_end_with_0() {
    for words in [&["--help"][..], &["--version"], &["serve", "--help"], &["healthcheck", "--help"]]
    {
        let finished = Launch::command(words).finish().await;
        assert_eq!(finished.code, 0, "{words:?}: {finished:?}");
        assert!(!finished.stdout.is_empty() && finished.stderr.is_empty(), "{finished:?}");
    }
    let finished = Launch::command(["--version"]).finish().await;
    assert_eq!(finished.stdout.trim(), concat!("dueq ", env!("CARGO_PKG_VERSION")));
}

#[tokio::test]
async fn help_is_short_with_h_and_has_headings_in_full() {
    let help = async |words: &[&str]| Launch::command(words).finish().await.stdout;
    let count = |help: &str, mark: &str| help.lines().filter(|line| line.starts_with(mark)).count();
    let (short, long) = (help(&["-h"]).await, help(&["--help"]).await);
    // The two options have the same indent.
    assert_eq!(count(&short, "  ") - 2, 10, "{short}");
    assert!(count(&long, "  ") > 35, "{long}");
    for heading in ["Server:", "Messages:", "Failures:", "Data:", "Options:"] {
        assert!(count(&long, heading) == 1, "{heading} {long}");
    }
    assert!(long.lines().all(|line| line.chars().count() <= 100), "{long}");
    let (short, long) = (help(&["serve", "-h"]).await, help(&["serve", "--help"]).await);
    assert_eq!(count(&short, "      --"), 10, "{short}");
    assert!(count(&long, "      --") > 40, "{long}");
    for heading in ["Clients:", "Callbacks:", "Data:", "Private Redis:", "Process:"] {
        assert!(count(&long, heading) == 1, "{heading} {long}");
    }
}

#[tokio::test]
async fn help_names_every_flag_with_its_environment_variable() {
    let help = Launch::command(["serve", "--help"]).finish().await.stdout;
    for flag in [
        "listen",
        "addr-file",
        "redis-url",
        "data-dir",
        "redis-bin",
        "fsync",
        "key-prefix",
        "drain-timeout-ms",
        "redis-timeout-ms",
        "lanes",
        "log-format",
        "max-body-bytes",
        "api-key",
        "api-key-file",
        "insecure",
        "allow-host",
    ] {
        let variable = format!("DUEQ_{}", flag.to_uppercase().replace('-', "_"));
        assert!(help.contains(&format!("--{flag}")) && help.contains(&variable), "{flag}:\n{help}");
    }
}
