//! What the dashboard asks: shared for a second where a request is content with that, with an `ETag`; everybody else gets a new
//! answer each time.

use serde_json::json;

use crate::access::scopes::KeyFile;
use crate::harness::*;

const UI: (&str, &str) = ("dueq-ui", "1");
const CONTENT: (&str, &str) = ("cache-control", "max-age=1");

async fn look(client: &Client, headers: &[(&str, &str)]) -> Answer {
    client.send("GET", "/topics/glances", headers, None).await
}

fn ready(answer: &Answer) -> i64 {
    answer.json()["counts"]["ready"].as_i64().unwrap()
}

fn tag(answer: &Answer) -> String {
    answer.headers["etag"].to_str().unwrap().to_owned()
}

#[tokio::test]
async fn an_answer_is_shared_for_a_second_by_those_who_are_content_with_it() {
    let (_redis, _dueq, client) = alone().await;
    client.published("glances", json!({"payload": 1})).await;
    let began = std::time::Instant::now();
    let first = look(&client, &[UI, CONTENT]).await.expect(200);
    client.published("glances", json!({"payload": 2})).await;
    let second = look(&client, &[UI, CONTENT]).await.expect(200);
    if began.elapsed() < std::time::Duration::from_millis(900) {
        assert_eq!((ready(&first), ready(&second)), (1, 1));
    }
    // Who wants to know, and who is not the dashboard, is told what is so now.
    for headers in [&[UI, ("cache-control", "no-cache")][..], &[UI], &[CONTENT], &[]] {
        assert_eq!(ready(&look(&client, headers).await.expect(200)), 2, "{headers:?}");
    }
    eventually("the answer is a second old", || async {
        let answer = look(&client, &[UI, CONTENT]).await.expect(200);
        (ready(&answer) == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn what_the_dashboard_has_already_is_304() {
    let (_redis, _dueq, client) = alone().await;
    client.published("glances", json!({"payload": 1})).await;
    // The oldest message's age is another each time.
    client.post("/topics/glances/purge", &json!({"states": ["ready"]})).await.expect(200);
    let first = look(&client, &[UI]).await.expect(200);
    let known = tag(&first);
    let same = look(&client, &[UI, ("if-none-match", &known)]).await.expect(304);
    assert_eq!((same.body.len(), tag(&same)), (0, known.clone()));
    client.published("glances", json!({"payload": 1, "delay_ms": 60000})).await;
    let other = look(&client, &[UI, ("if-none-match", &known)]).await.expect(200);
    assert_ne!(tag(&other), known);
    // The revision is the tag for all others.
    let revision = number(&first.json(), "revision");
    let plain = look(&client, &[("if-none-match", &known)]).await.expect(200);
    assert_eq!(tag(&plain), format!("\"{revision}\""));
}

#[tokio::test]
async fn nobody_is_given_what_another_key_was_answered() {
    let (mine, other) = (topic("glances-mine"), topic("glances-other"));
    let file =
        KeyFile::of(&[("mine", &format!("read:{mine}")), ("other", &format!("read:{other}"))]);
    let dueq = file.start().await;
    let open = shared().await.dueq.client();
    for topic in [&mine, &other] {
        open.published(topic, json!({"payload": 1})).await;
    }
    for (name, topic) in [("mine", &mine), ("other", &other), ("mine", &mine)] {
        let client = file.client(&dueq, name);
        let list = client.send("GET", "/topics?limit=1000", &[UI, CONTENT], None).await.expect(200);
        let list = list.json();
        let names: Vec<_> =
            list["items"].as_array().unwrap().iter().map(|item| text(item, "name")).collect();
        assert_eq!(names, [topic]);
        // And what it may not read is refused, whoever was just given it.
        let foreign = if *topic == mine { &other } else { &mine };
        let path = format!("/topics/{foreign}");
        client.send("GET", &path, &[UI, CONTENT], None).await.problem(403, "not_allowed");
        client.send("GET", &format!("/topics/{topic}"), &[UI, CONTENT], None).await.expect(200);
    }
    dueq.client().send("GET", "/topics", &[UI, CONTENT], None).await.expect(401);
}
