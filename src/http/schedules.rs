//! putSchedule, getSchedule, deleteSchedule, listSchedules, pauseSchedule, resumeSchedule, triggerSchedule.

use super::{
    AppState,
    cursor::{Cursor, SchedulesCursor, open_cursor},
    extract::{JsonBody, NoQuery, Nothing, OptionalJsonBody, Query, SchedulePath},
    input::{PageSize, request},
    problem::{
        BodyProblems, CommonProblems, Problem, RedisProblems, ScheduleConfigProblems,
        ScheduleProblems, TriggerProblems,
    },
    schedule_fields::{PutScheduleRequest, check_spec, with_kept_secrets},
    schedule_view::Schedule,
};
use crate::{
    error::Error,
    model::{DEFAULT_PAGE, ScheduleName},
};
use axum::{
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use serde::Serialize;
use utoipa::ToSchema;

/// A page of schedules.
#[derive(Serialize, ToSchema)]
pub struct ScheduleList<'a> {
    /// The schedules, by name.
    items: Vec<Schedule<'a>>,
    /// Cursor for the next page. Absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    next_cursor: Option<String>,
}

request! {
    /// Query parameters of listSchedules.
    pub struct ListSchedulesParams {
        /// Items per page, 1 to 1000; fewer if they are large.
        pub limit: PageSize = PageSize::new(DEFAULT_PAGE),
        /// The `next_cursor` of the previous page.
        pub cursor: Option<Cursor>,
    }
}

/// Answers with the schedule as it stands; `told` is what is said of an error.
async fn answer_with_schedule(
    state: &AppState,
    name: &ScheduleName,
    told: impl FnOnce(Error) -> Error,
) -> Result<Response, Problem> {
    let schedule = state.store.get_schedule(name).await.map_err(told)?;
    Ok(super::json(&Schedule::of(&schedule)?).into_response())
}

/// Create or replace a schedule.
///
/// Every tick publishes one message, however many instances run. A PUT with the same times does not move the ticks, and
/// a paused schedule stays paused.
#[utoipa::path(
    put, path = "/schedules/{name}", operation_id = "putSchedule", tag = "schedules",
    params(super::extract::SchedulePath),
    request_body(content = PutScheduleRequest, description = "The schedule"),
    responses(
        (status = 200, description = "The schedule is replaced", body = Schedule),
        (status = 201, description = "The schedule is created", body = Schedule),
        CommonProblems, BodyProblems, ScheduleConfigProblems, RedisProblems,
    ),
)]
pub async fn put_schedule(
    State(state): State<AppState>,
    SchedulePath(name): SchedulePath,
    _: NoQuery,
    JsonBody(request, _): JsonBody<PutScheduleRequest>,
) -> Result<Response, Problem> {
    let spec = request.into_spec(state.store.now())?;
    check_spec(&state, &spec)?;
    let pushed = state.store.push_of(&spec.topic).await?;
    let change = |present: Option<&_>| with_kept_secrets(spec.clone(), present, pushed.as_ref());
    let created = state.store.put_schedule(&name, change).await?;
    let mut answer = answer_with_schedule(&state, &name, Error::after_change).await?;
    if created {
        *answer.status_mut() = StatusCode::CREATED;
    }
    Ok(answer)
}

/// Get a schedule.
///
/// Returns what it publishes and when, and how its last tick went.
#[utoipa::path(
    get, path = "/schedules/{name}", operation_id = "getSchedule", tag = "schedules",
    params(super::extract::SchedulePath),
    responses(
        (status = 200, description = "The schedule", body = Schedule),
        ScheduleProblems, CommonProblems, RedisProblems,
    ),
)]
pub async fn get_schedule(
    State(state): State<AppState>,
    SchedulePath(name): SchedulePath,
    _: NoQuery,
) -> Result<Response, Problem> {
    answer_with_schedule(&state, &name, |error| error).await
}

