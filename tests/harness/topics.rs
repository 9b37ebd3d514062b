//! The topic routes of the tests' client, one short method each.

use reqwest::header::{CONTENT_TYPE, IF_MATCH};
use serde_json::{Value, json};

use super::answer::Answer;
use super::client::{Client, text};

impl Client {
    /// putTopic.
    pub async fn put_topic(&self, topic: &str, config: Value) -> Answer {
        self.topic_if("PUT", topic, None, &config).await
    }

    /// putTopic of a topic that is not there yet.
    pub async fn new_topic(&self, topic: &str, config: Value) -> Answer {
        self.put_topic(topic, config).await.expect(201)
    }

    /// updateTopic.
    pub async fn update_topic(&self, topic: &str, changes: Value) -> Answer {
        self.topic_if("PATCH", topic, None, &changes).await
    }

    /// putTopic or updateTopic, guarded by this `If-Match` as it stands.
    pub async fn topic_if(
        &self,
        method: &str,
        topic: &str,
        if_match: Option<&str>,
        body: &Value,
    ) -> Answer {
        let mut headers = vec![(CONTENT_TYPE.as_str(), "application/json")];
        headers.extend(if_match.map(|value| (IF_MATCH.as_str(), value)));
        let body = body.to_string().into_bytes();
        self.send(method, &format!("/topics/{topic}"), &headers, Some(body)).await
    }

    /// deleteTopic; `query` is empty or `?force=true`.
    pub async fn delete_topic(&self, topic: &str, query: &str) -> Answer {
        self.send("DELETE", &format!("/topics/{topic}{query}"), &[], None).await
    }

    /// pauseTopic.
    pub async fn pause_topic(&self, topic: &str) -> Answer {
        self.send("POST", &format!("/topics/{topic}/pause"), &[], None).await
    }

    /// resumeTopic.
    pub async fn resume_topic(&self, topic: &str) -> Answer {
        self.send("POST", &format!("/topics/{topic}/resume"), &[], None).await
    }

    /// putGroup.
    pub async fn put_group(&self, topic: &str, group: &str, settings: Value) -> Answer {
        self.send_json("PUT", &format!("/topics/{topic}/groups/{group}"), &settings).await
    }

    /// deleteGroup.
    pub async fn delete_group(&self, topic: &str, group: &str) -> Answer {
        self.send("DELETE", &format!("/topics/{topic}/groups/{group}"), &[], None).await
    }

    /// pauseGroup, or resumeGroup.
    pub async fn pause_group(&self, topic: &str, group: &str, pause: bool) -> Answer {
        let verb = if pause { "pause" } else { "resume" };
        self.send("POST", &format!("/topics/{topic}/groups/{group}/{verb}"), &[], None).await
    }

    /// getGroup.
    pub async fn group(&self, topic: &str, group: &str) -> Value {
        self.get_path(&format!("/topics/{topic}/groups/{group}")).await.expect(200).json()
    }

    /// purgeTopic.
    pub async fn purge(&self, topic: &str, states: &[&str]) -> Answer {
        self.post(&format!("/topics/{topic}/purge"), &json!({"states": states})).await
    }

    /// listMessages, with its query (`state=ready&limit=5`).
    pub async fn list(&self, topic: &str, query: &str) -> Answer {
        self.get_path(&format!("/topics/{topic}/messages?{query}")).await
    }

    /// listMessages, every page of it: the items in order. `query` holds the state and whatever
    /// else but the cursor.
    pub async fn listed(&self, topic: &str, query: &str) -> Vec<Value> {
        let (mut items, mut cursor) = (Vec::new(), String::new());
        loop {
            let page = self.list(topic, &format!("{query}{cursor}")).await.expect(200).json();
            let found = page["items"].as_array().unwrap_or_else(|| panic!("no items: {page}"));
            items.extend(found.iter().cloned());
            match page["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return items,
            }
            // A search may find nothing for as long as one request may look.
            let may_be_empty = query.contains("q=");
            assert!(may_be_empty || !found.is_empty(), "an empty page says that there is more");
        }
    }

    /// forecastTopic.
    pub async fn forecast(&self, topic: &str, bucket_ms: i64, buckets: i64) -> Answer {
        let path = format!("/topics/{topic}/forecast?bucket_ms={bucket_ms}&buckets={buckets}");
        self.get_path(&path).await
    }

    /// Publishes these in batches of 1,000; all must be taken: their ids in order.
    pub async fn fill(&self, topic: &str, messages: &[Value]) -> Vec<String> {
        let mut ids = Vec::new();
        for part in messages.chunks(1000) {
            let path = format!("/topics/{topic}/messages/batch");
            let answer = self.post(&path, &json!({"messages": part})).await.expect(200);
            for result in answer.json()["results"].as_array().expect("results") {
                assert_eq!(result["status"], "ok", "{result}");
                ids.push(text(&result["message"], "id").to_owned());
            }
        }
        assert_eq!(ids.len(), messages.len());
        ids
    }
}

/// The `If-Match` that a topic as getTopic shows it would pass.
pub fn etag(topic: &Value) -> String {
    match &topic["revision"] {
        Value::String(revision) => format!("\"{revision}\""),
        Value::Number(revision) => format!("\"{revision}\""),
        other => panic!("no revision: {other}"),
    }
}
