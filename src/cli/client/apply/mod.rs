//! `dueq apply`: topics and schedules as a file says. It is checked as a whole before anything is sent; then what differs is
//! shown and put, and nothing else.

mod diff;
mod file;

use super::{
    api::{Answer, Client, PAGE, path},
    context::Context,
    durations::now,
    failure::Failure,
    table::clean,
};
use diff::{Kept, changes};
use dueq_http::as_code;
use file::{Item, Kind};
use serde_json::Value;
use std::{collections::BTreeSet, fmt::Write as _, path::PathBuf};

/// What `dueq apply` is to do.
pub struct Apply {
    /// The file; `-` reads standard input.
    pub file: PathBuf,
    /// Delete the topics and schedules that the file does not name. Topics with messages stay.
    pub prune: bool,
    /// Show the changes, and make none.
    pub dry_run: bool,
}

/// What came of all of it.
#[derive(Default)]
struct Done {
    created: u64,
    changed: u64,
    deleted: u64,
    same: u64,
    refused: u64,
}

impl Apply {
    pub async fn run(&self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let items = file::read(&self.file, now())?;
        if self.prune && items.is_empty() {
            // A command that failed before the pipe would delete everything.
            let why =
                format!("--prune, and {} names no topic and no schedule", self.file.display());
            return Err(Failure::Usage(why));
        }
        let mut done = Done::default();
        for item in &items {
            self.put(cx, item, &mut done).await?;
        }
        if self.prune {
            for kind in [Kind::Schedule, Kind::Topic] {
                self.prune(cx, kind, &items, &mut done).await?;
            }
        }
        let Done { created, changed, deleted, same, refused } = done;
        if cx.json {
            let counts = serde_json::json!({
                "created": created, "changed": changed, "deleted": deleted, "unchanged": same,
                "refused": refused, "dry_run": self.dry_run,
            });
            cx.print(format!("{counts}\n").as_bytes())?;
        } else if created + changed + deleted + refused == 0 {
            cx.say(&format!("nothing changes: {same} are as the file says\n"))?;
        } else {
            let mood = if self.dry_run { "would be " } else { "" };
            cx.say(&format!(
                "{mood}created {created}, changed {changed}, deleted {deleted}; unchanged {same}\n"
            ))?;
        }
        match refused {
            0 => Ok(()),
            1 => Err(Failure::Incomplete("one was not deleted".to_owned())),
            many => Err(Failure::Incomplete(format!("{many} were not deleted"))),
        }
    }

    async fn put(&self, cx: &mut Context<'_>, item: &Item, done: &mut Done) -> Result<(), Failure> {
        let place = path(&[&item.kind.list(), &item.name]);
        let present = match cx.client.get(&place).await {
            Ok(answer) => Some(answer),
            Err(failure) if failure.is_not_found(&item.kind.not_found()) => None,
            // A key for some topics does not learn that there is no such schedule.
            Err(failure) if item.kind == Kind::Schedule && failure.is_not_allowed() => None,
            Err(failure) => return Err(failure),
        };
        let (before, revision) = match (&present, item.kind) {
            (None, Kind::Topic) => {
                let fresh = as_code::topic(&item.name, b"{}".to_vec()).unwrap_or_default();
                (fresh, None)
            }
            (None, Kind::Schedule) => (Value::default(), None),
            (Some(answer), Kind::Topic) => {
                let topic = value(answer)?;
                (topic["config"].clone(), topic["revision"].as_i64())
            }
            (Some(answer), Kind::Schedule) => (as_code::without_now(value(answer)?), None),
        };
        let kept = Kept { partitions: item.lacks("partitions"), secrets: item.lacks_secrets() };
        let lines = changes(&before, &item.shown, &kept);
        if present.is_some() && lines.is_empty() {
            done.same += 1;
            return Ok(());
        }
        let sign = if present.is_some() { '~' } else { '+' };
        tell(cx, sign, item.kind, &item.name, &lines)?;
        if !self.dry_run {
            let body = Some(item.body.to_string());
            cx.client.send("PUT", &place, body, revision, 0).await?;
        }
        *(if present.is_some() { &mut done.changed } else { &mut done.created }) += 1;
        Ok(())
    }

