//! Move tasks: StartMessageMoveTask, CancelMessageMoveTask, ListMessageMoveTasks. Housekeeping carries them out.

use super::{
    super::access::Verb,
    Call, answer,
    fault::{Fault, Kind},
    queue_of_arn,
};
use axum::{body::Body, http::Response};
use base64::{Engine, engine::general_purpose::STANDARD};
use dueq_model::TopicName;
use dueq_store::{MoveState, MoveTask, Topic};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

/// Topics that are looked at together.
const PAGE: usize = 1_000;

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct MoveMessages {
    source_arn: Option<String>,
    destination_arn: Option<String>,
    max_number_of_messages_per_second: Option<i64>,
    max_results: Option<i64>,
    task_handle: Option<String>,
}

/// What a handle says, in base64.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Handle {
    task_id: String,
    source_arn: String,
}

impl Handle {
    fn of(call: &Call<'_>, name: &TopicName, task: &MoveTask) -> String {
        let handle = Self { task_id: task.id.clone(), source_arn: call.arn(name) };
        STANDARD.encode(serde_json::to_vec(&handle).unwrap_or_default())
    }
}

fn refuse(message: &'static str) -> Fault {
    Fault::new(Kind::InvalidParameterValue, message)
}

/// The queue that a parameter names, if the caller may do this to it.
async fn queue(
    call: &Call<'_>,
    arn: Option<&str>,
    verb: Option<Verb>,
    [name, format, missing]: [&'static str; 3],
) -> Result<(TopicName, Arc<Topic>), Fault> {
    let arn = arn.filter(|arn| !arn.is_empty()).ok_or_else(|| Fault::missing(name))?;
    let queue = queue_of_arn(arn).ok_or_else(|| refuse(format))?;
    match verb {
        Some(verb) => call.caller.check_verb(verb, &queue)?,
        None => call.caller.check_topic(&queue)?,
    }
    let topic = call.state.store.fresh_topic(&queue).await?;
    let topic = topic.ok_or_else(|| Fault::new(Kind::ResourceNotFound, missing))?;
    Ok((queue, topic))
}

/// The queue whose messages are to move.
async fn source(call: &Call<'_>, arn: Option<&str>) -> Result<(TopicName, Arc<Topic>), Fault> {
    let words = [
        "SourceArn",
        "You must use this format to specify the SourceArn: arn:<partition>:<service>:<region>:<account-id>:<resource-id>",
        "The resource that you specified for the SourceArn parameter doesn't exist.",
    ];
    queue(call, arn, None, words).await
}

/// The queues whose dead letters come to this one.
async fn sources(call: &Call<'_>, dead: &TopicName) -> Result<Vec<TopicName>, Fault> {
    let (store, mut sources, mut after) = (&call.state.store, Vec::new(), None::<TopicName>);
    loop {
        let names = store.topic_names("", after.as_ref().map(TopicName::as_str), PAGE).await?;
        after = names.last().cloned().filter(|_| names.len() == PAGE);
        for name in names {
            let topic = store.known_topic(&name).await?;
            if topic.is_some_and(|topic| topic.settings.dead_topic.as_ref() == Some(dead)) {
                sources.push(name);
            }
        }
        if after.is_none() {
            return Ok(sources);
        }
    }
}

pub async fn start_move(call: &Call<'_>, request: MoveMessages) -> Result<Response<Body>, Fault> {
    let rate = request.max_number_of_messages_per_second;
    if let Some(rate) = rate.filter(|rate| !(1..=500).contains(rate)) {
        let reason = "Must be between 1 and 500, if provided.";
        return Err(Fault::invalid(rate, "MaxNumberOfMessagesPerSecond", reason));
    }
    let (name, _) = source(call, request.source_arn.as_deref()).await?;
    let sources = sources(call, &name).await?;
    if sources.is_empty() {
        return Err(refuse("Source queue must be configured as a Dead Letter Queue."));
    }
    let to = match request.destination_arn.as_deref().filter(|arn| !arn.is_empty()) {
        Some(arn) => {
            let words = [
                "DestinationArn",
                "You must use this format to specify the DestinationArn: arn:<partition>:<service>:<region>:<account-id>:<resource-id>",
                "The resource that you specified for the DestinationArn parameter doesn't exist.",
            ];
            let (to, _) = queue(call, Some(arn), Some(Verb::Publish), words).await?;
            if to == name {
                return Err(refuse(
                    "Source queue arn and destination queue arn cannot be the same.",
                ));
            }
            Some(to)
        }
        None => {
            for source in &sources {
                call.caller.check_verb(Verb::Publish, source)?;
            }
            None
        }
    };
    let store = &call.state.store;
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|_| dueq_model::error::Error::Internal)?;
    let task = MoveTask {
        id: hex::encode(id),
        only: to.is_none().then(|| call.caller.limits(Verb::Publish)).flatten(),
        to,
        rate: rate.map(|rate| rate as u64),
        started_at: store.now(),
        state: MoveState::Running,
        moved: 0,
        of: store.topic(&name).await?.1.ready,
        failure: None,
    };
    let handle = Handle::of(call, &name, &task);
    if !store.start_move(&name, task).await? {
        return Err(refuse(
            "There is already a task running. Only one active task is allowed for a source queue arn at a given time.",
        ));
    }
    answer(&json!({"TaskHandle": handle}))
}

