//! The client commands: each sends one request to a server's HTTP API and prints the answer, as a table or, with
//! `--json`, as it came (a list as one line per item). They know only the API, so they work on any dueq, local or remote.

mod api;
mod apply;
mod bulk;
mod by_ids;
mod callback;
mod consume;
mod dead;
pub(super) mod durations;
mod failure;
mod healthcheck;
mod hosts;
mod key_secret;
mod messages;
mod object;
mod operate;
pub(super) mod payload;
mod publish;
mod schedule_put;
mod schedules;
mod search;
mod show;
pub(super) mod table;
mod tail;
#[cfg(test)]
mod testing;
mod tls;
mod top;
mod topic;
mod update;
mod view;

use super::progress::Progress;
use anstream::{AutoStream, ColorChoice, adapter::strip_str};
use anstyle::AnsiColor;
use api::{Answer, Client, Server};
use clap::{Args, Subcommand};
use failure::Failure;
use form_urlencoded::Serializer;
pub(super) use key_secret::KeySecret;
use object::Object;
use serde_json::value::RawValue;
use std::{
    io::{self, IsTerminal as _, Write},
    process::ExitCode,
};
use table::clean_json;
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
    /// Find messages by what they are and why they failed.
    Search(WithServer<search::Search>),
    /// Show why a topic's dead messages died, the most frequent reason first.
    Dead(WithServer<dead::Dead>),
    /// Redrive dead messages: make them ready again.
    Redrive(WithServer<bulk::Redrive>),
    /// Make delayed messages due.
    Run(WithServer<bulk::Run>),
    /// Remove a topic's messages in the given states.
    Purge(WithServer<bulk::Purge>),
    /// Pause a topic: leasing stops, publishing and acknowledging continue.
    Pause(WithServer<operate::Pause>),
    /// Resume a paused topic.
    Resume(WithServer<operate::Resume>),
    /// List, create and control schedules.
    Schedules(Box<schedules::Schedules>),
    /// Make topics and schedules as a file says: what differs is shown and put.
    Apply(WithServer<apply::Apply>),
    /// Show the hosts that callbacks go to, or pause and resume one.
    Hosts(hosts::Hosts),
    /// Watch all topics in the terminal: what is in them, rates, lateness.
    Top(WithServer<top::Top>),
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
    /// Answers that are printed as they came do not command the terminal either.
    is_terminal: bool,
}

impl<'a> Out<'a> {
    fn new(writer: &'a mut dyn Write, json: bool) -> Self {
        Self { writer, json, is_terminal: io::stdout().is_terminal() }
    }