    /// Deletes what is there and not in the file. dueq's own topics stay.
    async fn prune(
        &self,
        cx: &mut Context<'_>,
        kind: Kind,
        items: &[Item],
        done: &mut Done,
    ) -> Result<(), Failure> {
        let named = items.iter().filter(|item| item.kind == kind);
        let named: BTreeSet<&str> = named.map(|item| item.name.as_str()).collect();
        for name in names(cx.client, kind).await? {
            if named.contains(name.as_str()) || name.starts_with('_') {
                continue;
            }
            tell(cx, '-', kind, &name, &[])?;
            let place = path(&[&kind.list(), &name]);
            let kept = match self.dry_run {
                true => holds_messages(cx.client, kind, &place)
                    .await?
                    .then(|| "it holds messages".to_owned()),
                false => match cx.client.send("DELETE", &place, None, None, 0).await {
                    Ok(_) => None,
                    // A topic with messages stays, and the others are gone all the same.
                    Err(failure) if matches!(&failure, Failure::Refused(it) if it.status == 409) => {
                        Some(failure.message())
                    }
                    Err(failure) => return Err(failure),
                },
            };
            if let Some(why) = kept {
                cx.say(&format!("    not deleted: {why}\n"))?;
                done.refused += 1;
                continue;
            }
            done.deleted += 1;
        }
        Ok(())
    }
}

/// Is it a topic that is not deleted since it holds messages?
async fn holds_messages(client: &Client, kind: Kind, place: &str) -> Result<bool, Failure> {
    if kind == Kind::Schedule {
        return Ok(false);
    }
    let topic = value(&client.get(place).await?)?;
    let counts = topic["counts"].as_object().into_iter().flat_map(|counts| counts.values());
    Ok(counts.filter_map(Value::as_i64).sum::<i64>() > 0)
}

/// The names of all that are there.
async fn names(client: &Client, kind: Kind) -> Result<Vec<String>, Failure> {
    let (mut names, mut cursor) = (Vec::new(), None);
    loop {
        let page = client.page(&path(&[&kind.list()]), &[], PAGE, cursor).await?;
        names.extend(page.objects().map(|item| item.text("name")));
        cursor = page.next;
        if cursor.is_none() {
            return Ok(names);
        }
    }
}

fn tell(
    cx: &mut Context<'_>,
    sign: char,
    kind: Kind,
    name: &str,
    lines: &[String],
) -> Result<(), Failure> {
    if cx.json {
        let line = serde_json::json!({
            "change": match sign { '+' => "create", '~' => "change", _ => "delete" },
            "kind": kind.word(), "name": name, "fields": lines,
        });
        return cx.print(format!("{line}\n").as_bytes());
    }
    let mut text = format!("{sign} {} {}\n", kind.word(), clean(name));
    for line in lines {
        let _ = writeln!(text, "    {}", clean(line));
    }
    cx.say(&text)
}

fn value(answer: &Answer) -> Result<Value, Failure> {
    serde_json::from_slice(&answer.body)
        .map_err(|_| Failure::Unreachable("the answer is not JSON; is this dueq?".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{answer, ok, tried};

    #[tokio::test]
    async fn a_change_in_between_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("dueq.yaml");
        std::fs::write(&file, "topics:\n  orders:\n    lease_ms: 5000\n").unwrap();
        let present = ok(r#"{"name":"orders","revision":7,"config":{"lease_ms":1000}}"#);
        let problem = r#"{"detail":"the topic has another revision","code":"revision_mismatch"}"#;
        let answers = [present, answer("412 Precondition Failed", problem)];
        let words = ["apply", "-f", file.to_str().unwrap()];
        let (outcome, sent) = tried(&words, &answers).await;
        assert!(outcome.unwrap_err().message().contains("412 revision_mismatch"));
        assert_eq!(sent[1].lines(), ("PUT /topics/orders", r#"{"lease_ms":5000}"#));
        assert!(sent[1].headers.contains(&"if-match: \"7\"".to_owned()), "{:?}", sent[1].headers);
    }
}
