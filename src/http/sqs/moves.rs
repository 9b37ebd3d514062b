//! Move tasks: StartMessageMoveTask, CancelMessageMoveTask, ListMessageMoveTasks. Housekeeping carries them out.

use super::{
    super::access::Verb,
    Answer, Call, Fields, answer,
    fault::{Fault, Kind},
    parts::in_range,
    queue_of_arn,
    queues::sources_of,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use dueq_model::{TopicName, error::Error};
use dueq_store::{MoveState, MoveTask, Topic};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::sync::Arc;

/// Topics that are looked at together.
const PAGE: usize = 1_000;

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

/// The queue that the parameter of this name names, if the caller may do this to it: without a verb, what the action does.
async fn queue(
    call: &Call<'_>,
    name: &str,
    arn: Option<&str>,
    verb: Option<Verb>,
) -> Result<(TopicName, Arc<Topic>), Fault> {
    let arn = arn.filter(|arn| !arn.is_empty()).ok_or_else(|| Fault::missing(name))?;
    let queue = queue_of_arn(arn).ok_or_else(|| {
        let format = "arn:<partition>:<service>:<region>:<account-id>:<resource-id>";
        Fault::bad(format!("You must use this format to specify the {name}: {format}"))
    })?;
    match verb {
        Some(verb) => call.caller.check_verb(verb, &queue)?,
        None => call.caller.check_topic(&queue)?,
    }
    let topic = call.state.store.fresh_topic(&queue).await?.ok_or_else(|| {
        let missing = "The resource that you specified for the";
        Fault::new(Kind::ResourceNotFound, format!("{missing} {name} parameter doesn't exist."))
    })?;
    Ok((queue, topic))
}

/// The queue whose messages are to move.
async fn source(call: &Call<'_>, arn: Option<&str>) -> Result<(TopicName, Arc<Topic>), Fault> {
    queue(call, "SourceArn", arn, None).await
}

/// The queues whose dead letters come to this one.
async fn sources(call: &Call<'_>, dead: &TopicName) -> Result<Vec<TopicName>, Fault> {
    let (store, mut sources, mut after) = (&call.state.store, Vec::new(), None::<TopicName>);
    loop {
        let names = store.topic_names("", after.as_ref().map(TopicName::as_str), PAGE).await?;
        after = names.last().cloned().filter(|_| names.len() == PAGE);
        sources.extend(sources_of(call, dead, names).await?);
        if after.is_none() {
            return Ok(sources);
        }
    }
}

pub async fn start_move(call: &Call<'_>, fields: Fields) -> Answer {
    let check = |rate| in_range(rate, 1..=500, "MaxNumberOfMessagesPerSecond", "between 1 and 500");
    let rate = fields.max_number_of_messages_per_second.map(check).transpose()?;
    let (name, _) = source(call, fields.source_arn.as_deref()).await?;
    let sources = sources(call, &name).await?;
    if sources.is_empty() {
        return Err(Fault::bad("Source queue must be configured as a Dead Letter Queue."));
    }
    let to = match fields.destination_arn.as_deref().filter(|arn| !arn.is_empty()) {
        Some(arn) => {
            let (to, _) = queue(call, "DestinationArn", Some(arn), Some(Verb::Publish)).await?;
            if to == name {
                return Err(Fault::bad(
                    "Source queue arn and destination queue arn cannot be the same.",
                ));
            }
            Some(to)
        }
        // A key that does not know these queues does not learn their names.
        None if sources.iter().any(|it| call.caller.check_verb(Verb::Publish, it).is_err()) => {
            let lacked = format!("the key {} lacks publish on a source queue", call.caller.name());
            return Err(Error::NotAllowed(lacked).into());
        }
        None => None,
    };
    let store = &call.state.store;
    let mut id = [0; 16];
    getrandom::fill(&mut id).map_err(|_| Error::Internal)?;
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
        return Err(Fault::bad(
            "There is already a task running. Only one active task is allowed for a source queue arn at a given time.",
        ));
    }
    answer(&json!({"TaskHandle": handle}))
}

pub async fn cancel_move(call: &Call<'_>, fields: Fields) -> Answer {
    let handle = fields.task_handle.ok_or_else(|| Fault::missing("TaskHandle"))?;
    let handle = STANDARD.decode(handle).ok();
    let handle = handle.and_then(|text| serde_json::from_slice::<Handle>(&text).ok());
    let handle = handle.ok_or_else(|| Fault::bad("Value for parameter TaskHandle is invalid."))?;
    let (name, _) = source(call, Some(&handle.source_arn)).await?;
    let task = call.state.store.cancel_move(&name, &handle.task_id).await?;
    let task = task.ok_or_else(|| Fault::new(Kind::ResourceNotFound, "Task does not exist."))?;
    if task.state != MoveState::Running {
        return Err(Fault::bad("Only active tasks can be cancelled."));
    }
    answer(&json!({"ApproximateNumberOfMessagesMoved": task.moved}))
}

pub async fn list_moves(call: &Call<'_>, fields: Fields) -> Answer {
    let most = fields.max_results.unwrap_or(1);
    let most = in_range(most, 1..=10, "MaxResults", "between 1 and 10")?;
    let (name, topic) = source(call, fields.source_arn.as_deref()).await?;
    let mut tasks = call.state.store.moves(&name).await?;
    // Those of a deleted queue of this name are not its own.
    let created_at = topic.settings.sqs.as_ref().map_or(0, |sqs| sqs.created_at);
    tasks.retain(|task| task.started_at >= created_at);
    let shown = tasks.iter().take(most as usize).map(|task| {
        let is_running = task.state == MoveState::Running;
        let mut shown = json!({
            "TaskHandle": is_running.then(|| Handle::of(call, &name, task)),
            "SourceArn": call.arn(&name),
            "DestinationArn": task.to.as_ref().map(|to| call.arn(to)),
            "Status": task.state,
            "StartedTimestamp": task.started_at,
            "MaxNumberOfMessagesPerSecond": task.rate,
            "ApproximateNumberOfMessagesMoved": task.moved,
            "ApproximateNumberOfMessagesToMove": task.of,
            "FailureReason": task.failure,
        });
        shown.as_object_mut().into_iter().for_each(|it| it.retain(|_, value| !value.is_null()));
        shown
    });
    answer(&json!({"Results": shown.collect::<Vec<_>>()}))
}
