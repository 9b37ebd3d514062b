//! Named keys: what a key may do, in which order refusals come, and what batches and lists make of it.

use std::fmt::Write;
use std::path::PathBuf;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

use crate::harness::*;

/// The value of the header.
pub fn bearer(key: &str) -> String {
    format!("Bearer {key}")
}

/// A key file in the making. The keys are named after what they may do.
#[derive(Clone)]
pub struct KeyFile {
    pub path: PathBuf,
    keys: Vec<(String, String)>,
    text: String,
}

impl KeyFile {
    /// An empty one.
    pub fn new() -> KeyFile {
        let path = temp_dir("keys").join("keys");
        KeyFile { path, keys: Vec::new(), text: String::new() }
    }

    /// One with these keys: name, and the words behind the hash.
    pub fn of(keys: &[(&str, &str)]) -> KeyFile {
        let mut file = KeyFile::new();
        for (name, words) in keys {
            file.add(name, &[words]);
        }
        file
    }

    /// Another one, without keys, for the same place.
    pub fn anew(&self) -> KeyFile {
        KeyFile { path: self.path.clone(), ..KeyFile::new() }
    }
    /// Adds a key of this name with these words behind its hash.
    pub fn add(&mut self, name: &str, words: &[&str]) {
        let key = format!("dq_key-of-{name}-in-tests");
        let hash = hex::encode(digest(&SHA256, key.as_bytes()));
        writeln!(self.text, "{name} sha256:{hash} {}", words.join(" ")).unwrap();
        self.keys.push((name.to_owned(), key));
    }

    /// The key of this name.
    pub fn key(&self, name: &str) -> &str {
        let found = self.keys.iter().find(|(known, _)| known == name);
        &found.unwrap_or_else(|| panic!("no key {name}")).1
    }

    /// Takes the key of this name out.
    pub fn remove(&mut self, name: &str) {
        let line = format!("{name} ");
        self.text =
            self.text.lines().filter(|l| !l.starts_with(&line)).map(|l| format!("{l}\n")).collect();
    }

    /// Writes the file as it stands, at once for whoever reads it.
    pub fn write(&self) {
        let new = self.path.with_extension("new");
        std::fs::write(&new, &self.text).unwrap();
        std::fs::rename(new, &self.path).unwrap();
    }

    /// An instance on the shared Redis, to be started with these keys.
    pub async fn launch(&self) -> Launch {
        self.write();
        Dueq::on(&shared().await.redis).args(["--api-key-file"]).args([&self.path])
    }

    /// Starts it.
    pub async fn start(&self) -> Dueq {
        self.launch().await.start().await
    }

    /// A client with the key of this name.
    pub fn client(&self, dueq: &Dueq, name: &str) -> Client {
        dueq.client().with_key(self.key(name))
    }
}

#[tokio::test]
async fn refusals_come_in_order_key_path_scope_media_type_body() {
    let (mine, other) = (topic("scopes"), topic("others"));
    let file = KeyFile::of(&[("mine", &format!("publish:{mine} consume:{mine}"))]);
    let dueq = file.start().await;
    let client = file.client(&dueq, "mine");
    let xml =
        async |path: &str| client.post_bytes(path, Some("application/xml"), b"{".to_vec()).await;
    let stranger = dueq.client();
    stranger.post_text("/topics/a..b/messages", "{").await.problem(401, "unauthorized");
    xml("/topics/a..b/messages").await.problem(400, "invalid_topic_name");
    xml("/messages/x/ack").await.problem(400, "invalid_message_id");
    xml(&format!("/topics/{other}/messages")).await.problem(403, "not_allowed");
    xml(&format!("/topics/{mine}/messages")).await.problem(415, "unsupported_media_type");
    client.post_text(&format!("/topics/{mine}/messages"), "{").await.problem(400, "malformed_json");
    // What the body names is judged once the body is read.
    client.post_text("/lease", "{").await.problem(400, "malformed_json");
    let unknown = client.post("/lease", &json!({"topics": [mine, other], "x": 1})).await;
    unknown.problem(422, "invalid_input");
    let refused = client.post("/lease", &json!({"topics": [mine, other]})).await;
    let detail = refused.problem(403, "not_allowed").text("detail");
    assert_eq!(detail, format!("the key mine lacks consume:{other}"));
    client.post("/lease", &json!({"topics": [mine]})).await.expect(200);
}

