//! Tells of deaths elsewhere: what dies in a topic with a `dead_topic` is published there too, or moves there. At least once:
//! what was published is crossed out, or removed, afterwards.

use crate::{
    error::Error,
    model::{Body, Content, DeadForm, Millis, Origin},
    store::{DeadLetter, Death, MessageSnapshot, PartitionName, Store, Topic},
};
use std::collections::{BTreeMap, HashSet};
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
    let mut moved = HashSet::new();
    if let Some(dead_topic) = &topic.settings.dead_topic {
        let letters: Vec<_> =
            deaths.into_iter().filter_map(|death| letter(&topic, death, write)).collect();
        if topic.settings.dead_form == DeadForm::Raw {
            moved = letters.iter().map(|letter| letter.id).collect();
        }
        store.publish_dead_letters(dead_topic, letters).await?;
    }
    store.finish_dead(name, &told, |id| moved.contains(id)).await?;
    Ok(true)
}

/// What the dead topic gets of a death; nothing of one that cannot be told of, and of a dead topic's own letters, which go nowhere
/// further.
fn letter(topic: &Topic, death: Death, write: WriteDeadLetter) -> Option<DeadLetter> {
    let Death { id, died_at, message } = death;
    let message = message.filter(|it| it.body.as_ref().is_some_and(|body| !body.dead_letter))?;
    if topic.settings.dead_form == DeadForm::Raw {
        let MessageSnapshot { body, priority, group, attempts, .. } = message;
        let body = body?;
        let (first, before) = match &body.origin {
            Some(origin) => (origin.id, origin.attempts),
            None => (id, 0),
        };
        let (topic, attempts) = (topic.name.clone(), before.saturating_add(attempts));
        let origin = Some(Origin { id: first, topic, attempts });
        let body = Body { callback: None, origin, ..body };
        return Some(DeadLetter { id, died_at, body, priority, group });
    }
    let payload = write(topic, &message, died_at)
        .inspect_err(|error| tracing::error!(%id, %error, "a death cannot be told of"))
        .ok()?;
    let trace = message.body.as_ref().and_then(|body| body.trace);
    let content = Content::Json(payload.into());
    let body = Body { dead_letter: true, trace, ..Body::new(content, BTreeMap::new()) };
    Some(DeadLetter { id, died_at, body, priority: 0, group: message.group })
}
