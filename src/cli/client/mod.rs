//! The client commands: each sends one request to a server's HTTP API and prints the answer, as a table or, with
//! `--json`, as it came (a list as one line per item). They know only the API, so they work on any dueq, local or remote.
//! [`commands`] lists them.

mod api;
mod apply;
mod bulk;
mod commands;
mod context;
pub(super) mod durations;
mod failure;
mod mcp;
mod messages;
mod object;
pub(super) mod request;
pub(super) mod table;
mod tail;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod top;
mod view;

use anstyle::AnsiColor;
use api::{Answer, Client, Server, path};
use apply::Apply;
use clap::{ArgMatches, Args, FromArgMatches, Subcommand};
use commands::{COMMANDS, Command, View};
use context::Context;
use durations::when;
use failure::Failure;
pub use mcp::{McpArgs, mcp};
use request::Given;
use std::{
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};
use table::clean;
use tokio::time::timeout;

/// Time-out of a health check.
const HEALTHCHECK: Duration = Duration::from_secs(5);

/// A client command with its arguments, among them those that name the server.
pub struct ToServer {
    command: &'static Command,
    matches: ArgMatches,
    server: Server,
}

impl FromArgMatches for ToServer {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let (mut name, mut inner) = (String::new(), matches);
        while let Some((word, matches)) = inner.subcommand() {
            // A name before a subcommand is one word too many.
            if inner.ids().any(|id| id == "name") {
                let see = format!("too many words: see dueq {name} --help\n");
                return Err(clap::Error::raw(clap::error::ErrorKind::UnknownArgument, see));
            }
            name = format!("{name} {word}").trim_start().to_owned();
            inner = matches;
        }
        let missing = || clap::Error::new(clap::error::ErrorKind::InvalidSubcommand);
        let command = COMMANDS.iter().find(|known| known.name == name).ok_or_else(missing)?;
        Ok(Self { command, matches: inner.clone(), server: Server::from_arg_matches(inner)? })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for ToServer {
    fn augment_subcommands(dueq: clap::Command) -> clap::Command {
        let first = COMMANDS.iter().filter(|command| !command.name.contains(' '));
        first.fold(dueq, |dueq, command| {
            let mut outer = parsed(command);
            for inner in COMMANDS {
                if let Some(name) = inner.name.strip_prefix(&format!("{} ", command.name)) {
                    outer = outer.subcommand(parsed(inner).name(name));
                    outer = outer.subcommand_negates_reqs(true).disable_help_subcommand(true);
                }
            }
            dueq.subcommand(outer)
        })
    }

    fn augment_subcommands_for_update(dueq: clap::Command) -> clap::Command {
        Self::augment_subcommands(dueq)
    }

    fn has_subcommand(name: &str) -> bool {
        COMMANDS.iter().any(|command| command.name == name)
    }
}

/// The command as its arguments are parsed.
fn parsed(command: &Command) -> clap::Command {
    let args = command.args.iter().copied().flatten().map(|arg| arg.to_clap());
    let parsed = Server::augment_args(clap::Command::new(command.name).args(args));
    let parsed = parsed.about(command.about.split("\n\n").next().unwrap_or_default());
    let parsed = parsed.after_help(command.examples);
    if command.about.contains("\n\n") { parsed.long_about(command.about) } else { parsed }
}

impl ToServer {
    async fn execute(self, writer: &mut dyn Write) -> Result<(), Failure> {
        let Self { command, matches, server } = self;
        let given = Given { command, matches: &matches };
        let done = asking(&server, writer, async |cx| run_command(cx, &given).await).await;
        if command.name == "healthcheck" { done.map_err(Failure::of_healthcheck) } else { done }
    }
}

/// Sends the requests and prints the answers.
async fn run_command(cx: &mut Context<'_>, given: &Given<'_>) -> Result<(), Failure> {
    let topic = || given.text("topic").unwrap_or_default();
    match given.command.name {
        "messages" | "search" => messages::run(cx, given).await,
        "redrive" | "run" | "purge" => bulk::run(cx, given).await,
        "delete" if bulk::by_ids(given, "ids") => bulk::change(cx, given, "ids").await,
        "dead" => {
            let reasons = cx.client.get(&given.path()).await?;
            cx.show(&reasons, |reasons| view::dead(&topic(), reasons))
        }
        "top" if cx.json => {
            let prefix = given.text("prefix").unwrap_or_default();
            cx.list(&format!("/topics?prefix={}", api::segment(&prefix)), |_| String::new()).await
        }
        "top" => top::run(cx, given.text("prefix").as_deref(), given.flag("once")).await,
        "tail" => tail::run(cx, &topic()).await,
        "apply" => {
            let file = PathBuf::from(given.text("file").unwrap_or_default());
            let (prune, dry_run) = (given.flag("prune"), given.flag("dry-run"));
            Apply { file, prune, dry_run }.run(cx).await
        }
        "healthcheck" => {
            let server = &cx.client.server;
            let late = |_| Failure::Unreachable(format!("{server}: no answer within 5 s"));
            let ready = timeout(HEALTHCHECK, cx.client.get("/readyz")).await.map_err(late)??;
            if cx.json { cx.as_it_came(&ready) } else { cx.say("ready\n") }
        }
        _ => match given.command.view {
            View::List(view) => cx.list(&given.path(), view).await,
            view => {
                let answer = request(cx, given).await?;
                match view {
                    View::Line(line) if !cx.json => cx.say(&filled(line, given, &answer)),
                    View::Object(view) => cx.show(&answer, view),
                    _ => cx.as_it_came(&answer),
                }
            }
        },
    }
}

/// Sends the request that the command and its arguments are.
async fn request(cx: &Context<'_>, given: &Given<'_>) -> Result<Answer, Failure> {
    let body = if given.has_body() { Some(given.body()?) } else { None };
    let wait_ms = given.number("wait").unwrap_or(0);
    cx.client.send(given.command.method, &given.path(), body, None, wait_ms).await
}

/// A line in which names in braces are arguments, or else fields of the answer.
fn filled(line: &str, given: &Given<'_>, answer: &Answer) -> String {
    let object = answer.object().unwrap_or_default();
    let mut parts = line.split('{');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (name, rest) = part.split_once('}').unwrap_or_default();
        let field =
            || if name.ends_with("_at") { when(&object.text(name)) } else { object.text(name) };
        text.push_str(&given.text(name).unwrap_or_else(field));
        text.push_str(rest);
    }
    clean(&text) + "\n"
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
        say(AnsiColor::Red, &message);
    }
    failure.exit_code()
}

/// Prints a line on stderr.
fn warn(text: &str) {
    say(AnsiColor::Yellow, text);
}

/// Prints a line on stderr. That stderr is closed is no reason to end.
fn say(colour: AnsiColor, text: &str) {
    let style = colour.on_default().bold();
    let _ = writeln!(anstream::stderr(), "{style}dueq:{style:#} {text}");
}