#[tokio::test]
async fn an_id_is_judged_by_its_topic_and_one_of_no_topic_is_not_found() {
    let (mine, other) = (topic("scopes"), topic("others"));
    let file = KeyFile::of(&[("mine", &format!("read:{mine} operate:{mine}"))]);
    let dueq = file.start().await;
    let (client, open) = (file.client(&dueq, "mine"), shared().await.dueq.client());
    let (id, foreign) = (
        open.published(&mine, json!({"payload": 1})).await,
        open.published(&other, json!({"payload": 1})).await,
    );
    client.get(&id).await.expect(200);
    let refused = client.get(&foreign).await.problem(403, "not_allowed");
    assert_eq!(refused.text("detail"), "the key mine lacks read on the message's topic");
    client.delete(&foreign).await.problem(403, "not_allowed");
    client.ack(&id, "x").await.problem(403, "not_allowed");
    client.get(&unknown_id()).await.problem(404, "message_not_found");
    // The number of a topic that is gone: found out before the body is looked at.
    open.delete_topic(&other, "?force=true").await.expect(204);
    let fresh = file.start().await;
    let gone = format!("/messages/{foreign}/ack");
    file.client(&fresh, "mine").post_text(&gone, "{").await.problem(404, "message_not_found");
}

#[tokio::test]
async fn batches_and_acks_say_of_each_item_whether_it_was_allowed() {
    let (mine, other) = (topic("scopes"), topic("others"));
    let file = KeyFile::of(&[("mine", &format!("consume:{mine}"))]);
    let dueq = file.start().await;
    let (client, open) = (file.client(&dueq, "mine"), shared().await.dueq.client());
    let mut items = Vec::new();
    for topic in [&mine, &other, &mine, &other] {
        open.published(topic, json!({"payload": 1})).await;
        let message = open.lease_one(topic).await;
        items.push(json!({"id": message["id"], "lease_token": message["lease_token"]}));
    }
    let statuses = |answer: Value| -> Vec<String> {
        let results = answer.as_array().unwrap().iter();
        results.map(|result| text(result, "status").to_owned()).collect()
    };
    let extends: Vec<_> = items
        .iter()
        .map(|item| {
            let mut item = item.clone();
            item["lease_ms"] = json!(60_000);
            item
        })
        .collect();
    let answer = client.post("/messages/extend", &json!({"messages": extends})).await.expect(200);
    let wanted = ["ok", "not_allowed", "ok", "not_allowed"];
    assert_eq!(statuses(answer.json()["results"].clone()), wanted);
    let body = json!({"messages": [items[0], items[1]]});
    let answer = client.post("/messages/nack", &body).await.expect(200);
    assert_eq!(statuses(answer.json()["results"].clone()), ["ok", "not_allowed"]);
    let acks = json!([items[3], items[2], {"id": unknown_id(), "lease_token": "x"}]);
    let answer = client.lease(&mine, json!({"max_messages": 1, "acks": acks})).await.expect(200);
    assert_eq!(statuses(answer.json()["acks"].clone()), ["not_allowed", "ok", "message_not_found"]);
    let body = json!({"messages": [items[1], items[3]]});
    let answer = client.post("/messages/ack", &body).await.expect(200);
    assert_eq!(statuses(answer.json()["results"].clone()), ["not_allowed", "not_allowed"]);
    let answer = open.post("/messages/ack", &body).await.expect(200);
    assert_eq!(
        statuses(answer.json()["results"].clone()),
        ["ok", "ok"],
        "nothing had happened to them"
    );
}

#[tokio::test]
async fn lists_show_what_may_be_read() {
    let prefix = topic("listed");
    let mut file = KeyFile::new();
    let patterns = [
        format!("read:{prefix}.b.*"),
        format!("read:{prefix}.a"),
        format!("read:{prefix}.d"),
        format!("publish:{prefix}.*"),
    ];
    file.add("some", &patterns.each_ref().map(String::as_str));
    file.add("none", &[&format!("publish:{prefix}.*")]);
    let dueq = file.start().await;
    let (client, open) = (file.client(&dueq, "some"), shared().await.dueq.client());
    for name in ["a", "a.x", "b", "b.1", "b.2", "b.3", "c", "d"] {
        let topic = format!("{prefix}.{name}");
        open.put_topic(&topic, json!({})).await.expect(201);
        let daily = json!({"cron": "0 0 1 1 *", "topic": topic, "message": {"payload": 1}});
        open.send_json("PUT", &format!("/schedules/{topic}"), &daily).await.expect(201);
    }
    let names = |answer: &Answer| -> Vec<String> {
        let items = answer.json()["items"].as_array().unwrap().clone();
        items.iter().map(|item| text(item, "name").trim_start_matches(&prefix).to_owned()).collect()
    };
    let wanted = [".a", ".b.1", ".b.2", ".b.3", ".d"];
    for (path, limit) in ["topics", "schedules"]
        .iter()
        .flat_map(|path| [1, 2, 3, 5, 1000].map(|limit| (path, limit)))
    {
        let (mut listed, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = client.get_path(&format!("/{path}?limit={limit}{cursor}")).await.expect(200);
            assert!(names(&page).len() <= limit);
            listed.extend(names(&page));
            match page.json()["next_cursor"].as_str() {
                Some(next) => {
                    let place = URL_SAFE_NO_PAD.decode(next).unwrap();
                    let last = format!("{prefix}{}", listed.last().unwrap());
                    let others = String::from_utf8_lossy(&place).replace(&last, "");
                    assert!(!others.contains(&prefix), "no other name");
                    cursor = format!("&cursor={next}");
                }
                None => break,
            }
        }
        assert_eq!(listed, wanted, "{limit} a page of {path}");
    }
    let below = client.get_path(&format!("/topics?prefix={prefix}.b")).await.expect(200);
    assert_eq!(names(&below), [".b.1", ".b.2", ".b.3"]);
    for path in ["/topics", "/schedules"] {
        file.client(&dueq, "none").get_path(path).await.problem(403, "not_allowed");
    }
}

