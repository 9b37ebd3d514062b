//! `dueq dump` and `dueq load`: topics, schedules and messages as lines of JSON, out of one Redis and into another.

mod batch;
mod dump;
mod file;
mod line;
mod load;
mod message;
mod place;
mod source;
mod verify;

use super::fail;
use source::Failure;
use std::process::ExitCode;

pub use dump::Args as DumpArgs;
pub use load::Args as LoadArgs;

/// Runs `dueq dump`. Exit code 0: all is dumped; 1: it is not.
pub async fn dump(args: DumpArgs) -> ExitCode {
    ended(dump::run(args).await)
}

/// Runs `dueq load`. Exit code 0: all is loaded, or the same; 1: it is not.
pub async fn load(args: LoadArgs) -> ExitCode {
    ended(load::run(args).await)
}

/// The exit code of a command that says whether all went well.
fn ended(outcome: Result<bool, Failure>) -> ExitCode {
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            fail(&error);
            ExitCode::FAILURE
        }
    }
}
