//! Messages by their ids, from the arguments or from standard input, where a search put them.

use super::{api::path, context::Context, failure::Failure, table::columns};
use clap::Args;
use std::io::{self, Read as _};

/// The most ids of a request.
const BATCH: usize = 1_000;

/// Ids in place of a topic.
#[derive(Args)]
pub struct Ids {
    /// Only these messages, instead of a topic; `-` reads ids from standard input, one per line.
    #[arg(long, num_args = 1.., value_name = "ID",
        conflicts_with_all = ["topic", "max", "spread", "query", "dry_run"])]
    pub id: Vec<String>,
}

impl Ids {
    /// The ids.
    pub fn read(&self) -> Result<Vec<String>, Failure> {
        read(&self.id)
    }
}

/// The ids; `-` stands for those on standard input.
pub fn read(words: &[String]) -> Result<Vec<String>, Failure> {
    let mut ids = Vec::new();
    for word in words {
        if word != "-" {
            ids.push(word.clone());
            continue;
        }
        let mut text = String::new();
        let read = io::stdin().read_to_string(&mut text);
        read.map_err(|error| Failure::Usage(format!("cannot read standard input: {error}")))?;
        ids.extend(text.split_whitespace().map(str::to_owned));
    }
    Ok(ids)
}

/// Changes the messages, batch by batch. Fails if it could not change all of them, and says which.
pub async fn change(
    cx: &mut Context<'_>,
    verb: &str,
    done: &str,
    ids: &[String],
) -> Result<(), Failure> {
    let path = path(&["messages", verb]);
    let mut progress = cx.progress(done);
    let (mut changed, mut others) = (0, Vec::new());
    for (number, batch) in ids.chunks(BATCH).enumerate() {
        if progress.appears() {
            progress.set_total(ids.len() as u64);
        }
        progress.set((number * BATCH) as u64);
        let answer = cx.client.post(&path, &serde_json::json!({"ids": batch})).await?;
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

#[cfg(test)]
mod tests {
    use super::super::testing::{asked, ok, tried};

    #[tokio::test]
    async fn several_ids_are_one_request() {
        let answer = ok(r#"{"results":[{"id":"1","status":"ok"},{"id":"2","status":"ok"}]}"#);
        let sent = asked(&["redrive", "--id", "1", "2"], &answer).await;
        assert_eq!(sent.lines(), ("POST /messages/redrive", r#"{"ids":["1","2"]}"#));
        assert_eq!(sent.shown, "redriven 2\n");
        let sent = asked(&["run", "--id", "1", "2"], &answer).await;
        assert_eq!(sent.lines(), ("POST /messages/run", r#"{"ids":["1","2"]}"#));
        let sent = asked(&["delete", "1", "2"], &answer).await;
        assert_eq!(sent.lines(), ("POST /messages/delete", r#"{"ids":["1","2"]}"#));
        assert_eq!(sent.shown, "deleted 2\n");
    }

    #[tokio::test]
    async fn those_that_were_not_changed_are_listed() {
        let answer =
            ok(r#"{"results":[{"id":"1","status":"ok"},{"id":"2","status":"message_not_found"}]}"#);
        let (outcome, sent) = tried(&["run", "--id", "1", "2"], &[answer]).await;
        assert_eq!(outcome.unwrap_err().message(), "not made due 1 of 2");
        assert_eq!(sent[0].shown, "made due 1\nID  STATUS\n2   message_not_found\n");
    }
}
