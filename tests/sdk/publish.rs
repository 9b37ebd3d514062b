//! Publishes that an SDK repeats by itself, while connections are cut and the server is killed.

use crate::{
    harness::*,
    program::Program,
    proxy::{Mode, Proxy},
};
use std::{
    collections::HashSet,
    time::{Duration, Instant},
};
use tokio::time::sleep;

/// Unless `DUEQ_TEST_PUBLISHES` says otherwise.
const MESSAGES: usize = 10_000;
const LIMIT: Duration = Duration::from_secs(180);
/// What happens to answers, again and again, and for how long each time, ms.
const FAULTS: [(Mode, u64); 8] = [
    (Mode::Pass, 150),
    (Mode::Swallow, 200),
    (Mode::Pass, 150),
    (Mode::CutInTheMiddle, 50),
    (Mode::Pass, 150),
    (Mode::CutAfter(5_000), 200),
    (Mode::Pass, 150),
    (Mode::Refuse, 200),
];

/// None of 10,000 messages is lost, and none is published twice.
pub async fn through_faults(language: &str) {
    let set = std::env::var("DUEQ_TEST_PUBLISHES").ok();
    let messages = set.map_or(MESSAGES, |number| number.parse().expect("a number"));
    let redis = Redis::start().await;
    let address = format!("127.0.0.1:{}", free_port());
    let start = || Dueq::on(&redis).listen(&address).start();
    let mut dueq = start().await;
    let (client, topic) = (dueq.client(), topic(language));
    client.new_topic(&topic, serde_json::json!({})).await;
    let proxy = Proxy::to(address[10..].parse().unwrap()).await;
    let url = format!("http://{}", proxy.address());
    let mut program = Program::start(language, &url, &["publish", &messages.to_string(), &topic]);
    let mut kills = vec![messages / 3 * 2, messages / 3];
    let end = Instant::now() + LIMIT;
    for (mode, ms) in FAULTS.into_iter().cycle() {
        proxy.set(mode);
        sleep(Duration::from_millis(ms)).await;
        let published = client.total(&topic, "published").await as usize;
        if kills.last().is_some_and(|at| published >= *at) {
            kills.pop();
            dueq.kill9();
            sleep(Duration::from_millis(300)).await;
            dueq = start().await;
        }
        if published >= messages {
            break;
        }
        assert!(Instant::now() < end, "{language} has published {published} in {LIMIT:?}");
    }
    proxy.set(Mode::Pass);
    assert_eq!(program.finished().await.last(), Some(&format!("published {messages}")));
    println!("{language}: {} cut, {} swallowed", proxy.cut(), proxy.swallowed());
    assert!(proxy.cut() > 20 && proxy.swallowed() > 0, "the faults did not bite");
    let listed = client.listed(&topic, "state=ready&payload=true").await;
    let distinct: HashSet<i64> = listed.iter().map(|item| number(&item["payload"], "n")).collect();
    assert_eq!((listed.len(), distinct.len()), (messages, messages), "{language}");
    assert_eq!(client.total(&topic, "published").await, messages as i64, "{language}");
}
