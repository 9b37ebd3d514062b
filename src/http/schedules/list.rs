//! listSchedules.

use super::Schedule;
use crate::{access::Seal, prelude::*, request::cursor::SchedulesCursor};
use dueq_model::{DEFAULT_PAGE, ScheduleName};
use dueq_store as store;

/// Schedules that are read at once, at least, for a key that may not read them all, and for one page.
const CHUNK: usize = 100;
const MAX_LOOKED_AT: usize = 1_000;

answer! {
    /// A page of schedules.
    pub struct ScheduleList<'a> {
        /// The schedules, by name.
        items: Vec<Schedule<'a>>,
        /// Cursor for the next page. Absent on the last page.
        next_cursor: Option<String>,
    }
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

/// List schedules.
///
/// In order of their names, those whose topic the API key may read. Pass `next_cursor` to get the next page. A page looks at
/// about 1000 schedules: for a key that may read few of them it may be empty and still have a `next_cursor`.
#[utoipa::path(
    get, path = "/schedules", tag = "schedules", params(ListSchedulesParams),
    responses((status = 200, description = "A page of schedules, by name", body = ScheduleList), RedisProblems),
)]
pub async fn list_schedules(
    State(state): State<AppState>,
    caller: Caller,
    Query(ListSchedulesParams { limit, cursor }): Query<ListSchedulesParams>,
) -> Result<Response, Problem> {
    let list = SchedulesCursor(match caller.may_to_all() {
        true => None,
        false => Some(Seal::of(&state.store, "dueq cursor").ok_or(Error::RedisUnavailable)?),
    });
    let after = open_cursor(cursor, |cursor| list.open(cursor))?;
    let (shown, next) = shown_schedules(&state, &caller, after, limit.get() as usize).await?;
    let next_cursor = next.and_then(|next| list.seal(&next));
    let items = shown.iter().map(Schedule::of).collect();
    Ok(json(&ScheduleList { items, next_cursor }))
}

/// The next schedules that the caller may read, and after which one others may follow. Reads on until there is one, and no more
/// than a page may cost: then it may be after one that is not shown.
async fn shown_schedules(
    state: &AppState,
    caller: &Caller,
    mut after: Option<ScheduleName>,
    limit: usize,
) -> Result<(Vec<store::Schedule>, Option<ScheduleName>), Error> {
    let chunk = if caller.may_to_all() { limit } else { limit.max(CHUNK) };
    let mut looked_at = 0;
    loop {
        let page = state.store.list_schedules(after.as_ref(), chunk).await?;
        let mut shown = page.items;
        looked_at += shown.len();
        shown.retain(|schedule| caller.may(&schedule.spec.topic));
        after = page.next_after;
        if shown.len() > limit {
            shown.truncate(limit);
            after = shown.last().map(|last| last.name.clone());
        }
        if !shown.is_empty() || after.is_none() || looked_at >= MAX_LOOKED_AT {
            return Ok((shown, after));
        }
    }
}
