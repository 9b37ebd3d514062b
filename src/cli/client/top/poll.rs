//! The requests of `dueq top`: the list of topics, and the history of some of them. A thousand topics are one request and a
//! few dozen more.

use super::super::{
    api::{Client, PAGE, path},
    durations::now,
    failure::Failure,
    object::Object,
};
use dueq_model::{Millis, parse_instant};
use futures_util::{StreamExt as _, stream};
use std::collections::{HashMap, HashSet};

/// Pages of topics that are shown, at most.
const MAX_PAGES: usize = 5;
/// Topics whose history is asked for in one round, and how many at the same time.
const HISTORIES: usize = 64;
const TOGETHER: usize = 8;
/// The step of the histories.
const STEP_MS: Millis = 10_000;

/// A topic as it is shown.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub name: String,
    pub is_paused: bool,
    /// Ready, delayed or blocked, leased, and dead messages.
    pub counts: [i64; 4],
    /// What its history says, where it was asked for.
    pub recent: Option<Recent>,
}

/// The last ten to twenty seconds of a topic.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Recent {
    pub published_per_s: f64,
    pub acked_per_s: f64,
    pub oldest_ms: Option<Millis>,
    pub late_p99_ms: Option<Millis>,
}

impl Row {
    fn of(topic: &Object) -> Self {
        let counts = topic.object("counts");
        Self {
            name: topic.text("name"),
            is_paused: topic.get("paused") == Some(true),
            counts: [
                counts.number("ready"),
                counts.number("delayed") + counts.number("blocked"),
                counts.number("leased"),
                counts.number("dead"),
            ],
            recent: None,
        }
    }
}

impl Recent {
    /// Of a step that is over and one that is not. The local clock says how much of it has passed: no more than all of it.
    fn of(history: &Object, now: Millis) -> Self {
        let points = history.objects("points");
        let begun = points.last().and_then(|point| parse_instant(&point.text("at")).ok());
        let passed = begun.map_or(STEP_MS, |begun| (now - begun).clamp(0, STEP_MS));
        let seconds =
            (STEP_MS * (points.len().max(1) as Millis - 1) + passed).max(1_000) as f64 / 1e3;
        let sum = |name| points.iter().map(|point| point.number(name)).sum::<i64>() as f64;
        Self {
            published_per_s: sum("published") / seconds,
            acked_per_s: sum("acked") / seconds,
            oldest_ms: points.last().and_then(|point| point.get("oldest_ready_age_ms")),
            late_p99_ms: points.iter().filter_map(|point| point.get("lateness_p99_ms")).max(),
        }
    }
}

/// Asks a server again and again.
pub struct Poll<'a> {
    client: &'a Client,
    filter: &'a [(&'a str, &'a str)],
    /// What was found in earlier rounds.
    known: HashMap<String, Row>,
    /// Where the others' turn begins.
    turn: usize,
}

impl<'a> Poll<'a> {
    pub fn new(client: &'a Client, filter: &'a [(&'a str, &'a str)]) -> Self {
        Self { client, filter, known: HashMap::new(), turn: 0 }
    }

    /// The topics as they are now.
    pub async fn next(&mut self, visible: &[String]) -> Result<Vec<Row>, Failure> {
        let mut rows = self.topics().await?;
        let chosen = self.choose(&rows, visible);
        let client = self.client;
        let asked = stream::iter(chosen).map(async |name: String| {
            let path = path(&["topics", &name, "history"]);
            let answer = client.get(&format!("{path}?step_ms={STEP_MS}&points=2")).await;
            // A topic can be gone by now, and a key can be allowed the list only.
            let history = answer.and_then(|answer| answer.object()).ok()?;
            Some((name, Recent::of(&history, now())))
        });
        let found: HashMap<_, _> =
            asked.buffer_unordered(TOGETHER).filter_map(async |found| found).collect().await;
        for row in &mut rows {
            let before = self.known.get(&row.name).and_then(|row| row.recent);
            row.recent = found.get(&row.name).copied().or(before);
        }
        self.known = rows.iter().map(|row| (row.name.clone(), row.clone())).collect();
        Ok(rows)
    }

    async fn topics(&self) -> Result<Vec<Row>, Failure> {
        let (mut rows, mut cursor) = (Vec::new(), None);
        for _ in 0..MAX_PAGES {
            let page = self.client.page("/topics", self.filter, PAGE, cursor).await?;
            rows.extend(page.objects().map(|topic| Row::of(&topic)));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        Ok(rows)
    }

    /// The topics whose history is asked for now: those on the screen, those whose counts have changed, and others in turn.
    fn choose(&mut self, rows: &[Row], visible: &[String]) -> Vec<String> {
        let visible = visible.iter().filter_map(|name| rows.iter().find(|row| row.name == *name));
        let has_changed = |row: &&Row| {
            let before = self.known.get(&row.name).map_or([0; 4], |before| before.counts);
            row.counts != before
        };
        let start = self.turn.min(rows.len());
        let others = rows[start..].iter().chain(&rows[..start]);
        let wanted = visible.chain(rows.iter().filter(has_changed)).chain(others);
        let mut seen = HashSet::new();
        let chosen = wanted.map(|row| &row.name).filter(|name| seen.insert(*name)).take(HISTORIES);
        let chosen: Vec<String> = chosen.cloned().collect();
        let last = chosen.last().and_then(|last| rows.iter().position(|row| row.name == *last));
        self.turn = (last.unwrap_or_default() + 1) % rows.len().max(1);
        chosen
    }
}
