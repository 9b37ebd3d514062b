//! What is published for the receiver to be called with: messages of the usual size whose payload carries a number and the
//! due time, so that the receiver alone can tell what is late, early, missing or came twice.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::cli::bench::Fallible;
use crate::cli::bench::batches::{BATCH, stored};
use crate::cli::bench::load::{Step, Work, drive};
use crate::cli::bench::servers::Server;
use crate::cli::bench::wire::{PAYLOAD_BYTES, write_post, wrong};

/// Nobody waits longer for a plan to be published.
const LIMIT: Duration = Duration::from_secs(300);

/// Where the messages go.
#[derive(Debug, Clone)]
pub enum Way {
    /// By batches into a topic that is pushed to its own URL.
    Topic(String),
    /// By batches into a pushed topic, each message with this URL.
    Named(String, String),
    /// One by one by `POST /callbacks`, each with this URL.
    Own(String),
}

/// When they are due.
#[derive(Debug, Clone, Copy)]
pub enum Due {
    /// At once.
    Now,
    /// At random instants from the first, ms since 1970, for so many ms.
    Within(i64, u64),
}

/// So many messages.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Where they go.
    pub way: Way,
    /// How many.
    pub count: u64,
    /// When they are due.
    pub due: Due,
}

impl Plan {
    /// Publishes all of it through `server`.
    pub async fn publish(self, server: &Server) -> Fallible<()> {
        let connections = if matches!(self.way, Way::Own(_)) { 64 } else { 8 };
        let (count, next) = (self.count, Arc::new(AtomicU64::new(0)));
        let work = |_| Calls {
            plan: self.clone(),
            host: server.address.clone(),
            next: Arc::clone(&next),
            asked: 0,
            body: Vec::new(),
        };
        let works = (0..connections).map(work).collect();
        let (measured, _) = drive(&server.address, works, LIMIT).await?;
        match measured.first_failure {
            Some(failure) => Err(format!("publishing callbacks: {failure}").into()),
            None if measured.done < count => Err("publishing callbacks takes too long".into()),
            None => Ok(()),
        }
    }

    /// The due time of the message `number`, ms since 1970; 0: at once.
    fn due_ms(&self, number: u64) -> i64 {
        match self.due {
            Due::Now => 0,
            Due::Within(first, window) => first + (scattered(number) % window).cast_signed(),
        }
    }

