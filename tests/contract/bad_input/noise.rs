//! Bodies spoilt at random: whatever comes, the answer is one of the contract's, and at once.

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::json;

use super::Ground;
use crate::harness::*;

/// Pieces that mean something to some parser on the way.
const PIECES: &str = r#"{ } [ ] " : , null 1e999 -0 \u0000 \ud800 \ payload delay_ms acks lease_token 9223372036854775808 true"#;
const BYTES: [&str; 4] = ["\r\n", "\0", "\u{feff}", " "];

/// One to four spoilings: a piece put in, some bytes cut out, or bytes overwritten.
fn spoilt(good: &[u8], random: &mut StdRng) -> Vec<u8> {
    let pieces: Vec<_> = PIECES.split(' ').chain(BYTES).collect();
    let mut body = good.to_vec();
    for _ in 0..random.random_range(1..5) {
        let at = random.random_range(0..=body.len());
        let end = (at + random.random_range(0..6)).min(body.len());
        match random.random_range(0..3) {
            0 => drop(body.splice(at..at, pieces.choose(random).unwrap().bytes())),
            1 => drop(body.drain(at..end)),
            _ => body[at..end].iter_mut().for_each(|byte| *byte = random.random()),
        }
    }
    body
}

#[tokio::test]
async fn noise_is_answered_by_the_book() {
    let seed: u64 = rand::random();
    let mut random = StdRng::seed_from_u64(seed);
    let ground = Ground::new().await;
    let full = json!({
        "payload": {"a": [1, "x"]}, "delay_ms": 600_000, "priority": 3, "headers": {"x": "y"}, "max_attempts": 2,
    });
    let acks = json!({"max_messages": 1, "acks": [{"id": unknown_id(), "lease_token": "x"}]});
    for place in ground.taking_messages() {
        let good = match place.id.as_str() {
            "publishMessage" => full.to_string(),
            "leaseMessages" => acks.to_string(),
            _ => place.good.as_ref().unwrap().to_string(),
        };
        for _ in 0..150 {
            let body = spoilt(good.as_bytes(), &mut random);
            let shown = body.escape_ascii().to_string();
            let kind = Some("application/json");
            let answer = ground.client.post_bytes(&place.path, kind, body).await;
            let known = [200, 201, 204, 400, 404, 409, 413, 422];
            assert!(known.contains(&answer.status), "seed {seed}: {shown}: {answer}");
        }
    }
    crate::facts::topic_in_balance(&ground.client, &ground.topic).await;
}
