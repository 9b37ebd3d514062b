//! The Lua scripts: a header that tells the truth, keys from KEYS only, and no number that becomes
//! text by itself.

use std::collections::BTreeSet;

use crate::none;
use crate::script::{Script, arguments, includes, scripts};

#[test]
fn every_script_begins_with_its_name_and_purpose() {
    let mut wrong = Vec::new();
    for script in scripts() {
        let verb = script.name();
        let first = script.header.first().cloned().unwrap_or_default();
        if first.strip_prefix(&format!("{verb}: ")).is_none_or(|purpose| purpose.len() < 10) {
            wrong.push(format!("{} begins with {first:?}, not with `-- {verb}: …`", script.path));
        }
        for name in ["returns: ", "cost: "] {
            let lines = script.header.iter().filter(|line| line.starts_with(name)).count();
            if lines != 1 {
                wrong.push(format!("{}: {lines} lines `-- {name}…`", script.path));
            }
        }
    }
    none(wrong);
}

#[test]
fn every_file_names_the_includes_that_it_uses_itself_and_no_others() {
    let (includes, mut wrong) = (includes(), Vec::new());
    for script in scripts().iter().chain(&includes) {
        let uses = |include: &&Script| include.locals().iter().any(|name| script.uses(name));
        let others = includes.iter().filter(|include| include.path != script.path);
        let used: Vec<_> = others.filter(uses).map(Script::name).collect();
        if script.includes != used {
            wrong.push(format!("{} names {:?}, uses {used:?}", script.path, script.includes));
        }
    }
    none(wrong);
}

#[test]
fn every_key_and_argument_that_is_used_is_documented_and_the_other_way_round() {
    let mut wrong = Vec::new();
    for script in scripts() {
        for table in ["KEYS", "ARGV"] {
            let (documented, open) = script.documented(table);
            let used = script.used(table);
            let highest = documented.last().copied().unwrap_or(0);
            if documented != (1..=highest).collect::<Vec<_>>() {
                wrong.push(format!("{}: {table} documented as {documented:?}", script.path));
            }
            let most = used.last().copied().unwrap_or(0);
            if most > highest && open.is_none() {
                wrong.push(format!("{}: {table}[{most}] is used, not documented", script.path));
            }
            let fixed = open.map_or(highest, |first| first - 1);
            for number in (1..=fixed).filter(|number| !used.contains(number)) {
                wrong.push(format!("{}: {table}[{number}] is documented, not used", script.path));
            }
        }
    }
    none(wrong);
}

/// The keys of a partition, as the include `partition.lua` names them.
const PARTITION: [&str; 26] = [
    "unack",
    "last",
    "delayed",
    "messages",
    "meta",
    "extra",
    "delayed_prio",
    "ready",
    "dead",
    "keys",
    "expires",
    "first_due",
    "events",
    "acked",
    "dead_out",
    "heads",
    "queued",
    "blocked",
    "rates",
    "turns",
    "offers",
    "idem",
    "idem_due",
    "held",
    "history",
    "recent",
];

/// Is this expression made of keys alone, as `last and KEYS[2] or KEYS[1]` is, or `k.delayed` of the table that the
/// include `partition.lua` makes of KEYS?
fn of_keys(expression: &str) -> bool {
    let choices: Vec<&str> = expression.split(" or ").collect();
    !choices.is_empty()
        && choices.iter().all(|choice| {
            let value = choice.rsplit(" and ").next().unwrap().trim();
            let number = value.strip_prefix("KEYS[").and_then(|rest| rest.strip_suffix(']'));
            let named = value.strip_prefix("k.").is_some_and(|name| PARTITION.contains(&name));
            let last = value == "KEYS[#KEYS]";
            named || last || number.is_some_and(|number| number.parse::<usize>().is_ok())
        })
}

/// The names that a `for _, name in ipairs({ … })` loop gives to the items, where all pass `good`.
fn loop_names(code: &str, good: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (at, _) in code.match_indices(" in ipairs({") {
        let items = arguments(&code[at + " in ipairs({".len()..]);
        let before = code[..at].rsplit("for ").next().unwrap();
        if let Some(name) = before.split(',').nth(1)
            && items.iter().all(|item| good(item))
        {
            names.insert(name.trim().to_owned());
        }
    }
    names
}

