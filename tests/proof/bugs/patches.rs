//! The bugs that are patches of scripts, as the program reads them; and the scripts' joined texts,
//! to see that each patch still finds its place.

use std::path::PathBuf;

use deadpool_redis::redis;
use serde_json::json;

use super::{Bug, Patch, all};
use crate::harness::temp_dir;

/// Writes all patches where a build with seeded bugs finds them.
pub fn written() -> PathBuf {
    let each = |bug: &Bug| {
        let name = bug.name;
        let of = move |patch: &Patch| json!({"bug": name, "script": patch.script, "find": patch.find, "put": patch.put});
        bug.patches.iter().map(of).collect::<Vec<_>>()
    };
    let list: Vec<_> = all().iter().flat_map(each).collect();
    let file = temp_dir("seeded").join("patches.json");
    std::fs::write(&file, json!(list).to_string()).expect("a file for the patches");
    file
}

/// Every script and its text with its includes, as `src/store/build.rs` joins them.
pub fn scripts() -> Vec<(String, String)> {
    let script = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.expect("a script").path();
        let name = path.file_stem().expect("its name").to_string_lossy().into_owned();
        (name, std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())))
    };
    let texts = std::fs::read_dir(dueq_store::scripts::JOINED).expect("the joined scripts");
    texts.map(script).collect()
}

/// The name of the script with this digest.
pub fn name_of(sha: &str) -> Option<String> {
    let is = |(_, text): &(String, String)| redis::Script::new(text).get_hash() == sha;
    scripts().into_iter().find(is).map(|(name, _)| name)
}

/// What is wrong with a bug's patches, one applied after the other; empty when each finds its place.
pub fn misplaced(bug: &Bug, scripts: &[(String, String)]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut texts = scripts.to_vec();
    for Patch { script, find, put } in &bug.patches {
        let mut found = 0;
        for (name, text) in &mut texts {
            if *script != "*" && script != name {
                continue;
            }
            let times = text.matches(find).count();
            if times > 1 {
                wrong.push(format!("{}: {find:?} is {times} times in {name}", bug.name));
            }
            found += times;
            *text = text.replace(find, put);
        }
        if found == 0 {
            wrong.push(format!("{}: {find:?} is not in {script}", bug.name));
        }
    }
    wrong
}
