//! The Rust source: who names which crates, how modules begin.

use crate::{files, none};

/// Who may name a crate: the files whose path begins so.
const CRATES: &[(&[&str], &[&str])] = &[
    (&["redis", "deadpool_redis", "deadpool"], &["src/store"]),
    (&["rmcp"], &["src/cli/client/mcp"]),
    (&["axum"], &["src/http", "src/cli/listen"]),
];

/// A file without its comments and its `#[cfg(test)] mod tests`.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    let line = |line: &str| line.split("//").next().unwrap().to_owned();
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_dependency_stays_in_its_place() {
    let mut wrong = Vec::new();
    for (path, text) in files("src", "rs") {
        let code = code(&text);
        for (crates, places) in CRATES {
            if places.iter().any(|place| path.starts_with(place)) {
                continue;
            }
            for name in *crates {
                let used = |pattern: &str| {
                    code.match_indices(pattern).any(|(at, _)| {
                        let before = code[..at].chars().next_back().unwrap_or(' ');
                        !(before.is_alphanumeric() || before == '_' || before == ':')
                    })
                };
                if used(&format!("{name}::")) || used(&format!("use {name};")) {
                    wrong.push(format!("{path} names `{name}`"));
                }
            }
        }
    }
    none(wrong);
}

#[test]
fn every_module_begins_with_its_reason() {
    let mut wrong = Vec::new();
    for below in ["src", "tests"] {
        for (path, text) in files(below, "rs") {
            if !text.starts_with("//! ") {
                wrong.push(format!("{path} does not begin with `//! `"));
            }
        }
    }
    none(wrong);
}
