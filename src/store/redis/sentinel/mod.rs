//! A primary that Sentinels watch over. Its address is asked of all of them whenever a connection is made, and the one of
//! the highest configuration epoch counts: so Sentinels that are dead, cut off or behind do no harm. Whether a primary is
//! there is for the next connection to find out.

mod ask;
#[cfg(test)]
mod tests;
mod watch;

pub(crate) use ask::is_one;

use crate::{
    cluster::{Address, shown},
    connect_error::ConnectError,
    connection_source::{Endpoint, Moves},
    durability::Listed,
    redis_args::{Primary, SentinelTarget},
};
use ask::{Refusal, View, ask};
use deadpool_redis::redis::Client;
use futures_util::{StreamExt, stream::FuturesUnordered};
use parking_lot::Mutex;
use std::{cmp::Reverse, sync::Arc, time::Duration};
use tokio::time::{Instant, timeout_at};

/// How long a Sentinel may take to answer…
const ASK_TIMEOUT: Duration = Duration::from_secs(1);
/// …and how much longer than the first the others may.
const GRACE: Duration = Duration::from_millis(100);

/// The Sentinels, and what they said last.
pub(crate) struct Sentinels {
    seeds: Vec<Client>,
    /// The name of the primary, if it was given.
    master: Option<String>,
    primary: Primary,
    timeout: Duration,
    known: Mutex<Option<Known>>,
    /// Held while they are asked, so that lanes that connect together ask once.
    asking: tokio::sync::Mutex<()>,
    moves: Moves,
    /// The replicas that they list.
    replicas: Listed,
}

/// Where the primary is.
#[derive(Clone)]
struct Known {
    view: View,
    /// No primary was found there: what any Sentinel says next counts more.
    failed: bool,
    asked: Instant,
    endpoint: Arc<Endpoint>,
}

impl Sentinels {
    /// Nothing is asked yet.
    pub fn new(target: SentinelTarget, timeout: Duration, moves: Moves) -> Self {
        let SentinelTarget { seeds, master, primary } = target;
        let (known, asking) = (Mutex::default(), tokio::sync::Mutex::default());
        let replicas = Listed::default();
        Self { seeds, master, primary, timeout, known, asking, moves, replicas }
    }

    /// The endpoint to the primary as the Sentinels name it now. Without any of them, where it was last.
    ///
    /// Errors: [`ConnectError`] if none answers, if they contradict each other, or do not know the primary.
    pub async fn endpoint(&self) -> Result<Arc<Endpoint>, ConnectError> {
        let begun = Instant::now();
        let _asking = self.asking.lock().await;
        let known = self.known.lock().clone();
        if let Some(known) = known.as_ref().filter(|known| known.asked >= begun && !known.failed) {
            return Ok(known.endpoint.clone());
        }
        let answers = self.ask_all(known.is_some()).await;
        match choose(answers, known.as_ref().map(|known| &known.view)) {
            Err(ConnectError::NoSentinels(_)) if let Some(known) = known => Ok(known.endpoint),
            chosen => self.learn(chosen?),
        }
    }

    /// The endpoint as it was last known.
    pub fn known_endpoint(&self) -> Option<Arc<Endpoint>> {
        Some(self.known.lock().as_ref()?.endpoint.clone())
    }

    /// What is to be said of a endpoint behind which no primary was found.
    pub fn failed(&self, endpoint: &Endpoint, error: ConnectError) -> ConnectError {
        let mut known = self.known.lock();
        let Some(known) = known.as_mut().filter(|known| known.endpoint.number == endpoint.number)
        else {
            return error;
        };
        // A primary may refuse writes for now, for want of replicas. It is the primary all the same.
        known.failed = !matches!(error, ConnectError::Refused(_));
        match error {
            ConnectError::Unreachable(_)
            | ConnectError::Refused(_)
            | ConnectError::Replica
            | ConnectError::Cluster => {
                let (address, name) = (shown(&known.view.address), known.view.name.clone());
                ConnectError::Named { address, name, error: Box::new(error) }
            }
            error => error,
        }
    }

    /// Whether both watch the same primary, which is entered as the same user.
    pub fn leads_where(&self, other: &Self) -> bool {
        let of = |this: &Self| {
            let mut seeds: Vec<_> = this.seeds.iter().map(address_of).collect();
            seeds.sort_unstable();
            let Primary { settings, tls } = &this.primary;
            let user = settings.username().map(str::to_owned);
            (seeds, this.master.clone(), settings.db(), user, tls.is_some())
        };
        of(self) == of(other)
    }

