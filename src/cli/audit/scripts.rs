//! The scripts of an audit that work on a partition: a bounded look at a time, so that the queue goes on meanwhile.

use bytes::Bytes;
use dueq_store::{
    Partition, TOTALS,
    batch::{Command, Request},
    keys::PartitionKeys,
    reply::{CallError, Reply},
    scripts,
};

/// A key of a partition whose members are messages.
pub struct Walked {
    /// Its name.
    pub name: &'static str,
    /// A hash, or else a sorted set.
    pub hash: bool,
    key: fn(&PartitionKeys) -> &str,
}

/// All of them. Bodies come first: what has one is looked at from all sides then.
pub const WALKS: [Walked; 15] = [
    Walked { name: "messages", hash: true, key: |keys| &keys.messages },
    Walked { name: "unack", hash: false, key: |keys| &keys.unack },
    Walked { name: "last", hash: false, key: |keys| &keys.last },
    Walked { name: "delayed", hash: false, key: |keys| &keys.delayed },
    Walked { name: "delayed_prio", hash: false, key: |keys| &keys.delayed_prio },
    Walked { name: "ready", hash: false, key: |keys| &keys.ready },
    Walked { name: "blocked", hash: false, key: |keys| &keys.blocked },
    Walked { name: "heads", hash: false, key: |keys| &keys.heads },
    Walked { name: "queued", hash: false, key: |keys| &keys.queued },
    Walked { name: "dead", hash: false, key: |keys| &keys.dead },
    Walked { name: "acked", hash: false, key: |keys| &keys.acked },
    Walked { name: "extra", hash: true, key: |keys| &keys.extra },
    Walked { name: "events", hash: true, key: |keys| &keys.events },
    Walked { name: "expires", hash: false, key: |keys| &keys.expires },
    Walked { name: "first_due", hash: false, key: |keys| &keys.first_due },
];

/// Those whose members are keys that clients chose.
pub const KEY_WALKS: [&str; 3] = ["keys", "idem", "idem_due"];

/// What one call of a walk saw.
#[derive(Default)]
pub struct Page {
    /// Where to go on; "0" at the end.
    pub cursor: String,
    pub seen: i64,
    pub bytes: i64,
    /// Subject, defect, detail.
    pub found: Vec<(Bytes, String, String)>,
    /// Members whose bodies are to be read.
    pub bodies: Vec<Bytes>,
}

pub fn read_page(reply: &mut Reply<'_>) -> Result<Page, CallError> {
    let (cursor, seen, bytes) = (reply.text()?, reply.int()?, reply.int()?);
    let mut page = Page { cursor, seen, bytes, ..Page::default() };
    let mut found = reply.fields()?;
    while !found.is_empty() {
        let (subject, defect) = (found.bytes()?, found.text()?);
        let detail = String::from_utf8_lossy(&found.bytes()?).into_owned();
        page.found.push((subject, defect, detail));
    }
    if !reply.is_empty() {
        let mut bodies = reply.fields()?;
        while !bodies.is_empty() {
            page.bodies.push(bodies.bytes()?);
        }
    }
    Ok(page)
}

/// How far a walk is.
#[derive(Clone)]
pub struct Step {
    /// Number of the topic that the partition said it belongs to when the walk began.
    pub owner: String,
    pub cursor: String,
    /// About so many members.
    pub count: i64,
}

/// A look at some messages.
pub fn look_at_messages(
    partition: &Partition,
    walked: &Walked,
    step: &Step,
    repair: bool,
) -> Request<Page> {
    let mut keys = partition.keys.all().to_vec();
    keys.push((walked.key)(&partition.keys));
    let look = Command::script(&scripts::AUDIT_MESSAGES, &keys);
    let kind = if walked.hash { "h" } else { "z" };
    let look = look.arg((&step.owner, walked.name, kind, &step.cursor, step.count, repair));
    look.read(partition, read_page)
}

/// A look at some keys.
pub fn look_at_keys(
    partition: &Partition,
    walked: &str,
    step: &Step,
    repair: bool,
) -> Request<Page> {
    let look = Command::script(&scripts::AUDIT_KEYS, &partition.keys.all());
    let look = look.arg((&step.owner, walked, &step.cursor, step.count, repair));
    look.read(partition, read_page)
}

/// Some messages to bring into order: members, with them the body that cannot be read. Answers what became of
/// each.
pub fn mend(
    partition: &Partition,
    owner: &str,
    members: &[(Bytes, Option<Bytes>)],
) -> Request<Vec<String>> {
    let mut mend = Command::script(&scripts::AUDIT_MEND, &partition.keys.all()).arg(owner);
    for (member, begin) in members {
        mend = mend.arg((&member[..], begin.is_some(), begin.as_deref().unwrap_or_default()));
    }
    mend.read(partition, read_mended)
}

pub fn read_mended(reply: &mut Reply<'_>) -> Result<Vec<String>, CallError> {
    reply.wake = reply.int()? == 1;
    let mut became = Vec::with_capacity(reply.len());
    while !reply.is_empty() {
        became.push(reply.text()?);
    }
    Ok(became)
}

/// What is counted.
pub struct Counted {
    pub bodies: i64,
    pub places: i64,
    /// A total, what it was, what it should be.
    pub wrong: Vec<(String, String, String)>,
}

/// A look at what is counted.
pub fn count(partition: &Partition, owner: &str, repair: bool) -> Request<Counted> {
    let count = Command::script(&scripts::AUDIT_TOTALS, &partition.keys.all());
    count.arg((owner, repair)).arg(&TOTALS).read(partition, read_counted)
}

pub fn read_counted(reply: &mut Reply<'_>) -> Result<Counted, CallError> {
    let (bodies, places) = (reply.int()?, reply.int()?);
    let mut wrong = Vec::new();
    while !reply.is_empty() {
        wrong.push((reply.text()?, reply.text()?, reply.text()?));
    }
    Ok(Counted { bodies, places, wrong })
}
