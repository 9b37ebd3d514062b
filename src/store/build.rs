//! Joins each Lua script with the functions that it uses from its includes, and writes the results to `OUT_DIR/lua`.
//! `migrations-lua/README.md` describes how scripts name includes, and what `load_lazy()` is.

use std::{env, error::Error, fs, path::Path};

/// One top-level `local` of an include, with the comment above it.
#[derive(Default)]
struct Item {
    file: String,
    name: String,
    text: String,
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=../../migrations-lua");
    let out = Path::new(&env::var("OUT_DIR")?).join("lua");
    // Removed scripts must not stay there.
    let _ = fs::remove_dir_all(&out);
    fs::create_dir_all(&out)?;
    let of_partition = fs::read_to_string("../../migrations-lua/includes/partition.lua")?;
    for entry in fs::read_dir("../../migrations-lua/scripts")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let mut items = Vec::new();
        let body = read(&format!("scripts/{name}"), &mut Vec::new(), &mut items)?;
        // Redis and the program need no comments: a third of the text.
        let joined = key_check(&body, &of_partition)? + &joined(&items, &body);
        let code = joined.lines().filter(|line| !line.trim_start().starts_with("--"));
        fs::write(out.join(name), code.map(|line| format!("{line}\n")).collect::<String>())?;
    }
    Ok(())
}

/// Reads a file, and appends the items of its includes to `items`: each include once, after its own includes. `open` lists
/// the files that are being read. Returns the file's text without its `@include` lines.
fn read(file: &str, open: &mut Vec<String>, items: &mut Vec<Item>) -> Result<String, String> {
    let circular = open.iter().any(|open| open == file);
    open.push(file.to_owned());
    if circular {
        return Err(format!("circular include: {}", open.join(" -> ")));
    }
    let text = fs::read_to_string(format!("../../migrations-lua/{file}"))
        .map_err(|error| format!("{}: {error}", open.join(" -> ")))?;
    let mut rest = &*text;
    while let Some((name, after)) =
        rest.strip_prefix("-- @include ").and_then(|line| line.split_once('\n'))
    {
        let include = format!("includes/{name}.lua");
        if items.iter().all(|item| item.file != include) {
            let text = read(&include, open, items)?;
            items.extend(split(&include, &text));
        }
        rest = after;
    }
    open.pop();
    Ok(rest.to_owned())
}

/// The line that refuses a call with another number of keys than the script's header says: a key that is missing would
/// silently do nothing. Keys that are passed `only if` something is so may be left out together.
fn key_check(script: &str, of_partition: &str) -> Result<String, String> {
    let (usual, seldom) = of_partition.split_once("-- Of the scripts").ok_or("no seldom keys")?;
    let all = usual.matches("keys[").count();
    let (mut most, mut least) = (0, None);
    for line in script.lines().filter_map(|line| line.strip_prefix("-- KEYS[")) {
        let (numbers, meaning) = line.split_once("] ").ok_or(line)?;
        let first: usize = numbers.split("..").next().and_then(|n| n.parse().ok()).ok_or(line)?;
        if meaning.contains("only if") {
            least = least.or(Some(first - 1));
        }
        most = match (numbers.rsplit("..").next().and_then(|n| n.parse().ok()), meaning) {
            (Some(last), _) => last,
            (None, _) if meaning.contains("history") => all + seldom.matches("keys[").count(),
            (None, _) if meaning.contains("once more") => all + 1,
            (None, "all of the partition's") => all,
            (None, _) => return Err(format!("how many keys are these: {line}")),
        };
    }
    let unless = least.map(|least| format!(" and #KEYS ~= {least}")).unwrap_or_default();
    Ok(format!(
        "if #KEYS ~= {most}{unless} then return redis.error_reply('ERR it wants {most} keys') end\n"
    ))
}

/// Splits an include into its items. Each begins at the comment above its `local`.
fn split(file: &str, text: &str) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for line in text.lines() {
        let local = line.strip_prefix("local ");
        let begins = local.is_some() || line.starts_with("--");
        if items.last().is_none_or(|item| begins && !item.name.is_empty()) {
            items.push(Item { file: file.to_owned(), ..Item::default() });
        }
        let Some(item) = items.last_mut() else { continue };
        if let Some(local) = local {
            let name = local.strip_prefix("function ").unwrap_or(local);
            item.name = name.chars().take_while(|&c| word(c)).collect();
        }
        item.text += line;
        item.text.push('\n');
    }
    items
}

/// Joins a script: the items that it uses, `load_lazy()` with those that it names as `lib.item`, and the body.
fn joined(items: &[Item], body: &str) -> String {
    let (always, others) = used(items.iter().collect(), body, false);
    let mut text: String = always.iter().map(|item| &*item.text).collect();
    if body.contains("load_lazy()") {
        text += "local function load_lazy()\n";
        text.extend(used(others, body, true).0.iter().map(|item| &*item.text));
        let fields = items.iter().filter(|item| names(body, &item.name, true));
        let fields: String = fields.map(|Item { name, .. }| format!(" {name} = {name},")).collect();
        text += &format!("return {{{fields} }}\nend\n");
    }
    text + body
}

/// Splits the items into those that this code uses, directly or through others, and the rest. `fields` selects whether the
/// code names them as `lib.item` or plainly. Both lists keep their order, in which an item precedes its users.
fn used<'a>(items: Vec<&'a Item>, code: &str, fields: bool) -> (Vec<&'a Item>, Vec<&'a Item>) {
    let (mut used, mut others) = (Vec::<&Item>::new(), Vec::new());
    for item in items.into_iter().rev() {
        let by_used = used.iter().any(|user| names(&user.text, &item.name, false));
        if by_used || names(code, &item.name, fields) { &mut used } else { &mut others }.push(item);
    }
    used.reverse();
    others.reverse();
    (used, others)
}

/// Returns whether this code, comments excluded, has the name as a field (`lib.name`) or, without `field`, by itself.
fn names(code: &str, name: &str, field: bool) -> bool {
    let code = code.lines().map(|line| line.split("--").next().unwrap_or_default());
    code.into_iter().any(|line| {
        line.match_indices(name).any(|(at, _)| {
            let (before, after) = (&line[..at], &line[at + name.len()..]);
            !before.ends_with(word) && !after.starts_with(word) && field == before.ends_with('.')
        })
    })
}

fn word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