    /// Goes on where `old` was.
    pub fn after(&self, old: &Self) -> Result<(), ConnectError> {
        self.replicas.raise(old.replicas());
        if let Some(known) = old.known.lock().clone() {
            let endpoint = self.door_at(&known.view.address, known.endpoint.number)?;
            *self.known.lock() = Some(Known { endpoint, ..known });
        }
        Ok(())
    }

    /// How many replicas they list, also those that are away.
    pub fn replicas(&self) -> usize {
        self.replicas.count()
    }

    /// Asks all how many replicas there are.
    pub async fn look_at_replicas(&self) {
        self.ask_all(true).await;
    }

    /// Asks all. Once the primary was known, those that take much longer than the first do not count.
    async fn ask_all(&self, was_known: bool) -> Vec<Result<View, Refusal>> {
        let (limit, name) = (self.limit(), self.name());
        let asked = self.seeds.iter().map(|seed| ask(seed, name.as_deref(), limit));
        let mut asking: FuturesUnordered<_> = asked.collect();
        let mut end = Instant::now() + limit + GRACE;
        let mut answers = Vec::new();
        while let Ok(Some(answer)) = timeout_at(end, asking.next()).await {
            if was_known && answer.is_ok() {
                end = end.min(Instant::now() + GRACE);
            }
            answers.push(answer);
        }
        let listed = answers.iter().flatten().map(|view| view.replicas).max();
        listed.inspect(|most| self.replicas.note(*most));
        answers
    }

    /// Takes what was learnt, unless what is known is as new.
    fn learn(&self, view: View) -> Result<Arc<Endpoint>, ConnectError> {
        let mut present = self.known.lock();
        let asked = Instant::now();
        let mut number = *self.moves.borrow();
        if let Some(known) = present.as_mut() {
            if known.view.address == view.address {
                known.view.epoch = known.view.epoch.max(view.epoch);
                (known.asked, known.failed) = (asked, false);
                return Ok(known.endpoint.clone());
            }
            if known.view.epoch >= view.epoch && !known.failed {
                known.asked = asked;
                return Ok(known.endpoint.clone());
            }
            number += 1;
        }
        let endpoint = self.door_at(&view.address, number)?;
        if present.is_some() {
            tracing::info!(
                primary = view.name,
                address = shown(&view.address),
                "the primary has moved"
            );
        }
        *present = Some(Known { view, failed: false, asked, endpoint: endpoint.clone() });
        drop(present);
        self.moves.send_if_modified(|moves| std::mem::replace(moves, number) != number);
        Ok(endpoint)
    }

    fn door_at(&self, address: &Address, number: u64) -> Result<Arc<Endpoint>, ConnectError> {
        let client = self.primary.at(&address.0, address.1)?;
        Ok(Arc::new(Endpoint::new(client, self.timeout, number)?))
    }

    /// The primary's name, once it is known.
    fn name(&self) -> Option<String> {
        let known = || Some(self.known.lock().as_ref()?.view.name.clone());
        self.master.clone().or_else(known)
    }

    fn limit(&self) -> Duration {
        ASK_TIMEOUT.min(self.timeout)
    }
}

/// Which of the answers counts. Until the primary was known once, whatever is wrong with a Sentinel is an error: an operator
/// reads it, and a guess might lead to other data.
fn choose(answers: Vec<Result<View, Refusal>>, known: Option<&View>) -> Result<View, ConnectError> {
    let (mut views, mut silent, mut wrong) = (Vec::new(), Vec::new(), None);
    for answer in answers {
        match answer {
            Ok(view) => views.push(view),
            Err(Refusal::Silent(reason)) => silent.push(reason),
            Err(Refusal::Wrong(error)) => wrong = wrong.or(Some(error)),
        }
    }
    if let Some(error) = wrong
        && (known.is_none() || views.is_empty())
    {
        return Err(error);
    }
    let is_known = |view: &View| known.is_some_and(|known| known.address == view.address);
    let rank = |view: &View| (view.epoch, is_known(view), Reverse(view.seed.clone()));
    let Some(best) = views.iter().max_by_key(|view| rank(view)).cloned() else {
        silent.sort_unstable();
        return Err(ConnectError::NoSentinels(silent.join("; ")));
    };
    if let Some(view) = views.iter().find(|view| view.name != best.name) {
        let mut names = [best.name, view.name.clone()];
        names.sort_unstable();
        return Err(ConnectError::SeveralMasters(names.join(", ")));
    }
    if let Some(view) = views.iter().find(|view| !view.is_beside(&best)) {
        let place = |view: &View| format!("{} by {}", shown(&view.address), view.seed);
        let (one, other) = (place(&best), place(view));
        return Err(ConnectError::Differ { name: best.name, one, other });
    }
    Ok(best)
}

/// The address of a Sentinel.
fn address_of(seed: &Client) -> String {
    seed.get_connection_info().addr().to_string()
}