    /// Shows the progress of a command that takes long, unless it prints for scripts.
    fn progress(&self, what: &str) -> Progress {
        if self.json { Progress::hidden() } else { Progress::new(what) }
    }

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
        filter: &[(&str, &str)],
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
        filter: &[(&str, &str)],
        limit: usize,
        items: &mut Vec<Object>,
    ) -> Result<(usize, bool), Failure> {
        let (mut count, mut cursor) = (0, None);
        while count < limit {
            let page = self.page(client, path, filter, limit - count, cursor, items).await?;
            count += page.count;
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        Ok((count, cursor.is_some()))
    }

    /// Reads a page of a list, up to `limit` items.
    async fn page(
        &mut self,
        client: &Client,
        path: &str,
        filter: &[(&str, &str)],
        limit: usize,
        cursor: Option<String>,
        items: &mut Vec<Object>,
    ) -> Result<Page, Failure> {
        let mut query = Serializer::new(format!("{path}?limit={}", limit.min(PAGE)));
        query.extend_pairs(filter);
        query.extend_pairs(cursor.map(|cursor| ("cursor", cursor)));
        let page = client.get(&query.finish()).await?.object()?;
        let found: Vec<Box<RawValue>> = page.get("items").unwrap_or_default();
        if self.json {
            // Line breaks in JSON are only between tokens.
            let line = |item: &RawValue| item.get().replace(['\r', '\n'], " ") + "\n";
            self.print(found.iter().map(|item| line(item)).collect::<String>().as_bytes())?;
        } else {
            items.extend(found.iter().filter_map(|item| serde_json::from_str(item.get()).ok()));
        }
        let (next, scanned) = (page.get("next_cursor"), page.get("scanned").unwrap_or_default());
        Ok(Page { count: found.len(), next, scanned })
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
        if answer.body.is_empty() {
            return Ok(());
        }
        self.print(&answer.body)?;
        self.print(if answer.body.ends_with(b"\n") { b"" } else { b"\n" })
    }

    /// Prints JSON.
    fn print(&mut self, json: &[u8]) -> Result<(), Failure> {
        match self.is_terminal {
            true => self.writer.write_all(clean_json(&String::from_utf8_lossy(json)).as_bytes())?,
            false => self.writer.write_all(json)?,
        }
        Ok(self.writer.flush()?)
    }

    /// Prints text, which brings its own newline, and flushes. Its colours are left out if they are not wanted.
    fn say(&mut self, text: &str) -> Result<(), Failure> {
        match AutoStream::choice(&io::stdout()) {
            ColorChoice::Never => write!(self.writer, "{}", strip_str(text))?,
            _ => self.writer.write_all(text.as_bytes())?,
        }
        Ok(self.writer.flush()?)
    }
}

/// What a page of a list had, besides its items.
struct Page {
    count: usize,
    next: Option<String>,
    /// How many messages a search looked at.
    scanned: u64,
}

/// Runs the command; the exit code says whether it succeeded.
pub async fn run(command: Command) -> ExitCode {
    exit_code(command.execute(&mut io::stdout()).await)
}

fn exit_code(outcome: Result<(), Failure>) -> ExitCode {
    let Err(failure) = outcome else { return ExitCode::SUCCESS };
    let message = failure.message();
    if !message.is_empty() {
        tell(AnsiColor::Red, &message);
    }
    failure.exit_code()
}

/// Prints a line on stderr.
fn warn(text: &str) {
    tell(AnsiColor::Yellow, text);
}

/// Prints a line on stderr. That stderr is closed is no reason to end.
fn tell(colour: AnsiColor, text: &str) {
    let style = colour.on_default().bold();
    let _ = writeln!(anstream::stderr(), "{style}dueq:{style:#} {text}");
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
            Self::Search(command) => command.execute(writer).await,
            Self::Dead(command) => command.execute(writer).await,
            Self::Redrive(command) => command.execute(writer).await,
            Self::Run(command) => command.execute(writer).await,
            Self::Purge(command) => command.execute(writer).await,
            Self::Pause(command) => command.execute(writer).await,
            Self::Resume(command) => command.execute(writer).await,
            Self::Schedules(schedules) => schedules.execute(writer).await,
            Self::Apply(command) => command.execute(writer).await,
            Self::Hosts(hosts) => hosts.execute(writer).await,
            Self::Top(command) => command.execute(writer).await,
            Self::Tail(command) => command.execute(writer).await,
            Self::Healthcheck(command) => {
                command.execute(writer).await.map_err(Failure::of_healthcheck)
            }
        }
    }
}

#[allow(private_bounds, reason = "only this module runs commands")]
impl<T: Args + Run> WithServer<T> {
    /// Runs the command as a part of another one.
    pub async fn finish(&self) -> ExitCode {
        exit_code(self.execute(&mut io::stdout()).await)
    }

    async fn execute(&self, writer: &mut dyn Write) -> Result<(), Failure> {
        let mut out = Out::new(writer, self.server.json);
        let outcome = self.args.run(&Client::new(&self.server)?, &mut out).await;
        // Scripts that use --json get refusals as JSON, too.
        if let (true, Err(Failure::Refused(answer))) = (out.json, &outcome) {
            out.as_it_came(answer)?;
        }
        outcome
    }
}
