//! What the source promises of itself: imports in one direction, files of a readable size, a reason
//! at the head of every module, and scripts whose documented keys and arguments are the used ones.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod dashboard;
mod docker;
mod links;
mod lua;
mod rust;
mod script;

use std::path::Path;

/// The repository.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// All files below a directory of the repository with this ending: path from the root, and text.
fn files(below: &str, ending: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut open = vec![root().join(below)];
    while let Some(dir) = open.pop() {
        let entries = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        for path in entries.map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == ending) {
                found.push((name(&path), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(!found.is_empty(), "no .{ending} below {below}");
    found.sort();
    found
}

fn name(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_string_lossy().into_owned()
}

/// Fails with all that was found, so that one run shows everything.
#[track_caller]
fn none(found: Vec<String>) {
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}
