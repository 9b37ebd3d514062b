//! `dueq schedules`: lists schedules, and has subcommands that work on one.

use super::{
    api::path,
    context::Context,
    durations::{exact, when},
    failure::Failure,
    object::Object,
    schedule_put::Put,
    table::{clean, fields, list},
    view::rows,
};
use clap::{Args, Subcommand};

/// Arguments of `dueq schedules`.
#[derive(Args)]
pub struct Schedules {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// List the schedules.
    List,
    /// Show a schedule.
    Get(Named),
    /// Create or replace a schedule.
    Put(Box<Put>),
    /// Delete a schedule; its published messages stay.
    Delete(Named),
    /// Pause a schedule.
    Pause(Named),
    /// Resume a paused schedule.
    Resume(Named),
    /// Publish a schedule's message now.
    Trigger(Named),
}

#[derive(Args)]
struct Named {
    /// The schedule's name.
    name: String,
}

impl Schedules {
    pub async fn run(self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let client = cx.client;
        let (Named { name }, verb) = match self.action {
            None | Some(Action::List) => return cx.list("/schedules", &[], table).await,
            Some(Action::Get(Named { name })) => {
                return cx.show(&client.get(&path(&["schedules", &name])).await?, schedule);
            }
            Some(Action::Put(put)) => return put.run(cx).await,
            Some(Action::Delete(Named { name })) => {
                let answer = client.delete(&path(&["schedules", &name])).await?;
                return cx.done(&answer, &format!("deleted {name}"));
            }
            Some(Action::Pause(schedule)) => (schedule, "pause"),
            Some(Action::Resume(schedule)) => (schedule, "resume"),
            Some(Action::Trigger(schedule)) => (schedule, "trigger"),
        };
        let outcome = |after: &Object| match verb {
            "pause" => "is paused".to_owned(),
            "resume" => format!("ticks next {}", when(&after.text("next_at"))),
            _ => format!("published {}", after.text("last_message_id")),
        };
        let answer = client.act(&path(&["schedules", &name, verb])).await?;
        cx.show(&answer, |after| clean(&format!("{name} {}", outcome(after))) + "\n")
    }
}

fn table(schedules: &[Object]) -> String {
    let row = |schedule: &Object| {
        let ticks = match schedule.get("every_ms") {
            Some(every) => format!("every {}", exact(every)),
            None => format!("{} ({})", schedule.text("cron"), schedule.text("timezone")),
        };
        let to = schedule.get("topic").unwrap_or_else(|| schedule.object("callback").text("url"));
        let next = match schedule.get::<String>("next_at") {
            Some(next) => when(&next),
            None if schedule.get("paused") == Some(true) => "paused".to_owned(),
            None => "never".to_owned(),
        };
        vec![schedule.text("name"), ticks, to, next, schedule.text("last_error")]
    };
    list("schedules", &["schedule", "ticks", "to", "next", ""], &[], schedules, row)
}

/// Formats a schedule and the message that it publishes.
pub(super) fn schedule(object: &Object) -> String {
    let about = fields(rows(object, &["message"]));
    format!("{about}\n{}", fields(rows(&object.object("message"), &[])))
}

#[cfg(test)]
mod tests {
    use super::super::testing::{NO_CONTENT, asked, asked_in_turn, ok};

    #[tokio::test]
    async fn schedules_are_listed_to_the_last_page() {
        for words in [&["schedules"][..], &["schedules", "list"]] {
            let pages = [
                ok(
                    r#"{"items":[{"name":"a","every_ms":90000,"topic":"t","paused":true}],"next_cursor":"x=y"}"#,
                ),
                ok(
                    r#"{"items":[{"name":"b","cron":"0 9 * * *","timezone":"UTC","callback":{"url":"http://c/"}}]}"#,
                ),
            ];
            let sent = asked_in_turn(words, &pages).await;
            let asked_for: Vec<&str> = sent.iter().map(|sent| &*sent.head).collect();
            let second = "GET /schedules?limit=1000&cursor=x%3Dy";
            assert_eq!(asked_for, ["GET /schedules?limit=1000", second]);
            let shown: Vec<Vec<&str>> = sent[1]
                .shown
                .lines()
                .map(|line| {
                    line.split("  ").map(str::trim).filter(|part| !part.is_empty()).collect()
                })
                .collect();
            assert_eq!(shown[1], ["a", "every 1m 30s", "t", "paused"]);
            assert_eq!(shown[2], ["b", "0 9 * * * (UTC)", "http://c/", "never"]);
        }
        assert_eq!(asked(&["schedules"], &ok(r#"{"items":[]}"#)).await.shown, "no schedules\n");
    }

    #[tokio::test]
    async fn a_schedule_is_shown_with_its_message_and_deleted() {
        let answer =
            ok(r#"{"name":"a","every_ms":1000,"message":{"payload":{"b":1},"priority":0}}"#);
        let sent = asked(&["schedules", "get", "a"], &answer).await;
        assert_eq!(sent.lines(), ("GET /schedules/a", ""));
        assert_eq!(sent.shown, "name   a\nevery  1s\n\npayload   {\"b\":1}\npriority  0\n");
        let sent = asked(&["schedules", "delete", "a"], NO_CONTENT).await;
        assert_eq!((sent.lines(), &*sent.shown), (("DELETE /schedules/a", ""), "deleted a\n"));
    }

    #[tokio::test]
    async fn options_may_stand_before_the_subcommand() {
        let sent = asked(&["schedules", "--json", "get", "a"], ok("{ }")).await;
        assert_eq!((sent.lines(), &*sent.shown), (("GET /schedules/a", ""), "{ }\n"));
    }

    #[tokio::test]
    async fn pause_resume_and_trigger_show_their_outcome() {
        let answer = ok(r#"{"paused":true,"next_at":"soon","last_message_id":"1-2"}"#);
        for (verb, outcome) in
            [("pause", "is paused"), ("resume", "ticks next soon"), ("trigger", "published 1-2")]
        {
            let sent = asked(&["schedules", verb, "a"], &answer).await;
            assert_eq!(sent.lines(), (&*format!("POST /schedules/a/{verb}"), "{}"));
            assert_eq!(sent.shown, format!("a {outcome}\n"));
        }
    }
}
