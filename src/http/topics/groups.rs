//! listGroups and getGroup: the messages of a topic that wait in line, group by group.

use crate::{prelude::*, request::cursor};
use dueq_store as store;

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
        let store::Group { name: group, publisher, leased, blocked, waiting, next_at, .. } = found;
        let published_by = publisher.filter(|name| !name.is_empty());
        Self { group, published_by, leased, blocked, waiting, next_at: next_at.map(Instant) }
    }
}

/// List groups.
///
/// Returns the groups that have messages which are delayed, ready, leased or blocked. In `_callbacks`, a key without the scope
/// `admin` sees its own: a page may have fewer than `limit`, and a `next_cursor` all the same.
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
    Ok(json(&Group::from(cx.store.group(&name, &group).await?)))
}
