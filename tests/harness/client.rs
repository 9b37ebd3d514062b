//! The HTTP client of the tests: a short method per route. Every answer passes the checks of all ([`Answer::check`]).

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Url};
use serde_json::{Value, json};

use super::{Document, answer::Answer, by_key, eventually};

/// A client of one instance.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    key: Option<String>,
}

impl Client {
    /// A client of the instance at `base`, such as `http://127.0.0.1:4321`.
    pub fn new(base: &str) -> Client {
        let http = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .timeout(Duration::from_secs(75))
            .build()
            .expect("an HTTP client");
        let base = base.parse().expect("a base URL");
        Client { http, base, key: None }
    }

    /// The same, with this API key in every request that has no `Authorization` of its own.
    pub fn with_key(mut self, key: &str) -> Client {
        self.key = Some(format!("Bearer {key}"));
        self
    }

    /// `127.0.0.1:<port>`, for raw connections.
    pub fn addr(&self) -> String {
        self.base.authority().to_owned()
    }

    /// Sends any request; the answer, or the error of a connection that gave none.
    pub async fn try_send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Result<Answer, reqwest::Error> {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let url = format!("{}{path}", self.base.as_str().trim_end_matches('/'));
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a header name");
            let value = HeaderValue::from_bytes(value.as_bytes()).expect("a header value");
            map.append(name, value);
        }
        if let Some(key) = &self.key
            && !map.contains_key(AUTHORIZATION)
        {
            map.append(AUTHORIZATION, HeaderValue::from_str(key).expect("a header value"));
        }
        let mut request = self.http.request(method.clone(), url).headers(map);
        if let Some(body) = body {
            request = request.body(body);
        }
        let response = request.send().await?;
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = response.bytes().await?;
        let answer = Answer::new(format!("{method} {path}"), status, headers, body).check();
        // Another release has a document of its own.
        if std::env::var_os("TEST_DUEQ").is_none() {
            Document::committed().holds(&answer);
        }
        Ok(answer)
    }

    /// Sends any request.
    ///
    /// # Panics
    /// When no answer comes.
    pub async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: Option<Vec<u8>>,
    ) -> Answer {
        match self.try_send(method, path, headers, body).await {
            Ok(answer) => answer,
            Err(error) => panic!("{method} {path}: {error:?}"),
        }
    }

    /// GET of a path with its query.
    pub async fn get_path(&self, path: &str) -> Answer {
        self.send("GET", path, &[], None).await
    }

    /// POST of JSON.
    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_text(path, &body.to_string()).await
    }

    /// POST of this exact text as `application/json`.
    pub async fn post_text(&self, path: &str, body: &str) -> Answer {
        self.post_bytes(path, Some("application/json"), body.as_bytes().to_vec()).await
    }

    /// POST of these bytes with this content type, or with none.
    pub async fn post_bytes(&self, path: &str, kind: Option<&str>, body: Vec<u8>) -> Answer {
        let headers: Vec<(&str, &str)> = kind.iter().map(|k| (CONTENT_TYPE.as_str(), *k)).collect();
        self.send("POST", path, &headers, Some(body)).await
    }

    /// publishMessage.
    pub async fn publish(&self, topic: &str, message: Value) -> Answer {
        self.post(&format!("/topics/{topic}/messages"), &message).await
    }

    /// publishMessage that must succeed: the new message's id.
    pub async fn published(&self, topic: &str, message: Value) -> String {
        self.publish(topic, message).await.expect(201).text("id")
    }

    /// publishMessage until Redis, which was away, can be reached again.
    pub async fn published_again(&self, topic: &str, message: Value) {
        eventually("a publish", || async {
            let answer = self.publish(topic, message.clone()).await;
            if answer.status != 201 {
                answer.problem(503, "redis_unavailable");
                return None;
            }
            Some(())
        })
        .await;
    }

    /// publishRaw, with its query (`?delay_ms=5` or empty).
    pub async fn publish_raw(
        &self,
        topic: &str,
        query: &str,
        kind: Option<&str>,
        body: &[u8],
    ) -> Answer {
        let path = format!("/topics/{topic}/messages/raw{query}");
        self.post_bytes(&path, kind, body.to_vec()).await
    }

    /// leaseMessages.
    pub async fn lease(&self, topic: &str, want: Value) -> Answer {
        self.post(&format!("/topics/{topic}/lease"), &want).await
    }

    /// leaseMessages that must succeed: the messages granted.
    pub async fn leased(&self, topic: &str, want: Value) -> Vec<Value> {
        let answer = self.lease(topic, want).await.expect(200);
        match answer.json()["messages"].take() {
            Value::Array(messages) => messages,
            other => panic!("messages is {other} in {answer}"),
        }
    }

    /// Leases exactly one message, waiting up to 10 s for it.
    pub async fn lease_one(&self, topic: &str) -> Value {
        self.lease_one_with(topic, json!({})).await
    }

    /// The same with further fields of the request.
    pub async fn lease_one_with(&self, topic: &str, more: Value) -> Value {
        let mut want = json!({"wait_ms": 10_000});
        for (name, value) in more.as_object().expect("an object") {
            want[name] = value.clone();
        }
        let mut messages = self.leased(topic, want).await;
        assert_eq!(messages.len(), 1, "one message of {topic}: {messages:?}");
        messages.remove(0)
    }

    /// ackMessage.
    pub async fn ack(&self, id: &str, token: &str) -> Answer {
        self.post(&format!("/messages/{id}/ack"), &json!({"lease_token": token})).await
    }

    /// ackMessage of a message as [`Client::lease_one`] gave it.
    pub async fn ack_leased(&self, message: &Value) -> Answer {
        self.ack(text(message, "id"), text(message, "lease_token")).await
    }

    /// nackMessage; `more` are the fields beside the token.
    pub async fn nack(&self, id: &str, token: &str, mut more: Value) -> Answer {
        more["lease_token"] = json!(token);
        self.post(&format!("/messages/{id}/nack"), &more).await
    }

    /// nackMessage of a message as [`Client::lease_one`] gave it.
    pub async fn nack_leased(&self, message: &Value, more: Value) -> Answer {
        self.nack(text(message, "id"), text(message, "lease_token"), more).await
    }

    /// extendLease.
    pub async fn extend(&self, id: &str, token: &str, lease_ms: i64) -> Answer {
        let body = json!({"lease_token": token, "lease_ms": lease_ms});
        self.post(&format!("/messages/{id}/extend"), &body).await
    }

    /// extendLease of a message as [`Client::lease_one`] gave it.
    pub async fn extend_leased(&self, message: &Value, lease_ms: i64) -> Answer {
        self.extend(text(message, "id"), text(message, "lease_token"), lease_ms).await
    }

    /// getMessage.
    pub async fn get(&self, id: &str) -> Answer {
        self.get_path(&format!("/messages/{id}")).await
    }

    /// deleteMessage.
    pub async fn delete(&self, id: &str) -> Answer {
        self.send("DELETE", &format!("/messages/{id}"), &[], None).await
    }

    /// deleteMessage with `?force=true`.
    pub async fn delete_by_force(&self, id: &str) -> Answer {
        self.send("DELETE", &format!("/messages/{id}?force=true"), &[], None).await
    }

    /// getTopic.
    pub async fn topic(&self, topic: &str) -> Answer {
        self.get_path(&format!("/topics/{topic}")).await
    }

    /// The state of a message, as getMessage says it.
    pub async fn state(&self, id: &str) -> String {
        self.get(id).await.expect(200).text("state")
    }

    /// A number of getTopic's `counts`.
    pub async fn count(&self, topic: &str, name: &str) -> i64 {
        number(&self.topic(topic).await.expect(200).json()["counts"], name)
    }

    /// A number of getTopic's `totals`.
    pub async fn total(&self, topic: &str, name: &str) -> i64 {
        number(&self.topic(topic).await.expect(200).json()["totals"], name)
    }
}

