//! The whole matrix: every operation of the document, asked for by keys of every verb, on its topic, on others and on all.

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use super::scopes::{KeyFile, bearer};
use crate::harness::*;

/// Of the keys; the last has two.
const VERBS: [&str; 6] =
    ["read", "publish", "consume", "operate", "configure", "configure.publish"];

/// An operation of the document.
struct Operation {
    id: String,
    method: String,
    path: String,
    /// `verb:place`, or several; empty: any key will do.
    scope: String,
}

fn operations() -> Vec<Operation> {
    let operation = |(method, path, operation): (&str, &str, &Value)| Operation {
        id: text(operation, "operationId").to_owned(),
        method: method.to_uppercase(),
        path: path.to_owned(),
        scope: operation["x-dueq-scope"].as_str().unwrap_or_default().to_owned(),
    };
    Document::committed().operations().map(operation).collect()
}

/// A key: its verb, and whether that is for the topic, for others or for all.
#[derive(Clone, Copy, Debug, PartialEq)]
enum On {
    Topic,
    Others,
    All,
}

/// The first of the scopes that a key of these verbs lacks.
fn lacked<'a>(operation: &'a Operation, verbs: &str, on: On) -> Option<&'a str> {
    operation.scope.split_whitespace().find(|scope| !may(scope, verbs, on))
}

/// May a key of these verbs do what needs this scope?
fn may(scope: &str, verbs: &str, on: On) -> bool {
    let Some((needed, place)) = scope.split_once(':') else { return verbs == scope };
    let on_place = match place {
        "*" | "_callbacks" => on == On::All,
        "{some}" => true,
        "{topic}" | "{id}" | "{ids}" | "{body}" | "{schedule}" => on != On::Others,
        _ => panic!("where is {place}?"),
    };
    verbs == "admin" || (verbs.split('.').any(|verb| verb == needed) && on_place)
}

/// A host of callbacks of a topic's own.
fn host_of(topic: &str) -> String {
    format!("{topic}.example:443")
}

/// What an operation is tried on.
struct Ground {
    topic: String,
    id: String,
    schedule: String,
    token: Value,
}

impl Ground {
    /// A topic with a message, which is ready, leased or dead, or without one, and a schedule.
    async fn prepare(client: &Client, topic: String, operation: &str) -> Ground {
        client.put_topic(&topic, json!({})).await.expect(201);
        let schedule = topic.replace('.', "-");
        let daily = json!({"cron": "0 0 1 1 *", "topic": topic, "message": {"payload": 1}});
        if operation.ends_with("Schedule") && operation != "putSchedule" {
            client.send_json("PUT", &format!("/schedules/{schedule}"), &daily).await.expect(201);
        }
        if operation == "resumeCallbackHost" {
            let pause = format!("/callbacks/hosts/{}/pause", host_of(&topic));
            client.post(&pause, &json!({})).await.expect(200);
        }
        let mut ground = Ground { topic, id: unknown_id(), schedule, token: Value::Null };
        if operation == "deleteTopic" {
            return ground;
        }
        let message = json!({"payload": 1, "key": "k", "max_attempts": 1});
        ground.id = client.published(&ground.topic, message).await;
        if [
            "ackMessage",
            "nackMessage",
            "extendLease",
            "ackBatch",
            "nackBatch",
            "extendBatch",
            "redriveMessage",
            "redriveBatch",
        ]
        .contains(&operation)
        {
            let leased = client.lease_one(&ground.topic).await;
            ground.token = leased["lease_token"].clone();
            if operation.starts_with("redrive") {
                client.nack_leased(&leased, json!({})).await.expect(200);
            }
        }
        ground
    }

    fn path(&self, operation: &Operation) -> String {
        let query = match operation.id.as_str() {
            "listMessages" => "?state=ready",
            "forecastTopic" => "?bucket_ms=1000&buckets=1",
            "previewSchedule" => "?every_ms=1000",
            "getCallbackPublicKey" => "?origin=https://example.com",
            _ => "",
        };
        let path = operation.path.replace("{topic}", &self.topic).replace("{id}", &self.id);
        let path = path.replace("{host}", &host_of(&self.topic));
        path.replace("{key}", "k").replace("{name}", &self.schedule) + query
    }