pub async fn cancel_move(call: &Call<'_>, request: MoveMessages) -> Result<Response<Body>, Fault> {
    let handle = request.task_handle.ok_or_else(|| Fault::missing("TaskHandle"))?;
    let handle = STANDARD.decode(handle).ok();
    let handle = handle.and_then(|text| serde_json::from_slice::<Handle>(&text).ok());
    let handle = handle.ok_or_else(|| refuse("Value for parameter TaskHandle is invalid."))?;
    let (name, _) = source(call, Some(&handle.source_arn)).await?;
    let task = call.state.store.cancel_move(&name, &handle.task_id).await?;
    let task = task.ok_or_else(|| Fault::new(Kind::ResourceNotFound, "Task does not exist."))?;
    if task.state != MoveState::Running {
        return Err(refuse("Only active tasks can be cancelled."));
    }
    answer(&json!({"ApproximateNumberOfMessagesMoved": task.moved}))
}

pub async fn list_moves(call: &Call<'_>, request: MoveMessages) -> Result<Response<Body>, Fault> {
    let most = request.max_results.unwrap_or(1);
    if !(1..=10).contains(&most) {
        return Err(Fault::invalid(most, "MaxResults", "Must be between 1 and 10, if provided."));
    }
    let (name, topic) = source(call, request.source_arn.as_deref()).await?;
    let mut tasks = call.state.store.moves(&name).await?;
    // Those of a deleted queue of this name are not its own.
    let created_at = topic.settings.sqs.as_ref().map_or(0, |sqs| sqs.created_at);
    tasks.retain(|task| task.started_at >= created_at);
    let shown = tasks.iter().take(most as usize).map(|task| {
        let mut shown = json!({
            "SourceArn": call.arn(&name),
            "Status": task.state,
            "StartedTimestamp": task.started_at,
            "ApproximateNumberOfMessagesMoved": task.moved,
            "ApproximateNumberOfMessagesToMove": task.of,
        });
        let optional = [
            (
                "TaskHandle",
                (task.state == MoveState::Running).then(|| Handle::of(call, &name, task).into()),
            ),
            ("DestinationArn", task.to.as_ref().map(|to| call.arn(to).into())),
            ("MaxNumberOfMessagesPerSecond", task.rate.map(Into::into)),
            ("FailureReason", task.failure.clone().map(Into::into)),
        ];
        for (name, value) in optional {
            if let Some(value) = value {
                shown[name] = value;
            }
        }
        shown
    });
    answer(&json!({"Results": shown.collect::<Vec<_>>()}))
}
