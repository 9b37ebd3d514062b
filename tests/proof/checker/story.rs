//! A message's own history, in order: what a reader of a violation wants to see first.

use std::collections::{HashMap, HashSet};

use super::contract::concerned;
use super::run::{Run, member};
use crate::proof::history::{Grant, Ms, Op, Outcome, Publish, What};

/// As many lines of one message are shown, from its beginning and from its end.
const FIRST: usize = 20;
const LAST: usize = 60;

/// The histories of these messages: one pass over the record for all of them.
pub(super) fn of(run: &Run, wanted: &HashSet<usize>) -> HashMap<usize, Vec<String>> {
    let mut lines: HashMap<usize, Vec<(Ms, String)>> = HashMap::new();
    if wanted.is_empty() {
        return HashMap::new();
    }
    let payloads = payloads(run, wanted);
    for op in run.ops {
        let mut tell = |life: usize, at: Ms, text: String| {
            if wanted.contains(&life) {
                lines.entry(life).or_default().push((at, text));
            }
        };
        match &op.what {
            What::Lease { outcome: Outcome::Ok(grants), .. } => {
                for grant in grants {
                    if let Some(life) = run.by_id.get(grant.id.as_str()) {
                        tell(*life, op.sent, granted(op, grant));
                    }
                }
            }
            What::Publish(publish) => {
                let named = concerned(op).and_then(|id| run.by_id.get(id)).copied();
                let said = payloads.get(publish.payload.as_str()).into_iter().flatten().copied();
                let lives: HashSet<usize> = said.chain(named).collect();
                lives.into_iter().for_each(|life| tell(life, op.sent, line(op, &what(op))));
            }
            What::Purge { .. } | What::RedriveTopic { .. } | What::Pause { .. } => {
                for life in wanted {
                    tell(*life, op.sent, line(op, &what(op)));
                }
            }
            _ => {
                if let Some(life) = concerned(op).and_then(|id| run.by_id.get(id)) {
                    tell(*life, op.sent, line(op, &what(op)));
                }
            }
        }
    }
    wanted
        .iter()
        .map(|life| (*life, told(run, *life, lines.remove(life).unwrap_or_default())))
        .collect()
}

/// What the wanted messages were seen with, and whose it was.
fn payloads<'a>(run: &Run<'a>, wanted: &HashSet<usize>) -> HashMap<&'a str, Vec<usize>> {
    let mut payloads: HashMap<&str, Vec<usize>> = HashMap::new();
    for &at in wanted {
        let life = &run.lives[at];
        let lying = run.audit.bodies.get(&member(life.id)).map(String::as_str);
        let granted = life.held.iter().map(|held| held.grant.payload.as_str());
        for payload in granted.chain(lying) {
            let lives = payloads.entry(payload).or_default();
            if !lives.contains(&at) {
                lives.push(at);
            }
        }
    }
    payloads
}

/// The lines in order, with the faults in between, and where it lies at the end.
fn told(run: &Run, life: usize, mut lines: Vec<(Ms, String)>) -> Vec<String> {
    lines.sort_by_key(|(at, _)| *at);
    let Some(first) = lines.first().map(|(at, _)| *at) else { return Vec::new() };
    let last = lines.last().map_or(first, |(at, _)| *at);
    // What comes after it all, purges say, concerns it only while it is there.
    for fault in &run.history.faults {
        if fault.until >= first && fault.from <= last {
            let (kind, took) = (fault.kind, fault.until - fault.from);
            lines.push((fault.from, format!("   fault: {kind:?}, {took} ms")));
        }
    }
    lines.sort_by_key(|(at, _)| *at);
    let dated = |(at, text): &(Ms, String)| relative(text, *at, first);
    let mut told: Vec<String> = lines.iter().map(dated).collect();
    if told.len() > FIRST + LAST + 1 {
        let left_out = told.len() - FIRST - LAST;
        told.splice(FIRST..FIRST + left_out, [format!("   … {left_out} more")]);
    }
    let life = &run.lives[life];
    let end = match run.lies_there(life.id) {
        Some(places) => format!("at the end: in {places:?}"),
        None => "at the end: not there".to_owned(),
    };
    told.insert(0, format!("{} (times in ms since {first})", life.id));
    told.push(end);
    told
}

/// A line with its instant; instants inside are written as `@1234567890123`.
fn relative(text: &str, at: Ms, first: Ms) -> String {
    let mut parts = text.split('@');
    let mut line = format!("{:>7} {}", at - first, parts.next().unwrap_or_default());
    for part in parts {
        let digits = part.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(part.len());
        match part[..digits].parse::<Ms>() {
            Ok(instant) => line += &format!("{}{}", instant - first, &part[digits..]),
            Err(_) => line += &format!("@{part}"),
        }
    }
    line
}

fn line(op: &Op, what: &str) -> String {
    let took = op.answered - op.sent;
    format!("+{took} client {} instance {}: {what}", op.client, op.instance)
}

