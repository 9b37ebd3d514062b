//! The gauges in `/metrics`: what Redis holds, looked at rarely and within bounds, and what the process is.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use serde_json::json;

use crate::harness::*;

async fn scrape(client: &Client) -> String {
    let answer = client.get_path("/metrics").await.expect(200);
    String::from_utf8(answer.body).unwrap()
}

/// The value of this sample, named with its labels.
fn value(text: &str, sample: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '))?;
    Some(line.parse().unwrap())
}

/// Waits for a scrape in which all of these have these values.
async fn shows(client: &Client, samples: &[(String, f64)]) -> String {
    eventually(&format!("{samples:?}"), || async {
        let text = scrape(client).await;
        let shown = |(sample, wanted): &(String, f64)| value(&text, sample) == Some(*wanted);
        samples.iter().all(shown).then_some(text)
    })
    .await
}

#[tokio::test]
async fn every_instance_shows_what_a_topic_holds() {
    let redis = Redis::start().await;
    let (one, other) = (Dueq::on(&redis).start().await, Dueq::on(&redis).start().await);
    let client = one.client();
    client.configure("held", json!({"retention": {"acked_ms": 60_000}})).await;
    for payload in 1..=6 {
        client.published("held", json!({"payload": payload})).await;
    }
    client.published("held", json!({"payload": 7, "delay_ms": 60_000})).await;
    client.ack_leased(&client.lease_one("held").await).await.expect(204);
    let dead = json!({"dead": true});
    client.nack_leased(&client.lease_one("held").await, dead).await.expect(200);
    client.lease_one("held").await;
    client.post("/topics/held/pause", &json!({})).await.expect(200);
    client.published("busy", json!({"payload": 1})).await;

    let state = |state: &str| format!("dueq_topic_messages{{topic=\"held\",state=\"{state}\"}}");
    let held =
        [("delayed", 1), ("ready", 3), ("leased", 1), ("dead", 1), ("acked", 1), ("blocked", 0)];
    let mut samples = held.map(|(name, count)| (state(name), f64::from(count))).to_vec();
    samples.push(("dueq_topic_paused{topic=\"held\"}".to_owned(), 1.0));
    samples.push(("dueq_topic_paused{topic=\"busy\"}".to_owned(), 0.0));
    for dueq in [&one, &other] {
        let text = shows(&dueq.client(), &samples).await;
        let age = value(&text, "dueq_topic_oldest_ready_seconds{topic=\"held\"}").unwrap();
        assert!(age > 0.0 && age < 60.0, "{age}");
        assert_eq!(value(&text, "dueq_redis_up"), Some(1.0));
        assert_eq!(value(&text, "dueq_ready"), Some(1.0));
    }
    // Only the instance that granted knows how late that was; in twelve buckets.
    let lateness = |text: &str| {
        let bucket = |line: &&str| {
            line.starts_with("dueq_topic_lateness_seconds_bucket{")
                && line.contains("topic=\"held\"")
        };
        text.lines().filter(bucket).count()
    };
    let text = scrape(&client).await;
    assert_eq!(lateness(&text), 12, "{text}");
    assert_eq!(value(&text, "dueq_topic_lateness_seconds_count{topic=\"held\"}"), Some(3.0));
    assert_eq!(lateness(&scrape(&other.client()).await), 0);
}

