//! AddPermission and RemovePermission: statements of a queue's policy. The policy is kept and shown, and has no effect: API keys
//! decide who may do what.

use super::{
    super::args::is_account,
    Answer, Call, Fields, Queue,
    fault::{Fault, Kind},
    parts::{is_plain, items},
    queues::change,
};
use dueq_model::TopicSettings;
use serde_json::{Value, json};

const POLICY: &str = "Policy";
/// Characters of a label, at most.
const MAX_LABEL: usize = 80;
/// Actions of a permission, at most.
const MAX_ACTIONS: usize = 7;
/// Actions that others than a queue's owner can be let do.
const ACTIONS: [&str; 9] = [
    "*",
    "ChangeMessageVisibility",
    "DeleteMessage",
    "GetQueueAttributes",
    "GetQueueUrl",
    "ListDeadLetterSourceQueues",
    "PurgeQueue",
    "ReceiveMessage",
    "SendMessage",
];

/// A policy with its statements, and those apart.
fn policy(settings: &TopicSettings) -> (Value, Vec<Value>) {
    let text = settings.sqs.as_ref().and_then(|sqs| sqs.attributes.get(POLICY));
    let policy = text.and_then(|text| serde_json::from_str(text).ok()).filter(Value::is_object);
    let policy = policy.unwrap_or(json!({}));
    let statements = match &policy["Statement"] {
        Value::Null => Vec::new(),
        Value::Array(all) => all.clone(),
        one => vec![one.clone()],
    };
    (policy, statements)
}

/// The label, and whether a statement of the queue has it.
fn labelled(queue: &Queue, label: Option<String>) -> Result<(String, bool), Fault> {
    let label = label.ok_or_else(|| Fault::missing("Label"))?;
    let has = policy(&queue.topic.settings).1.iter().any(|it| it["Sid"] == *label);
    Ok((label, has))
}

/// Replaces the statement of this label.
async fn replace(call: &Call<'_>, queue: &Queue, label: &str, new: Option<Value>) -> Answer {
    change(call, queue, |settings| {
        let (mut policy, mut statements) = policy(settings);
        statements.retain(|it| it["Sid"] != *label);
        statements.extend(new.clone());
        let kept = &mut settings.sqs.get_or_insert_default().attributes;
        if statements.is_empty() {
            kept.remove(POLICY);
            return;
        }
        if policy == json!({}) {
            let id = format!("{}/SQSDefaultPolicy", call.arn(&queue.name));
            policy = json!({"Version": "2008-10-17", "Id": id});
        }
        policy["Statement"] = statements.into();
        kept.insert(POLICY.to_owned(), policy.to_string());
    })
    .await
}

pub async fn add_permission(call: &Call<'_>, queue: Queue, fields: Fields) -> Answer {
    let (label, has) = labelled(&queue, fields.label)?;
    let (accounts, actions) = (items(fields.account_ids), items(fields.actions));
    if has {
        return Err(Fault::invalid(label, "Label", "Already exists."));
    }
    if label.len() > MAX_LABEL || !is_plain(&label) {
        let reason =
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length.";
        return Err(Fault::invalid(label, "Label", reason));
    }
    if actions.is_empty() {
        return Err(Fault::missing("Actions"));
    }
    if let Some(action) = actions.iter().find(|action| !ACTIONS.contains(&action.as_str())) {
        let reason = "Only the queue owner is allowed to invoke this action.";
        return Err(Fault::invalid(format!("SQS:{action}"), "ActionName", reason));
    }
    if actions.len() > MAX_ACTIONS {
        let many = actions.len();
        return Kind::OverLimit
            .refuse(format!("{many} Actions were found, maximum allowed is {MAX_ACTIONS}."));
    }
    if accounts.is_empty() || !accounts.iter().all(|id| is_account(id)) {
        let given = format!("[{}]", accounts.join(", "));
        return Err(Fault::invalid(given, "PrincipalId", "Unable to verify."));
    }
    // One is written as such, several as a list.
    let some = |mut all: Vec<String>| match all.len() {
        1 => all.remove(0).into(),
        _ => Value::from(all),
    };
    let principals = accounts.iter().map(|account| format!("arn:aws:iam::{account}:root"));
    let new = json!({
        "Sid": label,
        "Effect": "Allow",
        "Principal": {"AWS": some(principals.collect())},
        "Action": some(actions.iter().map(|action| format!("SQS:{action}")).collect()),
        "Resource": call.arn(&queue.name),
    });
    replace(call, &queue, &label, Some(new)).await
}

pub async fn remove_permission(call: &Call<'_>, queue: Queue, fields: Fields) -> Answer {
    let (label, has) = labelled(&queue, fields.label)?;
    match has {
        true => replace(call, &queue, &label, None).await,
        false => Err(Fault::invalid(label, "Label", "can't find label.")),
    }
}