#[tokio::test]
async fn what_a_body_names_is_judged_too() {
    let (mine, other) = (topic("scopes"), topic("others"));
    let mut file = KeyFile::of(&[("mine", &format!("configure:{mine} publish:{mine}"))]);
    let both =
        [&mine, &other].map(|topic| [format!("configure:{topic}"), format!("publish:{topic}")]);
    file.add("both", &both.as_flattened().iter().map(String::as_str).collect::<Vec<_>>());
    let dueq = file.start().await;
    let (client, both) = (file.client(&dueq, "mine"), file.client(&dueq, "both"));
    let lacks = |answer: Answer| {
        assert_eq!(
            answer.problem(403, "not_allowed").text("detail"),
            format!("the key mine lacks configure:{other}")
        );
    };
    client.put_topic(&mine, json!({"dead_topic": other})).await.problem(403, "not_allowed");
    client.put_topic(&mine, json!({})).await.expect(201);
    let path = format!("/topics/{mine}");
    lacks(client.send_json("PATCH", &path, &json!({"dead_topic": other})).await);
    both.send_json("PATCH", &path, &json!({"dead_topic": other})).await.expect(200);
    client.send_json("PATCH", &path, &json!({"dead_topic": null})).await.expect(200);
    // What came of a message goes only where the key itself may publish.
    for (on_done, lacks) in
        [(json!({"topic": other}), &*other), (json!({"url": "http://example.com/"}), "_callbacks")]
    {
        let lacks = |answer: Answer| {
            let detail = answer.problem(403, "not_allowed").text("detail");
            assert_eq!(detail, format!("the key mine lacks publish:{lacks}"));
        };
        let message = json!({"payload": 1, "on_done": on_done});
        lacks(client.publish(&mine, message.clone()).await);
        lacks(client.publish_batch(&mine, std::slice::from_ref(&message)).await);
        let tick = json!({"cron": "0 0 1 1 *", "topic": mine, "message": message});
        lacks(client.send_json("PUT", &format!("/schedules/{mine}"), &tick).await);
        lacks(client.send_json("PATCH", &path, &json!({"on_done": on_done})).await);
        lacks(client.put_topic(&mine, json!({"on_dead": on_done})).await);
    }
    client.publish(&mine, json!({"payload": 1, "on_dead": {"topic": mine}})).await.expect(201);
    // A schedule is its topic's, the present one's and the next one's.
    let schedule = format!("/schedules/{mine}");
    let to = |topic: &str| json!({"cron": "0 0 1 1 *", "topic": topic, "message": {"payload": 1}});
    lacks(client.send_json("PUT", &schedule, &to(&other)).await);
    both.send_json("PUT", &schedule, &to(&other)).await.expect(201);
    // A topic that the client neither named nor has to do with is not named to it.
    let lacks = |answer: Answer| {
        assert_eq!(
            answer.problem(403, "not_allowed").text("detail"),
            "the key mine lacks configure on the topic of this schedule"
        );
    };
    lacks(client.send_json("PUT", &schedule, &to(&mine)).await);
    for verb in ["pause", "resume", "trigger"] {
        lacks(client.send("POST", &format!("{schedule}/{verb}"), &[], None).await);
    }
    lacks(client.send("DELETE", &schedule, &[], None).await);
    let call = json!({"cron": "0 0 1 1 *", "callback": {"url": "http://example.com/"}});
    both.send_json("PUT", &schedule, &call).await.problem(403, "not_allowed");
    both.send_json("PUT", &schedule, &to(&mine)).await.expect(200);
    client.send("DELETE", &schedule, &[], None).await.expect(204);
}

