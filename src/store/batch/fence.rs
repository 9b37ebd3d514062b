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
//! What is not confirmed in time is answered that its outcome is not known, and what it granted goes back. A node whose
//! replicas did not confirm a round is asked on until they do: meanwhile others take what is for any of them.

use super::{super::reply::CallError, node::Node, round::Round};
use dueq_model::Epoch;
use parking_lot::Mutex;
use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use tokio::{
    sync::{Notify, oneshot},
    time::Instant,
};

/// Whether the answer of a call waits for replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confirm {
    /// It does not.
    #[default]
    Never,
    /// For those that confirm at once.
    Attempt,
    /// Where there are some.
    WithReplicas,
    /// For one at least.
    Always,
}

/// Hands out an answer: as it is, or with this error in its place.
pub type Release = Box<dyn FnOnce(Result<(), CallError>) + Send>;

/// An answer that waits.
pub struct Waiting {
    /// For so many replicas.
    pub replicas: usize,
    /// If they do not confirm at once, it is handed out all the same.
    pub attempt: bool,
    pub release: Release,
}

/// Answers of one pipeline.
pub(super) struct Held {
    /// The epoch of the server when the pipeline began, and the endpoint to it.
    pub epoch: Epoch,
    pub endpoint: u64,
    /// Until when they can wait.
    pub until: Instant,
    pub answers: Vec<Waiting>,
}

impl Held {
    /// Takes out what this round confirms.
    fn confirmed_by(&mut self, round: &Round) -> Vec<Waiting> {
        if self.epoch != round.epoch {
            return Vec::new();
        }
        let all = std::mem::take(&mut self.answers);
        let (done, left) = all.into_iter().partition(|it: &Waiting| it.replicas <= round.replicas);
        self.answers = left;
        done
    }
}

/// Where it arrives that the replicas have a change; nothing where nobody has to.
pub struct Confirmed(pub(super) Option<oneshot::Receiver<Result<(), CallError>>>);

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
    pub(super) filled: Notify,
    /// What lanes write at the end of their own pipelines; nothing while they must not wait for replicas.
    key: Mutex<Option<Arc<str>>>,
    /// The last round was not confirmed by as many as are wanted.
    pub(super) unsure: AtomicBool,
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
        self.key.lock().clone()
    }

    fn set_key(&self, key: Option<&Arc<str>>) {
        *self.key.lock() = key.cloned();
    }

    /// Hands out what the end of the pipeline itself has confirmed, if that was `asked`, and takes in the rest.
    pub fn settle(&self, mut held: Held, asked: bool, end: Option<&Round>) {
        if let Some(round) = end {
            held.confirmed_by(round).into_iter().for_each(|it| (it.release)(Ok(())));
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
        self.queue.lock().held.push_back((Instant::now(), held));
        self.filled.notify_one();
    }

    /// Were there too few replicas that confirmed the last round?
    pub fn is_unsure(&self) -> bool {
        self.unsure.load(Ordering::Relaxed)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.lock().held.is_empty()
    }

    /// The most replicas that a waiting call wants.
    pub(super) fn wanted(&self) -> Option<usize> {
        let queue = self.queue.lock();
        let answers = queue.held.iter().flat_map(|(_, held)| &held.answers);
        answers.map(|it| it.replicas).max()
    }

    /// Up to where a round counts that begins now.
    pub(super) fn end(&self) -> usize {
        let queue = self.queue.lock();
        queue.gone + queue.held.len()
    }

    /// Gives up what waits for too long, or was written by a server that another has replaced.
    pub fn expire(&self, node: &Node) {
        let (now, endpoint) = (Instant::now(), node.backend.moves_so_far());
        self.void(node, |_, held| held.until <= now || held.endpoint != endpoint);
    }

    /// Gives up what `is_void` says.
    pub(super) fn void(&self, node: &Node, is_void: impl Fn(Instant, &Held) -> bool) {
        let void = self.take(|_, came, held| match is_void(came, held) {
            true => std::mem::take(&mut held.answers),
            false => Vec::new(),
        });
        if void.is_empty() {
            return;
        }
        if node.backend.shared.may_complain() {
            tracing::warn!(answers = void.len(), "replicas of Redis have not confirmed in time");
        }
        for it in void {
            node.count(CallError::Unknown);
            (it.release)(Err(CallError::Unknown));
        }
    }

    /// Hands out what only waits for replicas that confirm at once.
    pub(super) fn end_attempts(&self) {
        let ended = self.take(|_, _, held| held.answers.extract_if(.., |it| it.attempt).collect());
        ended.into_iter().for_each(|it| (it.release)(Ok(())));
    }

    /// Hands out what a round has confirmed, of all before `end`. From then on lanes ask by themselves, with this key.
    pub(super) fn release(&self, end: usize, round: &Round, key: &Arc<str>) {
        let confirmed = self.take(|at, _, held| match at < end {
            true => held.confirmed_by(round),
            false => Vec::new(),
        });
        if !confirmed.is_empty() {
            self.set_key(Some(key));
        }
        confirmed.into_iter().for_each(|it| (it.release)(Ok(())));
    }

    /// Takes out what `pick` takes of each pipeline's answers, by their place in the line and when they came.
    fn take(&self, pick: impl Fn(usize, Instant, &mut Held) -> Vec<Waiting>) -> Vec<Waiting> {
        let mut queue = self.queue.lock();
        let gone = queue.gone;
        let all = queue.held.iter_mut().enumerate();
        let taken = all.flat_map(|(at, (came, held))| pick(gone + at, *came, held)).collect();
        while queue.held.front().is_some_and(|(_, held)| held.answers.is_empty()) {
            queue.held.pop_front();
            queue.gone += 1;
        }
        taken
    }

    /// Is anything left before `end` that another epoch has written?
    pub(super) fn has_other_epoch(&self, end: usize, epoch: Epoch) -> bool {
        let queue = self.queue.lock();
        let many = end.saturating_sub(queue.gone);
        queue.held.iter().take(many).any(|(_, held)| held.epoch != epoch)
    }
}