    /// The message `number` as an object.
    fn message(&self, number: u64, body: &mut Vec<u8>) {
        let due_ms = self.due_ms(number);
        let open = format!(r#"{{"n":{number},"due":{due_ms},"note":""#);
        let filler = "x".repeat(PAYLOAD_BYTES.saturating_sub(open.len() + 2));
        // Writing to a Vec cannot fail.
        let _ = write!(body, r#"{{"payload":{open}{filler}"}}"#);
        if let Some(at) = chrono::DateTime::from_timestamp_millis(due_ms).filter(|_| due_ms > 0) {
            let at = at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true);
            let _ = write!(body, r#","deliver_at":"{at}""#);
        }
        let _ = match &self.way {
            Way::Topic(_) => Ok(()),
            Way::Named(_, url) => write!(body, r#","callback":{{"url":"{url}"}}"#),
            Way::Own(url) => write!(body, r#","url":"{url}""#),
        };
        body.push(b'}');
    }
}

/// Numbers that follow each other, far from each other: the finalizer of SplitMix64 (Steele and others, 2014).
fn scattered(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// Publishes what is left of a plan.
#[derive(Debug)]
struct Calls {
    plan: Plan,
    host: String,
    /// The next number, shared by the connections.
    next: Arc<AtomicU64>,
    /// Messages of the request under way.
    asked: usize,
    body: Vec<u8>,
}

impl Work for Calls {
    fn next(&mut self, request: &mut Vec<u8>) -> bool {
        let step = if matches!(self.plan.way, Way::Own(_)) { 1 } else { BATCH as u64 };
        let first = self.next.fetch_add(step, Ordering::Relaxed);
        let end = self.plan.count.min(first + step);
        if first >= end {
            return false;
        }
        self.asked = (end - first) as usize;
        self.body.clear();
        let path = match &self.plan.way {
            Way::Topic(topic) | Way::Named(topic, _) => {
                self.body.extend_from_slice(br#"{"messages":["#);
                for number in first..end {
                    if number > first {
                        self.body.push(b',');
                    }
                    self.plan.message(number, &mut self.body);
                }
                self.body.extend_from_slice(b"]}");
                format!("/topics/{topic}/messages/batch")
            }
            Way::Own(_) => {
                self.plan.message(first, &mut self.body);
                "/callbacks".to_owned()
            }
        };
        write_post(request, &path, &self.host, &self.body);
        true
    }

    fn answer(&mut self, status: u16, body: &[u8]) -> Step {
        let taken = match self.plan.way {
            Way::Own(_) => status == 201,
            _ => status == 200 && stored(body) == self.asked,
        };
        if taken { Step::Done(self.asked as u64) } else { wrong("publish", status, body) }
    }
}

/// What of a plan came, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Come {
    /// Messages that never came.
    pub missing: u64,
    /// Calls beyond the first of their message.
    pub again: u64,
}

impl Come {
    /// Counts the numbers of calls against a plan of `count` messages.
    pub fn of(numbers: impl Iterator<Item = u64>, count: u64) -> Self {
        let mut seen = vec![false; count as usize];
        let mut again = 0;
        for number in numbers {
            match seen.get_mut(number as usize) {
                Some(seen) if !*seen => *seen = true,
                _ => again += 1,
            }
        }
        let missing = seen.iter().filter(|seen| !**seen).count() as u64;
        Self { missing, again }
    }

    /// The same for machines.
    pub fn to_json(self) -> Value {
        json!({"missing": self.missing, "again": self.again})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(way: Way, due: Due, count: u64) -> Vec<Value> {
        let mut work = Calls {
            plan: Plan { way, count, due },
            host: "h:1".to_owned(),
            next: Arc::default(),
            asked: 0,
            body: Vec::new(),
        };
        let (mut all, mut request) = (Vec::new(), Vec::new());
        while work.next(&mut request) {
            let mut body: Value = serde_json::from_slice(&work.body).unwrap();
            match body.get_mut("messages").map(Value::take) {
                Some(Value::Array(messages)) => all.extend(messages),
                _ => all.push(body),
            }
        }
        all
    }

    #[test]
    fn payloads_have_their_size_and_carry_the_due_time() {
        let due = Due::Within(1_795_000_000_000, 10_000);
        let all = messages(Way::Named("t".to_owned(), "http://a/".to_owned()), due, 250);
        let numbers = all.iter().map(|message| message["payload"]["n"].as_u64().unwrap());
        assert_eq!(Come::of(numbers, 250), Come { missing: 0, again: 0 });
        for message in &all {
            assert_eq!(message["payload"].to_string().len(), PAYLOAD_BYTES);
            assert_eq!(message["callback"], json!({"url": "http://a/"}));
            let at: chrono::DateTime<chrono::Utc> =
                message["deliver_at"].as_str().unwrap().parse().unwrap();
            assert_eq!(message["payload"]["due"], at.timestamp_millis());
            assert!((0..10_000).contains(&(at.timestamp_millis() - 1_795_000_000_000)));
        }
    }

    #[test]
    fn what_is_due_at_once_has_no_instant() {
        let all = messages(Way::Own("http://a/".to_owned()), Due::Now, 3);
        assert_eq!(all.len(), 3);
        assert!(all.iter().all(|one| one["url"] == "http://a/" && one["deliver_at"].is_null()));
    }

    #[test]
    fn what_came_twice_or_never_is_counted() {
        assert_eq!(Come::of([0, 2, 2, 9].into_iter(), 4), Come { missing: 2, again: 2 });
    }
}
