//! A client that publishes throughout a fault, and writes down what was answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::task::JoinHandle;

use crate::harness::{Client, text};

/// Publishes one after the other until it is stopped; what was answered, and when the first 2xx came after another answer.
pub struct Publisher {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Published>,
}

#[derive(Debug, Default)]
pub struct Published {
    /// The ids answered 2xx, and when.
    pub taken: Vec<(Instant, String)>,
    /// Codes of the other answers, and how often.
    pub refused: BTreeMap<String, usize>,
    /// When the last 2xx came that followed another answer.
    pub again: Option<Instant>,
}

impl Publisher {
    pub fn start(client: Client, name: &str) -> Publisher {
        let (stop, name) = (Arc::new(AtomicBool::new(false)), name.to_owned());
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let (mut done, mut refused) = (Published::default(), false);
            while !stopped.load(Ordering::Relaxed) {
                let answer = client.publish(&name, json!({"payload": 1})).await;
                if answer.status == 201 {
                    done.taken.push((Instant::now(), text(&answer.json(), "id").to_owned()));
                    if std::mem::take(&mut refused) {
                        done.again = Some(Instant::now());
                    }
                } else {
                    refused = true;
                    assert_eq!(answer.status, 503, "{answer}");
                    let code = text(&answer.json(), "type").rsplit(':').next().unwrap().to_owned();
                    *done.refused.entry(code).or_default() += 1;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            done
        });
        Publisher { stop, task }
    }

    pub async fn finish(self) -> Published {
        self.stop.store(true, Ordering::Relaxed);
        let done = self.task.await.unwrap();
        let known = ["redis_unavailable", "outcome_unknown"];
        assert!(done.refused.keys().all(|code| known.contains(&code.as_str())), "{done:?}");
        done
    }
}
