//! Configurations for `dueq apply`: read and checked as the routes do it, and shown as their answers would show them. So it
//! can tell what is wrong with a file before it sends anything, and what would change.

use super::{
    prelude::*,
    schedules::{Schedule, fields::PutScheduleRequest},
    topics::config::{PutTopicRequest, TopicConfig, check_settings},
};
use bytes::Bytes;
use dueq_model::{Millis, ScheduleName, TopicName, TopicSettings, Zones};
use dueq_store as store;
use serde::Serialize;
use serde_json::Value;
use std::sync::LazyLock;

/// The fields of a schedule's answer besides its configuration.
const OF_NOW: [&str; 9] = [
    "name",
    "paused",
    "next_at",
    "last_at",
    "last_message_id",
    "last_error",
    "missed_ticks",
    "created_at",
    "warnings",
];

/// The server has zones of its own; here only their names matter.
static ZONES: LazyLock<Zones> =
    LazyLock::new(|| Zones::open(None).unwrap_or_else(|_| Zones::bundled()));

/// What is wrong: fields and reasons.
pub type Wrongs = Vec<(String, String)>;

/// The configuration of a topic that this body of a PUT gives to a new one.
pub fn topic(name: &str, body: Vec<u8>) -> Result<Value, Wrongs> {
    let name = TopicName::parse(name).map_err(|error| vec![(String::new(), error.to_string())])?;
    if name.is_reserved() {
        let reason = "topics whose names begin with _ are dueq's own";
        return Err(vec![(String::new(), reason.to_owned())]);
    }
    topic_config(&name, body.into()).map_err(wrongs)
}

fn topic_config(name: &TopicName, body: Bytes) -> Result<Value, Problem> {
    let mut fields = Fields::of_json(&body)?;
    check_settings(&mut fields, name);
    let PutTopicRequest { settings } = fields.read()?;
    let default = TopicSettings::default();
    let settings = settings.onto(&default, None, &default, "")?;
    Ok(as_value(&TopicConfig::of(&settings)))
}

/// The configuration of a schedule that this body of a PUT gives it at `now`.
pub fn schedule(name: &str, body: Vec<u8>, now: Millis) -> Result<Value, Wrongs> {
    let name = ScheduleName::parse(name);
    let name = name.map_err(|error| vec![(String::new(), error.to_string())])?;
    if let Some(reason) = name.unfit() {
        return Err(vec![(String::new(), reason.to_owned())]);
    }
    schedule_config(name, body.into(), now).map_err(wrongs)
}

fn schedule_config(name: ScheduleName, body: Bytes, now: Millis) -> Result<Value, Problem> {
    let request = Fields::of_json(&body)?.read::<PutScheduleRequest>()?;
    let spec = request.into_spec(now, &ZONES)?;
    let schedule = store::Schedule::new(name, spec, now);
    Ok(without_now(as_value(&Schedule::of(&schedule))))
}

/// An answer as a client reads it.
fn as_value(answer: &impl Serialize) -> Value {
    let text = serde_json::to_vec(answer).unwrap_or_default();
    serde_json::from_slice(&text).unwrap_or_default()
}

/// The configuration in a schedule's answer.
pub fn without_now(mut shown: Value) -> Value {
    if let Some(shown) = shown.as_object_mut() {
        OF_NOW.iter().for_each(|field| drop(shown.remove(*field)));
    }
    shown
}

fn wrongs(problem: Problem) -> Wrongs {
    let body = problem.body("");
    let fields: Wrongs =
        body.errors.into_iter().map(|error| (error.field, error.reason.into_owned())).collect();
    if fields.is_empty() { vec![(String::new(), body.detail)] } else { fields }
}
