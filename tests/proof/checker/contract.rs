//! What holds of every answer: never 500, and no code that its verb does not know.

use super::found::Found;
use super::life::use_of;
use super::run::Run;
use crate::proof::history::{OnDuplicate, Op, Outcome, What};

pub(super) fn check(run: &Run, found: &mut Found) {
    for op in run.ops {
        let life = || concerned(op).and_then(|id| run.by_id.get(id).copied());
        if let Outcome::Refused(status, code) = op.bare() {
            if status >= 500 {
                found.say(life(), format!("never 500: {status} {code} for {:?}", op.what));
            } else if !known(&op.what, &code) {
                found.say(life(), format!("the contract: refused with {code}: {:?}", op.what));
            }
        }
        match &op.what {
            What::Publish(publish) => {
                let plain = publish.key.is_none() && publish.idempotency_key.is_none();
                if plain && publish.outcome.ok().is_some_and(|published| published.duplicate) {
                    let what = "a duplicate of a publish without any key";
                    found.say(life(), format!("the contract: {what}: {:?}", op.what));
                }
            }
            What::Lease { max_messages, outcome: Outcome::Ok(grants), .. }
                if grants.len() > *max_messages =>
            {
                let count = grants.len();
                let what =
                    format!("{count} messages, {max_messages} were asked for, at {}", op.sent);
                found.say(None, format!("the contract: {what}"));
            }
            _ => {}
        }
    }
}

/// The id that an op names, or was answered with.
pub(super) fn concerned(op: &Op) -> Option<&str> {
    match &op.what {
        What::Publish(publish) => publish.outcome.ok().map(|published| published.id.as_str()),
        What::Delete { id, .. } | What::Update { id, .. } => Some(id),
        What::Redrive { id, .. } | What::Get { id, .. } => Some(id),
        _ => use_of(op).map(|(id, _)| id),
    }
}

fn known(what: &What, code: &str) -> bool {
    match what {
        What::Publish(publish) => match code {
            "topic_full" | "payload_too_large" | "invalid_input" => true,
            "duplicate_key" => publish.key.is_some() && publish.on_duplicate == OnDuplicate::Reject,
            "message_leased" => {
                publish.key.is_some() && publish.on_duplicate == OnDuplicate::Replace
            }
            "idempotency_key_reused" => publish.idempotency_key.is_some(),
            "group_changed" => publish.key.is_some(),
            _ => false,
        },
        What::Lease { .. } => code == "topic_is_pushed",
        What::Ack { .. } | What::Nack { .. } | What::Extend { .. } => {
            matches!(code, "lease_lost" | "message_not_found")
        }
        What::Delete { force, .. } => match code {
            "message_leased" => !force,
            _ => code == "message_not_found",
        },
        What::Update { delay, .. } => match code {
            "message_dead" => delay.is_some(),
            "message_not_found" | "message_leased" | "message_acked" | "payload_too_large" => true,
            _ => false,
        },
        What::Redrive { .. } => {
            matches!(code, "message_not_found" | "message_not_dead" | "duplicate_key")
        }
        What::Get { .. } => code == "message_not_found",
        What::RedriveTopic { .. } | What::Purge { .. } | What::Pause { .. } => {
            code == "topic_not_found"
        }
    }
}