#[tokio::test]
async fn a_topic_that_is_deleted_is_shown_no_more() {
    let (_redis, _dueq, client) = alone().await;
    client.published("gone", json!({"payload": 1})).await;
    shows(&client, &[("dueq_topic_paused{topic=\"gone\"}".to_owned(), 0.0)]).await;
    client.send("DELETE", "/topics/gone?force=true", &[], None).await.expect(204);
    eventually("it is gone", || async {
        (!scrape(&client).await.contains("dueq_topic_paused{topic=\"gone\"}")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn scrapes_at_the_same_time_share_one_look_and_so_do_those_soon_after() {
    let redis = Redis::start().await;
    let client = Dueq::on(&redis).start().await;
    let first = client.client();
    for n in 0..60 {
        first.published(&format!("look-{n}"), json!({"payload": 1})).await;
    }
    let ran = async || redis.info("total_commands_processed").await;
    let before = ran().await;
    scrape(&first).await;
    let once = ran().await - before;
    assert!(once > 60, "a look at 60 topics took {once} commands");

    let other = Dueq::on(&redis).start().await;
    let other = other.client();
    let before = ran().await;
    let begun = Instant::now();
    for text in join_all((0..10).map(|_| scrape(&other))).await {
        assert_eq!(value(&text, "dueq_topic_paused{topic=\"look-59\"}"), Some(0.0));
    }
    scrape(&other).await;
    let ten = ran().await - before;
    // Beside the look, both instances ask Redis for what they need to run.
    let idle = 200 * (1 + begun.elapsed().as_secs() as i64);
    assert!(ten < 2 * once + idle, "{ten} commands for ten scrapes, {once} for one");
}

#[tokio::test]
async fn no_more_topics_are_shown_than_have_labels() {
    let (_redis, _dueq, client) = alone().await;
    let paths = (0..230).map(|n| format!("/topics/many-{n}"));
    for path in paths {
        client.send_json("PUT", &path, &json!({})).await.expect(201);
    }
    client.published("zz-last-by-name", json!({"payload": 1})).await;
    let last = ("dueq_topic_paused{topic=\"zz-last-by-name\"}".to_owned(), 0.0);
    let text = shows(&client, &[last]).await;
    let topics = text.lines().filter(|line| line.starts_with("dueq_topic_paused{")).count();
    assert_eq!(topics, 200);
}

#[tokio::test]
async fn a_redis_that_is_away_does_not_keep_metrics_from_answering() {
    let (mut redis, _dueq, client) = alone().await;
    client.published("away", json!({"payload": 1})).await;
    let up = |up: f64| [("dueq_redis_up".to_owned(), up), ("dueq_ready".to_owned(), up)];
    let text = shows(&client, &up(1.0)).await;
    assert!(value(&text, "dueq_redis_memory_bytes{kind=\"used\"}").unwrap() > 1e5, "{text}");
    assert_eq!(value(&text, "dueq_redis_memory_bytes{kind=\"max\"}"), Some(0.0));
    for hangs in [true, false] {
        if hangs {
            redis.pause()
        } else {
            redis.kill9()
        }
        let text = shows(&client, &up(0.0)).await;
        // What was seen before is not shown as if it were seen now.
        for gone in ["dueq_topic_messages{", "dueq_redis_memory_bytes{", "dueq_topic_paused{"] {
            assert!(!text.contains(gone), "{gone} in {text}");
        }
        assert!(text.contains("dueq_messages_published_total{topic=\"away\"} 1"), "{text}");
        let begun = Instant::now();
        join_all((0..10).map(|_| scrape(&client))).await;
        assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
        if hangs {
            redis.resume()
        } else {
            redis.restart().await
        }
        shows(&client, &up(1.0)).await;
    }
}

#[tokio::test]
async fn schedules_show_their_ticks_and_none_to_come_while_they_are_paused() {
    let (_redis, _dueq, client) = alone().await;
    let now = || std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    let schedule = json!({"every_ms": 1000, "topic": "ticks", "message": {"payload": 1}});
    client.send_json("PUT", "/schedules/often", &schedule).await.expect(201);
    let schedule = json!({"cron": "0 0 1 1 *", "topic": "ticks", "message": {"payload": 1}});
    client.send_json("PUT", "/schedules/yearly", &schedule).await.expect(201);
    let ticks = |name: &str| {
        ["last", "next"].map(|which| {
            format!("dueq_schedule_{which}_tick_timestamp_seconds{{schedule=\"{name}\"}}")
        })
    };
    let text = eventually("a tick", || async {
        let text = scrape(&client).await;
        value(&text, &ticks("often")[0]).map(|_| text)
    })
    .await;
    let [last, next] = ticks("often").map(|name| value(&text, &name).unwrap());
    assert!((now() - last).abs() < 15.0 && next > last && next < last + 5.0, "{last} {next}");
    assert_eq!(value(&text, &ticks("yearly")[0]), None);
    assert!(value(&text, &ticks("yearly")[1]).unwrap() > now());

    client.post("/schedules/yearly/pause", &json!({})).await.expect(200);
    eventually("it is paused", || async {
        value(&scrape(&client).await, &ticks("yearly")[1]).is_none().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_full_topics_refusals_are_counted_each_once() {
    let dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("metrics"));
    client.configure(&topic, json!({"max_messages": 1})).await;
    client.published(&topic, json!({"payload": 1})).await;
    client.publish(&topic, json!({"payload": 2})).await.problem(429, "topic_full");
    let batch = [json!({"payload": 3}), json!({"payload": 4})];
    client.publish_batch(&topic, &batch).await.expect(200);
    let text = scrape(&client).await;
    let refused = format!("dueq_messages_refused_total{{topic=\"{topic}\"}}");
    assert_eq!(value(&text, &refused), Some(3.0), "{text}");
}

#[tokio::test]
async fn the_process_and_its_connections_are_shown() {
    let dueq = instance().await;
    let client = dueq.client();
    let text = scrape(&client).await;
    let of = |name: &str| value(&text, name).unwrap_or_else(|| panic!("no {name}: {text}"));
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(of(&format!("dueq_build_info{{version=\"{version}\",schema=\"2\"}}")), 1.0);
    assert!(of("process_resident_memory_bytes") > 4e6);
    assert!(of("process_cpu_seconds_total") > 0.0);
    assert!(of("process_open_fds") > 5.0 && of("process_open_fds") < of("process_max_fds"));
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
    assert!((now - of("process_start_time_seconds")).abs() < 60.0);

    let before = of("dueq_http_connections");
    let mut open = Vec::new();
    for _ in 0..7 {
        open.push(tokio::net::TcpStream::connect(dueq.addr()).await.unwrap());
    }
    shows(&client, &[("dueq_http_connections".to_owned(), before + 7.0)]).await;
    drop(open);
    shows(&client, &[("dueq_http_connections".to_owned(), before)]).await;
}

#[tokio::test]
async fn tools_that_read_only_the_older_format_get_it() {
    let client = client().await;
    let prometheus = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5";
    for (accept, classic) in [
        ("text/plain", true),
        ("Text/Plain; version=0.0.4", true),
        (prometheus, false),
        ("*/*", false),
        ("text/html", false),
        ("", false),
    ] {
        let answer = client.send("GET", "/metrics", &[("accept", accept)], None).await.expect(200);
        let kind = answer.header("content-type").to_owned();
        let text = String::from_utf8(answer.body).unwrap();
        let (wanted, counter) = match classic {
            true => ("text/plain; version=0.0.4", "# TYPE dueq_http_requests_total counter"),
            false => ("application/openmetrics-text", "# TYPE dueq_http_requests counter"),
        };
        assert!(kind.starts_with(wanted), "{accept:?}: {kind}");
        assert!(text.lines().any(|line| line == counter), "{accept:?}: {text}");
        assert_eq!(text.ends_with("# EOF\n"), !classic, "{accept:?}");
    }
    client.get_path("/metrics?format=text").await.refused(422).field("format");
}