#[tokio::test]
async fn replacing_a_message_is_operating_its_topic_too() {
    let mine = topic("scopes");
    let mut file = KeyFile::new();
    let publish = format!("publish:{mine}");
    file.add("gentle", &[&publish, &format!("configure:{mine}")]);
    file.add("rough", &[&publish, &format!("operate:{mine}")]);
    let dueq = file.start().await;
    let (gentle, rough) = (file.client(&dueq, "gentle"), file.client(&dueq, "rough"));
    let id = rough.published(&mine, json!({"payload": 1, "key": "k"})).await;
    let replace = json!({"payload": 2, "key": "k", "on_duplicate": "replace"});
    let lacks = |answer: Answer| {
        let detail = format!("the key gentle lacks operate:{mine}");
        assert_eq!(answer.problem(403, "not_allowed").text("detail"), detail);
    };
    lacks(gentle.publish(&mine, replace.clone()).await);
    lacks(gentle.publish_batch(&mine, &[json!({"payload": 1}), replace.clone()]).await);
    lacks(gentle.publish_raw(&mine, "?key=k&on_duplicate=replace", None, b"2").await);
    for (policy, time) in [("debounce", "delay_ms"), ("throttle", "every_ms")] {
        lacks(gentle.publish(&mine, json!({"payload": 2, policy: {"key": "k", time: 1}})).await);
    }
    let once = json!({"payload": 2, "delay_ms": 600_000, "once": {"key": "k", "for_ms": 600_000}});
    gentle.publish(&mine, once).await.expect(201);
    let daily = json!({"cron": "0 0 1 1 *", "topic": mine, "message": replace});
    lacks(gentle.send_json("PUT", &format!("/schedules/{mine}"), &daily).await);
    let answer = rough.publish(&mine, replace).await;
    assert_eq!(answer.text("id"), id, "{answer}");
}

#[tokio::test]
async fn a_batch_of_unknown_topics_is_answered_at_once() {
    let file = KeyFile::of(&[("mine", "consume:mine")]);
    let dueq = file.start().await;
    // Of version 8, an id names a topic; each of these another one.
    let item = |_| {
        let mut id = unknown_id();
        id.replace_range(14..15, "8");
        json!({"id": id, "lease_token": "x"})
    };
    let messages: Vec<_> = (0..1000).map(item).collect();
    let begun = std::time::Instant::now();
    let (client, body) = (file.client(&dueq, "mine"), json!({"messages": messages}));
    let results = client.post("/messages/ack", &body).await.expect(200).json()["results"].clone();
    assert!(results.as_array().unwrap().iter().all(|one| one["status"] == "message_not_found"));
    assert!(begun.elapsed().as_millis() < 1000, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn deleting_a_topic_by_force_is_operating_it_too() {
    let mine = topic("scopes");
    let file = KeyFile::of(&[
        ("gentle", &format!("configure:{mine}")),
        ("rough", &format!("configure:{mine} operate:{mine}")),
    ]);
    let dueq = file.start().await;
    shared().await.dueq.client().published(&mine, json!({"payload": 1})).await;
    let path = format!("/topics/{mine}");
    let delete = async |name: &str, query: &str| {
        file.client(&dueq, name).send("DELETE", &format!("{path}{query}"), &[], None).await
    };
    delete("gentle", "").await.problem(409, "topic_not_empty");
    delete("gentle", "?force=false").await.problem(409, "topic_not_empty");
    let problem = delete("gentle", "?force=true").await.problem(403, "not_allowed");
    assert_eq!(problem.text("detail"), format!("the key gentle lacks operate:{mine}"));
    delete("rough", "?force=true").await.expect(204);
}

#[tokio::test]
async fn callbacks_are_published_by_who_may_publish_to_their_topic() {
    let file = KeyFile::of(&[
        ("caller", "publish:_callbacks"),
        ("other", "publish:callbacks operate:_callbacks"),
    ]);
    let dueq = file.start().await;
    let call = json!({"url": "http://example.com/", "delay_ms": 3_600_000});
    file.client(&dueq, "caller").post("/callbacks", &call).await.expect(201);
    file.client(&dueq, "other").post("/callbacks", &call).await.problem(403, "not_allowed");
    file.client(&dueq, "caller")
        .publish("_callbacks", json!({"payload": 1}))
        .await
        .problem(403, "topic_reserved");
}
