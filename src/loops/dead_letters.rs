//! Publishes ends of messages: a message that dies in a topic with a `dead_topic` is published there too, at least once, or moves
//! there; and one with `on_done` or `on_dead` is followed by a completion.

use dueq_model::{
    Backoff, Body, COMPLETES_HEADER, Callback, Completion, Content, DeadForm, Millis, Origin, Own,
    TopicName, TopicSettings, error::Error,
};
use dueq_store::{
    DeadLetter, Death, DeathEnd, MessageOptions, MessageSnapshot, PartitionName, Report, Store,
    Topic,
};
use std::collections::BTreeMap;
use tokio::sync::mpsc::UnboundedReceiver;

/// Writes the payload of a dead letter or of a completion. Errors: the message cannot be shown.
pub type WriteReport = fn(&Topic, &MessageSnapshot, Report, Millis) -> Result<Vec<u8>, Error>;

/// Calls in a row for one partition; what is left then is its sweep's.
const CALLS: usize = 16;

/// Publishes deaths that this instance saw, as they come. A sweep publishes the others.
pub(super) async fn publish_at_once(
    store: &Store,
    mut seen: UnboundedReceiver<PartitionName>,
    write: WriteReport,
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

/// Publishes some ends of a partition. Returns whether there were any. `alone`: no other sweep of the partition is under way, so
/// what is claimed was left behind. What goes to a topic that cannot be published to holds up nothing else.
///
/// Errors: `TopicNotFound`, `TopicsExhausted`, `UpgradePending`, `RedisUnavailable`, `OutcomeUnknown`; then they are published once more.
pub(super) async fn publish_deaths(
    store: &Store,
    name: &PartitionName,
    write: WriteReport,
    alone: bool,
) -> Result<bool, Error> {
    let (mut passed_over, mut failed) = (0, None);
    for _ in 0..CALLS {
        match publish_some(store, name, write, alone, passed_over).await? {
            Some((left, error)) if error.is_some() || failed.is_some() => {
                (passed_over, failed) = (passed_over + left, error.or(failed));
            }
            round => return failed.map_or(Ok(round.is_some()), Err),
        }
    }
    failed.map_or(Ok(true), Err)
}

/// The same, but behind so many. Returns how many are still to be published, and why one of them is; `None` where there were none.
///
/// Errors: as for [`publish_deaths`], where none is published.
async fn publish_some(
    store: &Store,
    name: &PartitionName,
    write: WriteReport,
    alone: bool,
    passed_over: usize,
) -> Result<Option<(usize, Option<Error>)>, Error> {
    let (topic, mut deaths) = store.take_dead(name, passed_over).await?;
    let taken = deaths.len();
    deaths.retain(|death| alone || !death.is_claimed());
    if deaths.is_empty() {
        return Ok(None);
    }
    let (completions, deaths): (Vec<_>, Vec<_>) =
        deaths.into_iter().partition(|death| death.report != Report::Letter);
    let (mut deaths, kept): (Vec<_>, Vec<_>) =
        deaths.into_iter().partition(|death| is_published(&topic, death));
    let mut ends: Vec<_> = kept
        .into_iter()
        .map(|death| (death.id, death.report, death.mark, DeathEnd::Kept))
        .collect();
    if topic.settings.dead_form == DeadForm::Raw {
        deaths = store.claim_dead(name, deaths).await?;
    }
    // What is published where, with what is noted of it.
    let (mut letters, mut failed, mut gone) = (BTreeMap::<_, Vec<_>>::new(), None, 0);
    let parts_tenants = !deaths.is_empty() && parts_tenants(store, &topic).await?;
    for death in deaths {
        let (id, mark) = (death.id, death.mark.clone());
        match letter(&topic, death, write) {
            Some(mut letter) => {
                if parts_tenants && letter.group.is_some() {
                    letter.body.sqs.get_or_insert_default().group = letter.group.take();
                }
                if let Some(dead_topic) = &topic.settings.dead_topic {
                    letters.entry(dead_topic.clone()).or_default().push((letter, mark));
                }
            }
            None => ends.push((id, Report::Letter, mark, DeathEnd::Done)),
        }
    }
    for end in completions {
        let (id, report, mark) = (end.id, end.report, end.mark.clone());
        match completion(&topic, end, write) {
            Some((to, letter)) => letters.entry(to).or_default().push((letter, mark)),
            None => ends.push((id, report, mark, DeathEnd::Done)),
        }
    }
    for (to, letters) in letters {
        let is_ack = |(it, _): &(DeadLetter, String)| it.report == Report::Done;
        let (acks, mut letters): (Vec<_>, Vec<_>) = letters.into_iter().partition(is_ack);
        let (acks, marks): (Vec<_>, Vec<_>) = acks.into_iter().unzip();
        let (done, may) = store.complete(name, &to, &acks).await;
        gone += done;
        match may {
            Ok(true) => {}
            Ok(false) => letters.extend(acks.into_iter().zip(marks).skip(done)),
            Err(error) => failed = Some(error),
        }
        let (letters, marks): (Vec<_>, Vec<_>) = letters.into_iter().unzip();
        let published = store.publish_dead_letters(&to, &letters).await;
        for ((DeadLetter { id, report, .. }, mark), published) in
            letters.into_iter().zip(marks).zip(published)
        {
            match &published {
                Ok(()) => ends.push((id, report, mark, DeathEnd::Done)),
                // The next sweep finds out.
                Err(Error::OutcomeUnknown | Error::Internal) => {}
                Err(_) => ends.push((id, report, mark, DeathEnd::Failed)),
            }
            failed = published.err().or(failed);
        }
    }
    store.finish_dead(name, &ends).await?;
    gone += ends.iter().filter(|(.., end)| matches!(end, DeathEnd::Done | DeathEnd::Kept)).count();
    Ok(Some((taken - gone.min(taken), failed)))
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
fn letter(topic: &Topic, death: Death, write: WriteReport) -> Option<DeadLetter> {
    let Death { id, died_at, message, .. } = death;
    let message = message?;
    if topic.settings.dead_form == DeadForm::Raw {
        let MessageSnapshot { body, options, attempts, .. } = message;
        let mut body = body?;
        body.own = own(topic, &mut body, &options);
        body.origin = Some(Origin { id, topic: topic.name.clone(), attempts });
        let MessageOptions { priority, group, .. } = options;
        return Some(DeadLetter { id, report: Report::Letter, died_at, body, priority, group });
    }
    let payload = written(topic, &message, Report::Letter, died_at, write)?;
    let trace = message.body.as_ref().and_then(|body| body.trace);
    let content = Content::Json(payload.into());
    // The letter of a completion completes nothing either: so nothing goes round in a circle.
    let completes = message.body.as_ref().and_then(|body| body.completes);
    let body = Body { dead_letter: true, trace, completes, ..Body::new(content, BTreeMap::new()) };
    let (report, group) = (Report::Letter, message.options.group);
    Some(DeadLetter { id, report, died_at, body, priority: 0, group })
}

/// Takes out of a body what the message says for itself, and not by its topic: none of it is in force where the message moves to.
fn own(topic: &Topic, body: &mut Body, options: &MessageOptions) -> Option<Box<Own>> {
    let TopicSettings { on_done, on_dead, .. } = &topic.settings;
    let end = |its: Option<Box<Completion>>, of_topic: &Option<Completion>| {
        its.filter(|its| of_topic.as_ref() != Some(its))
    };
    let own = Own {
        callback: body.callback.take(),
        on_done: end(body.on_done.take(), on_done),
        on_dead: end(body.on_dead.take(), on_dead),
        max_attempts: options.max_attempts,
        ttl_ms: options.ttl_ms,
        backoff: options.backoff.as_ref().map(Backoff::to_script),
        ..Own::default()
    };
    (own != Own::default()).then(|| Box::new(own))
}

fn written(
    topic: &Topic,
    message: &MessageSnapshot,
    report: Report,
    at: Millis,
    write: WriteReport,
) -> Option<Vec<u8>> {
    let payload = write(topic, message, report, at);
    let id = message.id;
    payload
        .inspect_err(|error| tracing::error!(%id, %error, "cannot publish the end of a message"))
        .ok()
}

/// The completion of a message, and its topic; `None` where none is wished, or it cannot be published.
fn completion(topic: &Topic, end: Death, write: WriteReport) -> Option<(TopicName, DeadLetter)> {
    let Death { id, report, died_at, message, .. } = end;
    let message = message?;
    let body = message.body.as_ref()?;
    let to = if report == Report::Done { &body.on_done } else { &body.on_dead };
    let Completion { url, topic: named, publisher, .. } = to.as_deref()?.clone();
    let payload = written(topic, &message, report, died_at, write)?;
    let headers = BTreeMap::from([(COMPLETES_HEADER.to_owned(), id.to_string())]);
    let called = url.is_some();
    let body = Body {
        callback: url.map(Callback::to),
        publisher: called.then_some(publisher),
        completes: Some(id),
        trace: body.trace,
        ..Body::new(Content::Json(payload.into()), headers)
    };
    let to = named.filter(|_| !called).unwrap_or_else(TopicName::callbacks);
    Some((to, DeadLetter { id, report, died_at, body, priority: 0, group: None }))
}
