//! The walk of an audit through a partition: each script looks at some dozen members at most and is one instant.

use super::{
    Audit,
    finding::{Finding, Subject, became, known},
    scripts::{self, Page, WALKS, Walked},
};
use crate::{
    Partition, PartitionName,
    batch::Command,
    reply::{CallError, bytes},
};
use bytes::Bytes;
use dueq_model::{Body, error::Error};
use futures_util::future::try_join_all;
use std::collections::{HashMap, HashSet};

/// Members of one look at most, and how many bytes a look may read before the next is smaller.
const MAX_MEMBERS: i64 = 32;
const MAX_BYTES: i64 = 128 * 1024;
/// Messages mended in one call.
const MEND_MESSAGES: usize = 32;
/// How often a topic is looked at that is deleted and created again meanwhile.
const MAX_TRIES: usize = 5;

impl Audit<'_> {
    /// Looks at one partition; returns how many messages there are, nothing where there is no such topic.
    pub(super) async fn one(&mut self, name: &PartitionName) -> Result<Option<i64>, Error> {
        for attempt in 1..=MAX_TRIES {
            let Some((partition, owner)) = self.partition(name).await? else { return Ok(None) };
            let audit = PartitionAudit { audit: self, partition, owner, reported: HashSet::new() };
            match audit.run().await {
                Ok(messages) => return Ok(Some(messages)),
                Err(CallError::Stale) if attempt < MAX_TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(None)
    }
}

/// The audit of one partition.
struct PartitionAudit<'a, 'b> {
    audit: &'a mut Audit<'b>,
    partition: Partition,
    /// Number of the topic that the partition says it belongs to.
    owner: String,
    /// A walk may come by twice, and several walks may meet one message.
    reported: HashSet<(Subject, &'static str)>,
}

impl PartitionAudit<'_, '_> {
    /// Returns how many messages there are.
    async fn run(mut self) -> Result<i64, CallError> {
        for walked in &WALKS {
            self.walk(walked).await?;
        }
        self.count().await
    }

    async fn walk(&mut self, walked: &'static Walked) -> Result<(), CallError> {
        // Bodies may be large: a few at first, more when they turn out small.
        let (mut cursor, mut count) = ("0".to_owned(), 1);
        loop {
            let mut page = self.look(walked, (&cursor, count, &[])).await?;
            cursor.clone_from(&page.cursor);
            count = next_count(count, &page);
            let left = std::mem::take(&mut page.left);
            self.found(walked, page).await?;
            for names in left.chunks(MAX_MEMBERS as usize) {
                let page = self.look(walked, ("", 0, names)).await?;
                self.found(walked, page).await?;
            }
            if cursor == "0" {
                return Ok(());
            }
        }
    }

    async fn look(
        &self,
        walked: &'static Walked,
        from: (&str, i64, &[Bytes]),
    ) -> Result<Page, CallError> {
        let look = scripts::look(&self.partition, walked, &self.owner, from, self.audit.repair);
        self.audit.store.lanes.submit(look).await
    }

    /// Tells what a look found.
    async fn found(&mut self, walked: &'static Walked, page: Page) -> Result<(), CallError> {
        if !walked.kind.is_empty() {
            (self.audit.progress)(page.seen.unsigned_abs());
            return self.messages_found(page).await;
        }
        let subject = if walked.name == "keys" { Subject::Key } else { Subject::IdempotencyKey };
        let mended = self.audit.repair.then_some("put right");
        for (key, defect, detail) in page.found {
            self.tell(subject(key.to_vec()), &defect, detail, mended);
        }
        Ok(())
    }

    /// Tells what a look at messages found, once it is mended where that is wished.
    async fn messages_found(&mut self, page: Page) -> Result<(), CallError> {
        let mut broken = HashMap::new();
        let mut found = page.found;
        for (member, body) in self.bodies(&page.bodies).await? {
            if !Body::decode(body.clone()).is_ok_and(|body| body.content.is_sound()) {
                found.push((member.clone(), "bad_body".to_owned(), String::new()));
                broken.insert(member, body);
            }
        }
        let mut members: Vec<Bytes> = found.iter().map(|(member, ..)| member.clone()).collect();
        members.dedup();
        let mut mended = HashMap::new();
        if self.audit.repair {
            for members in members.chunks(MEND_MESSAGES) {
                let members: Vec<_> =
                    members.iter().map(|m| (m.clone(), broken.get(m).cloned())).collect();
                let mend = scripts::mend(&self.partition, &self.owner, &members);
                let words = self.audit.store.lanes.submit(mend).await?;
                for ((member, _), word) in members.into_iter().zip(words) {
                    // What was mended by now is right at a second look.
                    mended.entry(member).or_insert_with(|| became(&word));
                }
            }
        }
        for (member, defect, detail) in found {
            let subject = Subject::message(&member, self.partition.route);
            // Those the look itself took away.
            let taken = ["stray_heads", "stray_queued"].contains(&&*defect).then_some("put right");
            let mended = taken.filter(|_| self.audit.repair).or(mended.get(&member).copied());
            self.tell(subject, &defect, detail, mended);
        }
        Ok(())
    }

    /// The bodies of these members, of those that are there.
    async fn bodies(&self, members: &[Bytes]) -> Result<Vec<(Bytes, Bytes)>, CallError> {
        // One by one, so that Redis serves others between two large ones.
        let get = members.iter().map(async |member| {
            let get = Command::new("HGET").arg((&self.partition.keys.messages, &member[..]));
            let body = bytes(self.audit.store.lanes.command(get).await?).ok();
            Ok(body.map(|body| (member.clone(), body)))
        });
        Ok(try_join_all(get).await?.into_iter().flatten().collect())
    }

    async fn count(&mut self) -> Result<i64, CallError> {
        let count = scripts::count(&self.partition, &self.owner, self.audit.repair);
        let counted = self.audit.store.lanes.submit(count).await?;
        if counted.bodies != counted.places {
            let detail = format!("{} bodies, {} places", counted.bodies, counted.places);
            self.tell(Subject::Topic, "counts", detail, None);
        }
        for (total, is, should_be) in counted.wrong {
            let detail = format!("{total} is {is}, not {should_be}");
            let mut finding =
                Finding::of_topic(self.partition.topic.name.as_str(), "totals", detail);
            finding.mended = self.audit.repair.then_some("it is now");
            (self.audit.tell)(finding);
        }
        Ok(counted.bodies)
    }

    fn tell(
        &mut self,
        subject: Subject,
        defect: &str,
        detail: String,
        mended: Option<&'static str>,
    ) {
        let (topic, defect) = (self.partition.topic.name.to_string(), known(defect));
        if self.reported.insert((subject.clone(), defect)) {
            (self.audit.tell)(Finding { topic, subject, defect, detail, mended });
        }
    }
}

/// How many members the look after this page has.
fn next_count(count: i64, page: &Page) -> i64 {
    if page.bytes > MAX_BYTES {
        (count / 2).max(1)
    } else if page.bytes < MAX_BYTES / 4 && page.seen < 2 * MAX_MEMBERS {
        (count * 2).min(MAX_MEMBERS)
    } else {
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_grow_while_bodies_are_small_and_shrink_when_they_are_large() {
        let page = |bytes| Page { seen: 4, bytes, ..Page::default() };
        let count = (0..10).fold(4, |count, _| next_count(count, &page(900)));
        assert_eq!(count, MAX_MEMBERS);
        assert_eq!((0..10).fold(count, |count, _| next_count(count, &page(64 << 20))), 1);
    }
}
