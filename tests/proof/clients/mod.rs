//! The recorder's clients: what an [`Actor`](super::actor::Actor) can do, and the roles that a load
//! is made of.
//!
//! Which messages are published, and what becomes of a message that is granted, follows from the
//! run's seed alone ([`dice`]): the same seed makes the same plan, however the machine times it.

pub mod board;
pub mod consumers;
pub mod dice;
pub mod drafts;
pub mod drain;
pub mod extreme;
pub mod holding;
pub mod managing;
pub mod meddlers;
pub mod mix;
pub mod publishers;
pub mod publishing;
pub mod quiet;
pub mod wire;

use tokio::task::JoinError;

pub use mix::Mix;

/// What a client that panicked says: the violation that its message names, or one of the contract.
pub fn panic_of(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else {
        return "the contract: a client was aborted".into();
    };
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    let text = text.unwrap_or_default();
    let named =
        text.strip_prefix('I').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    if named { text } else { format!("the contract: {text}") }
}
