//! The client commands: each sends one request to a server's HTTP API and prints the answer, as a table or, with
//! `--json`, as it came (a list as one line per item). They know only the API, so they work on any dueq, local or remote.

mod api;
mod apply;
mod bulk;
mod by_ids;
mod consume;
mod context;
mod dead;
pub(super) mod durations;
mod failure;
mod healthcheck;
mod hosts;
mod messages;
mod object;
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

use anstyle::AnsiColor;
use api::{Client, Server, path};
use clap::{ArgMatches, Args, FromArgMatches, Subcommand, builder::Resettable};
use context::Context;
use failure::Failure;
use std::{
    io::{self, Write},
    process::ExitCode,
};
pub(super) use tls::{TlsArgs, unreachable};

/// A client command.
#[derive(Subcommand)]
enum Command {
    /// Publish a message.
    Publish(Box<publish::Publish>),
    /// Call a URL later, and retry until it answers 2xx.
    Callback(Box<publish::Callback>),
    /// Lease messages that are due, and show them with their tokens.
    Lease(consume::Lease),
    /// Acknowledge a leased message.
    Ack(consume::Held),
    /// Give a leased message back as failed.
    Nack(consume::Nack),
    /// Show a message.
    Get(show::MessageRef),
    /// Change a message in place: due time, payload, priority, headers, limits.
    ///
    /// What is not named stays. --header replaces all headers. A leased message cannot be changed, and a dead one has no
    /// due time.
    Update(Box<update::Update>),
    /// Delete a message.
    Delete(show::Delete),
    /// List a topic's messages by state, without their payloads.
    Messages(messages::Messages),
    /// List the topics with their counts.
    Topics(Prefix),
    /// Show a topic (counts, totals, configuration), or change its settings.
    Topic(topic::Topic),
    /// Find messages by what they are and why they failed.
    Search(search::Search),
    /// Show why a topic's dead messages died, the most frequent reason first.
    Dead(Named),
    /// Redrive dead messages: make them ready again.
    Redrive(bulk::Redrive),
    /// Make delayed messages due.
    Run(bulk::Run),
    /// Remove a topic's messages in the given states.
    Purge(bulk::Purge),
    /// Pause a topic: leasing stops, publishing and acknowledging continue.
    Pause(Named),
    /// Resume a paused topic.
    Resume(Named),
    /// List, create and control schedules.
    Schedules(schedules::Schedules),
    /// Make topics and schedules as a file says: what differs is shown and put.
    Apply(apply::Apply),
    /// Show the hosts that callbacks go to, or pause and resume one.
    Hosts(hosts::Hosts),
    /// Watch all topics in the terminal: what is in them, rates, lateness.
    Top(top::Top),
    /// Watch a topic without taking anything from it, until Ctrl-C.
    Tail(tail::Tail),
    /// Check that a server is ready: exit code 0 if it is, otherwise 1.
    Healthcheck,
}

/// Arguments of the commands on a topic that have no others.
#[derive(Args)]
struct Named {
    /// The topic's name.
    topic: String,
}

/// Arguments of `dueq topics`.
#[derive(Args)]
struct Prefix {
    /// List only topics whose names start with this.
    #[arg(long, value_name = "TEXT")]
    prefix: Option<String>,
}

impl Command {
    /// Sends the requests and prints the answers.
    async fn run(self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let client = cx.client;
        match self {
            Self::Publish(publish) => publish.run(cx).await,
            Self::Callback(callback) => callback.run(cx).await,
            Self::Lease(lease) => lease.run(cx).await,
            Self::Ack(held) => {
                let answer = client.post(&held.path("ack"), &held).await?;
                cx.done(&answer, &format!("acknowledged {}", held.id))
            }
            Self::Nack(nack) => {
                cx.show(&client.post(&nack.held.path("nack"), &nack).await?, view::message)
            }
            Self::Get(message) => cx.show(&client.get(&message.path()).await?, view::message),
            Self::Update(update) => update.run(cx).await,
            Self::Delete(delete) => delete.run(cx).await,
            Self::Messages(messages) => messages.run(cx).await,
            Self::Topics(Prefix { prefix }) => {
                let prefix: Vec<_> = prefix.iter().map(|prefix| ("prefix", &**prefix)).collect();
                cx.list("/topics", &prefix, view::topics).await
            }
            Self::Topic(topic) => topic.run(cx).await,
            Self::Search(search) => search.run(cx).await,
            Self::Dead(Named { topic }) => {
                let reasons = client.get(&path(&["topics", &topic, "dead", "reasons"])).await?;
                cx.show(&reasons, |reasons| dead::view(&topic, reasons))
            }
            Self::Redrive(redrive) => redrive.run(cx).await,
            Self::Run(run) => run.run(cx).await,
            Self::Purge(purge) => purge.run(cx).await,
            Self::Pause(Named { topic }) => {
                let answer = client.act(&path(&["topics", &topic, "pause"])).await?;
                cx.show(&answer, |after| view::paused(&topic, after))
            }
            Self::Resume(Named { topic }) => {
                let answer = client.act(&path(&["topics", &topic, "resume"])).await?;
                cx.show(&answer, |after| view::paused(&topic, after))
            }
            Self::Schedules(schedules) => schedules.run(cx).await,
            Self::Apply(apply) => apply.run(cx).await,
            Self::Hosts(hosts) => hosts.run(cx).await,
            Self::Top(top) => top.run(cx).await,
            Self::Tail(tail) => tail.run(cx).await,
            Self::Healthcheck => healthcheck::run(cx).await,
        }
    }
}

