//! purge_topic, redrive_topic, sweep, pause_topic, close_partition: what is done with many messages of a
//! topic, a bounded number a call.

use super::{
    alone::{Alone, word_of},
    call::Context,
    registry::Topic,
    reply::{CallError, Fields, malformed},
    scripts::{self, Script},
};
use crate::model::{Millis, State};
use deadpool_redis::redis::{Cmd, Value};
use std::sync::Arc;

/// Messages of one kind that a call sweeps.
const SWEEP_MESSAGES: u32 = 128;

/// What one call purged, and what is left in the states that it was told.
pub(crate) struct PurgedSome {
    pub purged: i64,
    pub left: i64,
}

/// Some messages of these states leave.
pub(crate) struct PurgeSome {
    pub states: Vec<State>,
    pub limit: u64,
}

impl Alone for PurgeSome {
    type Answer = PurgedSome;
    const BEHIND: bool = true;

    fn script() -> &'static Script {
        &scripts::PURGE_TOPIC
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&topic.word).arg(self.limit);
        for state in [State::Delayed, State::Ready, State::Dead] {
            command.arg(u8::from(self.states.contains(&state)));
        }
    }

    fn read(
        &self,
        topic: &Arc<Topic>,
        context: &mut Context<'_>,
        reply: Value,
    ) -> Result<PurgedSome, CallError> {
        let mut fields = Fields::of(reply)?;
        context.read_now(&mut fields)?;
        let (purged, left) = (fields.int()?, fields.int()?);
        topic.counters.purged.inc_by(purged as u64);
        Ok(PurgedSome { purged, left })
    }
}

/// A part of a topic's redrive.
pub(crate) struct RedriveSome {
    /// Messages in this call.
    pub limit: u64,
    /// Dead ones before that stay.
    pub skip: i64,
    /// From when on they fall due; `None`: now.
    pub base: Option<Millis>,
    /// How many were redriven before.
    pub index: i64,
    /// How many there are in all; `None`: to be found out.
    pub of: Option<i64>,
    pub spread_ms: Millis,
    /// How many the request wants.
    pub most: u64,
}

/// What one call redrove.
pub(crate) struct RedrivenSome {
    /// From when on those of the request fall due.
    pub base: Millis,
    pub redriven: i64,
    pub skipped: i64,
    pub left: i64,
    pub of: i64,
}

impl Alone for RedriveSome {
    type Answer = RedrivenSome;
    const BEHIND: bool = true;

    fn script() -> &'static Script {
        &scripts::REDRIVE_TOPIC
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        let known = |number: Option<i64>| number.map(|n| n.to_string()).unwrap_or_default();
        topic.keys.write_all(command);
        command.arg(&topic.word).arg(self.limit).arg(self.skip).arg(known(self.base));
        command.arg(self.index).arg(known(self.of)).arg(self.spread_ms).arg(self.most);
    }

    fn read(
        &self,
        topic: &Arc<Topic>,
        context: &mut Context<'_>,
        reply: Value,
    ) -> Result<RedrivenSome, CallError> {
        let mut fields = Fields::of(reply)?;
        context.read_wake(topic, &mut fields)?;
        let (redriven, skipped) = (fields.int()?, fields.int()?);
        topic.counters.redriven.inc_by(redriven as u64);
        let (left, of, base) = (fields.int()?, fields.int()?, fields.int()?);
        Ok(RedrivenSome { base, redriven, skipped, left, of })
    }
}

/// Carries out what time has brought.
pub(crate) struct Sweep;

/// What a sweep came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// More may be left.
    pub more: bool,
    /// When time brings something again.
    pub next_at: Option<Millis>,
    /// Deaths are to be told of elsewhere.
    pub deaths: bool,
}

impl Alone for Sweep {
    type Answer = Swept;
    const BEHIND: bool = true;

    fn script() -> &'static Script {
        &scripts::SWEEP
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&topic.word).arg(SWEEP_MESSAGES);
    }

    fn read(
        &self,
        topic: &Arc<Topic>,
        context: &mut Context<'_>,
        reply: Value,
    ) -> Result<Swept, CallError> {
        let mut fields = Fields::of(reply)?;
        context.read_now(&mut fields)?;
        let more = fields.int()? == 1;
        let next_at = Some(fields.int()?).filter(|at| *at > 0);
        let ended = [fields.int()?, fields.int()?, fields.int()?].map(|ended| ended.max(0) as u64);
        // What is only looked at takes no label.
        if ended != [0; 3] {
            let counters = &topic.counters;
            let of = [&counters.expired, &counters.dead, &counters.lease_expired];
            for (counter, ended) in of.into_iter().zip(ended) {
                counter.inc_by(ended);
            }
        }
        Ok(Swept { more, next_at, deaths: fields.int()? == 1 })
    }
}

/// Stops or resumes granting.
pub(crate) struct Pause(pub bool);

impl Alone for Pause {
    type Answer = ();

    fn script() -> &'static Script {
        &scripts::PAUSE_TOPIC
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        command.arg(1).arg(&topic.keys.meta).arg(&topic.word).arg(u8::from(self.0));
    }

    fn read(
        &self,
        topic: &Arc<Topic>,
        context: &mut Context<'_>,
        reply: Value,
    ) -> Result<(), CallError> {
        if word_of(&reply)? != "OK" {
            return Err(malformed(&reply));
        }
        if !self.0 {
            context.wakes.push(topic.clone());
        }
        Ok(())
    }
}

/// Deletes what is in a topic.
pub(crate) struct Close {
    pub force: bool,
    /// How long nobody may take the topic up again who does not know that it is deleted, ms.
    pub mark_ms: Millis,
}

/// What came of closing a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Closed {
    Done,
    /// There are messages.
    NotEmpty,
    /// There are messages, but some of them are over: ask again.
    NotYet,
    /// There are none, but deaths that are still to be told of elsewhere.
    Untold,
}

impl Alone for Close {
    type Answer = Closed;

    fn script() -> &'static Script {
        &scripts::CLOSE_PARTITION
    }

    fn write(&self, topic: &Topic, command: &mut Cmd) {
        topic.keys.write_all(command);
        command.arg(&topic.word).arg(topic.route.topic.0);
        command.arg(u8::from(self.force)).arg(self.mark_ms);
    }

    fn read(&self, _: &Arc<Topic>, _: &mut Context<'_>, reply: Value) -> Result<Closed, CallError> {
        match word_of(&reply)? {
            "OK" => Ok(Closed::Done),
            "NOT_EMPTY" => Ok(Closed::NotEmpty),
            "MORE" => Ok(Closed::NotYet),
            "UNTOLD" => Ok(Closed::Untold),
            _ => Err(malformed(&reply)),
        }
    }
}
