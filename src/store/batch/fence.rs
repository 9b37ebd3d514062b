//! Answers that wait until the replicas have what they tell of: those about topics of `durability` `replicated`, and of
//! changes of the registry. Lanes leave them with the fence of their node, which works in rounds,
//! over a connection of its own: a small write, `WAIT`, and which epoch it was. Replication is one stream in order, so a
//! round confirms all answers that were there when it began, whoever wrote what they tell of. But only those of the same
//! epoch: a server that was demoted meanwhile has forgotten what it wrote, however many replicas it has now.
//!
//! As long as the replicas answer at once, a pipeline whose answers all wait ends with such a round itself. The lane waits
//! for it, and so does what comes meanwhile, which then shares a call: requests that wait for replicas elsewhere make
//! groups small. A round that comes to nothing there is left to the fence, and so is what comes after it, until the fence
//! has had an answer: no lane waits for a replica that is away. What waits for no replica never shares such a pipeline.
//!
//! What is not confirmed in time is answered that its outcome is not known, and what it granted goes back.

use super::{
    super::{
        backend::{Link, discard},
        reply::{CallError, word},
        scripts,
    },
    node::Node,
    round::Round,
};
use crate::{model::Epoch, seeded};
use deadpool_redis::redis::{Pipeline, Value, aio::ConnectionLike};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::{
    sync::{Notify, oneshot},
    time::{Instant, sleep, timeout},
};

/// How long a round waits for the replicas, ms: then the next one also counts for what has come meanwhile.
const WAIT_MS: u64 = 100;
/// How often a connection with nothing to do is looked at.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// The pause after a round that came to nothing at once.
const PAUSE: Duration = Duration::from_millis(20);

/// Whether the answer of a call waits for replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Confirm {
    /// It does not.
    #[default]
    Never,
    /// Where there are some.
    WithReplicas,
    /// For one at least.
    Always,
}

/// Hands out an answer: as it is, or with this error in its place.
pub(super) type Release = Box<dyn FnOnce(Result<(), CallError>) + Send>;

/// Answers of one pipeline.
pub(super) struct Held {
    /// The epoch of the server when the pipeline began, and the door to it.
    pub epoch: Epoch,
    pub door: u64,
    /// Until when they can wait.
    pub until: Instant,
    /// Each with the number of replicas that it waits for.
    pub answers: Vec<(usize, Release)>,
}

impl Held {
    /// Takes out what this round confirms.
    fn confirmed_by(&mut self, round: &Round) -> Vec<(usize, Release)> {
        if self.epoch != round.epoch && !seeded::bug("fence without its epoch") {
            return Vec::new();
        }
        let all = std::mem::take(&mut self.answers);
        let (done, left) = all.into_iter().partition(|(wanted, _)| *wanted <= round.replicas);
        self.answers = left;
        done
    }
}

/// Where it arrives that the replicas have a change; nothing where nobody has to.
pub(crate) struct Confirmed(pub(super) Option<oneshot::Receiver<Result<(), CallError>>>);

impl Confirmed {
    /// Comes back once the replicas have it.
    ///
    /// Errors: `Unknown` if they do not say so in time.
    pub async fn wait(self) -> Result<(), CallError> {
        match self.0 {
            Some(confirmed) => confirmed.await.unwrap_or(Err(CallError::Unknown)),
            None => Ok(()),
        }
    }
}

/// The answers that wait, in the order in which they came.
#[derive(Default)]
pub(super) struct Fence {
    queue: Mutex<Queue>,
    filled: Notify,
    /// What lanes write at the end of their own pipelines; nothing while they must not wait for replicas.
    key: Mutex<Option<Arc<str>>>,
}

#[derive(Default)]
struct Queue {
    held: VecDeque<(Instant, Held)>,
    /// How many have left it at its front.
    gone: usize,
}

impl Fence {
    /// What a lane writes that asks the replicas itself, at the end of its pipeline; nothing if they did not answer at once
    /// when they were last asked.
    pub fn key(&self) -> Option<Arc<str>> {
        self.lock_key().clone()
    }

    fn set_key(&self, key: Option<&Arc<str>>) {
        let mut present = self.lock_key();
        if present.as_ref() != key {
            *present = key.cloned();
        }
    }

    fn lock_key(&self) -> MutexGuard<'_, Option<Arc<str>>> {
        self.key.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Hands out what the end of the pipeline itself has confirmed, if that was `asked`, and takes in the rest.
    pub fn settle(&self, mut held: Held, asked: bool, end: Option<&Round>) {
        if let Some(round) = end {
            held.confirmed_by(round).into_iter().for_each(|(_, release)| release(Ok(())));
        }
        if held.answers.is_empty() {
            return;
        }
        if asked {
            self.leave_it();
        }
        self.hold(held);
    }

    /// The replicas did not answer a lane at once: no lane waits for them until they have answered a round.
    pub fn leave_it(&self) {
        self.set_key(None);
    }

    /// Takes answers in.
    fn hold(&self, held: Held) {
        self.lock().held.push_back((Instant::now(), held));
        self.filled.notify_one();
    }

    fn is_empty(&self) -> bool {
        self.lock().held.is_empty()
    }

    /// Replicas that somebody waits for, at most.
    fn wanted(&self) -> usize {
        let queue = self.lock();
        let answers = queue.held.iter().flat_map(|(_, held)| &held.answers);
        answers.map(|(wanted, _)| *wanted).max().unwrap_or(1)
    }

    /// Up to where a round counts that begins now.
    fn end(&self) -> usize {
        let queue = self.lock();
        queue.gone + queue.held.len()
    }