/// A client command with the arguments that all of them have: those that name the server.
pub struct ToServer {
    command: Command,
    server: Server,
}

impl FromArgMatches for ToServer {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let command = Command::from_arg_matches(matches)?;
        let arguments = matches.subcommand().map_or(matches, |(_, arguments)| arguments);
        Ok(Self { command, server: Server::from_arg_matches(arguments)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for ToServer {
    fn augment_subcommands(dueq: clap::Command) -> clap::Command {
        let commands = Command::augment_subcommands(clap::Command::new("dueq"));
        let names = commands.get_subcommands().map(|command| command.get_name().to_owned());
        let dueq = Command::augment_subcommands(dueq);
        names.fold(dueq, |dueq, name| dueq.mut_subcommand(name, with_server))
    }

    fn augment_subcommands_for_update(dueq: clap::Command) -> clap::Command {
        Self::augment_subcommands(dueq)
    }

    fn has_subcommand(name: &str) -> bool {
        Command::has_subcommand(name)
    }
}

/// Adds the arguments that name the server to a command and its subcommands. The help stays that of the command.
fn with_server(command: clap::Command) -> clap::Command {
    let about = Resettable::from(command.get_about().cloned());
    let long_about = Resettable::from(command.get_long_about().cloned());
    let command = Server::augment_args(command).about(about).long_about(long_about);
    command.mut_subcommands(with_server)
}

impl ToServer {
    async fn execute(self, writer: &mut dyn Write) -> Result<(), Failure> {
        let is_healthcheck = matches!(self.command, Command::Healthcheck);
        let done = asking(&self.server, writer, async |cx| self.command.run(cx).await).await;
        if is_healthcheck { done.map_err(Failure::of_healthcheck) } else { done }
    }
}

/// Runs the command; the exit code says whether it succeeded.
pub async fn run(command: ToServer) -> ExitCode {
    exit_code(command.execute(&mut io::stdout()).await)
}

/// Arguments of `dueq keys secret`.
#[derive(Args)]
pub struct KeySecret {
    /// The pushed topic. By default _callbacks, whose secrets are those of this API key.
    #[arg(default_value = "_callbacks")]
    topic: String,
    #[command(flatten)]
    server: Server,
}

/// Runs `dueq keys secret`: prints what receivers check signatures with.
pub async fn key_secret(KeySecret { topic, server }: KeySecret) -> ExitCode {
    let secrets = async |cx: &mut Context<'_>| {
        let answer = cx.client.get(&path(&["topics", &topic, "push", "secret"])).await?;
        let object = answer.object()?;
        let secrets: Vec<String> = object.get("secrets").unwrap_or_default();
        if secrets.is_empty() {
            warn("the server has no --signing-secret");
        } else if object.get("in_use") == Some(false) {
            warn("the topic has push.secrets, which sign in place of these");
        }
        cx.show(&answer, |_| secrets.iter().map(|secret| format!("{secret}\n")).collect())
    };
    exit_code(asking(&server, &mut io::stdout(), secrets).await)
}

/// Does the work with a client of the server.
async fn asking(
    server: &Server,
    writer: &mut dyn Write,
    work: impl AsyncFnOnce(&mut Context<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let client = Client::new(server)?;
    let mut cx = Context::new(&client, writer, server.json);
    let outcome = work(&mut cx).await;
    // Scripts that use --json get refusals as JSON, too.
    if let (true, Err(Failure::Refused(answer))) = (server.json, &outcome) {
        cx.as_it_came(answer)?;
    }
    outcome
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

#[cfg(test)]
mod tests {
    use super::testing::{asked, ok};

    #[tokio::test]
    async fn pause_and_resume_show_the_new_state() {
        let sent = asked(&["pause", "a"], &ok(r#"{"paused":true}"#)).await;
        assert_eq!((sent.lines(), &*sent.shown), (("POST /topics/a/pause", "{}"), "a is paused\n"));
        let sent = asked(&["resume", "a"], &ok(r#"{"paused":false}"#)).await;
        assert_eq!(
            (sent.lines(), &*sent.shown),
            (("POST /topics/a/resume", "{}"), "a is not paused\n")
        );
    }
}
