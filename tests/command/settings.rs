//! Where it listens, where it writes that down, what the environment may say, what it logs.

use std::time::Instant;

use serde_json::{Value, json};

use crate::harness::*;

#[tokio::test]
async fn port_0_takes_a_free_port_and_the_address_file_names_it() {
    let redis = &shared().await.redis;
    let dueq = Dueq::on(redis).start().await;
    let (host, port) = dueq.addr().split_once(':').unwrap();
    assert_eq!(host, "127.0.0.1");
    assert_ne!(port.parse::<u16>().unwrap(), 0);
    assert!(dueq.log().contains(dueq.addr()), "the address is logged:\n{}", dueq.log());
}

#[tokio::test]
async fn the_address_file_of_an_earlier_run_is_replaced() {
    let redis = &shared().await.redis;
    let launch = Dueq::on(redis);
    std::fs::write(launch.dir().join("other"), "127.0.0.1:1 and a longer text than that\n")
        .unwrap();
    let file = launch.dir().join("other");
    let mut dueq = launch.args(["--listen", "127.0.0.1:0", "--addr-file", "other"]).spawn();
    let addr = eventually("the new address", || async {
        let text = text_of(&file);
        (!text.contains("and a longer")).then_some(text)
    })
    .await;
    Client::new(&format!("http://{}", addr.trim())).get_path("/healthz").await.expect(200);
    assert_eq!(dueq.term().await, 0);
}

#[tokio::test]
async fn every_flag_is_an_environment_variable_too() {
    let redis = &shared().await.redis;
    let launch = Launch::command(["serve"])
        .env("DUEQ_LISTEN", "127.0.0.1:0")
        .env("DUEQ_REDIS_URL", redis.url())
        .env("DUEQ_KEY_PREFIX", "by-env:")
        .env("DUEQ_MAX_BODY_BYTES", "100")
        .env("DUEQ_DRAIN_TIMEOUT_MS", "500")
        .env("DUEQ_REDIS_TIMEOUT_MS", "2000")
        .env("DUEQ_LANES", "1")
        .env("DUEQ_UI_HIDE_PAYLOADS", "true")
        .env("DUEQ_LOG_FORMAT", "json");
    let file = launch.dir().join("addr-by-env");
    let dueq = launch.env("DUEQ_ADDR_FILE", &file).spawn();
    let addr = eventually("the address file", || async {
        Some(text_of(&file)).filter(|text| !text.is_empty())
    })
    .await;
    let client = Client::new(&format!("http://{}", addr.trim()));
    client.published(&topic("env"), json!({"payload": 1})).await;
    let large = json!({"payload": "x".repeat(100)});
    client.publish(&topic("env"), large).await.refused(413);
    let page = String::from_utf8(client.get_path("/ui").await.expect(200).body).unwrap();
    assert!(page.contains("data-hide-payloads>"), "{page}");
    let exists: i64 = redis.command(&["EXISTS", "by-env:{service}:schema"]).await;
    assert_eq!(exists, 1);
    let log = dueq.log();
    let lines = log.lines().map(|line| {
        let parsed: Option<Value> = serde_json::from_str(line).ok();
        parsed.filter(Value::is_object).unwrap_or_else(|| panic!("no JSON: {line}"))
    });
    let fields: Vec<Value> = lines.map(|line| line["fields"].clone()).collect();
    let started = fields.iter().find(|it| it["version"] == env!("CARGO_PKG_VERSION")).unwrap();
    let url = format!("http://{}", addr.trim());
    for (name, value) in [
        ("message", format!("serving {url}")),
        ("ui", format!("{url}/ui")),
        ("data", format!("Redis at 127.0.0.1:{}", redis.port())),
        ("keys", "off: programs on this machine may do everything".to_owned()),
        ("signing", "off".to_owned()),
        ("callbacks", "to public addresses".to_owned()),
    ] {
        assert_eq!(started[name], value, "{started}");
    }
}

