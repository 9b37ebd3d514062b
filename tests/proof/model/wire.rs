//! The requests of a sequence: one connection to each instance, and what was said on them.

use std::time::Duration;

use serde_json::Value;

use super::broken::{CONTRACT, Kept, must};
use crate::harness::Wire;

/// An answer.
pub struct Reply {
    pub status: u16,
    pub json: Value,
    /// The body as it came.
    pub body: String,
    pub location: String,
}

impl Reply {
    /// `ok`, or the code of the problem.
    pub fn code(&self) -> &str {
        if self.status < 300 { "ok" } else { self.json["code"].as_str().unwrap_or("(no code)") }
    }
}

/// The connections of one sequence.
pub struct Talk {
    wires: [Wire; 2],
    addrs: [String; 2],
    /// What was said, if it is to be read.
    pub heard: Option<Vec<String>>,
    pub requests: u64,
}

impl Talk {
    pub async fn with(addrs: &[String; 2], listen: bool) -> Talk {
        let wires = [Wire::connect(&addrs[0]).await, Wire::connect(&addrs[1]).await];
        let heard = listen.then(Vec::new);
        Talk { wires, addrs: addrs.clone(), heard, requests: 0 }
    }

    /// A line between the requests.
    pub fn say(&mut self, line: impl FnOnce() -> String) {
        if let Some(heard) = &mut self.heard {
            heard.push(line());
        }
    }

    /// One request; the body is JSON unless a header says otherwise.
    pub async fn send(
        &mut self,
        via: bool,
        method: &str,
        path: &str,
        headers: &str,
        body: Option<&str>,
    ) -> Kept<Reply> {
        self.requests += 1;
        let at = usize::from(via);
        let kind = if headers.contains("content-type:") || body.is_none() {
            ""
        } else {
            "\r\ncontent-type: application/json"
        };
        let (host, text) = (&self.addrs[at], body.unwrap_or_default());
        let length = text.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: {host}{kind}{headers}\r\ncontent-length: {length}"
        );
        let name = format!("{method} {path}");
        let sent = self.wires[at].request(&head, text.as_bytes()).await;
        let answer = match sent {
            true => self.wires[at].answer(&name, Duration::from_secs(30)).await,
            false => None,
        };
        must!(CONTRACT, answer.is_some(), "{name} {text}: the connection was closed");
        let Some(answer) = answer else { unreachable!() };
        let body = String::from_utf8_lossy(&answer.body).into_owned();
        self.say(|| {
            let instance = if via { "B" } else { "A" };
            format!(
                "  {instance} {name}{} {text} -> {} {body}",
                headers.replace("\r\n", " "),
                answer.status
            )
        });
        let json =
            if body.is_empty() { Some(Value::Null) } else { serde_json::from_str(&body).ok() };
        must!(CONTRACT, json.is_some() && answer.status < 500, "{name}: {} {body}", answer.status);
        let location = answer.header("location").to_owned();
        Ok(Reply { status: answer.status, json: json.unwrap_or_default(), body, location })
    }
}
