//! Lists, searches and bulk operations of one API key do not hold up those of another: their calls to Redis take turns.

use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::access::scopes::KeyFile;
use crate::harness::*;

/// Calls of scripts that touch these topics, in the order in which Redis ran them: the index of each one's topic.
async fn calls(redis: &Redis, topics: [&str; 2]) -> Arc<Mutex<Vec<usize>>> {
    let mut stream = TcpStream::connect(("127.0.0.1", redis.port())).await.unwrap();
    stream.write_all(b"MONITOR\r\n").await.unwrap();
    let (seen, tags) =
        (Arc::<Mutex<Vec<usize>>>::default(), topics.map(|it| format!("{{{it}:0}}")));
    let noted = seen.clone();
    tokio::spawn(async move {
        let mut lines = BufReader::new(stream).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if line.contains("\"EVALSHA\"") {
                noted.lock().unwrap().extend(tags.iter().position(|tag| line.contains(tag)));
            }
        }
    });
    seen
}

/// How many calls of the busy topic come between two of the other, mostly.
fn between(calls: &[usize]) -> usize {
    let of_one: Vec<_> = calls.iter().enumerate().filter(|(_, topic)| **topic == 1).collect();
    let mut gaps: Vec<_> = of_one.windows(2).map(|two| two[1].0 - two[0].0 - 1).collect();
    assert!(gaps.len() >= 30, "{} calls are too few to tell", gaps.len());
    gaps.sort_unstable();
    gaps[gaps.len() / 2]
}

async fn search(client: &Client, topic: &str) {
    let mut path = format!("/topics/{topic}/messages?state=delayed&q=payload:needle");
    let base = path.clone();
    loop {
        let page = client.get_path(&path).await.expect(200).json();
        let Some(next) = page["next_cursor"].as_str() else { return };
        path = format!("{base}&cursor={next}");
    }
}

async fn bulk(client: &Client, topic: &str) {
    let path = format!("/topics/{topic}/run");
    let mut body = json!({"q": "payload:needle", "dry_run": true});
    loop {
        let done = client.post(&path, &body).await.expect(200).json();
        let Some(next) = done.get("next_cursor") else { return };
        body["cursor"] = next.clone();
    }
}

async fn purge(client: &Client, topic: &str) {
    let purged = client.purge(topic, &["delayed"]).await.expect(200);
    assert_eq!(purged.number("purged"), 8_000);
}

async fn delete(client: &Client, topic: &str) {
    let listed = client.list(topic, "state=delayed&limit=1000").await.expect(200).json();
    let ids: Vec<_> =
        listed["items"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
    client.post("/messages/delete", &json!({"ids": ids})).await.expect(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_key_asks_for_gets_every_second_turn_however_much_another_does() {
    let file = KeyFile::of(&[("busy", "admin"), ("one", "admin")]);
    file.write();
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).args(["--api-key-file", file.path.to_str().unwrap()]).start().await;
    let [busy, one] = ["busy", "one"].map(|key| dueq.client().with_key(file.key(key)));
    let messages = |many: usize| vec![json!({"payload": "hay", "delay_ms": 36_000_000}); many];
    busy.fill("busy", &messages(20_000)).await;
    let seen = calls(&redis, ["busy", "one"]).await;
    for (name, case) in
        ["searches beside searches", "a search beside bulk operations", "a purge", "deletes by id"]
            .into_iter()
            .enumerate()
    {
        one.fill("one", &messages(8_000)).await;
        seen.lock().unwrap().clear();
        let work = (0..50).map(|_| {
            let busy = busy.clone();
            tokio::spawn(async move {
                loop {
                    match name {
                        1 => bulk(&busy, "busy").await,
                        _ => search(&busy, "busy").await,
                    }
                }
            })
        });
        let work: Vec<_> = work.collect();
        let is_busy = || async { (seen.lock().unwrap().len() > 500).then_some(()) };
        eventually("the one key is busy", is_busy).await;
        seen.lock().unwrap().clear();
        match name {
            0 | 1 => search(&one, "one").await,
            2 => purge(&one, "one").await,
            _ => {
                delete(&one, "one").await;
                delete(&one, "one").await;
            }
        }
        let calls = std::mem::take(&mut *seen.lock().unwrap());
        work.iter().for_each(tokio::task::JoinHandle::abort);
        let (most, many) = (between(&calls), calls.len());
        assert!((1..=2).contains(&most), "{case}: {most} of {many} calls between two");
        one.delete_topic("one", "?force=true").await.expect(204);
    }
}
