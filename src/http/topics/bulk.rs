//! purgeTopic, redriveTopic, runTopic: what is done to many messages of a topic, to all of them or to those that a query finds.

use crate::{
    prelude::*,
    request::cursor::{open, seal},
};
use dueq_model::{
    DEFAULT_REDRIVE, MAX_REDRIVE, MessageQuery, Millis, State as MessageState, TopicName,
};
use dueq_store::{Change, MovesBack, Selected, Selection, Worked};
use std::collections::HashSet;

request! {
    /// Which messages a request is about.
    pub struct Choice {
        /// Only messages for which all terms hold, as in listMessages.
        #[example = "error:timeout"]
        pub q: Option<MessageQuery>,
        /// Change nothing, and only say how many messages match.
        pub dry_run: bool = false,
        /// The `next_cursor` of the previous answer.
        pub cursor: Option<Cursor>,
    }
}

request! {
    /// What to purge. With `q`, `dry_run` or `cursor` a request looks at up to 10,000 messages: repeat it with `next_cursor` for
    /// the rest.
    #[example = json!({"states": ["ready", "delayed"]})]
    pub struct PurgeRequest {
        /// Remove the messages in these states, each named once.
        pub states: List<PurgedState, 1, 5>,
        /// Required to purge leased messages: their holders' acks then get 404. Their places under `max_leased` are free at
        /// once.
        pub force: bool = false,
        pub choice: Flat<Choice>,
    }
    check(fields) {
        let mut seen = HashSet::new();
        if !states.iter().flat_map(|states| &states.0).all(|state| seen.insert(state)) {
            fields.refuse("states", "names a state more than once");
        }
        if seen.contains(&PurgedState::Leased) {
            if force != Some(true) {
                fields.refuse("states", "can contain leased only with force");
            }
            if choice.as_ref().is_some_and(|choice| choice.is_made()) {
                fields.refuse("states", "cannot contain leased together with q, dry_run or cursor");
            }
        }
    }
}

answer! {
    /// The result of a purge.
    pub struct PurgeResponse {
        /// Messages removed.
        purged: i64,
        /// Messages left in the named states.
        remaining: i64,
        /// Messages that match; only with `q`, `dry_run` or `cursor`, like the following.
        matched: Option<i64>,
        /// Messages that were looked at.
        scanned: Option<i64>,
        /// Cursor for the rest. Absent if there is no more.
        next_cursor: Option<String>,
    }
}

request! {
    /// How to redrive dead messages. Every field is optional. With `q`, `dry_run` or `cursor` a request looks at up to 10,000
    /// messages: repeat it with `next_cursor` for the rest.
    #[example = json!({"max_messages": 1000, "spread_ms": 60_000})]
    pub struct RedriveRequest {
        /// Redrive up to this many messages: those that move back first, then those dead longest.
        pub max_messages: Bounded<1, MAX_REDRIVE> = Bounded::new(DEFAULT_REDRIVE),
        /// Spread their due times evenly over this time, ms.
        pub spread_ms: DelayMs = Bounded::new(0),
        pub choice: Flat<Choice>,
    }
}

answer! {
    /// The result of a redrive.
    pub struct RedriveResponse {
        /// Messages redriven, or moved back.
        redriven: i64,
        /// Messages left to redrive or to move back.
        remaining: i64,
        /// Messages that match; only with `q`, `dry_run` or `cursor`, like the following.
        matched: Option<i64>,
        /// Messages that were looked at.
        scanned: Option<i64>,
        /// Cursor for the rest. Absent if there is no more.
        next_cursor: Option<String>,
    }
}

request! {
    /// Which messages to make due. Every field is optional. A request looks at up to 10,000 messages: repeat it with
    /// `next_cursor` for the rest.
    #[example = json!({"q": "key:reminder/*", "spread_ms": 60_000})]
    pub struct RunRequest {
        /// Messages in these states, each named once; absent: in both.
        pub states: Option<List<RunState, 1, 2>>,
        /// Up to this many messages, those due first first.
        pub max_messages: Bounded<1, MAX_REDRIVE> = Bounded::new(DEFAULT_REDRIVE),
        /// Spread the due times of this request's messages evenly over this time, ms. None falls due later than it would anyway.
        pub spread_ms: DelayMs = Bounded::new(0),
        pub choice: Flat<Choice>,
    }
    check(fields) {
        let named = states.iter().flatten().flat_map(|states| &states.0);
        let mut seen = HashSet::new();
        if !named.into_iter().all(|state| seen.insert(state)) {
            fields.refuse("states", "names a state more than once");
        }
    }
}

