//! listGroups, getGroup, putGroup, deleteGroup, pauseGroup and resumeGroup: a topic group by group, and what holds for one of them
//! in place of what the topic says.

use crate::{prelude::*, request::cursor};
use dueq_model::{GroupLimits, MAX_GROUP_CONCURRENCY, MAX_GROUP_WEIGHT, TopicName};
use dueq_store as store;

request! {
    /// The settings of one group. Absent limits are the topic's; absent, `paused` stays as it is.
    #[example = json!({"concurrency": 5, "rate_per_s": 10})]
    pub struct PutGroupRequest {
        /// Whether nothing of the group is leased.
        pub paused: Option<bool>,
        /// How many messages of the group may be leased at a time. Default: the topic's `group_concurrency`.
        #[example = 5]
        pub concurrency: Option<Bounded<1, MAX_GROUP_CONCURRENCY>>,
        /// How many messages of the group may be granted per second, retries aside: 0.01 to 100000. Default: the topic's
        /// `group_rate_per_s`.
        #[example = 10]
        pub rate_per_s: Option<Decimal<1, 10_000_000>>,
        /// How many of these may be granted at once. Default: the topic's `group_burst`.
        pub burst: Option<Bounded<1, MAX_GROUP_CONCURRENCY>>,
        /// How many messages of the group are leased for one of another group, where both have some. Only where `group_order`
        /// is `fair`. Default: 1.
        pub weight: Option<Bounded<1, MAX_GROUP_WEIGHT>>,
    }
}

answer! {
    /// A group of messages that are leased in order, or in turn with other groups.
    pub struct Group {
        /// Its name.
        #[example = "customer-7"]
        group: String,
        /// In `_callbacks`: the name of the API key whose group it is. Absent for keys without a name, and in other topics.
        published_by: Option<String>,
        /// Messages that consumers hold.
        leased: i64,
        /// Messages that wait for earlier ones of the group.
        blocked: i64,
        /// Messages that are delayed or ready.
        waiting: i64,
        /// When the next message of the group that is not blocked can be leased, RFC 3339 in UTC with ms. Absent if there is
        /// none.
        next_at: Option<Instant>,
        /// Whether nothing of the group is leased.
        paused: bool,
        /// How many of its messages may be leased at a time, if not as many as the topic's `group_concurrency` says.
        concurrency: Option<i64>,
        /// How many may be granted per second, if not as many as the topic's `group_rate_per_s` says.
        rate_per_s: Option<f64>,
        /// How many of these may be granted at once, if not as many as the topic's `group_burst` says.
        burst: Option<i64>,
        /// How many are leased for one of another group, if its weight was set.
        weight: Option<i64>,
    }
}

answer! {
    /// A page of groups.
    pub struct GroupList {
        /// The groups, in an order of their own that stays.
        items: Vec<Group>,
        /// Cursor for the next page. Absent on the last page.
        next_cursor: Option<String>,
    }
}

impl From<store::Group> for Group {
    fn from(found: store::Group) -> Self {
        let store::Group {
            name: group,
            publisher,
            leased,
            blocked,
            waiting,
            next_at,
            settings,
            ..
        } = found;
        let published_by = publisher.filter(|name| !name.is_empty());
        let paused = settings.paused;
        let next_at = next_at.filter(|_| !paused).map(Instant);
        let GroupLimits { concurrency, rate_per_s, burst, weight } = settings.limits;
        Self {
            group,
            published_by,
            leased,
            blocked,
            waiting,
            next_at,
            paused,
            concurrency,
            rate_per_s,
            burst,
            weight,
        }
    }
}

/// List groups.
///
/// Returns the groups that have messages which are delayed, ready, leased or blocked, and those with settings of their own. In `_callbacks`, a
/// key without the scope `admin` sees its own: a page may have fewer than `limit`, and a `next_cursor` all the same.
#[utoipa::path(
    get, path = "/topics/{topic}/groups", tag = "topics", params(TopicPath, PageParams),
    responses((status = 200, description = "A page of groups", body = GroupList), TopicProblems, RedisProblems),
)]
pub async fn list_groups(
    cx: Context,
    TopicPath(name): TopicPath,
    Query(PageParams { limit, cursor }): Query<PageParams>,
) -> Answer {
    let list = ["groups", name.as_str()];
    let after: Option<String> = open_cursor(cursor, |cursor| cursor::open(&list, cursor))?;
    let limit = limit.get() as usize;
    let (mut groups, more) = cx.store.groups(&name, after.as_deref(), limit).await?;
    let next_cursor = groups.last().filter(|_| more).map(|last| cursor::seal(&list, &last.id));
    groups.retain(|group| group.publisher.as_ref().is_none_or(|owner| cx.caller.may_as(owner)));
    let items = groups.into_iter().map(Group::from).collect();
    Ok(json(&GroupList { items, next_cursor }))
}

