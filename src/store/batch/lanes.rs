//! The lanes of one instance: tasks that each own one connection and share one inbox.

use super::{
    super::{
        backend::{Backend, Link},
        connect_error::ConnectError,
        partition::Partition,
        reply::CallError,
    },
    Answered, Command, Op, Request,
    inbox::Inbox,
    lane::Lane,
};
use crate::{
    background::Background,
    model::{PartitionNumber, TopicName},
    seeded,
};
use deadpool_redis::redis::Value;
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How often requests are refused that have waited too long while all lanes were held up.
const TIMEOUT_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// A topic whose consumers should look again.
#[derive(Clone, Debug)]
pub enum Wake {
    /// Those of one topic, because of one of its partitions or of all.
    Topic(TopicName, Option<PartitionNumber>),
    /// All of them: wake-ups may have been lost.
    All,
}

/// The lanes of one instance.
pub(crate) struct Lanes {
    pub backend: Backend,
    pub(super) inbox: Inbox,
    /// How long a request waits for Redis, from its coming to its answer.
    pub timeout: Duration,
    wakes: mpsc::UnboundedSender<Wake>,
    /// The wake-ups that scripts send out reach this instance.
    pub listening: AtomicBool,
    tasks: TaskTracker,
    stopping: CancellationToken,
    /// Until when no lane tries to connect, and how long that pause is; nothing once one has a connection.
    down: Mutex<Option<(Instant, Duration)>>,
    started: Instant,
    /// The second since `started` in which a refusal was last logged.
    complained: AtomicU64,
}

impl Lanes {
    /// Opens the first connection, so that a Redis that will not do is told at the start, and starts the lanes.
    pub async fn start(
        backend: Backend,
        lanes: usize,
        timeout: Duration,
        wakes: mpsc::UnboundedSender<Wake>,
    ) -> Result<Arc<Self>, ConnectError> {
        let mut first = Some(backend.begin().await?);
        let this = Arc::new(Self {
            backend,
            inbox: Inbox::new(lanes),
            timeout,
            wakes,
            listening: AtomicBool::new(false),
            tasks: TaskTracker::new(),
            stopping: CancellationToken::new(),
            down: Mutex::default(),
            started: Instant::now(),
            complained: AtomicU64::new(0),
        });
        for _ in 0..lanes {
            this.spawn_lane(first.take(), false);
        }
        this.spawn_lane(None, true);
        let (watched, background) = (Arc::downgrade(&this), this.background());
        let refuse_late = move || {
            let watched = watched.clone();
            async move {
                // Local and cheap: a look at the oldest request.
                while let Some(lanes) = watched.upgrade() {
                    lanes.inbox.refuse_older(lanes.timeout);
                    drop(lanes);
                    tokio::time::sleep(TIMEOUT_CHECK_INTERVAL).await;
                }
            }
        };
        tokio::spawn(async move { background.keep("time-outs", refuse_late).await });
        Ok(this)
    }

    fn spawn_lane(self: &Arc<Self>, mut link: Option<Link>, express: bool) {
        let (this, background) = (self.clone(), self.background());
        let lane = move || Lane::new(this.clone(), link.take(), express).run();
        self.tasks.spawn(async move { background.keep("lanes to Redis", lane).await });
    }

    fn background(&self) -> Background {
        self.backend.metrics.background.clone()
    }

    /// Serves what waits, refuses what comes from now on, and ends.
    pub async fn stop(&self) {
        self.inbox.close();
        self.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Ends so long after the lanes were told to stop.
    pub(super) async fn stopped_for(&self, time: Duration) {
        self.stopping.cancelled().await;
        tokio::time::sleep(time).await;
    }

    /// Sends a request, with others of its kind where there are some, and waits for its answer.
    pub async fn submit<T>(&self, request: Request<T>) -> Result<T, CallError> {
        self.inbox.put([request.job]);
        answer(request.answered).await
    }

    /// Sends requests that go to Redis in this order, and waits for all answers.
    pub async fn submit_many<O: Op>(
        &self,
        requests: impl Iterator<Item = (Partition, O)>,
    ) -> Vec<Result<O::Output, CallError>> {
        let mut answers = Vec::new();
        for answered in self.send_many(requests) {
            answers.push(answer(answered).await);
        }
        answers
    }

    /// Sends requests that go to Redis in this order; where their answers arrive.
    pub fn send_many<O: Op>(
        &self,
        requests: impl Iterator<Item = (Partition, O)>,
    ) -> Vec<Answered<O::Output>> {
        let since = std::time::Instant::now();
        let (jobs, answers): (Vec<_>, Vec<_>) = requests
            .map(|(partition, op)| Request::new(&partition, op, since))
            .map(|request| (request.job, request.answered))
            .unzip();
        if !jobs.is_empty() {
            self.inbox.put(jobs);
        }
        answers
    }

    /// Sends a command, for its bare answer.
    pub async fn command(&self, command: Command) -> Result<Value, CallError> {
        self.submit(Request::single(command, |value, _| Ok(value))).await
    }

    /// Wakes this instance's consumers of `topic` while the wake-up that the script sent does not reach them.
    pub fn wake(&self, topic: &TopicName, partition: Option<PartitionNumber>) {
        if !self.listening.load(Ordering::Relaxed) || seeded::bug("wake-up left to the instance") {
            // Nobody waits while the instance stops.
            let _ = self.wakes.send(Wake::Topic(topic.clone(), partition));
        }
    }

    /// True once a second at most: what goes wrong for every request is logged for some.
    pub(super) fn may_complain(&self) -> bool {
        let now = self.started.elapsed().as_secs() + 1;
        self.complained.swap(now, Ordering::Relaxed) != now
    }

    /// Until when no lane tries to connect, if one has failed to, and how long that pause is.
    pub(super) fn down(&self) -> Option<(Instant, Duration)> {
        *self.down.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Notes what came of a lane's try to connect, for all of them.
    pub(in crate::store) fn set_down(&self, down: Option<(Instant, Duration)>) {
        *self.down.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = down;
    }

    pub(super) fn count(&self, error: CallError) {
        self.backend.metrics.count_redis_error(error.kind());
    }
}

/// The answer that arrives. A lane that ended without one had sent the request, or may have.
async fn answer<T>(answered: Answered<T>) -> Result<T, CallError> {
    answered.await.unwrap_or(Err(CallError::Unknown))
}
