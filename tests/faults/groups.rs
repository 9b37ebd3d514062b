//! Requests that arrive together share one call to Redis; each still has its own outcome, as if
//! they had come one after another.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::harness::{Client, Dueq, Redis, text, topic, unknown_id};
use crate::proof::audit::{Audit, connect, conserved};

const ROUNDS: usize = 25;
const MESSAGES: usize = 16;

/// A server of its own, so that the calls of scripts can be counted.
struct Server {
    redis: Redis,
    client: Client,
    topic: String,
    _dueq: Dueq,
}

impl Server {
    async fn start(name: &str) -> Server {
        let redis = Redis::start().await;
        let dueq = Dueq::on(&redis).start().await;
        Server { client: dueq.client(), redis, topic: topic(name), _dueq: dueq }
    }

    /// Publishes and leases this many messages.
    async fn leased(&self, messages: usize) -> Vec<Value> {
        let publish = |n| self.client.published(&self.topic, json!({"payload": n}));
        join_all((0..messages).map(publish)).await;
        let leased = self.client.leased(&self.topic, json!({"max_messages": messages})).await;
        assert_eq!(leased.len(), messages);
        leased
    }

    /// Sends two requests for each leased message, all of them at once; the statuses by message.
    async fn at_once(&self, leased: &[Value], verbs: [&str; 2]) -> Vec<[u16; 2]> {
        let requests = leased.iter().flat_map(|message| {
            verbs.map(|verb| async move {
                let answer = match verb {
                    "ack" => self.client.ack_leased(message).await,
                    "nack" => self.client.nack_leased(message, json!({"delay_ms": 60_000})).await,
                    "extend" => self.client.extend_leased(message, 40_000).await,
                    _ => panic!("{verb}"),
                };
                answer.status
            })
        });
        let statuses = join_all(requests).await;
        statuses.chunks(2).map(|pair| [pair[0], pair[1]]).collect()
    }

    /// What must hold at the end; and that requests did share calls.
    async fn verify(&self, requests: i64, calls_before: i64) {
        let calls = self.script_calls().await - calls_before;
        assert!(calls < requests / 2, "{calls} calls for {requests} requests: nothing was grouped");
        let mut connection = connect(&self.redis.url()).await.unwrap();
        let audit = Audit::read(&mut connection, &self.topic).await.unwrap();
        assert_eq!(audit.violations(), Vec::<String>::new());
        let answer = self.client.topic(&self.topic).await.expect(200).json();
        assert_eq!(conserved(&answer), Vec::<String>::new());
    }

    async fn script_calls(&self) -> i64 {
        let stats: String = self.redis.command(&["INFO", "commandstats"]).await;
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        line.and_then(|rest| rest.split(',').next()?.parse().ok()).unwrap_or(0)
    }
}

#[tokio::test]
async fn of_two_acks_of_one_token_exactly_one_is_204_and_the_other_404() {
    let server = Server::start("two-acks").await;
    let mut requests = 0;
    let begin = server.script_calls().await;
    for _ in 0..ROUNDS {
        let leased = server.leased(MESSAGES).await;
        for mut pair in server.at_once(&leased, ["ack", "ack"]).await {
            pair.sort_unstable();
            assert_eq!(pair, [204, 404]);
        }
        requests += 3 * MESSAGES as i64;
    }
    assert_eq!(server.client.total(&server.topic, "acked").await, (ROUNDS * MESSAGES) as i64);
    server.verify(requests, begin).await;
}

#[tokio::test]
async fn of_an_ack_and_a_nack_of_one_token_exactly_one_is_done() {
    let server = Server::start("ack-nack").await;
    let begin = server.script_calls().await;
    for _ in 0..ROUNDS {
        let leased = server.leased(MESSAGES).await;
        for pair in server.at_once(&leased, ["ack", "nack"]).await {
            // After the ack there is no message; after the nack its lease is lost.
            assert!([[204, 404], [409, 200]].contains(&pair), "{pair:?}");
        }
    }
    server.verify(3 * (ROUNDS * MESSAGES) as i64, begin).await;
}

#[tokio::test]
async fn of_two_nacks_of_one_token_exactly_one_is_done() {
    let server = Server::start("two-nacks").await;
    let begin = server.script_calls().await;
    for _ in 0..ROUNDS {
        let leased = server.leased(MESSAGES).await;
        for mut pair in server.at_once(&leased, ["nack", "nack"]).await {
            pair.sort_unstable();
            assert_eq!(pair, [200, 409]);
        }
    }
    assert_eq!(server.client.total(&server.topic, "nacked").await, (ROUNDS * MESSAGES) as i64);
    server.verify(3 * (ROUNDS * MESSAGES) as i64, begin).await;
}

#[tokio::test]
async fn an_extend_beside_an_ack_is_done_or_finds_nothing() {
    let server = Server::start("extend-ack").await;
    let begin = server.script_calls().await;
    for _ in 0..ROUNDS {
        let leased = server.leased(MESSAGES).await;
        for pair in server.at_once(&leased, ["extend", "ack"]).await {
            assert!([[200, 204], [404, 204]].contains(&pair), "{pair:?}");
        }
        let leased = server.leased(MESSAGES).await;
        for pair in server.at_once(&leased, ["extend", "extend"]).await {
            assert_eq!(pair, [200, 200]);
        }
        join_all(leased.iter().map(|message| server.client.ack_leased(message))).await;
    }
    server.verify(6 * (ROUNDS * MESSAGES) as i64, begin).await;
}

#[tokio::test]
async fn bad_requests_of_a_group_fail_alone() {
    let server = Server::start("bad-in-group").await;
    for _ in 0..ROUNDS {
        let leased = server.leased(MESSAGES).await;
        let stale = server.leased(1).await.remove(0);
        server.client.nack_leased(&stale, json!({"delay_ms": 60_000})).await.expect(200);
        let requests = leased.iter().enumerate().map(|(n, message)| {
            let (client, stale) = (&server.client, &stale);
            async move {
                match n % 4 {
                    0 => client.ack_leased(stale).await.problem(409, "lease_lost"),
                    1 => {
                        let token = text(message, "lease_token");
                        client.ack(&unknown_id(), token).await.problem(404, "message_not_found")
                    }
                    _ => client.ack_leased(message).await.expect(204),
                };
            }
        });
        join_all(requests).await;
        let last = leased.iter().enumerate().filter(|(n, _)| n % 4 < 2).map(|(_, message)| message);
        join_all(last.map(|message| async { server.client.ack_leased(message).await.expect(204) }))
            .await;
    }
}

#[tokio::test]
async fn the_same_ack_twice_in_one_lease_request_is_done_once() {
    let server = Server::start("acks-twice").await;
    for _ in 0..ROUNDS {
        let leased = server.leased(4).await;
        let ack = |m: &Value| json!({"id": m["id"], "lease_token": m["lease_token"]});
        let acks: Vec<Value> = leased.iter().chain(&leased).map(ack).collect();
        let answer = server.client.lease(&server.topic, json!({"acks": acks})).await.expect(200);
        let json = answer.json();
        let statuses = json["acks"].as_array().unwrap().iter().map(|ack| text(ack, "status"));
        let statuses: Vec<&str> = statuses.collect();
        for twice in 0..4 {
            let mut pair = [statuses[twice], statuses[twice + 4]];
            pair.sort_unstable();
            assert_eq!(pair, ["message_not_found", "ok"], "{statuses:?}");
        }
    }
}
