//! Health, metrics, the OpenAPI document, and what the service says while Redis cannot serve.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::*;

#[tokio::test]
async fn healthz_and_readyz_are_200_on_a_good_redis() {
    let client = client().await;
    for path in ["/healthz", "/readyz"] {
        client.get_path(path).await.expect(200);
    }
}

/// A Redis and an instance of the test's own.
async fn pair() -> (Redis, Dueq) {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    (redis, dueq)
}

async fn readyz_becomes(client: &Client, status: u16) -> Answer {
    eventually(&format!("readyz {status}"), || async {
        let answer = client.get_path("/readyz").await;
        (answer.status == status).then_some(answer)
    })
    .await
}

#[tokio::test]
async fn readyz_is_503_while_redis_may_evict() {
    let (redis, dueq) = pair().await;
    let client = dueq.client();
    let set = ["CONFIG", "SET", "maxmemory-policy"];
    let _: () = redis.command(&[&set[..], &["allkeys-lru"]].concat()).await;
    let answer = readyz_becomes(&client, 503).await.refused(503);
    assert!(answer.text("detail").contains("noeviction"), "{answer}");
    client.get_path("/healthz").await.expect(200);
    let _: () = redis.command(&[&set[..], &["noeviction"]].concat()).await;
    readyz_becomes(&client, 200).await;
}

#[tokio::test]
async fn readyz_is_503_while_redis_may_not_be_written() {
    let (redis, dueq) = pair().await;
    let client = dueq.client();
    let set = ["CONFIG", "SET", "min-replicas-to-write"];
    let _: () = redis.command(&[&set[..], &["1"]].concat()).await;
    let detail = readyz_becomes(&client, 503).await.refused(503).text("detail");
    assert!(detail.contains("too few replicas"), "{detail}");
    let answer = client.publish(&topic("service"), json!({"payload": 1})).await;
    answer.problem(503, "redis_unavailable");
    let _: () = redis.command(&[&set[..], &["0"]].concat()).await;
    readyz_becomes(&client, 200).await;
    client.published_again(&topic("service"), json!({"payload": 1})).await;
}

#[tokio::test]
async fn readyz_is_503_while_redis_is_a_replica() {
    let (redis, dueq) = pair().await;
    let client = dueq.client();
    let topic = topic("service");
    let _: () = redis.command(&["REPLICAOF", "127.0.0.1", "1"]).await;
    for _ in 0..10 {
        let answer = client.publish(&topic, json!({"payload": 1})).await;
        answer.problem(503, "redis_unavailable");
    }
    readyz_says(&client, "read-only replica").await;
    let _: () = redis.command(&["REPLICAOF", "NO", "ONE"]).await;
    readyz_becomes(&client, 200).await;
    client.published_again(&topic, json!({"payload": 1})).await;
}

#[tokio::test]
async fn without_redis_every_route_that_needs_it_is_503_and_comes_back_with_it() {
    let (mut redis, dueq) = pair().await;
    let (client, topic) = (dueq.client(), topic("service"));
    let id = client.published(&topic, json!({"payload": 1})).await;
    redis.kill9();
    readyz_says(&client, "cannot be reached").await;
    client.get_path("/healthz").await.expect(200);
    client.get_path("/metrics").await.expect(200);
    let message = b"{\"payload\":1}";
    for (method, path, body) in [
        ("POST", format!("/topics/{topic}/messages"), Some(&message[..])),
        ("POST", format!("/topics/{topic}/messages/raw"), Some(b"x")),
        ("POST", format!("/topics/{topic}/lease"), None),
        ("GET", format!("/messages/{id}"), None),
        ("DELETE", format!("/messages/{id}"), None),
        ("GET", format!("/topics/{topic}"), None),
        ("GET", "/topics".to_owned(), None),
    ] {
        // What meets a connection that has just broken cannot be told from what was carried out.
        eventually("redis_unavailable", || async {
            let kind = [("content-type", "application/json")];
            let answer =
                client.send(method, &path, &kind, body.map(<[u8]>::to_vec)).await.refused(503);
            assert!(answer.header("retry-after").parse::<u32>().is_ok(), "{answer}");
            (answer.text("code") == "redis_unavailable").then_some(())
        })
        .await;
    }
    redis.restart().await;
    readyz_becomes(&client, 200).await;
    client.published_again(&topic, json!({"payload": 1})).await;
    let told = |line: &&str| line.contains(" dueq_store::redis::") && !line.contains(" DEBUG ");
    let lines = eventually("a line at the end", || async {
        let log = dueq.log();
        let lines: Vec<_> = log.lines().filter(told).map(str::to_owned).collect();
        lines.last()?.contains("Redis can be used again").then_some(lines)
    })
    .await;
    let of_outage: Vec<_> = lines.iter().skip_while(|line| line.contains("met Redis")).collect();
    assert!(of_outage[0].contains("Redis cannot be used"), "{lines:?}");
    assert_eq!(of_outage.len(), 2, "one line as it begins, one as it ends: {lines:?}");
}

