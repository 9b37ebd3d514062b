//! How a schedule lies in Redis: its definition as JSON, and what changes with every tick as words that scripts take
//! apart.

use super::{Schedule, ScheduleSpec};
use crate::{
    Due, Maker, MessageKey, MessageOptions, NewMessage, Store, batch::Command, random_bytes,
    reply::Fields, scripts,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use dueq_model::{
    Body, CatchUp, MessageId, Millis, ScheduleName, Timing, TopicName, Unknown, Zones,
    error::Error, is_default,
};
use serde::{Deserialize, Serialize};

/// Bytes of definitions in a call, about.
const CALL_BYTES: usize = 512 * 1024;
/// Written in place of an id.
pub(super) const NO_ID: &str = "-";

/// What a put writes, and nothing else changes.
#[derive(Serialize, Deserialize)]
pub(super) struct Definition {
    timing: Timing,
    topic: TopicName,
    /// [`Body::encode`] in base64.
    body: String,
    #[serde(flatten)]
    options: MessageOptions,
    #[serde(flatten)]
    key: Option<MessageKey>,
    #[serde(default, skip_serializing_if = "is_default")]
    catch_up: CatchUp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    maker: Option<Maker>,
    created_at: Millis,
    /// Tells this schedule from another of the same name, before or after it.
    generation: String,
    #[serde(flatten)]
    unknown: Unknown,
}

impl Definition {
    /// What is kept of a schedule that is put, in place of `seen` if there was one.
    pub fn of(spec: &ScheduleSpec, seen: Option<&Schedule>, now: Millis) -> Self {
        let new = || hex::encode(&random_bytes()[..8]);
        let generation = seen.map_or_else(new, |seen| seen.generation.clone());
        let created_at = seen.map_or(now, |seen| seen.created_at);
        let unknown = seen.map(|seen| seen.unknown.clone()).unwrap_or_default();
        let ScheduleSpec { timing, topic, message, catch_up, maker } = spec.clone();
        let NewMessage { body, options, .. } = message;
        Self {
            timing,
            topic,
            body: STANDARD.encode(body.encode()),
            key: options.key.clone(),
            options,
            catch_up,
            maker,
            created_at,
            generation,
            unknown,
        }
    }

    fn spec(self, zones: &Zones) -> Option<ScheduleSpec> {
        let body = Body::decode(Bytes::from(STANDARD.decode(self.body).ok()?)).ok()?;
        let options = MessageOptions { key: self.key, ..self.options };
        let message = NewMessage { body, due: Due::After(0), options };
        let (timing, topic, catch_up) = (self.timing.in_zones(zones), self.topic, self.catch_up);
        Some(ScheduleSpec { timing, topic, message, catch_up, maker: self.maker })
    }
}

/// A schedule from its state and its definition. Errors: `Internal`, logged, where they cannot be read.
pub(super) fn read(
    name: ScheduleName,
    state: &str,
    definition: &[u8],
    zones: &Zones,
) -> Result<Schedule, Error> {
    let schedule = read_parts(&name, state, definition, zones);
    if schedule.is_none() {
        tracing::error!(%name, state, "a schedule cannot be read");
    }
    schedule.ok_or(Error::Internal)
}

impl Schedule {
    /// Takes the missed ticks as they are kept, unless they are those of another schedule that had its name.
    pub(super) fn recall_missed(&mut self, text: &str) {
        let mut words = text.split(' ');
        if words.next() == Some(self.generation.as_str()) {
            self.missed_ticks = words.filter_map(|at| at.parse().ok()).collect();
        }
    }
}

fn read_parts(
    name: &ScheduleName,
    state: &str,
    definition: &[u8],
    zones: &Zones,
) -> Option<Schedule> {
    let mut definition: Definition = serde_json::from_slice(definition).ok()?;
    let unknown = std::mem::take(&mut definition.unknown);
    let (created_at, generation) = (definition.created_at, definition.generation.clone());
    let spec = definition.spec(zones)?;
    let mut words = state.splitn(7, ' ');
    let mut number = || words.next()?.parse::<i64>().ok();
    let (revision, paused, next_at) = (number()?, number()? == 1, number()?);
    let (claimed_at, last_at) = (number()?, number()?);
    let (last_id, last_error) = (words.next()?, words.next()?);
    Some(Schedule {
        name: name.clone(),
        spec,
        created_at,
        paused,
        next_at: (next_at > 0).then_some(next_at),
        last_at: (last_at > 0).then_some(last_at),
        last_message_id: MessageId::parse(last_id).ok(),
        last_error: (!last_error.is_empty()).then(|| last_error.to_owned()),
        missed_ticks: Vec::new(),
        revision,
        claimed_at: claimed_at.max(0),
        held_at: 0,
        generation,
        unknown,
    })
}

impl Store {
    /// Schedules that come after `after`, as one call returns them; whether more follow; and Redis's time.
    pub(super) async fn read_schedules(
        &self,
        after: Option<&ScheduleName>,
        limit: usize,
    ) -> Result<(Vec<Schedule>, bool, Millis), Error> {
        let [entries, states, _, index] = self.schedule_keys();
        let from = after.map_or("-".to_owned(), |name| format!("({name}"));
        let list = Command::eval(&scripts::LIST_SCHEDULES, &[entries, states, index]);
        let list = list.arg((from, limit, CALL_BYTES));
        let mut fields = Fields::of(self.lanes.command(list).await?)?;
        let (now, more) = (fields.int()?, fields.int()? == 1);
        Ok((read_all(fields, &self.zones())?, more, now))
    }
}

/// Schedules of a reply. Those that cannot be read are logged, and left out so as not to hold up the others.
pub(super) fn read_all(mut fields: Fields, zones: &Zones) -> Result<Vec<Schedule>, Error> {
    let mut all = Vec::new();
    while !fields.is_empty() {
        let (name, state) = (fields.text()?, fields.text()?);
        let (definition, missed) = (fields.bytes()?, fields.text()?);
        match ScheduleName::parse(&name) {
            Ok(name) => {
                if let Ok(mut schedule) = read(name, &state, &definition, zones) {
                    schedule.recall_missed(&missed);
                    all.push(schedule);
                }
            }
            Err(error) => tracing::error!(name, %error, "a schedule cannot be read"),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyUntil, OnDuplicate};
    use dueq_model::{Backoff, Callback, Content};

    #[test]
    fn a_schedule_comes_back_as_it_was_put() {
        let url = dueq_model::CallUrl::parse("http://example.com/").unwrap();
        let callback = Some(Callback { timeout_ms: Some(100), ..Callback::to(url) });
        let content = Content::Json(Bytes::from_static(b"{ \"a\": 1E400 }"));
        let body = Body { callback, ..Body::new(content, Default::default()) };
        let key = MessageKey {
            name: "k".to_owned(),
            on_duplicate: OnDuplicate::Replace,
            until: KeyUntil::Granted,
            max_wait_ms: None,
        };
        let options = MessageOptions {
            priority: 7,
            max_attempts: Some(3),
            ttl_ms: Some(4),
            backoff: Some(Backoff::default()),
            group: Some("g".to_owned()),
            key: Some(key),
            ..MessageOptions::default()
        };
        let message = NewMessage { body: body.clone(), due: Due::After(0), options };
        let timing = Timing::Every { every_ms: 1_000, anchor_ms: 17 };
        let topic = TopicName::callbacks();
        let spec = ScheduleSpec {
            timing: timing.clone(),
            topic,
            message,
            catch_up: CatchUp::All,
            maker: None,
        };
        let mut definition = serde_json::to_value(Definition::of(&spec, None, 5)).unwrap();
        // As a later version may write it.
        definition["later"] = serde_json::json!({"a": [1]});
        let definition = serde_json::to_vec(&definition).unwrap();
        let name = ScheduleName::parse("s").unwrap();
        let zones = Zones::bundled();
        let read_back = read(name.clone(), "4 1 0 0 9 - not now", &definition, &zones).unwrap();
        assert_eq!(read_back.spec.timing, timing);
        assert_eq!(read_back.spec.message.body, body);
        assert_eq!(read_back.spec.message.options, spec.message.options);
        assert_eq!(read_back.spec.catch_up, CatchUp::All);
        let put_again = Definition::of(&read_back.spec, Some(&read_back), 6);
        let put_again = serde_json::to_vec(&put_again).unwrap();
        let json = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).unwrap();
        assert_eq!(json(&put_again), json(&definition), "with what is unknown");
        assert_eq!((read_back.revision, read_back.paused, read_back.next_at), (4, true, None));
        assert_eq!((read_back.last_at, read_back.last_message_id), (Some(9), None));
        assert_eq!(read_back.last_error.as_deref(), Some("not now"));
        let mut read_back = read_back;
        read_back.recall_missed("another 1 2");
        assert!(read_back.missed_ticks.is_empty());
        read_back.recall_missed(&format!("{} 1 2", read_back.generation));
        assert_eq!(read_back.missed_ticks, [1, 2]);
        assert!(read(name, "4 1 0", &definition, &zones).is_err());
    }
}
