//! The Rust source: who imports whom, how long files are, how modules begin.

use crate::{files, none};

/// Each module of the crate may name itself and those before it.
const ORDER: &[&str] = &[
    "seeded",
    "files",
    "embedded",
    "reload",
    "tls",
    "model",
    "error",
    "background",
    "metrics",
    "traces",
    "store",
    "longpoll",
    "http",
    "loops",
    "config",
    "app",
    "cli",
    "main",
];

/// Beside the order: these two stand side by side.
const STRANGERS: [&str; 2] = ["http", "loops"];

/// Who may name a crate: the files whose path begins so.
const CRATES: &[(&[&str], &[&str])] = &[
    (&["redis", "deadpool_redis", "deadpool"], &["src/store", "src/cli/audit"]),
    (&["axum"], &["src/http", "src/app.rs"]),
];

/// A file without its comments and its `#[cfg(test)] mod tests`.
fn code(text: &str) -> String {
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    let line = |line: &str| line.split("//").next().unwrap().to_owned();
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The top module that a file belongs to: `src/http/mod.rs` to `http`.
fn module(path: &str) -> &str {
    let inside = path.strip_prefix("src/").unwrap();
    inside.split('/').next().unwrap().trim_end_matches(".rs")
}

/// The top modules that a text names by `crate::` or `dueq::`, groups in braces included.
fn named(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for root in ["crate::", "dueq::"] {
        for (at, _) in text.match_indices(root) {
            let before = text[..at].chars().next_back().unwrap_or(' ');
            if before.is_alphanumeric() || before == '_' || before == ':' {
                continue;
            }
            found.extend(heads(&text[at + root.len()..]));
        }
    }
    found
}

/// The first names of a path, or of every path of a group: `{a::{b, c}, d}` has a and d.
fn heads(path: &str) -> Vec<String> {
    let word = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(group) = path.strip_prefix('{') else { return vec![word(path)] };
    let (mut depth, mut names, mut start) = (0, Vec::new(), 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                names.push(word(&group[start..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                names.push(word(&group[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

fn rank(module: &str) -> Option<usize> {
    ORDER.iter().position(|known| *known == module)
}

#[test]
fn imports_point_one_way() {
    let mut wrong = Vec::new();
    for (path, text) in files("src", "rs") {
        let own = module(&path);
        if own == "lib" {
            continue;
        }
        let Some(own_rank) = rank(own) else {
            wrong.push(format!("{path}: where does `{own}` stand in the order of imports?"));
            continue;
        };
        for other in named(&code(&text)) {
            let Some(rank) = rank(&other) else { continue };
            // What can be told and what carries it out know each other.
            let upward = rank > own_rank && !(own == "config" || other == "config");
            if upward || (STRANGERS.contains(&own) && STRANGERS.contains(&&*other) && own != other)
            {
                wrong.push(format!("{path} imports `{other}`"));
            }
        }
    }
    none(wrong);
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

#[test]
fn files_stay_short() {
    let mut wrong = Vec::new();
    for below in ["src", "tests"] {
        for (path, text) in files(below, "rs") {
            let lines = text.lines().count();
            if lines > 350 {
                wrong.push(format!("{path} has {lines} lines, more than 350"));
            }
        }
    }
    none(wrong);
}

#[test]
fn the_readers_of_this_test_read_what_they_should() {
    let text =
        "use crate::{store::{Store, keys}, error::Error};\nlet a = crate::model::X; $crate::y";
    assert_eq!(named(text), ["store", "error", "model", "y"]);
    assert_eq!(code("a // crate::b\n#[cfg(test)]\nmod tests { crate::c }"), "a ");
}
