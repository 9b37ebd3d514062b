//! nack: gives leases back: as failed, as not worked on, or as never seen.

use crate::{
    batch::Answers,
    partition::Partition,
    reply::{CallError, Reply},
    scripts::{self, Script},
    settle::{Held, Settle, refused},
    types::{Call, NackKind, NackRequest, Nacked, json_bytes},
};
use deadpool_redis::redis::Cmd;
use dueq_model::{CallPlace, Millis, State, error::Error};

/// A topic in which messages die is looked at this soon (ms): it may hold more dead ones than it keeps.
const DEAD_SWEEP_DELAY_MS: Millis = 1_000;

/// How a lease is given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nack {
    /// As its holder says.
    Asked(NackRequest),
    /// Its consumer never saw it: due as before, the attempt does not count.
    Return(Millis),
    /// There is no slot for its call before this instant: it is neither an attempt nor an event. The next grant has the same
    /// number, so the end of the lease says which one is meant.
    Park {
        /// When it is due again.
        due_at: Millis,
        /// When the lease ends.
        lease_expires_at: Millis,
        /// When it was due before that is later, and the place that its call lacked; `None` there: its host is paused.
        put_off: Option<(Millis, Option<CallPlace>)>,
    },
}

impl Settle for Nack {
    type Outcome = Nacked;

    fn script() -> &'static Script {
        &scripts::NACK
    }

    /// What is noted of it: the call's answer, or the reason.
    fn bytes(&self) -> usize {
        match self {
            Self::Asked(NackRequest { call: Some(call), .. }) => call.bytes(),
            Self::Asked(NackRequest { reason: Some(reason), .. }) => json_bytes(reason),
            _ => 0,
        }
    }

    fn write(group: &[Held<Self>], _: &Partition, command: &mut Cmd) {
        for Held { claims, what, .. } in group {
            match what {
                Self::Asked(request) => {
                    let most = if request.wished { "<" } else { "" };
                    let delay = request.delay_ms.map(|delay| format!("{most}{delay}"));
                    command.arg(letter(request.kind)).arg(delay.unwrap_or_default());
                }
                Self::Return(due_at) => {
                    command.arg("u").arg(format!("@{due_at}"));
                }
                Self::Park { due_at, .. } => {
                    command.arg("w").arg(format!("@{due_at}"));
                }
            }
            command.arg(random_unit()).arg(match what {
                Self::Park { lease_expires_at, .. } => *lease_expires_at,
                _ => claims.granted_at,
            });
            match what {
                Self::Asked(NackRequest { call: None, reason: Some(reason), .. }) => {
                    // A string always serializes.
                    command.arg("").arg(serde_json::to_string(reason).unwrap_or_default());
                }
                Self::Asked(NackRequest { call, .. }) => Call::write(call.as_ref(), command),
                Self::Park { put_off: Some((since, place)), .. } => {
                    command.arg(*since).arg(CallPlace::word(*place));
                }
                _ => Call::write(None, command),
            }
        }
    }

    fn read(group: &[Held<Self>], reply: &mut Reply<'_>) -> Answers<Result<Nacked, Error>> {
        let (partition, now) = (reply.partition, reply.now_and_wake()?);
        let topic = &partition.topic;
        let mut died = 0;
        let mut answers = Vec::with_capacity(group.len());
        for Held { claims, what, .. } in group {
            let (code, at) = (reply.int()?, reply.int()?);
            let state = match code {
                0 => State::Delayed,
                3 => State::Ready,
                4 => State::Dead,
                5 => State::Expired,
                7 => State::Blocked,
                6 => {
                    answers.push(Err(CallError::Again));
                    continue;
                }
                code => {
                    answers.push(Ok(Err(refused(code))));
                    continue;
                }
            };
            match what {
                Self::Return(_) => topic.counters.returned.inc(),
                Self::Park { .. } => topic.counters.released.inc(),
                Self::Asked(request) if request.kind == NackKind::Released => {
                    topic.counters.released.inc()
                }
                Self::Asked(_) => {
                    partition.happened(true);
                    topic.counters.nacked.inc()
                }
            };
            match state {
                State::Dead => {
                    died += 1;
                    let soon = topic.settings.retention.dead_ms.min(DEAD_SWEEP_DELAY_MS);
                    partition.sweep_by(now, Some(at.saturating_add(soon)));
                }
                State::Expired => {
                    topic.counters.expired.inc();
                }
                _ => {}
            }
            let due_at =
                matches!(state, State::Delayed | State::Ready | State::Blocked).then_some(at);
            answers.push(Ok(Ok(Nacked { state, due_at, attempt: claims.attempt })));
        }
        partition.saw_deaths(died, now);
        Ok(answers)
    }
}

/// How the script calls it.
fn letter(kind: NackKind) -> &'static str {
    match kind {
        NackKind::Failed => "n",
        NackKind::Dead => "d",
        NackKind::Released => "r",
    }
}

/// A number in [0, 1) as text, for the jitter; the middle where the system has no randomness to give.
fn random_unit() -> String {
    let random = getrandom::u32().unwrap_or(u32::MAX / 2);
    format!("{:.6}", f64::from(random) / (f64::from(u32::MAX) + 1.0))
}