#[tokio::test]
async fn readyz_says_that_redis_is_busy_and_to_strangers_never_where_it_is() {
    let (redis, dueq) = pair().await;
    let client = dueq.client();
    let _: () = redis.command(&["CONFIG", "SET", "lua-time-limit", "50"]).await;
    let busy = redis.connection().await;
    let mut forever = deadpool_redis::redis::cmd("EVAL");
    forever.arg("while true do end").arg(0);
    let spin = tokio::spawn(async move {
        let mut busy = busy;
        forever.query_async::<()>(&mut busy).await
    });
    let detail = readyz_says(&client, "busy with a script").await;
    let away = format!("(127.0.0.1:{} for ", redis.port());
    assert!(detail.contains(&away), "{detail}");
    let from = [("origin", "https://elsewhere.example")];
    let stranger = client.send("GET", "/readyz", &from, None).await.refused(503).text("detail");
    assert!(stranger.contains("busy") && !stranger.contains("127.0.0.1"), "{stranger}");
    let _: () = redis.command(&["SCRIPT", "KILL"]).await;
    let _ = spin.await;
    readyz_becomes(&client, 200).await;
}

async fn readyz_says(client: &Client, words: &str) -> String {
    eventually(words, || async {
        let answer = client.get_path("/readyz").await;
        (answer.status == 503).then(|| answer.text("detail")).filter(|it| it.contains(words))
    })
    .await
}

#[tokio::test]
async fn while_redis_hangs_requests_are_answered_503_in_time_and_never_done_later() {
    let mut redis = Redis::start().await;
    let dueq = Dueq::on(&redis).args(["--redis-timeout-ms", "500"]).start().await;
    let (client, topic) = (dueq.client(), topic("service"));
    client.published(&topic, json!({"payload": 1})).await;
    redis.pause();
    let start = Instant::now();
    let asks = (0..20).map(|n| client.publish(&topic, json!({"payload": n})));
    let answers = futures_util::future::join_all(asks).await;
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    let mut unknown = 0;
    for answer in answers {
        let answer = answer.refused(503);
        match answer.text("code").as_str() {
            "outcome_unknown" => unknown += 1,
            code => assert_eq!(code, "redis_unavailable", "{answer}"),
        }
    }
    redis.resume();
    readyz_becomes(&client, 200).await;
    client.published_again(&topic, json!({"payload": 1})).await;
    let stored = client.total(&topic, "published").await;
    assert!((2..=2 + unknown).contains(&stored), "{stored} stored, {unknown} of unknown outcome");
}

#[tokio::test]
async fn metrics_tell_what_happened() {
    let dueq = instance().await;
    let (client, topic) = (dueq.client(), topic("service"));
    for payload in 1..=3 {
        client.published(&topic, json!({"payload": payload})).await;
    }
    client.ack_leased(&client.lease_one(&topic).await).await.expect(204);
    let nack = json!({"delay_ms": 60_000});
    client.nack_leased(&client.lease_one(&topic).await, nack).await.expect(200);
    client.get(&unknown_id()).await.expect(404);
    let answer = client.get_path("/metrics").await.expect(200);
    let kind = answer.header("content-type");
    assert!(kind.starts_with("application/openmetrics-text") || kind.starts_with("text/plain"));
    let text = String::from_utf8(answer.body.clone()).unwrap();
    for (name, count) in
        [("published", 3), ("granted", 2), ("acked", 1), ("nacked", 1), ("dead", 0)]
    {
        let line = format!("dueq_messages_{name}_total{{topic=\"{topic}\"}} {count}");
        assert!(text.lines().any(|l| l == line), "no {line:?} in:\n{text}");
    }
    for (operation, status, count) in
        [("publishMessage", 201, 3), ("leaseMessages", 200, 2), ("getMessage", 404, 1)]
    {
        let ours = |line: &&str| {
            line.starts_with("dueq_http_requests_total")
                && line.contains(&format!("operation=\"{operation}\""))
                && line.contains(&format!("status=\"{status}\""))
        };
        let line = text.lines().find(ours);
        assert_eq!(
            line.and_then(|l| l.rsplit(' ').next()),
            Some(&*count.to_string()),
            "{operation}"
        );
    }
    for name in [
        "dueq_lateness_seconds_count 2",
        "dueq_waiters 0",
        "dueq_group_size_count",
        "dueq_redis_call_duration_seconds_count",
        "dueq_http_request_duration_seconds_count",
    ] {
        assert!(text.lines().any(|l| l.starts_with(name)), "no {name} in:\n{text}");
    }
}

