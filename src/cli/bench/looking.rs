//! Looking at a backlog: what a page of the list and a forecast hold Redis for
//! when a million delayed messages are there. The times are Redis's own, from
//! its slow log, which meanwhile writes down all but the very shortest calls.

use std::time::Instant;

use serde_json::{Value, json};

use super::client::{Connection, find};
use super::report::{Section, Table};
use super::servers::Server;
use super::stats::{Samples, millis, thousands};
use super::targets::{Target, Verdict};
use super::{Bench, Fallible};
use crate::store::lab::Lab;

/// Items of the pages on the way to the middle: the most that there is.
const WIDE: u64 = 1_000;
/// Items of the page that is measured.
const PAGE: u64 = 100;
const BUCKETS: u64 = 1_000;
/// How often what is measured is asked for.
const ASKS: usize = 50;
/// Far below any call that is looked for, and above the commands within it, whose entries would
/// be part of its time, µs.
const SEEN_US: u64 = 20;
/// Calls above this hold up everybody else, µs.
const SLOW_US: u64 = 3_000;

/// Looks at `topic`, whose messages fall due in `delays` from now, ms.
pub async fn measure(
    bench: &Bench,
    server: &Server,
    topic: &str,
    delays: (u64, u64),
) -> Fallible<Section> {
    let redis = server.redis().await?.ok_or("looking wants a Redis that is known")?;
    let backlog = bench.args.backlog;
    let list = format!("/topics/{topic}/messages?state=delayed");
    let mut connection = Connection::open(&server.address).await?;

    bench.say("million: the list is paged through");
    let before = redis.watch_slow(SLOW_US).await?;
    let begun = Instant::now();
    let (mut seen, mut pages, mut cursor, mut middle) = (0, 0_u64, None, String::new());
    loop {
        let body = get(&mut connection, server, &page(&list, WIDE, cursor.as_deref())).await?;
        seen += items(&body);
        pages += 1;
        cursor = next_cursor(&body);
        match &cursor {
            None => break,
            Some(cursor) if middle.is_empty() && seen >= backlog / 2 => middle.clone_from(cursor),
            Some(_) => {}
        }
    }
    let paging = begun.elapsed();
    let slow = redis.slow_calls().await?;

    let middle = (!middle.is_empty()).then_some(middle);
    let middle_page = page(&list, PAGE, middle.as_deref());
    let mut one_page = ask(&redis, &mut connection, server, &middle_page, "list_messages").await?;
    let bucket_ms = (delays.1 / BUCKETS).max(1);
    let forecast = format!("/topics/{topic}/forecast?bucket_ms={bucket_ms}&buckets={BUCKETS}");
    let mut buckets = ask(&redis, &mut connection, server, &forecast, "forecast_topic").await?;
    redis.watch_slow(before).await?;

    let columns = ["what", "requests", "calls", "p50 ms", "max ms", "above 3 ms"];
    let mut table = Table::new("Looking at the backlog, ms in Redis for each call", &columns);
    for (what, asked) in [
        (format!("list, page of {PAGE} in the middle"), &mut one_page),
        (format!("forecast of {BUCKETS} buckets"), &mut buckets),
    ] {
        table.row([
            what,
            ASKS.to_string(),
            asked.calls.len().to_string(),
            millis(asked.calls.percentile(0.5)),
            millis(asked.calls.percentile(1.0)),
            asked.slow.to_string(),
        ]);
    }
    table.row([
        format!("list, all of it by {WIDE}"),
        pages.to_string(),
        "-".to_owned(),
        "-".to_owned(),
        slow.iter().map(|call| call.micros).max().map_or("-".to_owned(), |us| millis(us as u32)),
        slow.len().to_string(),
    ]);
    table.note(format!(
        "{} items paged through over HTTP in {:.1} s",
        thousands(seen as f64),
        paging.as_secs_f64()
    ));
    let figures = json!({
        "present": backlog,
        "page": one_page.figures(),
        "forecast": buckets.figures(),
        "all": {
            "items": seen,
            "requests": pages,
            "seconds": paging.as_secs_f64(),
            "above_3_ms": slow.len(),
        },
    });
    let ms = |micros: u32| f64::from(micros) / 1000.0;
    let verdicts = vec![
        Verdict { target: Target::ListPage, measured: ms(one_page.calls.percentile(0.5)) },
        Verdict { target: Target::Forecast, measured: ms(buckets.calls.percentile(1.0)) },
    ];
    Ok(Section { name: "looking", table, figures, verdicts })
}

/// The calls that some requests made, µs each.
struct Asked {
    calls: Samples,
    slow: usize,
}

impl Asked {
    fn figures(&mut self) -> Value {
        json!({
            "requests": ASKS,
            "calls": self.calls.len(),
            "p50_us": self.calls.percentile(0.5),
            "max_us": self.calls.percentile(1.0),
            "above_3_ms": self.slow,
        })
    }
}

/// Asks for `path` some times; how long the calls of `script` took.
async fn ask(
    redis: &Lab,
    connection: &mut Connection,
    server: &Server,
    path: &str,
    script: &str,
) -> Fallible<Asked> {
    redis.watch_slow(SEEN_US).await?;
    for _ in 0..ASKS {
        get(connection, server, path).await?;
    }
    let mut asked = Asked { calls: Samples::default(), slow: 0 };
    let calls = redis.slow_calls().await?;
    for call in calls.into_iter().filter(|call| call.name == script) {
        asked.calls.push(u32::try_from(call.micros).unwrap_or(u32::MAX));
        asked.slow += usize::from(call.micros > SLOW_US);
    }
    match asked.calls.len() {
        0 => Err(format!("{path}: no call of {script} was seen").into()),
        _ => Ok(asked),
    }
}

async fn get(connection: &mut Connection, server: &Server, path: &str) -> Fallible<Vec<u8>> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", server.address);
    let answer = connection.send(request.as_bytes()).await?;
    match answer.status {
        200 => Ok(answer.body.to_vec()),
        status => Err(format!("{path} was answered {status}").into()),
    }
}

fn page(list: &str, limit: u64, cursor: Option<&str>) -> String {
    let cursor = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
    format!("{list}&limit={limit}{cursor}")
}

fn items(mut body: &[u8]) -> u64 {
    const ID: &[u8] = br#""id":""#;
    let mut count = 0;
    while let Some(at) = find(body, ID) {
        body = &body[at + ID.len()..];
        count += 1;
    }
    count
}

fn next_cursor(body: &[u8]) -> Option<String> {
    const NAME: &[u8] = br#""next_cursor":""#;
    // It stands behind the items, or before them: only there.
    let tail = &body[body.len().saturating_sub(2_000)..];
    let place = |part| find(part, NAME).map(|at| &part[at + NAME.len()..]);
    let rest = place(tail).or_else(|| place(body))?;
    let end = rest.iter().position(|byte| *byte == b'"')?;
    Some(String::from_utf8_lossy(&rest[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_tells_how_many_and_where_to_go_on() {
        let body = br#"{"items":[{"id":"a"},{"id":"b"}],"next_cursor":"x_1"}"#;
        assert_eq!((items(body), next_cursor(body)), (2, Some("x_1".to_owned())));
        assert_eq!(next_cursor(br#"{"items":[]}"#), None);
        assert_eq!(page("/l?state=delayed", 5, Some("x")), "/l?state=delayed&limit=5&cursor=x");
    }
}
