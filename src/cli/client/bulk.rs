//! Commands that change many messages: all of a topic, those that a query finds, or those with these ids. A request does a part
//! of it, so that none holds up the queue; it is repeated to the end.

use super::{
    api::path, context::Context, failure::Failure, object::Object, request::Given, table::columns,
    view,
};
use std::io::{self, Read as _};

/// The most ids of a request.
const BATCH: usize = 1_000;
/// The most messages that a request may name as its limit.
const MAX_MESSAGES: u64 = 1_000_000;

/// Runs `dueq redrive`, `run` and `purge`.
pub async fn run(cx: &mut Context<'_>, given: &Given<'_>) -> Result<(), Failure> {
    match &given.texts("id")[..] {
        [] => repeat(cx, given).await,
        [id] if id != "-" && given.command.name == "redrive" => {
            let path = path(&["messages", id, "redrive"]);
            let body = Some("{}".to_owned());
            let answer = cx.client.send("POST", &path, body, None, 0).await?;
            cx.show(&answer, view::message)
        }
        _ => change(cx, given, "id").await,
    }
}

/// Whether a command names several messages, or those on standard input.
pub fn by_ids(given: &Given<'_>, ids: &str) -> bool {
    let ids = given.texts(ids);
    ids.len() > 1 || ids.iter().any(|id| id == "-")
}

/// The past participle of the command.
fn done(given: &Given<'_>) -> &'static str {
    match given.command.name {
        "redrive" => "redriven",
        "run" => "made due",
        "purge" => "purged",
        _ => "deleted",
    }
}

/// Changes the messages with these ids, batch by batch; `-` is those on standard input. Fails if it could not change all of them,
/// and says which.
pub async fn change(
    cx: &mut Context<'_>,
    given: &Given<'_>,
    argument: &str,
) -> Result<(), Failure> {
    if given.flag("force") {
        return Err(Failure::Usage("--force deletes one message at a time".to_owned()));
    }
    let mut ids = given.texts(argument);
    if let Some(at) = ids.iter().position(|id| id == "-") {
        let mut text = String::new();
        let read = io::stdin().read_to_string(&mut text);
        read.map_err(|error| Failure::Usage(format!("cannot read standard input: {error}")))?;
        ids.splice(at..=at, text.split_whitespace().map(str::to_owned));
    }
    let (path, done) = (path(&["messages", given.command.name]), done(given));
    let mut progress = cx.progress(done);
    let (mut changed, mut others) = (0, Vec::new());
    for batch in ids.chunks(BATCH) {
        let body = serde_json::json!({"ids": batch}).to_string();
        let answer = cx.client.send("POST", &path, Some(body), None, 0).await?;
        progress.add(batch.len() as u64);
        if cx.json {
            cx.as_it_came(&answer)?;
        }
        for result in answer.object()?.objects("results") {
            match &*result.text("status") {
                "ok" => changed += 1,
                status => others.push(vec![result.text("id"), status.to_owned()]),
            }
        }
    }
    drop(progress);
    let missing = others.len();
    if !cx.json {
        cx.say(&format!("{done} {changed}\n"))?;
        if missing > 0 {
            cx.say(&columns(&["id", "status"], &[], others))?;
        }
    }
    match missing {
        0 => Ok(()),
        _ => Err(Failure::Incomplete(format!("not {done} {missing} of {}", ids.len()))),
    }
}

/// The sum of the answers.
#[derive(Default)]
struct Sum {
    changed: i64,
    matched: i64,
    scanned: Option<i64>,
    remaining: Option<i64>,
}

/// Changes messages of a topic, request by request, and says how many.
async fn repeat(cx: &mut Context<'_>, given: &Given<'_>) -> Result<(), Failure> {
    let mut sum = Sum::default();
    let outcome = repeat_into(cx, given, &mut sum).await;
    // A failure does not undo the requests before it.
    if !cx.json && (outcome.is_ok() || sum.changed > 0) {
        cx.say(&summary(given, &sum))?;
    }
    outcome
}

async fn repeat_into(
    cx: &mut Context<'_>,
    given: &Given<'_>,
    sum: &mut Sum,
) -> Result<(), Failure> {
    let (path, name, done) = (given.path(), given.command.name, done(given));
    let looks = given.text("query").is_some() || given.flag("dry-run") || name == "run";
    let mut progress = cx.progress(if looks { "looked at" } else { done });
    let (mut left, mut cursor): (_, Option<String>) = (given.number("max"), None);
    // How many messages there were at first: those that are added meanwhile are not waited for.
    let mut all = None;
    let body = given.body()?;
    loop {
        let mut body: Object = serde_json::from_str(&body).unwrap_or_default();
        if let Some(left) = left {
            body.put("max_messages", left.min(MAX_MESSAGES));
        }
        if let Some(cursor) = cursor {
            body.put("cursor", cursor);
        }
        let body = serde_json::to_string(&body).ok();
        let answer = cx.client.send("POST", &path, body, None, 0).await?;
        if cx.json {
            cx.as_it_came(&answer)?;
        }
        let page = answer.object()?;
        let changed = page.number(if name == "run" { name } else { done });
        let matched = page.get("matched").unwrap_or(changed);
        sum.changed += changed;
        sum.matched += matched;
        if let Some(scanned) = page.get::<i64>("scanned") {
            *sum.scanned.get_or_insert_default() += scanned;
        }
        sum.remaining = page.get("remaining");
        left = left.map(|left| left.saturating_sub(matched.unsigned_abs()));
        cursor = page.get("next_cursor");
        let is_over = match (sum.scanned, sum.remaining) {
            (None, Some(remaining)) => {
                let all = *all.get_or_insert(changed + remaining);
                remaining == 0 || changed == 0 || sum.changed >= all
            }
            _ => cursor.is_none(),
        };
        if is_over || left == Some(0) {
            return Ok(());
        }
        if progress.appears()
            && let Some(all) = all
        {
            progress.set_total(all.unsigned_abs());
        }
        progress.set(sum.scanned.unwrap_or(sum.changed).unsigned_abs());
    }
}

fn summary(given: &Given<'_>, Sum { changed, matched, scanned, remaining }: &Sum) -> String {
    let done = done(given);
    let looked = scanned.map(|scanned| format!(", looked at {scanned}")).unwrap_or_default();
    if given.flag("dry-run") {
        return format!("would be {done} {matched}{looked}\n");
    }
    let of = match scanned {
        Some(_) if matched != changed => format!(" of {matched}"),
        _ => String::new(),
    };
    let left = if given.command.name == "redrive" { "still dead" } else { "still there" };
    let left = remaining.map(|remaining| format!(", {left} {remaining}")).unwrap_or_default();
    format!("{done} {changed}{of}{left}{looked}\n")
}