answer! {
    /// The result of a run.
    pub struct RunResponse {
        /// Messages that were made due.
        run: i64,
        /// Messages that match.
        matched: i64,
        /// Messages that were looked at.
        scanned: i64,
        /// Cursor for the rest. Absent if there is no more.
        next_cursor: Option<String>,
    }
}

/// Purge a topic.
///
/// Removes the messages in the named states. Leased messages stay, unless they are named and `force` is true. If `ready` is named
/// without `delayed` and `blocked`, the next message of a group gets ready, and stays.
#[utoipa::path(
    post, path = "/topics/{topic}/purge", tag = "topics", params(TopicPath),
    request_body(content = PurgeRequest, description = "The states to purge"),
    responses(
        (status = 200, description = "How many messages were removed, and how many are left", body = PurgeResponse),
        TopicProblems, RedisProblems,
    ),
)]
pub async fn purge_topic(
    cx: Context,
    TopicPath(name): TopicPath,
    JsonBody(request, _): JsonBody<PurgeRequest>,
) -> Answer {
    let states = request.states.0.into_iter().map(MessageState::from);
    let mut states: Vec<_> =
        states.filter(|state| request.force || *state != MessageState::Leased).collect();
    let choice = request.choice.0;
    let (purged, remaining, found) = match choice.is_made() {
        false => all_of(&cx, cx.store.purge_topic(&cx.round(), &name, &states).await?),
        true => {
            // As a purge of all has it: what is delayed includes what is blocked, which goes before others let it go.
            if states.contains(&MessageState::Delayed) && !states.contains(&MessageState::Blocked) {
                states.push(MessageState::Blocked);
            }
            states.sort_by_key(|state| *state != MessageState::Blocked);
            let change = Change::Purge;
            let (most, spread_ms) = (MAX_REDRIVE, 0);
            let work = Work { change, states: &states, most, spread_ms, back: None };
            work.chosen(&cx, &name, choice).await?
        }
    };
    let Found { matched, scanned, next_cursor } = found;
    Ok(json(&PurgeResponse { purged, remaining, matched, scanned, next_cursor }))
}

/// Redrive dead messages.
///
/// Those dead longest come first. They are ready at once, or spread over a time, with as many attempts as new messages.
/// A dead message whose key belongs to a live message stays, and so does what `max_messages` has no room for. Ready messages that
/// came here with `dead_form: raw` move back to the topics in which they died, if the key may publish there; not with `q` or
/// `cursor`, and not while the topic is paused. Repeat the request while some remain.
#[utoipa::path(
    post, path = "/topics/{topic}/redrive", tag = "topics", params(TopicPath),
    request_body(content = RedriveRequest, description = "How many, and over how long"),
    responses(
        (status = 200, description = "How many messages were redriven, and how many are left", body = RedriveResponse),
        TopicProblems, RedisProblems,
    ),
)]
pub async fn redrive_topic(
    cx: Context,
    TopicPath(name): TopicPath,
    JsonBody(request, _): OptionalJsonBody<RedriveRequest>,
) -> Answer {
    let RedriveRequest { max_messages, spread_ms, choice } = request;
    let (most, spread_ms, choice) = (max_messages.get(), spread_ms.millis(), choice.0);
    let may = |to: &TopicName| cx.caller.check_verb(Verb::Publish, to).is_ok();
    let (redriven, remaining, found) = match choice.is_made() {
        false => {
            let (round, how) = (&cx.round(), (most, spread_ms));
            all_of(&cx, cx.store.redrive_topic(round, &name, how, &may).await?)
        }
        true => {
            let states = &[MessageState::Dead];
            let mut work = Work { change: Change::Redrive, states, most, spread_ms, back: None };
            if choice.dry_run && choice.q.is_none() {
                let (topic, counts) = cx.store.topic(&name).await?;
                let moves = topic.settings.push.is_none() && !counts.paused;
                work.back = moves.then_some(&may);
            }
            work.chosen(&cx, &name, choice).await?
        }
    };
    let Found { matched, scanned, next_cursor } = found;
    Ok(json(&RedriveResponse { redriven, remaining, matched, scanned, next_cursor }))
}

