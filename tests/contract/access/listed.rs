//! listKeys: names and scopes of the keys, for admins alone, and never a secret.

use serde_json::{Value, json};

use super::scopes::KeyFile;
use crate::harness::*;

async fn names(client: &Client) -> Vec<String> {
    let answer = client.get_path("/keys").await.expect(200).json();
    let items = answer["items"].as_array().cloned().unwrap();
    items.iter().map(|item| text(item, "name").to_owned()).collect()
}

#[tokio::test]
async fn an_admin_sees_names_and_scopes_of_all_keys_and_no_secret() {
    let mut file = KeyFile::of(&[("ops", "admin")]);
    // Topics that a key has made count by its name.
    let billing = topic("billing");
    file.add(&billing, &["publish:orders.*", "read:*", "rate:publish=5/s"]);
    let given = "a-key-of-the-flag-of-this-test";
    let dueq = file.launch().await.args(["--api-key", given]).start().await;
    let client = file.client(&dueq, "ops");
    let answer = client.get_path("/keys").await.expect(200);
    let expected: Value = json!({"items": [
        {"name": "(--api-key 1)", "scopes": ["admin"]},
        {"name": billing, "scopes": ["publish:orders.*", "read:*"], "publish_per_s": 5,
            "max_topics": 1000, "topics": 0},
        {"name": "ops", "scopes": ["admin"]},
    ]});
    assert_eq!(answer.json(), expected);
    // Those that are let in now.
    file.remove(&billing);
    file.write();
    eventually("it is off the list", || async {
        (names(&client).await == ["(--api-key 1)", "ops"]).then_some(())
    })
    .await;
}

#[tokio::test]
async fn the_list_of_keys_is_for_admins_and_is_empty_without_keys() {
    let mut file = KeyFile::of(&[("ops", "admin")]);
    let all = ["read:*", "publish:*", "consume:*", "operate:*", "configure:*"];
    file.add("reader", &all[..1]);
    file.add("all", &all);
    let dueq = file.start().await;
    for name in ["reader", "all"] {
        let refused = file.client(&dueq, name).get_path("/keys").await;
        let refused = refused.problem(403, "not_allowed");
        assert_eq!(refused.text("detail"), format!("the key {name} lacks admin"));
    }
    dueq.client().get_path("/keys").await.problem(401, "unauthorized");
    let client = file.client(&dueq, "ops");
    client.get_path("/keys/ops").await.refused(404);
    assert!(names(&crate::harness::client().await).await.is_empty());
}

#[tokio::test]
async fn a_key_for_metrics_sees_those_and_nothing_else() {
    let file = KeyFile::of(&[
        ("prometheus", "metrics:*"),
        ("reader", "read:*"),
        ("narrow", "read:some.*"),
    ]);
    let dueq = file.start().await;
    for (name, wanted) in [("prometheus", 200), ("reader", 200), ("narrow", 403)] {
        assert_eq!(file.client(&dueq, name).get_path("/metrics").await.status, wanted, "{name}");
    }
    let prometheus = file.client(&dueq, "prometheus");
    for path in ["/topics", "/instances", "/schedules", "/keys", "/topics/a"] {
        prometheus.get_path(path).await.problem(403, "not_allowed");
    }
    let session = prometheus.get_path("/session").await.expect(200).json();
    assert_eq!(session["scopes"], serde_json::json!(["metrics:*"]));
}

#[tokio::test]
async fn a_schedule_that_is_not_there_answers_as_one_of_another_topic() {
    let (mine, other) = (topic("mine"), topic("other"));
    let mut file = KeyFile::new();
    file.add(
        "mine",
        &["read", "configure", "publish"]
            .map(|verb| format!("{verb}:{mine}"))
            .each_ref()
            .map(String::as_str),
    );
    let dueq = file.start().await;
    let (client, open) = (file.client(&dueq, "mine"), shared().await.dueq.client());
    let daily = serde_json::json!({"cron": "0 0 1 1 *", "topic": other, "message": {"payload": 1}});
    open.send_json("PUT", &format!("/schedules/{other}"), &daily).await.expect(201);
    for (method, action) in [("GET", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/trigger")]
    {
        let [there, absent] =
            [&other, &topic("absent")].map(|name| format!("/schedules/{name}{action}"));
        let there = client.send(method, &there, &[], None).await;
        let absent = client.send(method, &absent, &[], None).await;
        let (there, absent) =
            (there.problem(403, "not_allowed"), absent.problem(403, "not_allowed"));
        assert_eq!(there.text("detail"), absent.text("detail"), "{method} {action}");
        let missing =
            open.send(method, &format!("/schedules/{}{action}", topic("absent")), &[], None).await;
        missing.problem(404, "schedule_not_found");
    }
}
