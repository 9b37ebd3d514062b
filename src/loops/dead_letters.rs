//! Publishes dead letters: a message that dies in a topic with a `dead_topic` is published there too, at least once, or moves
//! there.

use dueq_model::{Body, Content, DeadForm, Millis, Origin, TopicSettings, error::Error};
use dueq_store::{
    DeadLetter, Death, DeathEnd, MessageOptions, MessageSnapshot, PartitionName, Store, Topic,
};
use std::collections::BTreeMap;
use tokio::sync::mpsc::UnboundedReceiver;

/// Writes the payload of a dead letter. Errors: the message cannot be shown.
pub type WriteDeadLetter = fn(&Topic, &MessageSnapshot, Millis) -> Result<Vec<u8>, Error>;

/// Calls in a row for one partition; what is left then is its sweep's.
const CALLS: usize = 16;

/// Publishes deaths that this instance saw, as they come. A sweep publishes the others.
pub(super) async fn publish_at_once(
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
                if !matches!(publish_deaths(store, &name, write, false).await, Ok(true)) {
                    break;
                }
            }
        }
    }
}

/// Publishes some deaths of a partition. Returns whether there were any. `alone`: no other sweep of the partition is under way, so
/// what is claimed was left behind.
///
/// Errors: `TopicNotFound`, `TopicsExhausted`, `UpgradePending`, `RedisUnavailable`, `OutcomeUnknown`; then they are published once more.
pub(super) async fn publish_deaths(
    store: &Store,
    name: &PartitionName,
    write: WriteDeadLetter,
    alone: bool,
) -> Result<bool, Error> {
    let (topic, mut deaths) = store.take_dead(name).await?;
    deaths.retain(|death| alone || !death.is_claimed());
    if deaths.is_empty() {
        return Ok(false);
    }
    let (mut deaths, kept): (Vec<_>, Vec<_>) =
        deaths.into_iter().partition(|death| is_published(&topic, death));
    let mut ends: Vec<_> =
        kept.into_iter().map(|death| (death.id, death.mark, DeathEnd::Kept)).collect();
    if topic.settings.dead_form == DeadForm::Raw {
        deaths = store.claim_dead(name, deaths).await?;
    }
    let (mut letters, mut marks, mut failed) = (Vec::new(), Vec::new(), None);
    let parts_tenants = !deaths.is_empty() && parts_tenants(store, &topic).await?;
    for death in deaths {
        let (id, mark) = (death.id, death.mark.clone());
        match letter(&topic, death, write) {
            Some(mut letter) => {
                if parts_tenants && letter.group.is_some() {
                    letter.body.sqs.get_or_insert_default().group = letter.group.take();
                }
                letters.push(letter);
                marks.push((id, mark));
            }
            None => ends.push((id, mark, DeathEnd::Done)),
        }
    }
    if let Some(dead_topic) = &topic.settings.dead_topic {
        let published = store.publish_dead_letters(dead_topic, &letters).await;
        for ((id, mark), published) in marks.into_iter().zip(published) {
            match &published {
                Ok(()) => ends.push((id, mark, DeathEnd::Done)),
                // The next sweep finds out.
                Err(Error::OutcomeUnknown | Error::Internal) => {}
                Err(_) => ends.push((id, mark, DeathEnd::Failed)),
            }
            failed = published.err().or(failed);
        }
    }
    store.finish_dead(name, &ends).await?;
    failed.map_or(Ok(true), Err)
}

/// Is this death published elsewhere? Not that of a message that cannot be read, nor that of a dead letter: so nothing goes
/// round in a circle of dead topics.
fn is_published(topic: &Topic, death: &Death) -> bool {
    let body = death.message.as_ref().and_then(|message| message.body.as_ref());
    topic.settings.dead_topic.is_some()
        && body.is_some_and(|body| !body.dead_letter && body.origin.is_none())
}

/// Do messages of a queue of SQS move to one whose groups take no turns? There they would wait for each other, which tenants do not.
async fn parts_tenants(store: &Store, topic: &Topic) -> Result<bool, Error> {
    let TopicSettings { dead_topic, dead_form, sqs, .. } = &topic.settings;
    let is_raw = sqs.is_some() && topic.settings.is_fair() && *dead_form == DeadForm::Raw;
    let Some(dead_topic) = dead_topic.as_ref().filter(|_| is_raw) else { return Ok(false) };
    Ok(!store.known_topic(dead_topic).await?.is_some_and(|it| it.settings.is_fair()))
}

/// What the dead topic gets of a death; `None` for one that cannot be published.
fn letter(topic: &Topic, death: Death, write: WriteDeadLetter) -> Option<DeadLetter> {
    let Death { id, died_at, message, .. } = death;
    let message = message?;
    if topic.settings.dead_form == DeadForm::Raw {
        let MessageSnapshot { body, options, attempts, .. } = message;
        let origin = Some(Origin { id, topic: topic.name.clone(), attempts });
        let body = Body { callback: None, origin, ..body? };
        let MessageOptions { priority, group, .. } = options;
        return Some(DeadLetter { id, died_at, body, priority, group });
    }
    let payload = write(topic, &message, died_at)
        .inspect_err(|error| tracing::error!(%id, %error, "cannot publish a dead letter"))
        .ok()?;
    let trace = message.body.as_ref().and_then(|body| body.trace);
    let content = Content::Json(payload.into());
    let body = Body { dead_letter: true, trace, ..Body::new(content, BTreeMap::new()) };
    Some(DeadLetter { id, died_at, body, priority: 0, group: message.options.group })
}
