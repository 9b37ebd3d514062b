//! Where an `idempotency_key` may stand and what it may be: header, field, query, in a batch.

use serde_json::{Value, json};

use crate::facts::{column, counted};
use crate::harness::*;

#[tokio::test]
async fn a_raw_publish_is_repeated_by_header_or_query() {
    let (client, topic) = (client().await, topic("idempotency"));
    let send = async |query: &str, key: Option<&str>, body: &str| {
        let mut headers = vec![("content-type", "text/plain")];
        headers.extend(key.map(|key| ("idempotency-key", key)));
        let path = format!("/topics/{topic}/messages/raw{query}");
        client.send("POST", &path, &headers, Some(body.as_bytes().to_vec())).await
    };
    let id = send("?delay_ms=60000", Some("r"), "body").await.expect(201).text("id");
    for (query, key) in [
        ("?delay_ms=60000", Some("r")),
        ("?delay_ms=60000&idempotency_key=r", None),
        ("?idempotency_key=r&delay_ms=60000", Some("r")),
        ("?idempotency_key=%72&delay_ms=60000", None),
    ] {
        let answer = send(query, key, "body").await;
        assert_eq!(answer.status, 200, "{query} {key:?}: {answer}");
        assert_eq!((answer.text("id"), &answer.json()["duplicate"]), (id.clone(), &json!(true)));
    }
    for (query, body) in
        [("?delay_ms=60000", "body "), ("?delay_ms=60001", "body"), ("", "body"), ("", "")]
    {
        send(query, Some("r"), body).await.problem(422, "idempotency_key_reused");
    }
    send("?delay_ms=60000&idempotency_key=other", Some("r"), "body").await.refused(422);
    counted(&client, &topic, &[("totals", "published", 1)]).await;
}

#[tokio::test]
async fn each_message_of_a_batch_may_have_one() {
    let (client, topic) = (client().await, topic("idempotency"));
    let message = |n: i64, request: &str| json!({"payload": n, "idempotency_key": request, "delay_ms": 60_000});
    let single = client.publish(&topic, message(1, "a")).await.expect(201).json();
    let batch = [
        message(1, "a"),
        message(2, "b"),
        message(2, "b"),
        message(3, "b"),
        message(3, "a"),
        message(4, "c"),
    ];
    let wanted = ["ok", "ok", "ok", "idempotency_key_reused", "idempotency_key_reused", "ok"];
    let first = client.published_batch(&topic, &batch).await;
    assert_eq!(column(&first, "status"), wanted);
    let duplicates = |results: &[Value]| -> Vec<Value> {
        results.iter().map(|result| result["message"]["duplicate"].clone()).collect()
    };
    let (yes, no, none) = (json!(true), json!(false), Value::Null);
    assert_eq!(
        duplicates(&first),
        [yes.clone(), no.clone(), yes.clone(), none.clone(), none.clone(), no]
    );
    assert_eq!(first[0]["message"]["id"], single["id"]);
    assert_eq!(first[1]["message"]["id"], first[2]["message"]["id"]);
    let again = client.published_batch(&topic, &batch).await;
    assert_eq!(column(&again, "status"), wanted);
    assert_eq!(
        duplicates(&again),
        [yes.clone(), yes.clone(), yes.clone(), none.clone(), none, yes]
    );
    for (before, after) in first.iter().zip(&again) {
        assert_eq!(before["message"]["id"], after["message"]["id"]);
    }
    let alone = client.publish(&topic, message(4, "c")).await.expect(200);
    assert_eq!(alone.json()["id"], first[5]["message"]["id"]);
    counted(&client, &topic, &[("totals", "published", 3), ("counts", "delayed", 3)]).await;
}

#[tokio::test]
async fn a_header_on_a_batch_is_refused() {
    let (client, topic) = (client().await, topic("idempotency"));
    let headers = [("content-type", "application/json"), ("idempotency-key", "r")];
    for message in [json!({"payload": 1}), json!({"payload": 1, "idempotency_key": "r"})] {
        let body = json!({"messages": [message]}).to_string().into_bytes();
        let path = format!("/topics/{topic}/messages/batch");
        client.send("POST", &path, &headers, Some(body)).await.refused(422);
    }
    client.topic(&topic).await.problem(404, "topic_not_found");
}

#[tokio::test]
async fn a_request_key_belongs_to_its_topic() {
    let client = client().await;
    let (here, there) = (topic("idempotency"), topic("idempotency"));
    let message = json!({"payload": 1, "idempotency_key": "r"});
    let first = client.published(&here, message.clone()).await;
    let second = client.published(&there, message.clone()).await;
    assert_ne!(first, second);
    assert_eq!(client.publish(&there, message).await.expect(200).text("id"), second);
}

#[tokio::test]
async fn a_request_key_has_1_to_255_characters() {
    let (client, topic) = (client().await, topic("idempotency"));
    for key in ["x".to_owned(), "x".repeat(255), "😀".repeat(255), " ".to_owned(), "a/b%".into()]
    {
        let message = json!({"payload": 1, "idempotency_key": key});
        let id = client.published(&topic, message.clone()).await;
        let again = client.publish(&topic, message).await.expect(200);
        assert_eq!(again.text("id"), id, "{key:?}");
    }
    let long = "x".repeat(255);
    client.publish_with_header(&topic, &long, json!({"payload": 1})).await.expect(200);
    for bad in ["", &"x".repeat(256)] {
        client.publish_with_header(&topic, bad, json!({"payload": 1})).await.refused(422);
    }
    counted(&client, &topic, &[("totals", "published", 5)]).await;
}

#[tokio::test]
async fn null_is_no_request_key() {
    let (client, topic) = (client().await, topic("idempotency"));
    let message = json!({"payload": 1, "idempotency_key": null});
    for _ in 0..2 {
        client.published(&topic, message.clone()).await;
    }
    client.publish_with_header(&topic, "r", message.clone()).await.expect(201);
    client.publish_with_header(&topic, "r", message).await.expect(200);
}
