//! Bugs on purpose. A checker that has never found anything proves nothing, so `make prove` builds dueq once more with the
//! feature `seeded-bugs`, switches bugs on one by one, and demands that each is found and called by the name of the
//! promise that it breaks. `DUEQ_SEEDED_BUG` names the one that is on.
//!
//! Most bugs are patches of the Lua scripts, and stand with the proof (`tests/proof/bugs`), not here: `DUEQ_SEEDED_PATCH`
//! names a file with them, a JSON list of `{"bug", "script", "find", "put"}`. Only what no script can get wrong has a line
//! of Rust, where it would go wrong: `if seeded::bug("its name")`.
//!
//! Without the feature [`bug`] is `false` when it is compiled, and nothing of all this is in the program.

/// Is this bug on?
#[cfg(not(feature = "seeded-bugs"))]
pub(crate) const fn bug(_: &str) -> bool {
    false
}

/// A script's text with what the bug makes of it.
#[cfg(not(feature = "seeded-bugs"))]
pub(crate) const fn patched(_script: &str, text: &'static str) -> &'static str {
    text
}

/// What this machine's clock says (ms), on a machine whose clock is two seconds slow.
pub(crate) fn local_clock() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64) - 2_000
}

/// What a bug never gives back.
pub(crate) fn keep() {
    if bug("memory kept") {
        std::mem::forget(vec![1_u8; 16 * 1024]);
    }
    if bug("descriptor kept") {
        std::mem::forget(std::fs::File::open("/dev/null"));
    }
}

#[cfg(feature = "seeded-bugs")]
pub(crate) use on::{bug, patched};

#[cfg(feature = "seeded-bugs")]
mod on {
    use std::sync::LazyLock;

    /// One place in one script, or, where `script` is `*`, in each script that has it.
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

    pub(crate) fn bug(name: &str) -> bool {
        ON.as_deref() == Some(name)
    }

    pub(crate) fn patched(script: &str, text: &'static str) -> &'static str {
        let mut patched = text.to_owned();
        for patch in PATCHES.iter().filter(|patch| ["*", script].contains(&&*patch.script)) {
            match (patched.matches(&patch.find).count(), &*patch.script) {
                (1, _) => patched = patched.replace(&patch.find, &patch.put),
                (0, "*") => {}
                (n, _) => refuse(&format!("{:?} is {n} times in {script}", patch.find)),
            }
        }
        // Once for each script of the process.
        if patched == text { text } else { patched.leak() }
    }

    /// A bug that is not what its name says would prove nothing: then dueq does not start.
    fn refuse(why: &str) -> ! {
        tracing::error!(bug = ?*ON, why, "the bug cannot be seeded");
        std::process::exit(70)
    }
}
