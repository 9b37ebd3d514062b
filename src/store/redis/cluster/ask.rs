//! What nodes say when they are asked over a connection of its own: at the start, and when no other way is left.

use super::{view::View, *};
use crate::{connection_source, redis_args::Target};
use deadpool_redis::redis::{
    AsyncConnectionConfig, Pipeline, RedisError,
    aio::{ConnectionLike, MultiplexedConnection},
    cmd,
};
use dueq_base::tls::Expiry;
use std::cmp::Reverse;
use tokio::time::timeout;

/// What the options name, as the files are now.
pub(super) fn read(
    options: &StoreOptions,
) -> Result<(ClusterTarget, Option<Expiry>), ConnectError> {
    match options.redis.target(Some(RedisMode::Cluster))? {
        (Target::Cluster(target), expiry) => Ok((target, expiry)),
        _ => Err(ConnectError::Cluster),
    }
}

/// Clients for all primaries of the Cluster that the options name.
pub(crate) async fn primaries(options: &StoreOptions) -> Result<Vec<Client>, ConnectError> {
    let (target, _) = read(options)?;
    let view = first_view(&target, options.timeout).await?;
    let client = |(host, port): &Address| target.primary.at(host, *port);
    view.primaries.keys().map(client).collect()
}

/// The view of the latest epoch, of a node that can serve if there is one. A node knows the epoch of a failover before it
/// knows its outcome, so of equals that counts which names the fewest primaries that are `away`.
pub(super) fn best(views: Vec<View>, away: impl Fn(&Address) -> bool) -> Option<View> {
    let present = |view: &View| Reverse(view.primaries.keys().filter(|at| away(at)).count());
    views.into_iter().max_by_key(|view| (view.ok, view.epoch, present(view)))
}

/// What the named nodes say at the start, when nothing may be guessed.
pub(super) async fn first_view(
    target: &ClusterTarget,
    limit: Duration,
) -> Result<View, ConnectError> {
    let asked = target.seeds.iter().map(|seed| async move { (seed, look(seed, limit).await) });
    let (mut views, mut silent) = (Vec::new(), Vec::new());
    for (seed, answer) in join_all(asked).await {
        let seed = seed.get_connection_info().addr().to_string();
        match answer {
            Ok(view) => views.push((seed, view)),
            Err(ConnectError::Unreachable(reason)) => silent.push(format!("{seed}: {reason}")),
            Err(error) => return Err(error),
        }
    }
    let Some((seed, view)) = views.iter().max_by_key(|(_, view)| (view.ok, view.epoch)).cloned()
    else {
        silent.sort_unstable();
        return Err(ConnectError::NoNodes(silent.join("; ")));
    };
    let knows = |other: &View| other.ids.iter().any(|id| view.ids.contains(id));
    if let Some((other, _)) =
        views.iter().find(|(_, other)| !knows(other) && view.holes() < usize::from(slots::SLOTS))
    {
        return Err(ConnectError::SeveralClusters(seed, other.clone()));
    }
    let reason = match view.holes() {
        0 if view.ok => return Ok(view),
        0 => "its cluster_state is fail: too many of its primaries are away".to_owned(),
        holes => format!("{holes} of {} slots have no primary", slots::SLOTS),
    };
    Err(ConnectError::ClusterDown { seed, reason })
}

/// What a named node says, if it answers in time.
pub(super) async fn ask(seed: &Client, limit: Duration) -> Option<View> {
    timeout(limit, look(seed, limit)).await.ok()?.ok()
}

/// Connects to a named node and asks it.
async fn look(seed: &Client, limit: Duration) -> Result<View, ConnectError> {
    let unreachable = |error| connection_source::unreachable(&error);
    let mut connection = connect(seed, limit).await.map_err(unreachable)?;
    let mut look = Pipeline::with_capacity(3);
    look.cmd("INFO").arg("server");
    look.cmd("CLUSTER").arg("SLOTS");
    look.cmd("CLUSTER").arg("INFO");
    let answers = connection.req_packed_commands(&look, 0, 3).await;
    let [server, slots, info] = <[Value; 3]>::try_from(answers.map_err(unreachable)?)
        .map_err(|_| ConnectError::Unreachable("it does not answer CLUSTER SLOTS".to_owned()))?;
    if reply::word(&server).is_some_and(|info| Mode::of_info(info) != Mode::Cluster) {
        return Err(ConnectError::NoCluster(seed.get_connection_info().addr().to_string()));
    }
    if let Value::ServerError(error) = &slots {
        return Err(ConnectError::Refused(error.to_string()));
    }
    let host = host_of(seed);
    View::read(slots, &info, &host).ok_or_else(|| {
        ConnectError::Unreachable("its answer to CLUSTER SLOTS cannot be read".to_owned())
    })
}

/// What a server says that it is, if it answers.
pub(super) async fn mode_of(seed: &Client, limit: Duration) -> Option<Mode> {
    let asked = async {
        let mut connection = connect(seed, limit).await.ok()?;
        let info = connection.req_packed_command(cmd("INFO").arg("server")).await.ok()?;
        Some(Mode::of_info(reply::word(&info)?))
    };
    timeout(limit.min(ASK_TIMEOUT), asked).await.ok().flatten()
}

async fn connect(seed: &Client, limit: Duration) -> Result<MultiplexedConnection, RedisError> {
    let limit = limit.min(ASK_TIMEOUT);
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(limit))
        .set_response_timeout(Some(limit));
    seed.get_multiplexed_async_connection_with_config(&config).await
}

/// Whether an answer to CONFIG GET says yes.
pub(super) fn says_yes(answer: &Value) -> bool {
    match answer {
        Value::Array(pair) => pair.get(1).and_then(reply::word) == Some("yes"),
        Value::Map(pairs) => pairs.first().and_then(|(_, value)| reply::word(value)) == Some("yes"),
        _ => false,
    }
}
