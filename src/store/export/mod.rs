//! Dumps: topics, schedules and messages as lines of JSON, out of one Redis and into another. [`dump`] writes the lines,
//! [`Reader`] reads and checks them, and [`Loader`] stores what they hold.

mod batches;
mod copies;
mod dump;
mod line;
mod load;
mod message;
mod reader;

pub use dump::dump;
pub use line::{End, Header, Line, Schedule, Topic};
pub use load::{LoadOptions, Loaded, Loader};
pub use message::Message;
pub use reader::Reader;

use crate::reply::CallError;
use dueq_model::error::Error;
use std::{fmt::Display, io};

/// Why a dump or a load ended.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// An error of the store.
    #[error(transparent)]
    Store(#[from] Error),
    /// A file, or standard input or output.
    #[error("{0}: {1}")]
    File(String, io::Error),
    /// Any other reason.
    #[error("{0}")]
    Other(String),
}

impl ExportError {
    /// Any other reason.
    pub fn other(reason: impl Display) -> Self {
        Self::Other(reason.to_string())
    }
}

impl From<CallError> for ExportError {
    fn from(error: CallError) -> Self {
        Self::Store(error.into())
    }
}
