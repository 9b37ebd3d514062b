//! Tokens that are over, in every way in which one can be.

use std::time::Duration;

use deadpool_redis::redis;
use deadpool_redis::redis::aio::MultiplexedConnection;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tokio::time::sleep;

use super::crew::Crew;
use super::findings::{BITE, Findings};
use crate::harness::{Client, Redis, text, topic};
use crate::proof::stage::{Report, Setting};

/// The ways.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// The lease is over; nobody has been granted the message since.
    Over,
    /// The lease is over and another client holds the message.
    OverAndGranted,
    /// It was extended, and is over since.
    ExtendedAndOver,
    Nacked,
    Released,
    /// Given back, and another client holds the message.
    NackedAndGranted,
    Acked,
    /// Given up for dead.
    Dead,
    Redriven,
    /// The message was deleted by force under its holder.
    Deleted,
    /// Its topic was, and there is one of the same name again.
    TopicMadeAnew,
    /// One character of the holder's token is another.
    Forged,
    /// The token of the message alongside it.
    Another,
}

use Way::*;

const WAYS: [Way; 13] = [
    Over,
    OverAndGranted,
    ExtendedAndOver,
    Nacked,
    Released,
    NackedAndGranted,
    Acked,
    Dead,
    Redriven,
    Deleted,
    TopicMadeAnew,
    Forged,
    Another,
];

/// A message with a token that is over, and one that is not, where a client holds it.
struct Stale {
    id: String,
    token: String,
    holder: Option<String>,
}

/// `setting.messages` tokens (130 in the short form) are made stale in every way, and each is tried as an ack, a nack and an
/// extend, alone, in a batch, and alongside a lease: every try is answered 409 or 404, nothing changes, and the message's holder
/// of that time can still ack it.
pub async fn stale_tokens(setting: Setting) -> Report {
    let mut findings = Findings::new("stale_tokens", &setting);
    let crew = Crew::start(&setting, 2).await;
    let each = if setting.messages > 0 { setting.messages.div_ceil(WAYS.len()) } else { 10 };
    let mut topics = Vec::new();
    for way in WAYS {
        topics.push((way, topic("stale"), Vec::new()));
    }
    let (one, other) = (crew.client(0), crew.client(1));
    let unswept = topics.iter().filter(|(way, ..)| matches!(way, Over | ExtendedAndOver));
    let unswept: Vec<String> = unswept.map(|(_, topic, _)| topic.clone()).collect();
    let away = tokio::spawn(keep_housekeeping_away(crew.redis.connection().await, unswept));
    for (way, topic, stale) in &mut topics {
        *stale = hold(&one, topic, *way, each).await;
    }
    // Until every lease is over that is to be.
    sleep(Duration::from_millis(1_100)).await;
    for (way, topic, stale) in &mut topics {
        if matches!(way, OverAndGranted | NackedAndGranted) {
            let held = lease(&other, topic, each, 600_000).await;
            for stale in stale.iter_mut() {
                let now =
                    held.iter().find(|(id, _)| *id == stale.id).map(|(_, token)| token.clone());
                findings
                    .demand(now.is_some(), BITE, || format!("{way:?}: {} is not held", stale.id));
                stale.holder = now;
            }
        }
        // The API itself notices that leases are over.
        let unnoticed = matches!(way, Over | ExtendedAndOver);
        let snapshot = async || match unnoticed {
            true => leases(&crew.redis, topic).await,
            false => snapshot(&other, topic).await,
        };
        let before = snapshot().await;
        findings.demand(!unnoticed || before[0] == json!(each), BITE, || {
            format!("{way:?}: of {each} leases {} are unnoticed", before[0])
        });
        findings.demand(stale.len() == each, BITE, || format!("{way:?}: {} tokens", stale.len()));
        try_alone(&mut findings, &other, *way, stale).await;
        try_together(&mut findings, &other, topic, *way, stale).await;
        let after = snapshot().await;
        findings.demand(before == after, "I5", || format!("{way:?}: {before} became {after}"));
        for part in stale.chunks(1_000) {
            let held = part
                .iter()
                .filter_map(|s| Some(item(&s.id, s.holder.as_ref()?)))
                .collect::<Vec<_>>();
            if held.is_empty() {
                continue;
            }
            for result in one.held_batch("ack", &held).await {
                findings.demand(result["status"] == "ok", "I5", || {
                    format!("{way:?}: the holder's ack after the tries: {result}")
                });
            }
        }
        findings.tally().published += each as u64;
        findings.audit(&crew.redis, &one, topic).await;
    }
    away.abort();
    findings.report()
}

