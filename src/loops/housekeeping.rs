//! Housekeeping: ends leases, TTLs and retention on topics that nobody consumes. All instances share the work through
//! one sorted set of moments (see `store::sweeps`), so idle topics cost nothing however many instances run.

use super::dead_letters::{WriteReport, publish_at_once, publish_deaths};
use dueq_base::seeded;
use dueq_model::{Millis, error::Error};
use dueq_store::{Claim, PartitionName, Store, Swept};
use futures_util::future::join_all;
use std::{convert::Infallible, time::Duration};
use tokio::{
    sync::mpsc::{UnboundedSender, unbounded_channel},
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

/// Moments that other instances have noted are seen this late, at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A step of the walk over all topics is offered this often; the instances take turns.
const WALK_EVERY: Duration = Duration::from_secs(5);
/// Topics that nobody has used for so long are forgotten here, those that the walk looked at among them.
const TIDY_EVERY: Duration = Duration::from_secs(60);
/// Between two sweeps, so that housekeeping after an outage leaves Redis to those who wait for it.
const MIN_PAUSE: Duration = Duration::from_millis(5);
/// While Redis is away.
const RETRY: Duration = Duration::from_secs(1);

/// Runs until `stopping` is cancelled and what was claimed is given back. `write`: writes the payload of what is published of an
/// end.
pub async fn run_housekeeping(store: Store, write: WriteReport, stopping: CancellationToken) {
    let (seen, deaths) = unbounded_channel();
    let others = async {
        tokio::join!(
            pass_on(&store, &seen),
            walk(&store),
            take_move_steps(&store),
            publish_at_once(&store, deaths, write)
        )
    };
    tokio::select! {
        () = sweep(&store, write, &stopping) => {}
        (never, ..) = others => match never {},
    }
}

async fn pass_on(store: &Store, deaths: &UnboundedSender<PartitionName>) -> Infallible {
    loop {
        for partition in store.pass_on_hints().await {
            // Both ends are here.
            let _ = deaths.send(partition);
        }
        // What comes within a moment goes in one command.
        sleep(MIN_PAUSE).await;
    }
}

async fn sweep(store: &Store, write: WriteReport, stopping: &CancellationToken) {
    let rest = |pause| stopping.run_until_cancelled(sleep(pause));
    while !stopping.is_cancelled() {
        match store.claim_sweeps().await {
            Ok((claims, next)) => {
                if claims.is_empty() {
                    rest(pause(store, next)).await;
                }
                for claim in claims {
                    if stopping.is_cancelled() {
                        // Otherwise nothing is swept there until the claim ends.
                        let _ = store.finish_sweep(&claim, Some(Swept::NOTHING_YET)).await;
                        continue;
                    }
                    sweep_one(store, &claim, write).await;
                    assert!(!seeded::bug("panic in the background"), "a bug on purpose");
                    sleep(MIN_PAUSE).await;
                }
            }
            Err(_) => {
                rest(RETRY).await;
            }
        }
    }
}

/// Until the next moment, but not so long that another instance's is missed.
fn pause(store: &Store, next: Option<Millis>) -> Duration {
    next.map_or(LOOK_EVERY, |at| store.until_sweep(at)).clamp(MIN_PAUSE, LOOK_EVERY)
}

async fn sweep_one(store: &Store, claim: &Claim, write: WriteReport) {
    let swept = async {
        let mut swept = store.sweep(&claim.name).await?;
        if let Some(swept) = swept.as_mut().filter(|swept| swept.ends) {
            let published = publish_deaths(store, &claim.name, write, true).await;
            // Published deaths may leave now, and more may be left to publish; others are tried again a little later.
            (swept.more, swept.next_at) = (published.is_ok(), Some(store.now()));
            if let Err(error @ (Error::TopicsExhausted | Error::Internal)) = published {
                tracing::warn!(partition = %claim.name, %error, "dead letters could not be published yet");
            }
        }
        store.finish_sweep(claim, swept).await
    };
    match swept.await {
        Ok(()) => {}
        // The claim ends by itself, and the topic is anybody's again.
        Err(Error::RedisUnavailable | Error::OutcomeUnknown) => sleep(RETRY).await,
        Err(error) => tracing::warn!(?claim, %error, "a partition could not be swept"),
    }
}

/// Takes the next steps of move tasks.
async fn take_move_steps(store: &Store) -> Infallible {
    let step = async |claim: &Claim| {
        if let Err(error) = store.take_move_step(claim).await {
            tracing::warn!(queue = %claim.name, %error, "a move task will be tried again");
        }
    };
    loop {
        match store.claim_moves().await {
            Ok((claims, next)) if claims.is_empty() => sleep(pause(store, next)).await,
            Ok((claims, _)) => drop(join_all(claims.iter().map(step)).await),
            Err(_) => sleep(RETRY).await,
        }
    }
}

async fn walk(store: &Store) -> Infallible {
    let mut tidied = Instant::now();
    loop {
        if let Err(error) = store.walk().await {
            tracing::debug!(%error, "a step of the walk over all topics was left out");
        }
        if tidied.elapsed() >= TIDY_EVERY {
            tidied = Instant::now();
            store.forget_unused_topics();
            // An instance may have run at the start that did not know all that its topic says.
            if let Err(error) = store.upgrade_callbacks().await {
                tracing::debug!(%error, "_callbacks was not updated");
            }
        }
        sleep(WALK_EVERY).await;
    }
}
