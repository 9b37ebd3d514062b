//! The client commands: each sends one request to a server's HTTP API and prints the answer, as a table or, with
//! `--json`, as it came (a list as one line per item). They know only the API, so they work on any dueq, local or remote.

mod api;
mod callback;
mod consume;
mod durations;
mod failure;
mod healthcheck;
mod messages;
mod object;
mod operate;
mod payload;
mod publish;
mod schedule_put;
mod schedules;
mod show;
mod table;
mod tail;
#[cfg(test)]
mod testing;
mod tls;
mod topic;
mod update;
mod view;

use api::{Answer, Client, Server};
use clap::{Args, Subcommand};
use failure::Failure;
use form_urlencoded::Serializer;
use object::Object;
use serde_json::value::RawValue;
use std::{
    io::{self, Write},
    process::ExitCode,
};
pub(super) use tls::{TlsArgs, unreachable};

/// Items of a page, at most.
const PAGE: usize = 1_000;

/// A client command.
#[derive(Subcommand)]
pub enum Command {
    /// Publish a message.
    Publish(Box<WithServer<publish::Publish>>),
    /// Call a URL later, and retry until it answers 2xx.
    Callback(Box<WithServer<callback::Callback>>),
    /// Lease messages that are due, and show them with their tokens.
    Lease(WithServer<consume::Lease>),
    /// Acknowledge a leased message.
    Ack(WithServer<consume::Ack>),
    /// Give a leased message back as failed.
    Nack(WithServer<consume::Nack>),
    /// Show a message.
    Get(WithServer<show::Get>),
    /// Change a message in place: due time, payload, priority, headers, limits.
    ///
    /// What is not named stays. --header replaces all headers. A leased message cannot be changed, and a dead one has no
    /// due time.
    Update(Box<WithServer<update::Update>>),
    /// Delete a message.
    Delete(WithServer<show::Delete>),
    /// List a topic's messages by state, without their payloads.
    Messages(WithServer<messages::Messages>),
    /// List the topics with their counts.
    Topics(WithServer<show::Topics>),
    /// Show a topic (counts, totals, configuration), or change its settings.
    Topic(topic::Topic),
    /// Redrive dead messages: make them ready again.
    Redrive(WithServer<operate::Redrive>),
    /// Remove a topic's messages in the given states.
    Purge(WithServer<operate::Purge>),
    /// Pause a topic: leasing stops, publishing and acknowledging continue.
    Pause(WithServer<operate::Pause>),
    /// Resume a paused topic.
    Resume(WithServer<operate::Resume>),
    /// List, create and control schedules.
    Schedules(Box<schedules::Schedules>),
    /// Watch a topic without taking anything from it, until Ctrl-C.
    Tail(WithServer<tail::Tail>),
    /// Check that a server is ready: exit code 0 if it is, otherwise 1.
    Healthcheck(WithServer<healthcheck::Healthcheck>),
}

/// A command's arguments with those that name the server.
#[derive(Args)]
pub struct WithServer<T: Args> {
    #[command(flatten)]
    args: T,
    #[command(flatten)]
    server: Server,
}

/// The arguments of a command, which know how to run it.
trait Run {
    /// Sends the requests and prints the answers.
    async fn run(&self, client: &Client, out: &mut Out<'_>) -> Result<(), Failure>;
}

/// Where answers are printed, and in which form.
struct Out<'a> {
    writer: &'a mut dyn Write,
    json: bool,
}

