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
