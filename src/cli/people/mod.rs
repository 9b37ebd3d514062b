//! The commands for people, over the HTTP API: each sends what its arguments say and shows the answer, as a table or,
//! with `--json`, as it came. They know the contract only, so that they work on any dueq, near or far.

mod callback;
mod client;
mod durations;
mod failure;
mod hold;
mod look;
mod object;
mod operate;
mod payload;
mod publish;
mod schedule_put;
mod schedules;
mod table;
mod tail;
#[cfg(test)]
mod testing;
mod view;

use clap::{Args, Subcommand};
use client::{Answer, Client, Server};
use failure::Failure;
use object::Object;
use std::{
    io::{self, Write},
    process::ExitCode,
};

/// What people do with a queue.
#[derive(Subcommand)]
pub enum Command {
    /// Publish a message.
    Publish(Box<Asked<publish::Publish>>),
    /// Have a URL called later, and again until it answers.
    Callback(Box<Asked<callback::Callback>>),
    /// Lease messages that are due, and show them with their tokens.
    Lease(Asked<hold::Lease>),
    /// Acknowledge a leased message: it is done and gone.
    Ack(Asked<hold::Ack>),
    /// Give a leased message back: it failed.
    Nack(Asked<hold::Nack>),
    /// Show a message.
    Get(Asked<look::Get>),
    /// Delete a message.
    Delete(Asked<look::Delete>),
    /// List the topics with what is in them.
    Topics(Asked<look::Topics>),
    /// Show a topic: what is in it, what happened, its configuration.
    Topic(Asked<look::Topic>),
    /// Make dead messages ready again.
    Redrive(Asked<operate::Redrive>),
    /// Remove all messages of a topic that are in the given states.
    Purge(Asked<operate::Purge>),
    /// Stop granting messages of a topic; publishing and acknowledging go on.
    Pause(Asked<operate::Pause>),
    /// Grant messages of a paused topic again.
    Resume(Asked<operate::Resume>),
    /// Look at schedules, make them, stop them.
    Schedules(Box<schedules::Schedules>),
    /// Watch a topic without taking anything from it, until Ctrl-C.
    Tail(Asked<tail::Tail>),
}

/// A command with the server that it is for.
#[derive(Args)]
pub struct Asked<T: Args> {
    #[command(flatten)]
    what: T,
    #[command(flatten)]
    server: Server,
}

/// A command that can be carried out.
trait Ask {
    /// Asks the server, and shows what it answered.
    async fn ask(&self, client: &Client, out: &mut Out<'_>) -> Result<(), Failure>;
}

/// Where answers go, and in which form.
struct Out<'a> {
    writer: &'a mut dyn Write,
    json: bool,
}

impl Out<'_> {
    /// Shows an answer's object: as it came, or as `view` words it.
    fn show(
        &mut self,
        answer: &Answer,
        view: impl FnOnce(&Object) -> String,
    ) -> Result<(), Failure> {
        if self.json { self.as_it_came(answer) } else { self.say(&view(&answer.object()?)) }
    }

    /// Tells that something was done whose answer has no body.
    fn done(&mut self, answer: &Answer, text: &str) -> Result<(), Failure> {
        if self.json {
            self.as_it_came(answer)
        } else {
            self.say(&format!("{}\n", table::clean(text)))
        }
    }

    /// The body as it came, with a line's end; nothing where there is none.
    fn as_it_came(&mut self, answer: &Answer) -> Result<(), Failure> {
        if !answer.body.is_empty() {
            self.writer.write_all(&answer.body)?;
            self.say("\n")?;
        }
        Ok(())
    }

    /// Text that ends its line.
    fn say(&mut self, text: &str) -> Result<(), Failure> {
        self.writer.write_all(text.as_bytes())?;
        Ok(self.writer.flush()?)
    }
}

/// Carries out the command; the exit code says whether it was done.
pub async fn run(command: Command) -> ExitCode {
    let Err(failure) = command.carry_out(&mut io::stdout()).await else { return ExitCode::SUCCESS };
    let message = failure.message();
    if !message.is_empty() {
        let _ = writeln!(io::stderr(), "dueq: {message}");
    }
    failure.exit_code()
}

impl Command {
    async fn carry_out(&self, writer: &mut dyn Write) -> Result<(), Failure> {
        match self {
            Self::Publish(asked) => asked.carry_out(writer).await,
            Self::Callback(asked) => asked.carry_out(writer).await,
            Self::Lease(asked) => asked.carry_out(writer).await,
            Self::Ack(asked) => asked.carry_out(writer).await,
            Self::Nack(asked) => asked.carry_out(writer).await,
            Self::Get(asked) => asked.carry_out(writer).await,
            Self::Delete(asked) => asked.carry_out(writer).await,
            Self::Topics(asked) => asked.carry_out(writer).await,
            Self::Topic(asked) => asked.carry_out(writer).await,
            Self::Redrive(asked) => asked.carry_out(writer).await,
            Self::Purge(asked) => asked.carry_out(writer).await,
            Self::Pause(asked) => asked.carry_out(writer).await,
            Self::Resume(asked) => asked.carry_out(writer).await,
            Self::Schedules(schedules) => schedules.carry_out(writer).await,
            Self::Tail(asked) => asked.carry_out(writer).await,
        }
    }
}

#[allow(private_bounds, reason = "only the commands of this module are ever asked")]
impl<T: Args + Ask> Asked<T> {
    async fn carry_out(&self, writer: &mut dyn Write) -> Result<(), Failure> {
        let mut out = Out { writer, json: self.server.json };
        let outcome = self.what.ask(&Client::new(&self.server)?, &mut out).await;
        // A script wants to read why not, too.
        if let (true, Err(Failure::Refused(answer))) = (out.json, &outcome) {
            out.as_it_came(answer)?;
        }
        outcome
    }
}