impl Out<'_> {
    /// Prints an answer: as it came, or as `view` formats it.
    fn show(
        &mut self,
        answer: &Answer,
        view: impl FnOnce(&Object) -> String,
    ) -> Result<(), Failure> {
        if self.json { self.as_it_came(answer) } else { self.say(&view(&answer.object()?)) }
    }

    /// Prints a whole list. With `--json` each item is a line; otherwise `view` formats all items together.
    async fn list(
        &mut self,
        client: &Client,
        path: &str,
        filter: Option<(&str, &str)>,
        view: impl FnOnce(&[Object]) -> String,
    ) -> Result<(), Failure> {
        let mut items = Vec::new();
        self.pages(client, path, filter, usize::MAX, &mut items).await?;
        if self.json { Ok(()) } else { self.say(&view(&items)) }
    }

    /// Reads a list page by page, up to `limit` items. Prints each item as a line with `--json`; otherwise adds it to
    /// `items`. Returns how many there were, and whether there are more.
    async fn pages(
        &mut self,
        client: &Client,
        path: &str,
        filter: Option<(&str, &str)>,
        limit: usize,
        items: &mut Vec<Object>,
    ) -> Result<(usize, bool), Failure> {
        let mut count = 0;
        let mut cursor: Option<String> = None;
        while count < limit {
            let mut query = Serializer::new(format!("{path}?limit={}", (limit - count).min(PAGE)));
            query.extend_pairs(filter);
            query.extend_pairs(cursor.iter().map(|cursor| ("cursor", cursor)));
            let page = client.get(&query.finish()).await?.object()?;
            let found: Vec<Box<RawValue>> = page.get("items").unwrap_or_default();
            count += found.len();
            if self.json {
                // Line breaks in JSON are only between tokens.
                let line = |item: &RawValue| item.get().replace(['\r', '\n'], " ") + "\n";
                self.say(&found.iter().map(|item| line(item)).collect::<String>())?;
            } else {
                items.extend(found.iter().filter_map(|item| serde_json::from_str(item.get()).ok()));
            }
            cursor = page.get("next_cursor");
            if cursor.is_none() {
                break;
            }
        }
        Ok((count, cursor.is_some()))
    }

    /// Reports the success of a request whose answer has no body.
    fn done(&mut self, answer: &Answer, text: &str) -> Result<(), Failure> {
        if self.json {
            self.as_it_came(answer)
        } else {
            self.say(&format!("{}\n", table::clean(text)))
        }
    }

    /// Prints the body as it came; what did not end in a newline gets one. Prints nothing if there is no body.
    fn as_it_came(&mut self, answer: &Answer) -> Result<(), Failure> {
        if !answer.body.is_empty() {
            self.writer.write_all(&answer.body)?;
            self.say(if answer.body.ends_with(b"\n") { "" } else { "\n" })?;
        }
        Ok(())
    }

    /// Prints text, which brings its own newline, and flushes.
    fn say(&mut self, text: &str) -> Result<(), Failure> {
        self.writer.write_all(text.as_bytes())?;
        Ok(self.writer.flush()?)
    }
}

/// Runs the command; the exit code says whether it succeeded.
pub async fn run(command: Command) -> ExitCode {
    let Err(failure) = command.execute(&mut io::stdout()).await else { return ExitCode::SUCCESS };
    let message = failure.message();
    if !message.is_empty() {
        warn(&message);
    }
    failure.exit_code()
}

/// Prints a line on stderr. That stderr is closed is no reason to end.
fn warn(text: &str) {
    let _ = writeln!(io::stderr(), "dueq: {text}");
}

impl Command {
    async fn execute(&self, writer: &mut dyn Write) -> Result<(), Failure> {
        match self {
            Self::Publish(command) => command.execute(writer).await,
            Self::Callback(command) => command.execute(writer).await,
            Self::Lease(command) => command.execute(writer).await,
            Self::Ack(command) => command.execute(writer).await,
            Self::Nack(command) => command.execute(writer).await,
            Self::Get(command) => command.execute(writer).await,
            Self::Update(command) => command.execute(writer).await,
            Self::Delete(command) => command.execute(writer).await,
            Self::Messages(command) => command.execute(writer).await,
            Self::Topics(command) => command.execute(writer).await,
            Self::Topic(topic) => topic.execute(writer).await,
            Self::Redrive(command) => command.execute(writer).await,
            Self::Purge(command) => command.execute(writer).await,
            Self::Pause(command) => command.execute(writer).await,
            Self::Resume(command) => command.execute(writer).await,
            Self::Schedules(schedules) => schedules.execute(writer).await,
            Self::Tail(command) => command.execute(writer).await,
            Self::Healthcheck(command) => {
                command.execute(writer).await.map_err(Failure::of_healthcheck)
            }
        }
    }
}

#[allow(private_bounds, reason = "only this module runs commands")]
impl<T: Args + Run> WithServer<T> {
    async fn execute(&self, writer: &mut dyn Write) -> Result<(), Failure> {
        let mut out = Out { writer, json: self.server.json };
        let outcome = self.args.run(&Client::new(&self.server)?, &mut out).await;
        // Scripts that use --json get refusals as JSON, too.
        if let (true, Err(Failure::Refused(answer))) = (out.json, &outcome) {
            out.as_it_came(answer)?;
        }
        outcome
    }
}