#[tokio::test]
async fn people_at_a_terminal_see_what_was_started_in_rows_without_secrets() {
    let (data, listen) = (temp_dir("terminal"), format!("127.0.0.1:{}", free_port()));
    let serve = format!(
        "timeout 20 {} serve --listen {listen} --api-key sesame-open-sesame --callback-only 10.0.0.0/8 \
            --callback-deny 10.1.0.0/16 --signing-secret whsec_{}",
        binary().display(),
        "a".repeat(44)
    );
    let shown = data.join("shown");
    let mut command = std::process::Command::new("script");
    command.args(["-qfec", &serve]).arg(&shown).current_dir(&data);
    command.stdin(std::process::Stdio::null()).stdout(std::process::Stdio::null());
    let mut terminal = Process::start(&mut command);
    let text = eventually("the rows", || async {
        Some(text_of(&shown))
            .filter(|text| text.contains("  callbacks  "))
            .map(|it| it.replace('\r', ""))
    })
    .await;
    terminal.signal(rustix::process::Signal::TERM);
    for row in [
        format!("\ndueq {} is ready.\n", env!("CARGO_PKG_VERSION")),
        format!("\n  dashboard  http://{listen}/ui\n"),
        "\n  data       ./dueq-data\n  keys       on\n  signing    on (hmac)\n".to_owned(),
        "\n  callbacks  to 10.0.0.0/8, never to 10.1.0.0/16\n".to_owned(),
    ] {
        assert!(text.contains(&row), "{row}: {text}");
    }
    let shows_secret = text.split("  API").nth(1).unwrap().contains("sesame");
    assert!(!shows_secret && !text.contains("serving http"), "{text}");
}

#[tokio::test]
async fn the_embedded_redis_is_set_by_environment_too() {
    let data = temp_dir("data");
    let launch = Launch::command(["serve"]).env("DUEQ_DATA_DIR", &data).env("DUEQ_FSYNC", "always");
    let dueq = launch.start().await;
    dueq.client().published(&topic("env"), json!({"payload": 1})).await;
    assert!(data.join("redis.sock").exists());
}

#[tokio::test]
async fn a_flag_wins_over_the_environment() {
    let redis = &shared().await.redis;
    let launch = Dueq::on(redis).env("DUEQ_REDIS_URL", "redis://127.0.0.1:1/");
    launch.start().await;
}

#[tokio::test]
async fn an_ipv6_loopback_is_served() {
    let redis = &shared().await.redis;
    let file = temp_dir("addr").join("addr");
    let launch = Dueq::on(redis).args(["--listen", "[::1]:0", "--addr-file"]).args([&file]);
    let _dueq = launch.spawn();
    let addr = eventually("the address file", || async {
        Some(text_of(&file)).filter(|text| !text.is_empty())
    })
    .await;
    assert!(addr.starts_with("[::1]:"), "{addr}");
    Client::new(&format!("http://{}", addr.trim())).get_path("/healthz").await.expect(200);
}

#[tokio::test]
async fn a_redis_on_a_unix_socket_is_used() {
    let redis = Redis::options().socket().start().await;
    let dueq = Dueq::on(&redis).start().await;
    dueq.client().published(&topic("socket"), json!({"payload": 1})).await;
}

#[tokio::test]
async fn a_redis_that_may_evict_is_told_loudly_at_the_start() {
    let redis = Redis::options().args(["--maxmemory-policy", "allkeys-lru"]).start().await;
    let dueq = Dueq::on(&redis).start_unready().await;
    dueq.client().get_path("/readyz").await.refused(503);
    eventually("a warning", || async {
        let loud = |line: &str| {
            (line.contains("WARN") || line.contains("ERROR")) && line.contains("noeviction")
        };
        dueq.log().lines().any(loud).then_some(())
    })
    .await;
}

#[tokio::test]
async fn starting_on_a_running_redis_takes_a_moment() {
    let redis = &shared().await.redis;
    let start = Instant::now();
    Dueq::on(redis).start().await;
    assert!(start.elapsed().as_secs() < 3, "{:?}", start.elapsed());
}
