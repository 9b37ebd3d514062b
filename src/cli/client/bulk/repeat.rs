//! The work of bulk commands. A request does a part of it, so that none holds up the queue; it is repeated to the end.

use super::{
    super::{
        api::{Client, path},
        context::Context,
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
struct Body<'a> {
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    states: &'a [&'a str],
    #[serde(flatten)]
    pace: Pace,
    #[serde(flatten)]
    choice: &'a Choice,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<String>,
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
    /// Does it to those in these states, request by request, and says what was done.
    pub async fn carry_out(
        &self,
        cx: &mut Context<'_>,
        states: &[&str],
        choice: &Choice,
        pace: Pace,
    ) -> Result<(), Failure> {
        let (mut sum, body) = (Sum::default(), Body { states, pace, choice, cursor: None });
        let outcome = self.repeat(cx, body, &mut sum).await;
        // What was done before a failure is done.
        if !cx.json && (outcome.is_ok() || sum.changed > 0) {
            cx.say(&self.summary(&sum, choice.dry_run))?;
        }
        outcome
    }

    async fn repeat(
        &self,
        cx: &mut Context<'_>,
        mut body: Body<'_>,
        sum: &mut Sum,
    ) -> Result<(), Failure> {
        let path = path(&["topics", self.topic, self.verb]);
        let looks = body.choice.query.is_some() || body.choice.dry_run || self.verb == "run";
        let mut progress = cx.progress(if looks { "looked at" } else { self.done });
        let mut left = body.pace.max;
        // How many messages there were at first: those that come to it meanwhile are not waited for.
        let mut all = None;
        loop {
            body.pace.max = left.map(|left| left.min(MAX_MESSAGES));
            let answer = cx.client.post(&path, &body).await?;
            if cx.json {
                cx.as_it_came(&answer)?;
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
                    None => count(cx.client, self.topic, self.counted).await.ok(),
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
