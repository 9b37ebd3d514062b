//! Joins each Lua script with the functions that it uses of its includes. `migrations-lua/README.md` says how a script
//! names them, and what `rare()` is. The joined texts go to `OUT_DIR/lua`.

use std::{env, fs, path::Path};

/// One top-level `local` of an include, with the comment above it.
struct Item {
    name: String,
    text: String,
}

fn main() -> Result<(), String> {
    println!("cargo:rerun-if-changed=migrations-lua");
    let out = Path::new(&env::var("OUT_DIR").map_err(|e| e.to_string())?).join("lua");
    // Scripts that were removed must not stay there.
    let _ = fs::remove_dir_all(&out);
    fs::create_dir_all(&out).map_err(|e| e.to_string())?;
    for entry in fs::read_dir("migrations-lua/scripts").map_err(|e| e.to_string())? {
        let name = entry.map_err(|e| e.to_string())?.file_name().to_string_lossy().into_owned();
        let (mut items, mut done) = (Vec::new(), Vec::new());
        let body = read(&format!("scripts/{name}"), &mut Vec::new(), &mut done, &mut items)?;
        fs::write(out.join(name), joined(&items, &body)).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// Reads a file and, before it, its includes: each once, after those that it includes itself. `open` are the files that
/// are being read now, `done` the includes whose items are there. Returns the file without its `@include` lines.
fn read(
    file: &str,
    open: &mut Vec<String>,
    done: &mut Vec<String>,
    items: &mut Vec<Item>,
) -> Result<String, String> {
    let by = open.last().map_or_else(String::new, |by| format!("{by} includes "));
    let path = format!("migrations-lua/{file}");
    let text = fs::read_to_string(path).map_err(|e| format!("{by}{file}: {e}"))?;
    if open.iter().any(|open| open == file) {
        return Err(format!("{by}{file}, which includes it: {}", open.join(", ")));
    }
    open.push(file.to_owned());
    let (mut rest, mut named) = (&*text, text.lines());
    while let Some(name) = named.next().and_then(|line| line.strip_prefix("-- @include ")) {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
        let include = format!("includes/{name}.lua");
        if !done.contains(&include) {
            let text = read(&include, open, done, items)?;
            items.extend(split(&text));
            done.push(include);
        }
    }
    open.pop();
    Ok(rest.to_owned())
}

/// The items of an include. Each begins at the comment above its `local`.
fn split(text: &str) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut begun = false;
    for line in text.lines() {
        let local = line.strip_prefix("local ");
        if items.is_empty() || (begun && (local.is_some() || line.starts_with("--"))) {
            items.push(Item { name: String::new(), text: String::new() });
            begun = false;
        }
        let Some(item) = items.last_mut() else { continue };
        if let Some(local) = local {
            let name = local.strip_prefix("function ").unwrap_or(local);
            item.name = name.chars().take_while(|&c| word(c)).collect();
            begun = true;
        }
        item.text += line;
        item.text.push('\n');
    }
    items
}

/// The script's text: the items that it uses, `rare()` with those that it names as `lib.item`, the body.
fn joined(items: &[Item], body: &str) -> String {
    let all: Vec<&Item> = items.iter().collect();
    let always = used(&all, body, false);
    let mut text: String = always.iter().map(|item| &*item.text).collect();
    if body.contains("rare()") {
        let others: Vec<&Item> =
            all.into_iter().filter(|item| always.iter().all(|a| a.name != item.name)).collect();
        text += "local function rare()\n";
        text.extend(used(&others, body, true).iter().map(|item| &*item.text));
        let fields = items.iter().filter(|item| names(body, &item.name, true));
        let fields: String = fields.map(|Item { name, .. }| format!(" {name} = {name},")).collect();
        text += &format!("return {{{fields} }}\nend\n");
    }
    text + body
}

/// The items that this code names, as fields or by themselves, and those that they use. An item stands before its users.
fn used<'a>(items: &[&'a Item], code: &str, fields: bool) -> Vec<&'a Item> {
    let mut kept: Vec<&Item> = Vec::new();
    for item in items.iter().rev() {
        let by_kept = kept.iter().any(|user| names(&user.text, &item.name, false));
        if by_kept || names(code, &item.name, fields) {
            kept.push(item);
        }
    }
    kept.reverse();
    kept
}

/// Does this code, comments apart, have the name, as a field (`lib.name`) or by itself?
fn names(code: &str, name: &str, field: bool) -> bool {
    let code = code.lines().map(|line| line.split("--").next().unwrap_or_default());
    code.into_iter().any(|line| {
        line.match_indices(name).any(|(at, _)| {
            let before = line[..at].chars().next_back().unwrap_or(' ');
            let after = line[at + name.len()..].chars().next().unwrap_or(' ');
            !word(before) && !word(after) && field == (before == '.')
        })
    })
}

fn word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
