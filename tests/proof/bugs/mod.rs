//! The harness proves itself: bugs that are put into dueq on purpose, one at a time, and which
//! promise the checker must say was broken by each. What finds nothing proves nothing.
//!
//! Most bugs are patches of the Lua scripts and stand here; the others have a line in the program
//! (`src/seeded.rs` says how both get into it). Each names a scenario that meets it: mostly a probe
//! ([`probes`]), a scenario of some seconds made for it, which is clean without the bug. All of them run under watch.

pub mod hand;
pub mod hunt;
mod list;
mod list_bounds;
mod list_calls;
mod list_more;
mod list_redis;
mod list_scripts;
pub mod patches;
pub mod probes;
pub mod scene;
mod watched;
mod wire;

use std::pin::Pin;

use super::stage::{Report, Setting};

/// A scenario as a value.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// The function's name.
    pub name: &'static str,
    pub run: fn(Setting) -> Pin<Box<dyn Future<Output = Report> + Send>>,
}

/// A bug that can be switched on.
pub struct Bug {
    /// Its name, which the program knows it by.
    pub name: &'static str,
    /// What it does, in a sentence.
    pub does: &'static str,
    /// Where scripts are changed for it; nothing where the program has a line for it.
    pub patches: &'static [Patch],
    /// The names of the promises of which each may be the one that is said to be broken.
    pub breaks: &'static [&'static str],
    /// What meets it.
    pub scenario: Scenario,
}

/// A change of one script, or of each that has the text where `script` is `*`.
pub struct Patch {
    pub script: &'static str,
    /// A text that is there once.
    pub find: &'static str,
    /// What stands in its place.
    pub put: &'static str,
}

/// All of them.
pub fn all() -> Vec<Bug> {
    let mut all = list::bugs();
    all.extend(list_more::bugs());
    all.extend(list_redis::bugs());
    all.extend(watched::bugs());
    all.extend(list_calls::bugs());
    all.extend(list_scripts::bugs());
    all.extend(list_bounds::bugs());
    all
}