    /// Gives up what waits for too long, or was written by a server that another has replaced.
    pub fn expire(&self, node: &Node) {
        let (now, door) = (Instant::now(), node.backend.moves_so_far());
        self.void(node, |_, held| held.until <= now || held.door != door);
    }

    /// Gives up what `is_void` says.
    fn void(&self, node: &Node, is_void: impl Fn(Instant, &Held) -> bool) {
        let mut void = Vec::new();
        let mut queue = self.lock();
        for (came, held) in &mut queue.held {
            if is_void(*came, held) {
                void.append(&mut held.answers);
            }
        }
        queue.tidy();
        drop(queue);
        if void.is_empty() {
            return;
        }
        if node.backend.shared.may_complain() {
            tracing::warn!(answers = void.len(), "replicas of Redis have not confirmed in time");
        }
        for (_, release) in void {
            node.count(CallError::Unknown);
            release(Err(CallError::Unknown));
        }
    }

    /// Hands out what a round has confirmed, of all before `end`. From then on lanes ask by themselves, with this key.
    fn release(&self, end: usize, round: &Round, key: &Arc<str>) {
        let mut confirmed = Vec::new();
        let mut queue = self.lock();
        let many = end.saturating_sub(queue.gone).min(queue.held.len());
        for (_, held) in queue.held.iter_mut().take(many) {
            confirmed.append(&mut held.confirmed_by(round));
        }
        queue.tidy();
        drop(queue);
        if !confirmed.is_empty() {
            self.set_key(Some(key));
        }
        confirmed.into_iter().for_each(|(_, release)| release(Ok(())));
    }

    /// Is anything left before `end` that another epoch has written?
    fn has_other_epoch(&self, end: usize, epoch: Epoch) -> bool {
        let queue = self.lock();
        let many = end.saturating_sub(queue.gone);
        queue.held.iter().take(many).any(|(_, held)| held.epoch != epoch)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        // Nothing in here panics half way through a change.
        self.queue.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Queue {
    /// Forgets those at the front of which no answer is left.
    fn tidy(&mut self) {
        while self.held.front().is_some_and(|(_, held)| held.answers.is_empty()) {
            self.held.pop_front();
            self.gone += 1;
        }
    }
}

/// The connection of a fence.
struct Line {
    link: Link,
    opened: Instant,
    key: Arc<str>,
}

/// Confirms what is held, until the lanes have ended and nothing is left.
pub(super) async fn run(node: Arc<Node>) {
    let fence = &node.fence;
    let (mut line, mut tries) = (None::<Line>, 0);
    loop {
        while fence.is_empty() {
            tokio::select! {
                () = fence.filled.notified() => {}
                () = sleep(PROBE_INTERVAL), if line.is_some() => line = probed(&node, line.take()).await,
                () = node.lanes_end() => if fence.is_empty() { return },
            }
        }
        fence.expire(&node);
        let Some(mut here) = connected(&node, line.take(), tries).await else {
            sleep(PAUSE).await;
            continue;
        };
        let (begun, end) = (Instant::now(), fence.end());
        match round(&node, &mut here).await {
            Ok(round) => {
                fence.release(end, &round, &here.key);
                let (epoch, opened) = (round.epoch, here.opened);
                if !fence.has_other_epoch(end, epoch) {
                    line = Some(here);
                    continue;
                }
                // Either this connection leads to a server that is the primary no more, or that has written them.
                fence.void(&node, |came, held| held.epoch != epoch && came < opened);
                discard(here.link.connection);
            }
            Err(broken) => {
                tries += 1;
                if broken {
                    discard(here.link.connection);
                } else {
                    here.key = node.fence_key(tries).into();
                    line = Some(here);
                }
                if begun.elapsed() < PAUSE {
                    sleep(PAUSE).await;
                }
            }
        }
    }
}

/// A connection that has nothing to do, if it still leads to a primary.
async fn probed(node: &Node, line: Option<Line>) -> Option<Line> {
    let mut line = line?;
    if node.backend.is_present(&line.link) && node.backend.probe(&mut line.link).await {
        return Some(line);
    }
    discard(line.link.connection);
    None
}

/// A connection to where the primary is.
async fn connected(node: &Arc<Node>, line: Option<Line>, tries: usize) -> Option<Line> {
    if let Some(line) = line {
        if node.backend.moves_so_far() == line.link.door {
            return Some(line);
        }
        discard(line.link.connection);
    }
    let opened = Instant::now();
    let link = tokio::select! {
        link = node.backend.connect() => link.ok()?,
        () = node.backend.moved_from(node.backend.moves_so_far()) => return None,
    };
    Some(Line { link, opened, key: node.fence_key(tries).into() })
}

/// One round. Errors: whether the connection must not be used again; a server may also have refused the write, which
/// makes the round void.
async fn round(node: &Node, line: &mut Line) -> Result<Round, bool> {
    let mut pipeline = Pipeline::with_capacity(3);
    let wanted = node.fence.wanted();
    Round::ask(&mut pipeline, scripts::FENCE.call(true), &line.key, wanted, WAIT_MS);
    let sent = line.link.connection.req_packed_commands(&pipeline, 0, 3);
    let limit = node.timeout + Duration::from_millis(WAIT_MS);
    let answers = tokio::select! {
        answers = timeout(limit, sent) => answers.ok().and_then(Result::ok).ok_or(true)?,
        () = node.backend.moved_from(line.link.door) => return Err(true),
    };
    let answers = <[Value; 3]>::try_from(answers).map_err(|_| true)?;
    let round = Round::read(&answers);
    if round.is_err() && word(&answers[0]) != Some("OK") && node.backend.shared.may_complain() {
        tracing::warn!(answer = ?answers[0], "Redis refuses the write that replicas are to confirm");
    }
    round
}