/// The names that a `local name = …` gives to a key.
fn local_names(code: &str) -> BTreeSet<String> {
    let named = |line: &str| {
        let (name, value) = line.trim().strip_prefix("local ")?.split_once(" = ")?;
        of_keys(value.trim()).then(|| name.to_owned())
    };
    code.lines().filter_map(named).collect()
}

#[test]
fn every_command_of_a_script_works_on_a_key_that_was_passed_to_it() {
    let mut wrong = Vec::new();
    for script in scripts() {
        let mut names = loop_names(&script.code, of_keys);
        names.extend(local_names(&script.code));
        for function in script.code.split("local function ").skip(1) {
            names.extend(arguments(function.split_once('(').unwrap().1));
        }
        let tables =
            script.code.matches("local k = ").count() + script.code.matches(" k = ").count();
        let made = script.code.matches(" k = partition(KEYS)").count()
            + script.code.matches(" k = lib.partition(KEYS)").count()
            + script.code.matches(" k = { messages = KEYS[").count();
        assert!(tables == 0 || made > 0, "{} makes its keys of something else", script.path);
        for call in script.calls("redis.call").iter().chain(&script.calls("redis.pcall")) {
            if call[0] == "'TIME'" {
                continue;
            }
            let key = call.get(1).cloned().unwrap_or_default();
            if !call[0].starts_with('\'') || !(of_keys(&key) || names.contains(&key)) {
                wrong.push(format!(
                    "{}: redis.call({}) takes the key {key:?}",
                    script.path,
                    call.join(", ")
                ));
            }
        }
    }
    none(wrong);
}

#[test]
fn every_script_refuses_another_number_of_keys_than_its_header_says() {
    // As `src/store/build.rs` joined them for the program that is tested here.
    let binary = std::fs::read(env!("CARGO_BIN_EXE_dueq")).expect("the program");
    let checks = |wanted: &str| memchr::memmem::find_iter(&binary, wanted).count();
    for (wanted, least) in [
        ("if #KEYS ~= 24 then return redis.error_reply('ERR it wants 24 keys') end\n", 20),
        ("if #KEYS ~= 26 then return redis.error_reply('ERR it wants 26 keys') end\n", 3),
        ("if #KEYS ~= 21 and #KEYS ~= 15 then return redis.error_reply(", 1),
        ("if #KEYS ~= ", scripts().len()),
    ] {
        assert!(checks(wanted) >= least, "{wanted:?} is in {} scripts", checks(wanted));
    }
}

#[test]
fn every_command_of_an_include_works_on_a_key_that_its_caller_passed() {
    let mut wrong = Vec::new();
    for include in includes() {
        let (mut parameters, mut nested) = (Vec::new(), false);
        for function in include.code.split("local function ").skip(1) {
            // A function inside another one sees the parameters of both.
            parameters.retain(|_| nested);
            parameters.extend(arguments(function.split_once('(').unwrap().1));
            nested = function.ends_with(' ');
            let good = |name: &str| {
                let table = parameters.iter().any(|parameter| parameter == "k");
                parameters.iter().any(|parameter| parameter == name) || (table && of_keys(name))
            };
            let looped = loop_names(function, good);
            let body = Script { code: function.to_owned(), ..Script::default() };
            for call in body.calls("redis.call") {
                let key = call.get(1).cloned().unwrap_or_default();
                let passed = good(&key) || looped.contains(&key);
                if call[0] != "'TIME'" && !(call[0].starts_with('\'') && passed) {
                    wrong.push(format!("{}: redis.call({})", include.path, call.join(", ")));
                }
            }
            for table in ["KEYS", "ARGV"] {
                if function.replace("HKEYS", "").contains(table) {
                    wrong.push(format!("{} reads {table}: not a parameter", include.path));
                }
            }
        }
    }
    none(wrong);
}

/// Commands that write and are let through at maxmemory; after one of them everything is.
const REMOVING: [&str; 9] = [
    "'HDEL'",
    "'ZREM'",
    "'ZREMRANGEBYSCORE'",
    "'SREM'",
    "'ZPOPMIN'",
    "'UNLINK'",
    "'PERSIST'",
    "'EXPIRE'",
    "'PEXPIRE'",
];
/// Those that are refused there.
const GROWING: [&str; 6] = ["'HSET'", "'HINCRBY'", "'ZADD'", "'SADD'", "'SET'", "'SETNX'"];
/// Scripts that bring something new, and are refused whole at maxmemory; a claimed tick would be published.
const NEW: [&str; 10] = [
    "claim_schedules",
    "complete",
    "load_messages",
    "load_schedule",
    "note_history",
    "publish",
    "publish_special",
    "put_schedule",
    "update",
    "weigh_partition",
];