/// Delete a schedule.
///
/// Messages that it has published stay.
#[utoipa::path(
    delete, path = "/schedules/{name}", operation_id = "deleteSchedule", tag = "schedules",
    params(super::extract::SchedulePath),
    responses(
        (status = 204, description = "The schedule is deleted"),
        ScheduleProblems, CommonProblems, RedisProblems,
    ),
)]
pub async fn delete_schedule(
    State(state): State<AppState>,
    SchedulePath(name): SchedulePath,
    _: NoQuery,
) -> Result<StatusCode, Problem> {
    state.store.delete_schedule(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List schedules.
///
/// In order of their names. Pass `next_cursor` to get the next page.
#[utoipa::path(
    get, path = "/schedules", operation_id = "listSchedules", tag = "schedules",
    params(ListSchedulesParams),
    responses(
        (status = 200, description = "A page of schedules, by name", body = ScheduleList),
        CommonProblems, RedisProblems,
    ),
)]
pub async fn list_schedules(
    State(state): State<AppState>,
    Query(ListSchedulesParams { limit, cursor }): Query<ListSchedulesParams>,
) -> Result<Response, Problem> {
    let after = open_cursor(cursor, |cursor| SchedulesCursor.open(cursor))?;
    let page = state.store.list_schedules(after.as_ref(), limit.get() as usize).await?;
    let last = page.next_after.as_ref();
    let next_cursor = last.map(|last| SchedulesCursor.seal(last));
    let items = page.items.iter().map(Schedule::of).collect::<Result<_, _>>()?;
    Ok(super::json(&ScheduleList { items, next_cursor }).into_response())
}

/// Pause a schedule.
///
/// The schedule stops ticking. Ticks that it misses meanwhile are not made up for.
#[utoipa::path(
    post, path = "/schedules/{name}/pause", operation_id = "pauseSchedule", tag = "schedules",
    params(super::extract::SchedulePath),
    responses(
        (status = 200, description = "The schedule", body = Schedule),
        ScheduleProblems, CommonProblems, BodyProblems, RedisProblems,
    ),
)]
pub async fn pause_schedule(
    State(state): State<AppState>,
    SchedulePath(name): SchedulePath,
    _: NoQuery,
    _: OptionalJsonBody<Nothing>,
) -> Result<Response, Problem> {
    state.store.pause_schedule(&name).await?;
    answer_with_schedule(&state, &name, Error::after_change).await
}

/// Resume a schedule.
///
/// The schedule ticks again from now on.
#[utoipa::path(
    post, path = "/schedules/{name}/resume", operation_id = "resumeSchedule", tag = "schedules",
    params(super::extract::SchedulePath),
    responses(
        (status = 200, description = "The schedule", body = Schedule),
        ScheduleProblems, CommonProblems, BodyProblems, RedisProblems,
    ),
)]
pub async fn resume_schedule(
    State(state): State<AppState>,
    SchedulePath(name): SchedulePath,
    _: NoQuery,
    _: OptionalJsonBody<Nothing>,
) -> Result<Response, Problem> {
    state.store.resume_schedule(&name).await?;
    answer_with_schedule(&state, &name, Error::after_change).await
}

/// Publish a schedule's message now.
///
/// Works while the schedule is paused too. Its next tick does not move.
#[utoipa::path(
    post, path = "/schedules/{name}/trigger", operation_id = "triggerSchedule", tag = "schedules",
    params(super::extract::SchedulePath),
    responses(
        (status = 200, description = "The schedule, with this message as its last", body = Schedule),
        ScheduleProblems, CommonProblems, BodyProblems, TriggerProblems, RedisProblems,
    ),
)]
pub async fn trigger_schedule(
    State(state): State<AppState>,
    SchedulePath(name): SchedulePath,
    _: NoQuery,
    _: OptionalJsonBody<Nothing>,
) -> Result<Response, Problem> {
    state.store.trigger_schedule(&name).await?;
    answer_with_schedule(&state, &name, Error::after_change).await
}