/// Takes back every hint that these topics are to be swept, so that nobody notices that leases are over.
async fn keep_housekeeping_away(mut redis: MultiplexedConnection, topics: Vec<String>) {
    let mut forget = redis::cmd("ZREM");
    forget.arg("dueq:{sweeps}:index").arg(topics);
    loop {
        let _: i64 = forget.query_async(&mut redis).await.expect("a ZREM");
        sleep(Duration::from_millis(3)).await;
    }
}

fn item(id: &str, token: &str) -> Value {
    json!({"id": id, "lease_token": token})
}

/// Leases so many: ids and tokens.
async fn lease(client: &Client, topic: &str, count: usize, lease_ms: i64) -> Vec<(String, String)> {
    let mut held = Vec::new();
    while held.len() < count {
        let want = json!({"max_messages": (count - held.len()).min(1_000), "lease_ms": lease_ms, "wait_ms": 1_000});
        let messages = client.leased(topic, want).await;
        if messages.is_empty() {
            break;
        }
        let token = |m: &Value| (text(m, "id").to_owned(), text(m, "lease_token").to_owned());
        held.extend(messages.iter().map(token));
    }
    held
}

/// Publishes and leases, and does what makes the tokens stale; the end of a lease is waited for elsewhere.
async fn hold(client: &Client, topic: &str, way: Way, count: usize) -> Vec<Stale> {
    let message = json!({"payload": 1, "max_attempts": 100});
    client.fill(topic, &vec![message; count]).await;
    let ends = matches!(way, Over | OverAndGranted | ExtendedAndOver);
    let held = lease(client, topic, count, if ends { 1_000 } else { 600_000 }).await;
    let (verb, more) = match way {
        Acked => ("ack", json!({})),
        ExtendedAndOver => ("extend", json!({"lease_ms": 1_000})),
        Nacked => ("nack", json!({"delay_ms": 600_000})),
        Released => ("nack", json!({"delay_ms": 600_000, "release": true})),
        NackedAndGranted => ("nack", json!({"delay_ms": 0})),
        Dead | Redriven => ("nack", json!({"dead": true})),
        _ => ("", json!({})),
    };
    for part in held.chunks(1_000).filter(|_| !verb.is_empty()) {
        let with = |(id, token): &(String, String)| {
            let mut item = item(id, token);
            let more = more.as_object().cloned().unwrap_or_default();
            item.as_object_mut().expect("an object").extend(more);
            item
        };
        let items: Vec<Value> = part.iter().map(with).collect();
        for result in client.held_batch(verb, &items).await {
            assert_eq!(result["status"], "ok", "{way:?}: {result}");
        }
    }
    match way {
        Redriven => drop(client.redrive_topic(topic, json!({})).await.expect(200)),
        Deleted => {
            let delete = |(id, _): &(String, String)| {
                let id = id.clone();
                async move { client.delete_by_force(&id).await.expect(204) }
            };
            stream::iter(&held).map(delete).buffer_unordered(16).collect::<Vec<_>>().await;
        }
        TopicMadeAnew => {
            client.delete_topic(topic, "?force=true").await.expect(204);
            client.fill(topic, &vec![json!({"payload": 2}); count]).await;
            lease(client, topic, count, 600_000).await;
        }
        _ => {}
    }
    let tokens: Vec<String> = held.iter().map(|(_, token)| token.clone()).collect();
    let stale = |(n, (id, token)): (usize, (String, String))| match way {
        Forged => Stale { id, token: forged(&token, n), holder: Some(token) },
        Another => Stale { id, token: tokens[(n + 1) % tokens.len()].clone(), holder: Some(token) },
        _ => Stale { id, token, holder: None },
    };
    held.into_iter().enumerate().map(stale).collect()
}