/// Get a group.
///
/// A group without messages that are delayed, ready, leased or blocked has zeros. In `_callbacks` each API key has groups of its own.
#[utoipa::path(
    get, path = "/topics/{topic}/groups/{group}", tag = "topics", params(GroupPath, GroupParams),
    responses((status = 200, description = "The group", body = Group), TopicProblems, RedisProblems),
)]
pub async fn get_group(cx: Context, GroupPath(name, group): GroupPath) -> Answer {
    answer_with_group(&cx, &name, &group, |error| error).await
}

/// Answers with the group; `map` converts an error.
async fn answer_with_group(
    cx: &AppState,
    name: &TopicName,
    group: &str,
    map: impl FnOnce(Error) -> Error,
) -> Answer {
    let found = cx.store.group(name, group).await.map_err(map)?;
    Ok(json(&Group::from(found)))
}

/// Change the settings of a group.
///
/// Replaces the limits of the group, which then hold in place of the topic's; those that are absent are the topic's again. They are in force
/// with the answer, for messages that wait, too. Leases that there are stay. Each partition can have settings of 10,000 groups.
#[utoipa::path(
    put, path = "/topics/{topic}/groups/{group}", tag = "topics", params(GroupPath, GroupParams),
    request_body(content = PutGroupRequest, description = "The settings"),
    responses((status = 200, description = "The group", body = Group), TopicProblems, GroupProblems, RedisProblems),
)]
pub async fn put_group(cx: Context, GroupPath(name, group): GroupPath, payload: Payload) -> Answer {
    let request: PutGroupRequest = payload.read(|_, _| {})?;
    let PutGroupRequest { paused, concurrency, rate_per_s, burst, weight } = request;
    let limits = GroupLimits {
        concurrency: concurrency.map(i64::from),
        rate_per_s: rate_per_s.map(Decimal::get),
        burst: burst.map(i64::from),
        weight: weight.map(i64::from),
    };
    set(&cx, &name, &group, paused, Some(&limits)).await
}

/// Reset the settings of a group.
///
/// The group is as any other of its topic again, and not paused. Its messages stay.
#[utoipa::path(
    delete, path = "/topics/{topic}/groups/{group}", tag = "topics", params(GroupPath, GroupParams),
    responses((status = 204, description = "The group has no settings of its own"), TopicProblems, RedisProblems),
)]
pub async fn delete_group(
    cx: Context,
    GroupPath(name, group): GroupPath,
) -> Result<StatusCode, Problem> {
    let limits = GroupLimits::default();
    cx.store.set_group(&name, &group, Some(false), Some(&limits)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pause a group.
///
/// Nothing of the group is leased, on any instance, and its other settings stay. Publishing and acknowledging go on.
#[utoipa::path(
    post, path = "/topics/{topic}/groups/{group}/pause", tag = "topics", params(GroupPath, GroupParams),
    responses((status = 200, description = "The group", body = Group), TopicProblems, GroupProblems, RedisProblems),
)]
pub async fn pause_group(
    cx: Context,
    GroupPath(name, group): GroupPath,
    payload: Payload,
) -> Answer {
    let _: Nothing = payload.aside(|| payload.json_or_none()?.read())?;
    set(&cx, &name, &group, Some(true), None).await
}

/// Resume a group.
///
/// Leasing goes on. Resuming a group that is not paused changes nothing.
#[utoipa::path(
    post, path = "/topics/{topic}/groups/{group}/resume", tag = "topics", params(GroupPath, GroupParams),
    responses((status = 200, description = "The group", body = Group), TopicProblems, RedisProblems),
)]
pub async fn resume_group(
    cx: Context,
    GroupPath(name, group): GroupPath,
    payload: Payload,
) -> Answer {
    let _: Nothing = payload.aside(|| payload.json_or_none()?.read())?;
    set(&cx, &name, &group, Some(false), None).await
}

async fn set(
    cx: &AppState,
    name: &TopicName,
    group: &str,
    paused: Option<bool>,
    limits: Option<&GroupLimits>,
) -> Answer {
    cx.store.set_group(name, group, paused, limits).await?;
    answer_with_group(cx, name, group, Error::after_change).await
}
