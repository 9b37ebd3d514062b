//! The scripts of an audit that work on a partition: a bounded look at a time, so that the queue goes on meanwhile.

use crate::{
    Partition, TOTALS,
    batch::{Command, Request},
    keys::PartitionKeys,
    reply::{CallError, Reply},
    scripts,
};
use bytes::Bytes;

/// A key of a partition that is walked through.
pub struct Walked {
    /// Its name.
    pub name: &'static str,
    /// `h`: a hash of messages, `z`: a sorted set of messages; empty: its members are keys that clients chose.
    pub kind: &'static str,
    key: fn(&PartitionKeys) -> &str,
}

/// All of them. Bodies come first: what has one is looked at from all sides then.
pub const WALKS: [Walked; 18] = [
    Walked { name: "messages", kind: "h", key: |keys| &keys.messages },
    Walked { name: "unack", kind: "z", key: |keys| &keys.unack },
    Walked { name: "last", kind: "z", key: |keys| &keys.last },
    Walked { name: "delayed", kind: "z", key: |keys| &keys.delayed },
    Walked { name: "delayed_prio", kind: "z", key: |keys| &keys.delayed_prio },
    Walked { name: "ready", kind: "z", key: |keys| &keys.ready },
    Walked { name: "blocked", kind: "z", key: |keys| &keys.blocked },
    Walked { name: "heads", kind: "z", key: |keys| &keys.heads },
    Walked { name: "queued", kind: "z", key: |keys| &keys.queued },
    Walked { name: "dead", kind: "z", key: |keys| &keys.dead },
    Walked { name: "acked", kind: "z", key: |keys| &keys.acked },
    Walked { name: "extra", kind: "h", key: |keys| &keys.extra },
    Walked { name: "events", kind: "h", key: |keys| &keys.events },
    Walked { name: "expires", kind: "z", key: |keys| &keys.expires },
    Walked { name: "first_due", kind: "z", key: |keys| &keys.first_due },
    Walked { name: "keys", kind: "", key: |keys| &keys.keys },
    Walked { name: "idem", kind: "", key: |keys| &keys.idem },
    Walked { name: "idem_due", kind: "", key: |keys| &keys.idem_due },
];

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
    /// What it did not look at: all of a page that Redis returned whole.
    pub left: Vec<Bytes>,
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
    for names in [&mut page.bodies, &mut page.left] {
        let mut fields = reply.fields()?;
        while !fields.is_empty() {
            names.push(fields.bytes()?);
        }
    }
    Ok(page)
}

/// A look at about `count` members of a key, from the cursor on, or at those that are named. `owner`: number of the topic that
/// the partition said it belongs to when the walk began.
pub fn look(
    partition: &Partition,
    walked: &Walked,
    owner: &str,
    (cursor, count, named): (&str, i64, &[Bytes]),
    repair: bool,
) -> Request<Page> {
    let mut keys = partition.keys.all().to_vec();
    let look = match walked.kind {
        "" => Command::script(&scripts::AUDIT_KEYS, &keys).arg((owner, walked.name)),
        kind => {
            keys.push((walked.key)(&partition.keys));
            Command::script(&scripts::AUDIT_MESSAGES, &keys).arg((owner, walked.name, kind))
        }
    };
    let look = look.arg((cursor, count, repair));
    named.iter().fold(look, |look, name| look.arg(&name[..])).read(partition, read_page)
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