    fn body(&self, operation: &str) -> Option<Value> {
        let (id, token) = (&self.id, &self.token);
        Some(match operation {
            "publishMessage" | "publishRaw" => json!({"payload": 2}),
            "publishBatch" => json!({"messages": [{"payload": 2}]}),
            "scheduleCallback" => json!({"url": "http://example.com/", "delay_ms": 3_600_000}),
            "leaseFromTopics" => json!({"topics": [self.topic]}),
            "ackMessage" | "nackMessage" => json!({"lease_token": token}),
            "extendLease" => json!({"lease_token": token, "lease_ms": 30_000}),
            "ackBatch" | "nackBatch" => json!({"messages": [{"id": id, "lease_token": token}]}),
            "extendBatch" => {
                json!({"messages": [{"id": id, "lease_token": token, "lease_ms": 30_000}]})
            }
            "redriveBatch" | "deleteBatch" | "runBatch" => json!({"ids": [id]}),
            "updateMessage" | "updateMessageByKey" => json!({"priority": 1}),
            "purgeTopic" => json!({"states": ["ready"]}),
            "putSchedule" => {
                json!({"cron": "0 0 1 1 *", "topic": self.topic, "message": {"payload": 1}})
            }
            "createSession" => json!({"api_key": "dq_key-of-admin-in-tests"}),
            "putGroup" => json!({"concurrency": 2}),
            "putTopic" | "updateTopic" => json!({"lease_ms": 5000}),
            _ => return None,
        })
    }
}

/// Demands what `may` says of this operation and this key, on ground of its own.
async fn check(
    client: &Client,
    file: &KeyFile,
    operation: &Operation,
    verb: &str,
    on: On,
    topic: String,
) {
    let admin = client.clone().with_key(file.key("admin"));
    let ground = Ground::prepare(&admin, topic, &operation.id).await;
    let name = if verb == "admin" { verb.to_owned() } else { format!("{verb}-{on:?}") };
    let authorization = bearer(file.key(&name));
    let kind = ("content-type", "application/json");
    let body = ground.body(&operation.id).map(|body| body.to_string().into_bytes());
    let headers = [("authorization", authorization.as_str()), kind];
    let headers = if body.is_some() { &headers[..] } else { &headers[..1] };
    let path = ground.path(operation);
    let answer = client.send(&operation.method, &path, headers, body).await;
    let lacked = lacked(operation, verb, on);
    let what = format!("{} by {name}: {answer}", operation.id);
    if operation.scope.ends_with("{ids}") {
        let status = answer.expect(200).json()["results"][0]["status"].clone();
        assert_eq!(status, if lacked.is_none() { "ok" } else { "not_allowed" }, "{what}");
    } else if let Some(scope) = lacked {
        let problem = answer.problem(403, "not_allowed");
        let (needed, place) = scope.split_once(':').unwrap_or((scope, "*"));
        let is_stranger = on == On::Others && operation.id != "putSchedule";
        let lacked = match place {
            "*" | "_callbacks" => scope.to_owned(),
            "{some}" => format!("{needed} on any topic"),
            "{id}" if is_stranger => format!("{needed} on the message's topic"),
            "{schedule}" if is_stranger => format!("{needed} on the topic of this schedule"),
            _ => format!("{needed}:{}", ground.topic),
        };
        let detail = format!("the key {name} lacks {lacked}");
        assert_eq!(problem.text("detail"), detail, "{what}");
    } else {
        assert!((200..300).contains(&answer.status), "{what}");
    }
}

#[tokio::test]
async fn every_operation_is_for_the_keys_that_have_its_scope_and_for_no_others() {
    let prefix = topic("matrix");
    let mut file = KeyFile::of(&[("admin", "admin")]);
    for verb in VERBS {
        let mut add = |on: On, pattern: &str| {
            let scopes: Vec<_> = verb.split('.').map(|verb| format!("{verb}:{pattern}")).collect();
            file.add(
                &format!("{verb}-{on:?}"),
                &scopes.iter().map(String::as_str).collect::<Vec<_>>(),
            );
        };
        add(On::Topic, &format!("{prefix}.*"));
        add(On::Others, &format!("not-{prefix}.*"));
        add(On::All, "*");
    }
    let dueq = file.start().await;
    let client = dueq.client();
    let operations = operations();
    assert!(operations.len() >= 45, "{}", operations.len());
    let mut cells = Vec::new();
    for operation in &operations {
        cells.push((operation, "admin", On::All));
        for verb in VERBS {
            cells.extend([On::Topic, On::Others, On::All].map(|on| (operation, verb, on)));
        }
    }
    let (client, file, prefix) = (&client, &file, &prefix);
    let checks = cells.into_iter().enumerate().map(|(number, (operation, verb, on))| {
        check(client, file, operation, verb, on, format!("{prefix}.{number}"))
    });
    stream::iter(checks).buffer_unordered(8).collect::<Vec<()>>().await;
}