/// The token with one character changed.
fn forged(token: &str, n: usize) -> String {
    let at = n % token.len();
    let other = |c: char| if c == 'A' { 'B' } else { 'A' };
    token.chars().enumerate().map(|(i, c)| if i == at { other(c) } else { c }).collect()
}

/// Each token as an ack, a nack and an extend of its own.
async fn try_alone(findings: &mut Findings, client: &Client, way: Way, stale: &[Stale]) {
    let tries = stream::iter(stale).map(async |Stale { id, token, .. }| {
        [
            client.ack(id, token).await,
            client.nack(id, token, json!({"delay_ms": 0})).await,
            client.extend(id, token, 600_000).await,
        ]
    });
    let mut tries = std::pin::pin!(tries.buffer_unordered(16));
    while let Some(answers) = tries.next().await {
        for answer in answers {
            let code = if answer.status < 300 { "ok".into() } else { answer.text("code") };
            judge(findings, way, &code, || answer.to_string());
        }
    }
}

/// All tokens in batches, and as acks alongside a lease.
async fn try_together(
    findings: &mut Findings,
    client: &Client,
    topic: &str,
    way: Way,
    stale: &[Stale],
) {
    for part in stale.chunks(1_000) {
        let items: Vec<Value> = part.iter().map(|stale| item(&stale.id, &stale.token)).collect();
        let mut results = Vec::new();
        for (verb, field) in
            [("ack", None), ("nack", Some("delay_ms")), ("extend", Some("lease_ms"))]
        {
            let mut items = items.clone();
            for (item, field) in items.iter_mut().zip(std::iter::repeat(field)) {
                if let Some(field) = field {
                    item[field] = json!(600_000);
                }
            }
            results.extend(client.held_batch(verb, &items).await);
        }
        // From a topic without messages, so that nothing is granted.
        let elsewhere = format!("/topics/{topic}-empty/lease");
        let answer = client.post(&elsewhere, &json!({"acks": items})).await.expect(200).json();
        results.extend(answer["acks"].as_array().expect("acks").iter().cloned());
        findings.demand(results.len() == 4 * items.len(), "I15", || "results are missing".into());
        for result in results {
            judge(findings, way, text(&result, "status"), || result.to_string());
        }
    }
}

fn judge(findings: &mut Findings, way: Way, code: &str, answer: impl Fn() -> String) {
    findings.tally().stale_tried += 1;
    findings.tally().stale_accepted += u64::from(code == "ok");
    let gone = matches!(way, Acked | Deleted | TopicMadeAnew);
    let right = if gone { "message_not_found" } else { "lease_lost" };
    findings.demand(code == right, "I5", || format!("{way:?}: {}", answer()));
}

/// How many leases lie in Redis, and which.
async fn leases(redis: &Redis, topic: &str) -> Value {
    let unack = format!("dueq:{{{topic}:0}}:unack");
    let words = ["ZRANGE", &unack, "0", "-1", "WITHSCORES"];
    let held: Vec<(Vec<u8>, f64)> = redis.command(&words).await;
    json!([held.len(), held])
}

/// What a topic holds and has counted.
async fn snapshot(client: &Client, topic: &str) -> Value {
    let seen = client.topic(topic).await.expect(200).json();
    let mut states = Vec::new();
    for state in ["delayed", "ready", "leased", "dead"] {
        let page = client.list(topic, &format!("state={state}&limit=200")).await.expect(200).json();
        states.push(page["items"].clone());
    }
    json!({"counts": seen["counts"], "totals": seen["totals"], "messages": states})
}