/// A text field of an object.
pub fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object[name].as_str().unwrap_or_else(|| panic!("no text {name} in {object}"))
}

/// A whole number of an object.
pub fn number(object: &Value, name: &str) -> i64 {
    object[name].as_i64().unwrap_or_else(|| panic!("no number {name} in {object}"))
}

/// Batches, keys, changes and redrives.
impl Client {
    /// publishBatch.
    pub async fn publish_batch(&self, topic: &str, messages: &[Value]) -> Answer {
        let path = format!("/topics/{topic}/messages/batch");
        self.post(&path, &json!({"messages": messages})).await
    }

    /// publishBatch that must succeed: its results.
    pub async fn published_batch(&self, topic: &str, messages: &[Value]) -> Vec<Value> {
        results(self.publish_batch(topic, messages).await)
    }

    /// ackBatch, nackBatch or extendBatch, by the last word of the path.
    pub async fn hold_batch(&self, verb: &str, messages: &[Value]) -> Answer {
        self.post(&format!("/messages/{verb}"), &json!({"messages": messages})).await
    }

    /// The same, which must succeed: its results.
    pub async fn held_batch(&self, verb: &str, messages: &[Value]) -> Vec<Value> {
        results(self.hold_batch(verb, messages).await)
    }

    /// publishMessage with the header `Idempotency-Key`.
    pub async fn publish_with_header(&self, topic: &str, key: &str, message: Value) -> Answer {
        let headers = [("content-type", "application/json"), ("idempotency-key", key)];
        let body = Some(message.to_string().into_bytes());
        self.send("POST", &format!("/topics/{topic}/messages"), &headers, body).await
    }