#[tokio::test]
async fn the_openapi_document_names_every_route() {
    let document = client().await.get_path("/openapi.json").await.expect(200).json();
    assert!(text(&document, "openapi").starts_with("3.1"));
    for (path, method, operation) in [
        ("/topics/{topic}/messages", "post", "publishMessage"),
        ("/topics/{topic}/messages/raw", "post", "publishRaw"),
        ("/topics/{topic}/lease", "post", "leaseMessages"),
        ("/messages/{id}/ack", "post", "ackMessage"),
        ("/messages/{id}/nack", "post", "nackMessage"),
        ("/messages/{id}/extend", "post", "extendLease"),
        ("/messages/{id}", "get", "getMessage"),
        ("/messages/{id}", "delete", "deleteMessage"),
        ("/topics/{topic}", "get", "getTopic"),
        ("/topics", "get", "listTopics"),
    ] {
        let found = &document["paths"][path][method];
        assert_eq!(found["operationId"], operation, "{method} {path}");
        assert!(!found["tags"].as_array().unwrap().is_empty(), "{operation} has a tag");
        for (kind, content) in found["requestBody"]["content"].as_object().into_iter().flatten() {
            let schema = &content["schema"];
            let schema = schema["oneOf"].get(0).unwrap_or(schema); // the other choice is null
            let named = schema.get("$ref").is_some() || kind == "application/octet-stream";
            assert!(named, "an inline schema: the request of {operation}");
        }
        let responses = found["responses"].as_object().unwrap();
        let good = responses.keys().filter(|status| status.starts_with('2')).count();
        let schemas: std::collections::HashSet<String> = responses
            .iter()
            .filter(|(status, _)| status.starts_with('2'))
            .map(|(_, response)| response["content"].to_string())
            .collect();
        assert!(good >= 1 && schemas.len() == 1, "one success schema: {operation}");
        for (status, response) in responses {
            assert!(!text(response, "description").is_empty(), "{operation} {status}");
            for (kind, content) in response["content"].as_object().into_iter().flatten() {
                let inline = content["schema"].get("$ref").is_none();
                assert!(!inline, "an inline schema: {operation} {status} {kind}");
                let problem = status.as_str() >= "400";
                assert_eq!(kind == "application/problem+json", problem, "{operation} {status}");
            }
        }
    }
}

#[tokio::test]
async fn the_docs_page_needs_nothing_from_elsewhere() {
    let client = client().await;
    let mut answer = client.get_path("/docs").await;
    if (300..400).contains(&answer.status) {
        let to = answer.header("location").to_owned();
        answer = client.get_path(&to).await;
    }
    let answer = answer.expect(200);
    assert!(answer.header("content-type").starts_with("text/html"), "{answer}");
    let page = String::from_utf8_lossy(&answer.body).into_owned();
    for foreign in ["src=\"http", "src=\"//", "href=\"http", "href=\"//", "@import"] {
        assert!(!page.contains(foreign), "{foreign} in {page}");
    }
}

#[tokio::test]
async fn every_answer_says_what_browsers_and_caches_may_do_with_it() {
    let client = client().await;
    let topic = topic("service");
    client.published(&topic, json!({"payload": 1})).await;
    for path in ["/topics", "/healthz", "/readyz", "/metrics", "/openapi.json", "/nowhere"] {
        let answer = client.get_path(path).await;
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(answer.header("cache-control"), "no-store", "{path}");
    }
    let leased = client.lease(&topic, json!({})).await.expect(200);
    assert_eq!(leased.header("cache-control"), "no-store");
    for path in ["/docs", "/docs/", "/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js"] {
        let answer = client.get_path(path).await;
        assert_eq!(answer.header("x-content-type-options"), "nosniff", "{path}");
        let policy = answer.header("content-security-policy");
        for rule in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
    }
}

#[tokio::test]
async fn readyz_looks_at_redis_once_a_second_however_often_it_is_asked() {
    let (redis, dueq) = pair().await;
    let client = dueq.client();
    let before = redis.info("total_commands_processed").await;
    let start = Instant::now();
    let asks = (0..200).map(|_| client.get_path("/readyz"));
    for answer in futures_util::future::join_all(asks).await {
        answer.expect(200);
    }
    let commands = redis.info("total_commands_processed").await - before;
    let most = 60 + 60 * start.elapsed().as_secs() as i64;
    assert!(commands < most, "{commands} commands in {:?}", start.elapsed());
}

#[tokio::test]
async fn a_request_id_is_taken_and_returned() {
    let client = client().await;
    for id in ["x", "abc-123/~!", &"i".repeat(128)] {
        let answer = client.send("GET", "/healthz", &[("x-request-id", id)], None).await;
        assert_eq!(answer.header("x-request-id"), id);
        let answer = client.send("GET", "/nowhere", &[("x-request-id", id)], None).await;
        assert_eq!(answer.refused(404).text("request_id"), id);
    }
}

#[tokio::test]
async fn a_request_id_that_is_none_is_replaced() {
    let client = client().await;
    for id in ["", "a b", "é", &"i".repeat(129)] {
        let answer = client.send("GET", "/healthz", &[("x-request-id", id)], None).await;
        let made = answer.header("x-request-id");
        assert!(!made.is_empty() && made != id, "{id:?} became {made:?}");
        assert!(made.len() <= 128 && made.bytes().all(|b| b.is_ascii_graphic()), "{made:?}");
    }
}

#[tokio::test]
async fn every_request_without_an_id_gets_one_of_its_own() {
    let client = client().await;
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(client.get_path("/healthz").await.expect(200).header("x-request-id").to_owned());
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 10);
}
