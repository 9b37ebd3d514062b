//! Every alert fires on live data, and every expression of the dashboard finds some: a dueq is brought into each of the
//! conditions while a Prometheus scrapes it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{file, names, panels, prometheus::Prometheus, values};
use crate::harness::*;

/// The rules without waiting: how long a condition must last is what promtool's own tests are for, and so are the two
/// thresholds of minutes. All other expressions stay as they are.
fn at_once(rules: &str) -> String {
    let lines = rules.lines().filter(|line| !line.trim_start().starts_with("for: "));
    let mut rules: String = lines.map(|line| format!("{line}\n")).collect();
    for (minutes, second) in [
        ("(dueq_topic_oldest_ready_seconds) > 300", "(dueq_topic_oldest_ready_seconds) > 1"),
        ("_next_tick_timestamp_seconds) > 60", "_next_tick_timestamp_seconds) > 1"),
    ] {
        assert_eq!(rules.matches(minutes).count(), 1, "{minutes}");
        rules = rules.replace(minutes, second);
    }
    rules
}

/// An expression as Grafana sends it.
fn filled(expression: &str) -> String {
    let filled = ["job", "topic", "host"]
        .iter()
        .fold(expression.to_owned(), |text, name| text.replace(&format!("${name}"), ".*"));
    filled.replace("$__rate_interval", "1m")
}

/// The topics, a schedule and a host that trouble will come to.
async fn prepare(client: &Client, receiver: &Receiver) {
    client.configure("full", json!({"max_messages": 1})).await;
    client.configure("expiring", json!({"lease_ms": 1000})).await;
    let push = json!({"url": "http://127.0.0.2:1/", "failing_after": 1, "failing_over_ms": 100});
    client
        .configure("down", json!({"push": push, "backoff": {"kind": "fixed", "base_ms": 200}}))
        .await;
    for topic in ["full", "expiring", "late", "lying", "dying", "held"] {
        client.published(topic, json!({"payload": 1})).await;
    }
    client.ack_leased(&client.lease_one("lying").await).await.expect(204);
    client.ack_leased(&client.lease_one("expiring").await).await.expect(204);
    client.ack_leased(&client.lease_one("late").await).await.expect(204);
    let schedule = json!({"every_ms": 1000, "topic": "ticks", "message": {"payload": 1}});
    client.send_json("PUT", "/schedules/stuck", &schedule).await.expect(201);
    client.post("/callbacks", &json!({"url": receiver.url("/")})).await.expect(201);
    receiver.wait_for(1).await;
}

/// What lasts: a topic is paused, a message lies, a schedule ticks no more, messages die.
async fn trouble(client: &Client, redis: &Redis) {
    client.post("/topics/held/pause", &json!({})).await.expect(200);
    client.published("lying", json!({"payload": 1})).await;
    let dead = json!({"dead": true});
    client.nack_leased(&client.lease_one("dying").await, dead).await.expect(200);
    // As if whoever claimed its ticks had never come back: nobody is told any more when it is due.
    let due: Vec<String> = redis.command(&["KEYS", "*{schedules}:due"]).await;
    let _: i64 = redis.command(&["ZREM", &due[0], "stuck"]).await;
}

/// What must go on, since it is its rate that counts: refusals, leases that expire or come late, calls that fail.
async fn go_on(client: &Client, receiver: &Receiver, round: u64) {
    client.publish("full", json!({"payload": 2})).await.problem(429, "topic_full");
    client.published("down", json!({"payload": round})).await;
    client.published("expiring", json!({"payload": round})).await;
    client.lease("expiring", json!({})).await.expect(200);
    client.published("late", json!({"payload": round})).await;
    if round > 6 {
        client.lease("late", json!({})).await.expect(200);
    }
    client.post("/callbacks", &json!({"url": receiver.url("/")})).await.expect(201);
}

