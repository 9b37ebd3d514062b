//! The harness proves itself: bugs that are put into dueq on purpose, one at a time, and which
//! promise the checker must say was broken by each. What finds nothing proves nothing.
//!
//! Most bugs are patches of the Lua scripts. The others are what a scenario does where the bug is on: another setting, a proxy
//! that changes the answers of Redis (`between`); or, for five of them, a line in the program (`src/base/seeded.rs`). Each
//! names a scenario that meets it: mostly a probe ([`probes`]), a scenario of some seconds made for it, which is clean
//! without the bug. All of them run under watch.

pub mod between;
pub mod hand;
pub mod hunt;
mod list;
pub mod patches;
pub mod probes;
pub mod scene;

pub use self::list::all;

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
    /// Where scripts are changed for it.
    pub patches: Vec<Patch>,
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

/// The scenario of this path.
macro_rules! scenario {
    ($module:ident::$name:ident) => {
        $crate::proof::bugs::Scenario {
            name: stringify!($name),
            run: |setting| Box::pin($module::$name(setting)),
        }
    };
}
use scenario;

/// The probe of this path, on so many instances.
macro_rules! probe {
    ($module:ident::$name:ident) => {
        probe!($module::$name, 1)
    };
    ($module:ident::$name:ident, $instances:literal) => {
        $crate::proof::bugs::Scenario {
            name: stringify!($name),
            run: |setting| {
                Box::pin(async move {
                    let start = $crate::proof::bugs::scene::Scene::start(
                        stringify!($name),
                        setting,
                        $instances,
                    );
                    let mut scene = start.await;
                    $module::$name(&mut scene).await;
                    scene.end().await
                })
            },
        }
    };
}
use probe;

/// A bug, the promises that it breaks, and what meets it.
fn bug(name: &'static str, breaks: &'static [&'static str], scenario: Scenario) -> Bug {
    Bug { name, does: "", patches: Vec::new(), breaks, scenario }
}

impl Bug {
    fn does(self, does: &'static str) -> Bug {
        Bug { does, ..self }
    }

    /// Changes a script, or each that has the text where `script` is `*`.
    fn patch(mut self, script: &'static str, find: &'static str, put: &'static str) -> Bug {
        self.patches.push(Patch { script, find, put });
        self
    }
}
