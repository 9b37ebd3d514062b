//! The scripts of an audit that work on a partition: a bounded look at a time, so that the queue goes on meanwhile.

use crate::store::{
    TOTALS, Topic,
    batch::{CallContext, Phase, SingleOp},
    keys::PartitionKeys,
    reply::{CallError, Fields},
    scripts::{self, Script},
};
use bytes::Bytes;
use deadpool_redis::redis::{Cmd, Value};
use std::sync::Arc;

/// A key of a partition whose members are messages.
pub(super) struct Walked {
    /// Its name.
    pub name: &'static str,
    /// A hash, or else a sorted set.
    pub hash: bool,
    key: fn(&PartitionKeys) -> &str,
}

/// All of them. Bodies come first: what has one is looked at from all sides then.
pub(super) const WALKS: [Walked; 12] = [
    Walked { name: "messages", hash: true, key: |keys| &keys.messages },
    Walked { name: "unack", hash: false, key: |keys| &keys.unack },
    Walked { name: "last", hash: false, key: |keys| &keys.last },
    Walked { name: "delayed", hash: false, key: |keys| &keys.delayed },
    Walked { name: "delayed_prio", hash: false, key: |keys| &keys.delayed_prio },
    Walked { name: "ready", hash: false, key: |keys| &keys.ready },
    Walked { name: "dead", hash: false, key: |keys| &keys.dead },
    Walked { name: "acked", hash: false, key: |keys| &keys.acked },
    Walked { name: "extra", hash: true, key: |keys| &keys.extra },
    Walked { name: "events", hash: true, key: |keys| &keys.events },
    Walked { name: "expires", hash: false, key: |keys| &keys.expires },
    Walked { name: "first_due", hash: false, key: |keys| &keys.first_due },
];

/// Those whose members are keys that clients chose.
pub(super) const KEY_WALKS: [&str; 3] = ["keys", "idem", "idem_due"];

/// What one call of a walk saw.
#[derive(Default)]
pub(super) struct Page {
    /// Where to go on; "0" at the end.
    pub cursor: String,
    pub seen: i64,
    pub bytes: i64,
    /// Subject, defect, detail.
    pub found: Vec<(Bytes, String, String)>,
    /// Members and how their bodies begin, of bodies that are not plain.
    pub begins: Vec<(Bytes, Bytes)>,
}

fn page(reply: Value) -> Result<Page, CallError> {
    let mut fields = Fields::of(reply)?;
    let (cursor, seen, bytes) = (fields.text()?, fields.int()?, fields.int()?);
    let mut page = Page { cursor, seen, bytes, ..Page::default() };
    let mut found = fields.fields()?;
    while !found.is_empty() {
        let (subject, defect) = (found.bytes()?, found.text()?);
        let detail = String::from_utf8_lossy(&found.bytes()?).into_owned();
        page.found.push((subject, defect, detail));
    }
    if !fields.is_empty() {
        let mut begins = fields.fields()?;
        while !begins.is_empty() {
            page.begins.push((begins.bytes()?, begins.bytes()?));
        }
    }
    Ok(page)
}

/// How far a walk is.
#[derive(Clone)]
pub(super) struct Step {
    /// Number of the topic that the partition said it belongs to when the walk began.
    pub owner: String,
    pub cursor: String,
    /// About so many members.
    pub count: i64,
}

/// A look at some messages.
pub(super) struct AuditMessages {
    pub walked: &'static Walked,
    pub step: Step,
}

impl SingleOp for AuditMessages {
    type Output = Page;
    const PHASE: Phase = Phase::Scan;

    fn script() -> &'static Script {
        &scripts::AUDIT_MESSAGES
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        let all = topic.keys.all();
        command.arg(all.len() + 1).arg(&all[..]).arg((self.walked.key)(&topic.keys));
        command.arg(&self.step.owner).arg(self.walked.name);
        command.arg(if self.walked.hash { "h" } else { "z" });
        command.arg(&self.step.cursor).arg(self.step.count);
    }

    fn read(
        &self,
        _: &Arc<Topic>,
        _: &mut CallContext<'_>,
        reply: Value,
    ) -> Result<Page, CallError> {
        page(reply)
    }
}

/// A look at some keys.
pub(super) struct AuditKeys {
    pub walked: &'static str,
    pub step: Step,
    pub repair: bool,
}

impl SingleOp for AuditKeys {
    type Output = Page;
    const PHASE: Phase = Phase::Scan;

    fn script() -> &'static Script {
        &scripts::AUDIT_KEYS
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&self.step.owner).arg(self.walked);
        command.arg(&self.step.cursor).arg(self.step.count).arg(u8::from(self.repair));
    }

    fn read(
        &self,
        _: &Arc<Topic>,
        _: &mut CallContext<'_>,
        reply: Value,
    ) -> Result<Page, CallError> {
        page(reply)
    }
}

/// Some messages to bring into order.
pub(super) struct AuditMend {
    pub owner: String,
    /// Members; with them how the body begins that cannot be read.
    pub members: Vec<(Bytes, Option<Bytes>)>,
}

impl SingleOp for AuditMend {
    /// What became of each.
    type Output = Vec<String>;
    const PHASE: Phase = Phase::Scan;

    fn script() -> &'static Script {
        &scripts::AUDIT_MEND
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&self.owner);
        for (member, begin) in &self.members {
            command.arg(&member[..]).arg(u8::from(begin.is_some()));
            command.arg(begin.as_deref().unwrap_or_default());
        }
    }

    fn read(
        &self,
        topic: &Arc<Topic>,
        context: &mut CallContext<'_>,
        reply: Value,
    ) -> Result<Vec<String>, CallError> {
        let mut fields = Fields::of(reply)?;
        if fields.int()? == 1 {
            context.wakes.push(topic.clone());
        }
        let mut became = Vec::with_capacity(fields.len());
        while !fields.is_empty() {
            became.push(fields.text()?);
        }
        Ok(became)
    }
}

/// A look at what is counted.
pub(super) struct AuditTotals {
    pub owner: String,
    pub repair: bool,
}

/// What is counted.
pub(super) struct Counted {
    pub bodies: i64,
    pub places: i64,
    /// A total, what it was, what it should be.
    pub wrong: Vec<(String, String, String)>,
}

impl SingleOp for AuditTotals {
    type Output = Counted;
    const PHASE: Phase = Phase::Scan;

    fn script() -> &'static Script {
        &scripts::AUDIT_TOTALS
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&self.owner).arg(u8::from(self.repair)).arg(&TOTALS[..]);
    }

    fn read(
        &self,
        _: &Arc<Topic>,
        _: &mut CallContext<'_>,
        reply: Value,
    ) -> Result<Counted, CallError> {
        let mut fields = Fields::of(reply)?;
        let (bodies, places) = (fields.int()?, fields.int()?);
        let mut wrong = Vec::new();
        while !fields.is_empty() {
            wrong.push((fields.text()?, fields.text()?, fields.text()?));
        }
        Ok(Counted { bodies, places, wrong })
    }
}
