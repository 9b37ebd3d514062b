//! Lua files as the checks read them: what they include, document, make and call.

use std::collections::BTreeSet;

use crate::files;

/// A script or an include: the includes that it names, its header's lines, and its code without comments.
#[derive(Default)]
pub struct Script {
    pub path: String,
    pub includes: Vec<String>,
    pub header: Vec<String>,
    pub code: String,
}

fn read(below: &str) -> Vec<Script> {
    let script = |(path, text): (String, String)| {
        let header = text.lines().take_while(|line| line.starts_with("--"));
        let header = header.map(|line| line.trim_start_matches('-').trim());
        let (includes, header): (Vec<_>, Vec<_>) =
            header.partition(|line| line.starts_with("@include "));
        let name = |line: &str| line.trim_start_matches("@include ").to_owned();
        let includes = includes.into_iter().map(name).collect();
        let header = header.into_iter().map(str::to_owned).collect();
        let line = |line: &str| line.split("--").next().unwrap().trim_end().to_owned();
        let code = text.lines().map(line).collect::<Vec<_>>().join("\n");
        Script { path, includes, header, code }
    };
    files(below, "lua").into_iter().map(script).collect()
}

pub fn scripts() -> Vec<Script> {
    read("migrations-lua/scripts")
}

pub fn includes() -> Vec<Script> {
    read("migrations-lua/includes")
}

impl Script {
    /// The file's name without its ending.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap().trim_end_matches(".lua")
    }

    /// The names that stand behind a `local` at the beginning of a line.
    pub fn locals(&self) -> Vec<&str> {
        let locals = self.code.lines().filter_map(|line| line.strip_prefix("local "));
        let names = locals.map(|local| local.strip_prefix("function ").unwrap_or(local));
        names.map(|name| name.split(['(', ' ']).next().unwrap()).collect()
    }

    /// Does it call this function of another file, by itself or as `lib.name`, or use this constant?
    pub fn uses(&self, name: &str) -> bool {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let ends = |rest: &str| match name.chars().any(char::is_lowercase) {
            true => rest.starts_with('('),
            false => !rest.starts_with(word),
        };
        let own = self.code.contains(&format!("local function {name}("));
        let used = |(at, _): (usize, &str)| {
            !self.code[..at].ends_with(word) && ends(&self.code[at + name.len()..])
        };
        !own && self.code.match_indices(name).any(used)
    }

    /// The numbers n of `KEYS[n]` (or ARGV) that the code names literally.
    pub fn used(&self, table: &str) -> BTreeSet<usize> {
        let opened = format!("{table}[");
        let literal = |(at, _): (usize, &str)| -> Option<usize> {
            let inside = self.code[at + opened.len()..].split(']').next()?;
            inside.trim().parse().ok()
        };
        self.code.match_indices(&opened).filter_map(literal).collect()
    }

    /// The numbers of the header's lines `KEYS[n] …`, of `KEYS[n..m] …` and `KEYS[n..] …` all; where the first of
    /// these ranges begins.
    pub fn documented(&self, table: &str) -> (Vec<usize>, Option<usize>) {
        let opened = format!("{table}[");
        let (mut numbers, mut open) = (Vec::new(), None);
        for line in &self.header {
            let Some(rest) = line.strip_prefix(&opened) else { continue };
            let (number, meaning) = rest.split_once(']').expect("a closing bracket");
            assert!(!meaning.trim().is_empty(), "{}: {line:?} says nothing", self.path);
            let (first, last) = number.split_once("..").unwrap_or((number, number));
            let first: usize = first.parse().expect("a number");
            open = open.or(number.contains("..").then_some(first));
            numbers.extend(first..=last.parse().unwrap_or(first));
        }
        (numbers, open)
    }

    /// The arguments of every call of `function`, each split at its top-level commas.
    pub fn calls(&self, function: &str) -> Vec<Vec<String>> {
        let opened = format!("{function}(");
        let starts = self.code.match_indices(&opened).map(|(at, _)| at + opened.len());
        starts.map(|start| arguments(&self.code[start..])).collect()
    }
}

/// The arguments up to the closing bracket of a call whose opening one was just read.
pub fn arguments(text: &str) -> Vec<String> {
    let (mut depth, mut quote, mut found) = (0, None, vec![String::new()]);
    for c in text.chars() {
        match (quote, c) {
            (Some(q), _) => quote = (c != q).then_some(q),
            (None, '\'' | '"') => quote = Some(c),
            (None, '(' | '{' | '[') => depth += 1,
            (None, ')' | '}' | ']') if depth == 0 => break,
            (None, ')' | '}' | ']') => depth -= 1,
            (None, ',') if depth == 0 => {
                found.push(String::new());
                continue;
            }
            _ => {}
        }
        found.last_mut().unwrap().push(c);
    }
    found.iter().map(|argument| argument.trim().to_owned()).collect()
}
