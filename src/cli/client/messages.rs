//! `dueq messages` lists messages state by state, and `dueq search` finds some of them. The server looks at a part of them per
//! request; the command asks on until it has found enough or has seen all.

use super::{
    api::path,
    context::Context,
    failure::Failure,
    request::Given,
    view::{self, STATES},
    warn,
};

/// How many messages are listed by default.
const LIMIT: usize = 100;

/// The order in which states are searched: mostly the question is why something failed or is late.
const SEARCHED: [&str; 6] = ["dead", "ready", "blocked", "leased", "delayed", "acked"];

/// Lists the messages of the topic, or those for which the query holds.
pub async fn run(cx: &mut Context<'_>, given: &Given<'_>) -> Result<(), Failure> {
    let path = path(&["topics", &given.text("topic").unwrap_or_default(), "messages"]);
    let (query, mut states) = (given.text("query"), given.texts("state"));
    if states.is_empty() {
        states = if query.is_some() { SEARCHED } else { STATES }.map(str::to_owned).to_vec();
    }
    let wanted = given.number("limit").map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let limit = wanted.unwrap_or(LIMIT);
    let (mut items, mut found, mut scanned, mut more) = (Vec::new(), 0, 0, false);
    let mut progress = cx.progress("looked at");
    for state in &states {
        let mut filter = vec![("state", state.as_str())];
        filter.extend(query.as_deref().map(|query| ("q", query)));
        // The limit is reached: is there anything beyond it?
        if found >= limit && !more && wanted.is_none() && query.is_none() {
            more = !cx.client.page(&path, &filter, 1, None).await?.items.is_empty();
        }
        let mut cursor = None;
        while found < limit {
            let page = cx.page(&path, &filter, limit - found, cursor, &mut items).await?;
            found += page.items.len();
            scanned += page.scanned;
            progress.appears();
            progress.set(scanned);
            more = page.next.is_some();
            if !more {
                break;
            }
            cursor = page.next;
        }
    }
    drop(progress);
    match &query {
        _ if cx.json => {}
        None => cx.say(&view::messages(&items))?,
        Some(_) => {
            let list = if items.is_empty() { String::new() } else { view::messages(&items) + "\n" };
            cx.say(&format!("{list}found {found}, looked at {scanned}\n"))?;
        }
    }
    if wanted.is_none() && (more || query.is_some() && found >= limit) {
        warn(&format!("these are the first {LIMIT}; --limit lists more"));
    }
    Ok(())
}
