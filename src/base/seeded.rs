//! Deliberate bugs. A checker that has never found anything proves nothing. So `make prove` builds dueq once more with the
//! feature `seeded-bugs`, enables the bugs one by one, and requires that the checker finds each one and names the promise
//! that it breaks. `DUEQ_SEEDED_BUG` names the enabled bug.
//!
//! Most bugs are patches of the Lua scripts. They live with the proof (`tests/proof/bugs`): `DUEQ_SEEDED_PATCH` names a
//! file with a JSON list of `{"bug", "script", "find", "put"}`. Others are settings, or changes that a proxy makes to
//! Redis's answers. The few bugs that nothing outside can cause are lines of Rust at the place that they break:
//! `if seeded::bug("its name")`.
//!
//! Without the feature [`bug`] is a constant `false`, and the bugs are not in the binary.

/// Returns whether this bug is enabled.
#[cfg(not(feature = "seeded-bugs"))]
pub const fn bug(_: &str) -> bool {
    false
}

/// Returns the script's text with the enabled bug's patches applied.
#[cfg(not(feature = "seeded-bugs"))]
pub const fn patched(_script: &str, text: &'static str) -> &'static str {
    text
}

#[cfg(feature = "seeded-bugs")]
pub use on::{bug, patched};

#[cfg(feature = "seeded-bugs")]
mod on {
    use std::sync::LazyLock;

    /// Replaces text that occurs once in a script; `*` stands for every script that contains it.
    #[derive(serde::Deserialize)]
    struct Patch {
        bug: String,
        script: String,
        find: String,
        put: String,
    }

    static ON: LazyLock<Option<String>> = LazyLock::new(|| std::env::var("DUEQ_SEEDED_BUG").ok());

    static PATCHES: LazyLock<Vec<Patch>> = LazyLock::new(|| {
        let (Some(on), Some(file)) = (&*ON, std::env::var_os("DUEQ_SEEDED_PATCH")) else {
            return Vec::new();
        };
        let text = std::fs::read(&file).unwrap_or_else(|error| refuse(&error.to_string()));
        let all: Vec<Patch> =
            serde_json::from_slice(&text).unwrap_or_else(|error| refuse(&error.to_string()));
        all.into_iter().filter(|patch| patch.bug == *on).collect()
    });

    /// Returns whether this bug is enabled.
    pub fn bug(name: &str) -> bool {
        ON.as_deref() == Some(name)
    }

    /// Returns the script's text with the enabled bug's patches applied.
    pub fn patched(script: &str, text: &'static str) -> &'static str {
        let mut patched = text.to_owned();
        for patch in PATCHES.iter().filter(|patch| ["*", script].contains(&&*patch.script)) {
            match (patched.matches(&patch.find).count(), &*patch.script) {
                (1, _) => patched = patched.replace(&patch.find, &patch.put),
                (0, "*") => {}
                (n, _) => refuse(&format!("{:?} is {n} times in {script}", patch.find)),
            }
        }
        // Leaks once per script.
        if patched == text { text } else { patched.leak() }
    }

    /// Exits: a run without the bug that it names would prove nothing.
    fn refuse(why: &str) -> ! {
        tracing::error!(bug = ?*ON, why, "the bug cannot be seeded");
        std::process::exit(70)
    }
}