fn granted(op: &Op, grant: &Grant) -> String {
    let Grant { attempt, attempts_left, due_at, granted_at, deadline, .. } = grant;
    let what = format!(
        "granted as attempt {attempt} ({attempts_left} left), due @{due_at}, at @{granted_at}, until @{deadline}, token {}, payload {}",
        short(&grant.token),
        cut(&grant.payload, 40)
    );
    line(op, &what)
}

/// Enough of a token to tell it from others.
fn short(token: &str) -> &str {
    let start = token.len().saturating_sub(8);
    token.get(start..).unwrap_or(token)
}

fn cut(text: &str, most: usize) -> String {
    let cut: String = text.chars().take(most).collect();
    // What follows an `@` would be taken for an instant.
    cut.replace('@', "(at)")
}

fn what(op: &Op) -> String {
    match &op.what {
        What::Publish(publish) => published(publish),
        What::Lease { max_messages, wait, outcome } => {
            format!(
                "lease of {max_messages}, wait {wait}: {}",
                out(outcome, |g| format!("{}", g.len()))
            )
        }
        What::Ack { token, outcome, .. } => {
            format!("ack with {}: {}", short(token), out(outcome, |()| String::new()))
        }
        What::Nack { token, back, delay, outcome, .. } => {
            let answer = out(outcome, |n| {
                format!("{}, due {}, attempt {}", n.state, due(n.due_at), n.attempt)
            });
            format!("nack ({back:?}, delay {delay:?}) with {}: {answer}", short(token))
        }
        What::Extend { token, lease_ms, outcome, .. } => {
            let answer = out(outcome, |deadline| format!("until @{deadline}"));
            format!("extend by {lease_ms} with {}: {answer}", short(token))
        }
        What::Delete { force, outcome, .. } => {
            let by_force = if *force { " by force" } else { "" };
            format!("delete{by_force}: {}", out(outcome, |()| String::new()))
        }
        What::Update { payload, delay, outcome, .. } => {
            let payload = payload.as_deref().map(|payload| cut(payload, 40));
            format!("update to {payload:?}, delay {delay:?}: {}", out(outcome, seen))
        }
        What::Redrive { outcome, .. } => format!("redrive: {}", out(outcome, seen)),
        What::RedriveTopic { max_messages, outcome } => {
            format!(
                "redrive of the topic, {max_messages} at most: {}",
                out(outcome, i64::to_string)
            )
        }
        What::Purge { states, outcome } => {
            format!("purge of {states:?}: {}", out(outcome, i64::to_string))
        }
        What::Pause { group, paused, outcome } => {
            let verb = if *paused { "pause" } else { "resume" };
            let of = group.as_ref().map_or("the topic".into(), |group| format!("group {group}"));
            format!("{verb} of {of}: {}", out(outcome, |()| String::new()))
        }
        What::Get { outcome, .. } => format!("get: {}", out(outcome, seen)),
    }
}

fn published(publish: &Publish) -> String {
    let mut text = format!("publish {}, delay {}", cut(&publish.payload, 40), publish.delay);
    if publish.priority > 0 {
        text += &format!(", priority {}", publish.priority);
    }
    if let Some(max_attempts) = publish.max_attempts {
        text += &format!(", max_attempts {max_attempts}");
    }
    if let Some(ttl) = publish.ttl {
        text += &format!(", ttl {ttl}");
    }
    if let Some(key) = &publish.key {
        let until = if publish.key_until_granted { " until granted" } else { "" };
        text += &format!(", key {}{until} ({})", cut(key, 40), publish.on_duplicate.word());
    }
    if let Some(key) = &publish.idempotency_key {
        text += &format!(", idempotency key {}", cut(key, 40));
    }
    if let Some(group) = &publish.group {
        text += &format!(", group {}", cut(group, 40));
    }
    let answer = out(&publish.outcome, |p| {
        let duplicate = if p.duplicate { ", a duplicate" } else { "" };
        format!("{}, due @{}{duplicate}", p.id, p.due_at)
    });
    format!("{text}: {answer}")
}

fn seen(seen: &crate::proof::history::Seen) -> String {
    let (attempts, left) = (seen.attempts, seen.attempts_left);
    format!("{}, due {}, {attempts} attempts, {left} left", seen.state, due(seen.due_at))
}

fn due(due: Option<Ms>) -> String {
    due.map_or("-".to_owned(), |due| format!("@{due}"))
}

fn out<T>(outcome: &Outcome<T>, answer: impl FnOnce(&T) -> String) -> String {
    match outcome {
        Outcome::Ok(value) => match answer(value) {
            text if text.is_empty() => "ok".to_owned(),
            text => format!("ok, {text}"),
        },
        Outcome::Refused(status, code) => format!("{status} {code}"),
        Outcome::Never => "never ran".to_owned(),
        Outcome::Unknown => "unknown".to_owned(),
    }
}