    /// updateMessage.
    pub async fn update(&self, id: &str, changes: Value) -> Answer {
        self.send_json("PATCH", &format!("/messages/{id}"), &changes).await
    }

    /// getMessageByKey.
    pub async fn get_by_key(&self, topic: &str, key: &str) -> Answer {
        self.get_path(&by_key(topic, key)).await
    }

    /// updateMessageByKey.
    pub async fn update_by_key(&self, topic: &str, key: &str, changes: Value) -> Answer {
        self.send_json("PATCH", &by_key(topic, key), &changes).await
    }

    /// deleteMessageByKey, with its query (`?force=true` or empty).
    pub async fn delete_by_key(&self, topic: &str, key: &str, query: &str) -> Answer {
        self.send("DELETE", &format!("{}{query}", by_key(topic, key)), &[], None).await
    }

    /// redriveMessage.
    pub async fn redrive(&self, id: &str) -> Answer {
        self.send("POST", &format!("/messages/{id}/redrive"), &[], None).await
    }

    /// redriveTopic.
    pub async fn redrive_topic(&self, topic: &str, want: Value) -> Answer {
        self.post(&format!("/topics/{topic}/redrive"), &want).await
    }

    /// putTopic that must succeed, the topic being new or not.
    pub async fn configure(&self, topic: &str, config: Value) -> Value {
        let answer = self.send_json("PUT", &format!("/topics/{topic}"), &config).await;
        assert!(matches!(answer.status, 200 | 201), "{answer}");
        answer.json()
    }

    /// updateTopic that must succeed.
    pub async fn reconfigure(&self, topic: &str, changes: Value) -> Value {
        self.send_json("PATCH", &format!("/topics/{topic}"), &changes).await.expect(200).json()
    }

    /// Sends JSON by any method.
    pub async fn send_json(&self, method: &str, path: &str, body: &Value) -> Answer {
        let kind = [("content-type", "application/json")];
        self.send(method, path, &kind, Some(body.to_string().into_bytes())).await
    }
}

/// The results of a batch that must succeed.
fn results(answer: Answer) -> Vec<Value> {
    match answer.expect(200).json()["results"].take() {
        Value::Array(results) => results,
        other => panic!("results is {other}"),
    }
}