/// Make a topic's messages due.
///
/// Delayed messages are due now, or evenly over `spread_ms`; none later than it would be anyway. Those that wait for earlier ones
/// of their group go on waiting for these. A time to live starts again, as with any new due time.
#[utoipa::path(
    post, path = "/topics/{topic}/run", tag = "topics", params(TopicPath),
    request_body(content = RunRequest, description = "Which messages, and over how long"),
    responses(
        (status = 200, description = "How many messages were made due", body = RunResponse),
        TopicProblems, RedisProblems,
    ),
)]
pub async fn run_topic(
    cx: Context,
    TopicPath(name): TopicPath,
    JsonBody(request, _): OptionalJsonBody<RunRequest>,
) -> Answer {
    let RunRequest { states, max_messages, spread_ms, choice } = request;
    let states: Vec<_> = match states {
        Some(states) => states.0.into_iter().map(MessageState::from).collect(),
        None => vec![MessageState::Delayed, MessageState::Blocked],
    };
    let (most, spread_ms) = (max_messages.get(), spread_ms.millis());
    let work = Work { change: Change::Run, states: &states, most, spread_ms, back: None };
    let (run, found) = work.through(&cx, &name, choice.0).await?;
    let (matched, scanned) = (found.matched.unwrap_or(0), found.scanned.unwrap_or(0));
    Ok(json(&RunResponse { run, matched, scanned, next_cursor: found.next_cursor }))
}

/// What was done to all messages in a state, without a search.
fn all_of(cx: &Context, Worked { done, remaining, .. }: Worked) -> (i64, i64, Found) {
    cx.caller.changed(done);
    (done, remaining, Found::default())
}

impl Choice {
    fn is_made(&self) -> bool {
        self.q.is_some() || self.dry_run || self.cursor.is_some()
    }
}

/// The states of what a redrive makes ready, or moves back.
const REDRIVEN: &[MessageState] = &[MessageState::Dead, MessageState::Ready];

/// What a request does to messages of a topic.
struct Work<'a> {
    change: Change,
    states: &'a [MessageState],
    most: u64,
    spread_ms: Millis,
    /// Also ready messages that would move back to a topic of which this says yes.
    back: Option<MovesBack<'a>>,
}

/// What was found; nothing where nothing was searched.
#[derive(Default)]
struct Found {
    matched: Option<i64>,
    scanned: Option<i64>,
    next_cursor: Option<String>,
}

impl Work<'_> {
    /// Does it to the messages that are chosen, and says to how many. A query tells what is in messages, so it wants `read` too.
    async fn through(
        &self,
        cx: &Context,
        topic: &TopicName,
        choice: Choice,
    ) -> Result<(i64, Found), Problem> {
        let Self { change, states, most, spread_ms, back } = *self;
        if choice.q.is_some() {
            cx.caller.check_verb(Verb::Read, topic)?;
        }
        let query = choice.q.unwrap_or_default();
        let of_states: String = states.iter().map(|state| format!("{},", state.word())).collect();
        let list = [change.word(), topic.as_str(), &of_states, query.text()];
        let states = if back.is_some() { REDRIVEN } else { states };
        let is_known = |(state, _): &(usize, _)| *state < states.len();
        let open = |cursor: &str| open(&list, cursor).filter(is_known);
        let from = open_cursor(choice.cursor, open)?.unwrap_or((0, None));
        let search = cx.searches.begin(&cx.caller).await?;
        let round = &cx.round();
        let selection = Selection { topic, states, query: &query, back, most, from, round };
        let Selected { matched, scanned, next } = cx.store.select(selection).await?;
        drop(search);
        let changed = match choice.dry_run {
            true => 0,
            false => {
                let spread = (spread_ms, 0, matched.len() as i64);
                cx.store.change_selected(round, change, states, &matched, spread).await?
            }
        };
        cx.caller.changed(changed);
        let next_cursor = next.map(|next| seal(&list, &next));
        let (matched, scanned) = (Some(matched.len() as i64), Some(scanned as i64));
        Ok((changed, Found { matched, scanned, next_cursor }))
    }

    /// The same, with how many messages are in these states afterwards.
    async fn chosen(
        &self,
        cx: &Context,
        topic: &TopicName,
        choice: Choice,
    ) -> Result<(i64, i64, Found), Problem> {
        let (changed, found) = self.through(cx, topic, choice).await?;
        let (_, counts) = cx.store.topic(topic).await.map_err(|error| error.after(changed > 0))?;
        let left: i64 = self.states.iter().map(|state| counts.count(*state)).sum();
        let back = found.matched.filter(|_| self.back.is_some()).unwrap_or_default();
        Ok((changed, left.max(back), found))
    }
}
