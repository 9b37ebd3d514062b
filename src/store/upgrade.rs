//! Brings data of schema version 1 up to the present one. The service is marked first, so that no older dueq begins to
//! work on the data; each partition follows with its first request, and all of them in a walk before dueq serves. An
//! older dueq that still runs finds each partition changed, and writes nothing more.

use super::{
    Store,
    batch::{Command, Lanes},
    keys::{GlobalKeys, PartitionKeys},
    partition::Partition,
    reply::{CallError, Fields},
};
use deadpool_redis::redis::{Cmd, cmd};
use dueq_model::{Epoch, TopicName};

const SERVICE: &str = include_str!("../../migrations-lua/versions/2_service.lua");
const PARTITION: &str = include_str!("../../migrations-lua/versions/2_partition.lua");
/// Topics of one step of the walk.
const TOPICS: usize = 256;

/// The command that marks data of version 1 as those of version 2.
pub(super) fn upgrade_service(keys: &GlobalKeys) -> Cmd {
    let mut call = cmd("EVAL");
    call.arg(SERVICE).arg(3).arg(&keys.runs).arg(&keys.instances).arg(&keys.schema);
    call
}

/// Brings a partition to version 2.
pub(super) async fn upgrade_partition(
    lanes: &Lanes,
    partition: &Partition,
) -> Result<(), CallError> {
    let PartitionKeys { meta, unack, last, acked, .. } = &partition.keys;
    let mut call = Command::new("EVAL").arg((PARTITION, 4, meta, unack, last, acked));
    let all = Command::new("HGETALL").arg(&lanes.shared.keys.runs);
    let mut runs = Fields::of(lanes.command(all).await?)?;
    while !runs.is_empty() {
        let (id, number) = (runs.text()?, runs.int()?);
        // The others are counters.
        if !id.starts_with(':') {
            call = call.arg((format!("epoch:{}", Epoch::of_run(&id)), number));
        }
    }
    lanes.command(call).await.map(|_| ())
}

impl Store {
    /// Brings all partitions to the present version, if that was not done to the end before.
    pub(super) async fn upgrade(&self) -> Result<(), CallError> {
        let keys = &self.lanes.shared.keys;
        let exists = Command::new("EXISTS").arg(&keys.runs);
        if super::reply::int(self.lanes.command(exists).await?)? == 0 {
            return Ok(());
        }
        let (mut topics, mut after) = (0, None::<TopicName>);
        loop {
            let after_name = after.as_ref().map(TopicName::as_str);
            let names = self.topic_names("", after_name, TOPICS).await;
            let names = names.map_err(|_| CallError::Unavailable)?;
            for name in &names {
                self.registry.open(name).await?;
            }
            topics += names.len();
            after = match names.last() {
                Some(last) => Some(last.clone()),
                None => break,
            };
        }
        self.lanes.command(Command::new("UNLINK").arg(&keys.runs)).await?;
        tracing::info!(topics, "the data were brought to schema version 2");
        Ok(())
    }
}
