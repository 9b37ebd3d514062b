//! Bodies that are allowed in size but made to cost: they are refused in a time and with an answer
//! that do not grow with what was sent.

use std::time::{Duration, Instant};

use serde_json::json;

use super::Ground;
use crate::harness::*;

/// `{name0: value, name1: value, …}` without its braces, some hundred thousand members.
fn members(value: &str, name: &str) -> String {
    let member = |n: usize| format!("\"{name}{n}\":{value}");
    (0..200_000).map(member).collect::<Vec<_>>().join(",")
}

#[tokio::test]
async fn many_fields_or_long_names_are_refused_soon_and_briefly() {
    let ground = Ground::new().await;
    let long = "n".repeat(2_000_000);
    for place in ground.taking_messages() {
        let good = place.good.as_ref().unwrap().to_string();
        let good = match &good[1..good.len() - 1] {
            "" => "\"max_messages\":1",
            members => members,
        };
        let mut bodies = vec![
            format!("{{{good},{}}}", members("1", "f")),
            format!("{{{good},{}}}", members("1", "\\u0041")),
            format!("{{{good},{}}}", vec!["\"same\":1"; 200_000].join(",")),
            format!("{{{good},\"{long}\":1}}"),
        ];
        match place.id.as_str() {
            "publishMessage" => bodies.extend([
                format!("{{{good},\"headers\":{{{}}}}}", members("\"v\"", "h")),
                format!("{{{good},\"headers\":{{{}}}}}", members("1", "not a name ")),
                format!("{{{good},\"headers\":{{\"{long} \":\"v\"}}}}"),
            ]),
            "leaseMessages" => bodies.extend([
                format!("{{\"acks\":[{{{}}}]}}", members("1", "f")),
                format!("{{\"acks\":[{}]}}", vec!["{\"x\":1}"; 1000].join(",")),
                format!("{{\"acks\":[{}]}}", vec!["1"; 200_000].join(",")),
            ]),
            id if id.ends_with("Batch") => bodies.extend([
                format!("{{\"messages\":[{{{}}}]}}", members("1", "f")),
                format!("{{\"messages\":[{}]}}", vec!["{\"x\":1}"; 1000].join(",")),
                format!("{{\"messages\":[{}]}}", vec!["1"; 200_000].join(",")),
                format!("{{\"messages\":[{}]}}", vec!["{}"; 200_000].join(",")),
                format!("{{\"messages\":{{{}}}}}", members("1", "f")),
            ]),
            _ => {}
        }
        for body in bodies {
            let begins = &body[..100.min(body.len())];
            let post = ground.client.post_text(&place.path, &body);
            let answer = tokio::time::timeout(Duration::from_secs(10), post).await;
            let answer = answer.unwrap_or_else(|_| panic!("10 s for {} {begins}…", place.id));
            assert!(answer.body.len() < 300_000, "{} bytes for {begins}…", answer.body.len());
            answer.refused(422);
        }
    }
    ground.unchanged().await;
}

#[tokio::test]
async fn a_large_payload_of_many_parts_is_only_bytes() {
    let (client, topic) = (client().await, topic("flood"));
    let path = format!("/topics/{topic}/messages");
    let payload = format!("[{}]", vec!["{}"; 87_000].join(","));
    let start = Instant::now();
    client.post_text(&path, &format!("{{\"payload\":{payload}}}")).await.expect(201);
    let many = format!("{{{}}}", members("[]", "k"));
    client.post_text(&path, &format!("{{\"payload\":{many}}}")).await.refused(413);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert_eq!(client.lease_one(&topic).await["payload"], json!(vec![json!({}); 87_000]));
}
