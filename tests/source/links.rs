//! Every relative link in the documentation leads to a file that exists, and to a heading of it.

use std::path::{Component, Path, PathBuf};

use crate::{files, none, root};

/// The Markdown that people read: path from the root, and text.
fn documents() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for name in ["README.md", "CHANGELOG.md", "migrations-lua/README.md"] {
        found.push((name.to_owned(), std::fs::read_to_string(root().join(name)).unwrap()));
    }
    found.extend(files("src/guide", "md"));
    found.extend(files("openapi/sdks", "md"));
    found
}

/// The text outside fenced blocks.
fn prose(markdown: &str) -> String {
    markdown.split("```").step_by(2).collect()
}

/// Where the inline links of a text lead.
fn targets(markdown: &str) -> Vec<String> {
    let prose = prose(markdown);
    let inline = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    inline.map(str::to_owned).collect()
}

/// The anchors of a text's headings, as code hosts make them.
fn anchors(markdown: &str) -> Vec<String> {
    let prose = prose(markdown);
    let headings = prose.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.collect::<String>().replace(' ', "-")
    };
    headings.map(anchor).collect()
}

/// `a/../b` as `b`.
fn straight(path: &Path) -> PathBuf {
    let mut parts: Vec<Component<'_>> = Vec::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.iter().collect()
}

#[test]
fn every_relative_link_leads_to_a_file_and_a_heading() {
    let mut wrong = Vec::new();
    for (path, text) in documents() {
        for target in targets(&text).iter().filter(|target| !target.contains("://")) {
            let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
            let below = Path::new(&path).parent().unwrap();
            let file =
                if file.is_empty() { path.clone().into() } else { straight(&below.join(file)) };
            let Ok(there) = std::fs::read(root().join(&file)) else {
                wrong.push(format!("{path}: no file at {target}"));
                continue;
            };
            let there = String::from_utf8_lossy(&there);
            if !anchor.is_empty() && !anchors(&there).iter().any(|known| known == anchor) {
                wrong.push(format!("{path}: no heading at {target}"));
            }
        }
    }
    none(wrong);
}

/// The server shows these pages and the READMEs of the SDKs, so a link to another file would break there. It leaves pictures
/// out.
#[test]
fn pages_of_the_guide_link_to_one_another() {
    let mut wrong = Vec::new();
    for (path, text) in files("src/guide", "md") {
        for target in targets(&text) {
            let file = target.split('#').next().unwrap();
            let shown = file.ends_with(".png") || file.starts_with("../../openapi/sdks/");
            if !target.contains("://") && file.contains('/') && !shown {
                wrong.push(format!("{path} links to {target}"));
            }
        }
    }
    none(wrong);
}

#[test]
fn the_readme_stays_short() {
    let lines = std::fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(lines <= 200, "{lines} lines: what explains belongs into src/guide");
}

/// `src/lib.rs` names the files that a request passes through.
#[test]
fn the_map_of_the_crate_names_files_that_exist() {
    let map = std::fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let mut known: Vec<String> = files("src", "rs").into_iter().map(|(path, _)| path).collect();
    known.extend(files("migrations-lua", "lua").into_iter().map(|(path, _)| path));
    let named = map.split('`').skip(1).step_by(2);
    let named = named.filter(|name| name.ends_with(".rs") || name.ends_with(".lua"));
    let exists =
        |name: &str| known.iter().any(|path| format!("/{path}").ends_with(&format!("/{name}")));
    let wrong: Vec<String> = named.filter(|name| !exists(name)).map(str::to_owned).collect();
    none(wrong);
}
