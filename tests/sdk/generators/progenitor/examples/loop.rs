//! The program of the guide, from its third line on.

use dueq_generated_by_progenitor::{Client, types};
use serde_json::json;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = std::env::var("DUEQ_SERVER").unwrap_or("http://127.0.0.1:8080".to_owned());
    let client = Client::new(&server);
    let payload = Some(types::AnyJson(json!({"order": 42})));
    let message = types::PublishRequest { payload, delay_ms: Some(1000), ..Default::default() };
    client.publish_message(&"orders".parse()?, None, &message).await?;

    let want = types::LeaseRequest { wait_ms: Some(2000), ..Default::default() };
    loop {
        let leased = client.lease_messages(&"orders".parse()?, Some(&want)).await?.into_inner();
        if leased.messages.is_empty() {
            return Ok(()); // a worker would go on
        }
        for message in leased.messages {
            let payload = message.payload.as_deref().unwrap_or(&serde_json::Value::Null);
            println!("order {}, attempt {}", payload["order"], message.attempt);
            let token =
                types::AckRequest { lease_token: message.lease_token.parse()?, result: None };
            client.ack_message(&message.id, &token).await?;
        }
    }
}