/// How many alerts fire of each name, until all of these do.
async fn fire(
    prometheus: &Prometheus,
    wanted: &BTreeSet<String>,
    each: impl AsyncFn(u64),
) -> Vec<Value> {
    let mut round = 0;
    let begun = std::time::Instant::now();
    loop {
        round += 1;
        each(round).await;
        let firing = prometheus.firing().await;
        let named: BTreeSet<_> = firing.iter().map(|it| text(it, "alertname").to_owned()).collect();
        if named.is_superset(wanted) {
            return firing;
        }
        let late = begun.elapsed() > std::time::Duration::from_secs(40);
        assert!(!late, "silent: {:?}", wanted.difference(&named).collect::<Vec<_>>());
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}

#[tokio::test]
#[ignore = "needs Prometheus: make test-all"]
async fn every_alert_fires_and_every_panel_shows_something() {
    let (mut redis, receiver) = (Redis::start().await, Receiver::start().await);
    let dueq = Dueq::calling(&redis).start().await;
    let client = dueq.client();
    prepare(&client, &receiver).await;
    let rules = at_once(&file("rules.yaml"));
    let mut alerts: BTreeSet<_> = values(&rules, "- alert:").into_iter().collect();
    let prometheus = Prometheus::start(dueq.addr(), &rules).await;

    // All is well, but for `dying`, `held` and `full`, whose messages have waited since.
    let healthy = async || {
        let seen = prometheus.query("count_over_time(dueq_topic_paused[1m]) > 2").await;
        (!seen.is_empty()).then_some(())
    };
    eventually("some scrapes", healthy).await;
    let mut firing = prometheus.firing().await;
    firing.retain(|alert| text(alert, "alertname") != "DueqOldestReady");
    assert_eq!(firing, Vec::<Value>::new());

    trouble(&client, &redis).await;
    receiver.answer(Reply::status(500));
    let used = redis.info("used_memory").await;
    let limit = (used as f64 / 0.9).to_string();
    let limit = limit.split('.').next().unwrap();
    let _: () = redis.command(&["CONFIG", "SET", "maxmemory", limit]).await;
    let last = "DueqNotReady".to_owned();
    assert!(alerts.remove(&last) && alerts.len() == 10, "{alerts:?}");
    let firing =
        fire(&prometheus, &alerts, async |round| go_on(&client, &receiver, round).await).await;
    for (alert, label, wanted) in [
        ("DueqTopicFull", "topic", "full"),
        ("DueqLeasesExpiring", "topic", "expiring"),
        ("DueqLatenessP99", "topic", "late"),
        ("DueqDeadGrowing", "topic", "dying"),
        ("DueqPausedOver1h", "topic", "held"),
        ("DueqScheduleMissed", "schedule", "stuck"),
        ("DueqCallbackHostFailing", "host", &receiver.addr().to_string()),
    ] {
        // A busy machine is late with others, too.
        let mut of = firing.iter().filter(|it| it["alertname"] == alert);
        assert!(of.any(|it| it[label] == wanted), "{alert} of {wanted}: {firing:?}");
    }
    let lying = json!({"alertname": "DueqOldestReady", "job": "dueq", "severity": "warning", "topic": "lying"});
    assert!(firing.contains(&lying), "{firing:?}");
    let paused =
        firing.iter().find(|it| it["alertname"] == "DueqOldestReady" && it["topic"] == "held");
    assert_eq!(paused, None, "it is paused");

    let mut empty = Vec::new();
    for panel in panels() {
        if prometheus.query(&filled(&panel)).await.is_empty() {
            empty.push(panel);
        }
    }
    redis.kill9();
    let firing = fire(&prometheus, &[last].into(), async |_| ()).await;
    assert!(firing.iter().any(|it| it["alertname"] == "DueqNotReady"), "{firing:?}");
    eventually("dueq itself is there", || async {
        let down = prometheus.query("dueq_redis_up == 0 and on () up{job=\"dueq\"} == 1").await;
        (down.len() == 1).then_some(())
    })
    .await;
    client.publish("any", json!({"payload": 1})).await.problem(503, "redis_unavailable");
    // Errors of Redis are counted from the first on.
    assert!(empty.iter().all(|panel| panel.contains("dueq_redis_errors_total")), "{empty:#?}");

    let rules = prometheus.get("rules", &[]).await;
    for rule in rules["groups"][0]["rules"].as_array().unwrap() {
        assert_eq!(rule["health"], "ok", "{rule}");
        assert!(!rule.to_string().contains("error expanding"), "{rule}");
    }
    let named = file("rules.yaml") + &file("keda.yaml") + &panels().concat();
    eventually("every metric that is named is scraped", || async {
        let known = prometheus.get("label/__name__/values", &[]).await;
        let known: BTreeSet<String> = serde_json::from_value(known).unwrap();
        // A histogram goes by the name that its samples begin with.
        let is_known =
            |name: &String| known.contains(name) || known.contains(&format!("{name}_bucket"));
        names(&named).iter().all(is_known).then_some(())
    })
    .await;
}

#[tokio::test]
#[ignore = "needs Prometheus: make test-all"]
async fn the_examples_for_keda_read_what_is_there() {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    client.published("orders", json!({"payload": 1})).await;
    let keda = file("keda.yaml");
    // The scaler asks for a path and takes a number of the answer.
    let urls = values(&keda, "url:");
    let path = urls[0].strip_prefix("http://dueq:8080").unwrap();
    let answer = client.get_path(path).await.expect(200).json();
    let places = values(&keda, "valueLocation:");
    let place = places[0].split('.').fold(&answer, |value, name| &value[name]);
    assert_eq!(place, 1, "{answer}");
    let prometheus = Prometheus::start(dueq.addr(), "groups: []\n").await;
    let queries = values(&keda, "query:");
    assert_eq!(queries.len(), 2);
    for query in queries {
        // One number, or the scaler refuses it.
        eventually(&query, || async { (prometheus.query(&query).await.len() == 1).then_some(()) })
            .await;
    }
}