#[test]
fn at_maxmemory_only_what_brings_something_new_is_refused() {
    let mut wrong = Vec::new();
    for script in scripts() {
        let calls = script.code.match_indices("call(").map(|(at, _)| &script.code[at + 5..]);
        let mut writes = calls.map(|call| arguments(call).swap_remove(0));
        let first = writes.find(|c| [&REMOVING[..], &GROWING].concat().contains(&c.as_str()));
        let name = script.name();
        let passes = first.as_deref().is_none_or(|command| REMOVING.contains(&command));
        if !passes && !NEW.contains(&name) {
            wrong.push(format!("{name} begins with {}, which is refused", first.unwrap()));
        }
    }
    none(wrong);
}

/// Names that always hold text.
const TEXT: [&str; 4] = ["entry", "id", "member", "order"];

#[test]
fn no_number_becomes_text_by_itself() {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let mut wrong = Vec::new();
    for script in scripts().into_iter().chain(includes()) {
        for line in script.code.lines() {
            if line.contains("tostring") {
                wrong.push(format!("{}: {}", script.path, line.trim()));
            }
            // `a .. b` is fine between text: literals, those names, and numbers through int(…) or format.
            for (at, _) in line.match_indices(" .. ") {
                let (left, right) = (line[..at].trim_end(), line[at + 4..].trim_start());
                let (before, after) =
                    (left.rsplit(|c| !word(c)).next(), right.split(|c| !word(c)).next());
                let is_name = |name: Option<&str>| name.is_some_and(|name| TEXT.contains(&name));
                let text_left = left.ends_with(['\'', ')']) || is_name(before);
                let text_right = right.starts_with('\'')
                    || right.starts_with("int(")
                    || right.starts_with("string.")
                    || is_name(after);
                if !(text_left && text_right) {
                    wrong.push(format!("{}: {}", script.path, line.trim()));
                }
            }
        }
    }
    none(wrong);
}

#[test]
fn no_text_goes_through_a_format_that_ends_at_a_nul() {
    let ends = |call: &Vec<String>| call[0].contains("%s") || call[0].contains("%q");
    let cuts = |script: &Script| script.calls("string.format").iter().any(ends);
    let all = scripts().into_iter().chain(includes());
    none(all.filter(cuts).map(|script| script.path).collect());
}

#[test]
fn time_is_read_in_one_place() {
    for script in scripts() {
        let direct = script.calls("redis.call").iter().any(|call| call[0] == "'TIME'");
        let reads = script.code.matches("now_ms()").count();
        assert!(!direct && reads <= 1, "{} reads the clock itself or twice", script.path);
    }
}

const NEVER: [&str; 8] =
    ["KEYS", "SCAN", "FLUSHALL", "FLUSHDB", "SMEMBERS", "SORT", "PUBLISH", "EVAL"];

#[test]
fn no_script_has_a_shebang_or_a_command_that_blocks_or_sweeps() {
    let mut wrong = Vec::new();
    for script in scripts().into_iter().chain(includes()) {
        if script.code.starts_with("#!") {
            wrong.push(format!("{} has a #! line, which 6.2 cannot parse", script.path));
        }
        for call in script.calls("redis.call") {
            let command = call[0].trim_matches('\'');
            if NEVER.contains(&command) {
                wrong.push(format!("{} calls {command}", script.path));
            }
        }
    }
    none(wrong);
}

#[test]
fn the_readers_of_this_test_read_what_they_should() {
    assert_eq!(
        arguments("'A', f(1, 2), { a, b }, 'x,)'), 7)"),
        ["'A'", "f(1, 2)", "{ a, b }", "'x,)'"]
    );
    assert!(of_keys("KEYS[1]") && of_keys("last and KEYS[2] or KEYS[1]"));
    assert!(!of_keys("KEYS[i]") && !of_keys("'dueq:x'") && !of_keys("KEYS[1] .. 'x'"));
    let code = "  local zset = last and KEYS[2] or KEYS[1]\nlocal a = 'b'";
    assert_eq!(local_names(code).into_iter().collect::<Vec<_>>(), ["zset"]);
    let code = "for _, key in ipairs({ KEYS[3], KEYS[4] }) do x(key) end";
    assert_eq!(loop_names(code, of_keys).into_iter().collect::<Vec<_>>(), ["key"]);
}
