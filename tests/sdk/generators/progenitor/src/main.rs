//! Calls a dueq through what progenitor made of its document: what a user of the generator would write first.

use dueq_generated_by_progenitor::{Client, Error, types};
use futures::TryStreamExt as _;
use progenitor::progenitor_client::ByteStream;
use serde_json::json;

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// The problem that a request was refused with. progenitor knows JSON only as `application/json`, so it leaves the bytes of
/// an `application/problem+json` to us.
async fn problem(error: Error<ByteStream>) -> Outcome<types::Problem> {
    let Error::ErrorResponse(response) = error else { return Err(error.to_string().into()) };
    let body: Vec<_> = response.into_inner_stream().try_collect().await?;
    Ok(serde_json::from_slice(&body.concat())?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome<()> {
    let arguments: Vec<_> = std::env::args().collect();
    let (client, topic) = (Client::new(&arguments[1]), &arguments[2]);

    let payload = json!({"nested": [null, false, {"a": 1.5}], "none": null});
    let message = types::PublishRequest {
        payload: Some(types::AnyJson(payload.clone())),
        key: Some("order-42".parse()?),
        priority: Some(3),
        backoff: Some(types::BackoffRequest {
            kind: Some(types::BackoffKind::Fixed),
            base_ms: Some(10),
            ..Default::default()
        }),
        ..Default::default()
    };
    let published = client.publish_message(&topic.parse()?, None, &message).await;
    let published = published.map_err(|error| error.to_string())?;
    assert_eq!((published.status().as_u16(), published.state), (201, types::State::Ready));

    let request = types::LeaseRequest { wait_ms: Some(5000), ..Default::default() };
    let leased = client.lease_messages(&topic.parse()?, Some(&request)).await;
    let leased = leased.map_err(|error| error.to_string())?.into_inner();
    let [message] = &leased.messages[..] else { panic!("{leased:?}") };
    assert_eq!(message.id, published.id);
    assert_eq!(message.payload.as_deref(), Some(&payload));
    assert!(message.lease_expires_at > message.published_at);

    let token = types::AckRequest { lease_token: message.lease_token.parse()?, result: None };
    let acked = client.ack_message(&message.id, &token).await.map_err(|error| error.to_string())?;
    assert_eq!(acked.status().as_u16(), 204);
    let again = client.ack_message(&message.id, &token).await.expect_err("it is gone");
    assert_eq!(problem(again).await?.code, "message_not_found");

    // What the document forbids cannot be said in its types, but a payload that is neither is refused by the server.
    let nothing = types::PublishRequest::default();
    let refused = client.publish_message(&topic.parse()?, None, &nothing).await;
    let refused = problem(refused.expect_err("it has no payload")).await?;
    assert_eq!((refused.status, refused.code.as_str()), (422, "invalid_input"));
    assert_eq!(refused.errors[0].field, "payload");
    println!("ok");
    Ok(())
}
