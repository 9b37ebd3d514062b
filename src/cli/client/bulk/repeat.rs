//! The work of bulk commands. A request does a part of it, so that none holds up the queue; it is repeated to the end.

use super::{
    super::{
        Out,
        api::{Client, path},
        failure::Failure,
        object::Object,
    },
    Choice, Pace,
};
use serde::Serialize;

/// The most messages that a request may name as its limit.
const MAX_MESSAGES: u64 = 1_000_000;

/// The names, each once.
pub fn named(states: &[String]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for state in states {
        if !names.contains(&&**state) {
            names.push(state);
        }
    }
    names
}

/// A request.
#[derive(Serialize)]
pub struct Body<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    states: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_messages: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spread_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    q: Option<&'a str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
}

impl<'a> Body<'a> {
    /// The request for these messages.
    pub fn new(choice: &'a Choice, pace: Option<&Pace>, states: &'a [String]) -> Self {
        Self {
            states: named(states),
            max_messages: pace.and_then(|pace| pace.max),
            spread_ms: pace.and_then(|pace| pace.spread),
            q: choice.query.as_deref(),
            dry_run: choice.dry_run,
            cursor: None,
        }
    }
}

/// What is done to the messages of a topic.
pub struct Bulk<'a> {
    pub topic: &'a str,
    /// The route.
    pub verb: &'static str,
    /// What it is called once it is done.
    pub done: &'static str,
    /// The states of the messages.
    pub counted: &'a [&'a str],
}

/// What has been done so far.
#[derive(Default)]
struct Sum {
    changed: i64,
    matched: i64,
    scanned: Option<i64>,
    remaining: Option<i64>,
}

impl Bulk<'_> {
    /// Does it, request by request, and says what was done.
    pub async fn carry_out(
        &self,
        client: &Client,
        out: &mut Out<'_>,
        mut body: Body<'_>,
    ) -> Result<(), Failure> {
        let mut sum = Sum::default();
        let outcome = self.repeat(client, out, &mut body, &mut sum).await;
        // What was done before a failure is done.
        if !out.json && (outcome.is_ok() || sum.changed > 0) {
            out.say(&self.summary(&sum, body.dry_run))?;
        }
        outcome
    }

    async fn repeat(
        &self,
        client: &Client,
        out: &mut Out<'_>,
        body: &mut Body<'_>,
        sum: &mut Sum,
    ) -> Result<(), Failure> {
        let path = path(&["topics", self.topic, self.verb]);
        let looks = body.q.is_some() || body.dry_run || self.verb == "run";
        let mut progress = out.progress(if looks { "looked at" } else { self.done });
        let mut left = body.max_messages;
        // How many messages there were at first: those that come to it meanwhile are not waited for.
        let mut all = None;
        loop {
            body.max_messages = left.map(|left| left.min(MAX_MESSAGES));
            let answer = client.post(&path, body).await?;
            if out.json {
                out.as_it_came(&answer)?;
            }
            let page = answer.object()?;
            let changed = page.number(if self.verb == "run" { "run" } else { self.done });
            let matched = page.get("matched").unwrap_or(changed);
            sum.add(&page, changed, matched);
            left = left.map(|left| left.saturating_sub(matched.unsigned_abs()));
            body.cursor = page.get("next_cursor");
            let is_over = match (sum.scanned, sum.remaining) {
                (None, Some(remaining)) => {
                    let all = *all.get_or_insert(changed + remaining);
                    remaining == 0 || changed == 0 || sum.changed >= all
                }
                _ => body.cursor.is_none(),
            };
            if is_over || left == Some(0) {
                return Ok(());
            }
            if progress.appears() {
                // A key may be allowed the change and not the look: then there is no total.
                let total = match all {
                    Some(all) => Some(all),
                    None => count(client, self.topic, self.counted).await.ok(),
                };
                if let Some(total) = total {
                    progress.set_total(total.unsigned_abs());
                }
            }
            progress.set(sum.scanned.unwrap_or(sum.changed).unsigned_abs());
        }
    }

    fn summary(&self, sum: &Sum, dry_run: bool) -> String {
        let Self { verb, done, .. } = self;
        let Sum { changed, matched, scanned, remaining } = sum;
        let looked = scanned.map(|scanned| format!(", looked at {scanned}")).unwrap_or_default();
        if dry_run {
            return format!("would be {done} {matched}{looked}\n");
        }
        let of = match scanned {
            Some(_) if matched != changed => format!(" of {matched}"),
            _ => String::new(),
        };
        let left = if *verb == "redrive" { "still dead" } else { "still there" };
        let left = remaining.map(|remaining| format!(", {left} {remaining}")).unwrap_or_default();
        format!("{done} {changed}{of}{left}{looked}\n")
    }
}

impl Sum {
    fn add(&mut self, page: &Object, changed: i64, matched: i64) {
        self.changed += changed;
        self.matched += matched;
        if let Some(scanned) = page.get::<i64>("scanned") {
            self.scanned = Some(self.scanned.unwrap_or_default() + scanned);
        }
        self.remaining = page.get("remaining");
    }
}

/// How many messages a topic has in these states.
pub async fn count(client: &Client, topic: &str, states: &[&str]) -> Result<i64, Failure> {
    let counts = client.get(&path(&["topics", topic])).await?.object()?.object("counts");
    Ok(states.iter().map(|state| counts.number(state)).sum())
}
