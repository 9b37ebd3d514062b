//! Tells of deaths elsewhere: what dies in a topic with a `dead_topic` is published there too. At least once: what was
//! published is crossed out afterwards.

use crate::{
    error::Error,
    model::Millis,
    store::{DeadLetter, Death, MessageSnapshot, PartitionName, Store, Topic},
};
use tokio::sync::mpsc::UnboundedReceiver;

/// Writes the payload that tells of a death. Errors: where the message cannot be shown.
pub type WriteDeadLetter = fn(&Topic, &MessageSnapshot, Millis) -> Result<Vec<u8>, Error>;

/// Calls in a row for one partition; what is left then is its sweep's.
const CALLS: usize = 16;

/// Tells of deaths that this instance saw, as they come. What it cannot tell of, or nobody saw, a sweep does.
pub(super) async fn tell_at_once(
    store: &Store,
    mut seen: UnboundedReceiver<PartitionName>,
    write: WriteDeadLetter,
) {
    let mut names = Vec::new();
    while seen.recv_many(&mut names, usize::MAX).await > 0 {
        names.sort_unstable();
        names.dedup();
        for name in names.drain(..) {
            for _ in 0..CALLS {
                if !matches!(tell_of_deaths(store, &name, write).await, Ok(true)) {
                    break;
                }
            }
        }
    }
}

/// Tells of some deaths in a partition. Returns whether there were any.
///
/// Errors: `TopicNotFound`, `TopicsExhausted`, `RedisUnavailable`, `OutcomeUnknown`; then they are told of once more.
pub(super) async fn tell_of_deaths(
    store: &Store,
    name: &PartitionName,
    write: WriteDeadLetter,
) -> Result<bool, Error> {
    let (topic, deaths) = store.take_dead(name).await?;
    if deaths.is_empty() {
        return Ok(false);
    }
    let told: Vec<_> = deaths.iter().map(|death| (death.id, death.died_at)).collect();
    if let Some(dead_topic) = &topic.settings.dead_topic {
        let letter = |death: &Death| {
            let message = death.message.as_ref()?;
            // A dead topic's own dead go nowhere further.
            if message.body.as_ref().is_none_or(|body| body.dead_letter) {
                return None;
            }
            let payload = write(&topic, message, death.died_at)
                .inspect_err(|error| {
                    tracing::error!(id = %death.id, %error, "a death cannot be told of");
                })
                .ok()?;
            let (group, payload) = (message.group.clone(), payload.into());
            let trace = message.body.as_ref().and_then(|body| body.trace);
            Some(DeadLetter { id: death.id, died_at: death.died_at, payload, group, trace })
        };
        store.publish_dead_letters(dead_topic, deaths.iter().filter_map(letter).collect()).await?;
    }
    store.finish_dead(name, &told).await?;
    Ok(true)
}
