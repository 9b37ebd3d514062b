//! A node: one server of Redis, with the inbox of its requests and the lanes that serve it. They are tasks that each own one
//! connection.

use super::{
    super::{
        backend::{Backend, Link},
        cluster::Cluster,
        reply::CallError,
    },
    Command, Request,
    fence::{Confirm, Fence},
    fencing,
    inbox::Inbox,
    lane::Lane,
    lanes::answer,
    request::Job,
};
use deadpool_redis::redis::Value;
use dueq_base::background::Background;
use parking_lot::Mutex;
use std::{
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How often requests are refused that have waited too long while all lanes were held up.
const TIMEOUT_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// How often it is looked whether all lanes have a connection.
const CONNECT_CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// One server: the only one, or a primary of a Cluster.
pub struct Node {
    /// How it is reached.
    pub backend: Backend,
    pub(super) inbox: Inbox,
    /// How long a request waits for Redis, from its coming to its answer.
    pub timeout: Duration,
    /// Where requests go that the server says belong elsewhere.
    pub(super) cluster: Option<Weak<Cluster>>,
    /// The answers that wait for replicas.
    pub(super) fence: Fence,
    tasks: TaskTracker,
    fencing: TaskTracker,
    stopping: CancellationToken,
    /// One for each lane that has no connection.
    seats: Arc<Semaphore>,
    /// Until when no lane tries to connect, and how long that pause is; nothing once one has a connection.
    down: Mutex<Option<(Instant, Duration)>>,
}

impl Node {
    /// Starts the lanes; `first` is the connection of one of them, if there is one.
    pub fn start(
        backend: Backend,
        mut first: Option<Link>,
        lanes: usize,
        cluster: Option<Weak<Cluster>>,
    ) -> Arc<Self> {
        let this = Arc::new(Self {
            timeout: backend.shared.options.timeout,
            backend,
            inbox: Inbox::new(lanes),
            cluster,
            fence: Fence::default(),
            tasks: TaskTracker::new(),
            fencing: TaskTracker::new(),
            stopping: CancellationToken::new(),
            seats: Arc::new(Semaphore::new(lanes + 1)),
            down: Mutex::default(),
        });
        if first.is_some() {
            this.set_down(None);
        }
        for _ in 0..lanes {
            this.spawn_lane(first.take(), false);
        }
        this.spawn_lane(None, true);
        let (fenced, background) = (this.clone(), this.background());
        let fence = move || fencing::run(fenced.clone());
        this.fencing.spawn(async move { background.keep("the fence", fence).await });
        let (watched, background) = (Arc::downgrade(&this), this.background());
        let refuse_late = move || {
            let watched = watched.clone();
            async move {
                // Local and cheap: a look at the oldest request.
                while let Some(node) = watched.upgrade() {
                    node.inbox.refuse_older(node.timeout);
                    node.fence.expire(&node);
                    drop(node);
                    tokio::time::sleep(TIMEOUT_CHECK_INTERVAL).await;
                }
            }
        };
        tokio::spawn(async move { background.keep("time-outs", refuse_late).await });
        this
    }

    fn spawn_lane(self: &Arc<Self>, mut link: Option<Link>, express: bool) {
        let (this, background) = (self.clone(), self.background());
        let lane = move || Lane::new(this.clone(), link.take(), express).run();
        self.tasks.spawn(async move { background.keep("lanes to Redis", lane).await });
    }

    fn background(&self) -> Background {
        self.backend.shared.metrics.background.clone()
    }

    /// Serves what waits, refuses what comes from now on, and ends.
    pub async fn stop(&self) {
        self.inbox.close();
        self.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        self.fencing.close();
        self.fencing.wait().await;
    }

    /// Ends since others serve its keys now. Returns the requests that it has not sent.
    pub fn retire(&self) -> Vec<Job> {
        let left = self.inbox.close_and_drain();
        self.backend.retire();
        self.backend.shared.metrics.forget_redis_node(&self.backend.address());
        self.stopping.cancel();
        self.tasks.close();
        self.fencing.close();
        left
    }

    /// Comes back once the lanes have ended.
    pub(super) async fn lanes_end(&self) {
        self.tasks.wait().await;
    }

    /// How many replicas such an answer waits for; 0: it does not.
    pub(super) fn replicas_for(&self, confirm: Confirm) -> usize {
        match confirm {
            Confirm::Never => 0,
            Confirm::Attempt if !self.confirms() => 0,
            Confirm::Attempt | Confirm::WithReplicas if !self.backend.can_confirm() => 0,
            _ => self.backend.wanted_replicas(),
        }
    }

    /// Do its replicas confirm what it has, as far as is known?
    pub fn confirms(&self) -> bool {
        !self.fence.is_unsure() && self.backend.has_replicas()
    }

    /// Comes back once every lane has a connection; false if one has none by then.
    pub async fn is_whole(&self, limit: Duration) -> bool {
        let whole = async {
            while self.seats.available_permits() > 0 {
                sleep(CONNECT_CHECK_INTERVAL).await;
            }
        };
        timeout(limit, whole).await.is_ok()
    }

    /// What a lane has with its connection.
    pub(super) fn seat(&self) -> Option<OwnedSemaphorePermit> {
        self.seats.clone().try_acquire_owned().ok()
    }

    /// A key that this server has, for what the fence writes; another one with each try.
    pub(super) fn fence_key(self: &Arc<Self>, tries: usize) -> String {
        let tagged = self.cluster().and_then(|cluster| cluster.key_on(self, tries));
        match tagged {
            Some(key) => format!("{key}:fence"),
            None => self.backend.shared.keys.fence.clone(),
        }
    }

    /// Ends this long after the lanes were asked to stop.
    pub(super) async fn stopped_for(&self, time: Duration) {
        self.stopping.cancelled().await;
        tokio::time::sleep(time).await;
    }

    /// Takes requests in, those that were sent before at the front. Returns them when the node has retired.
    pub fn put(&self, jobs: Vec<Job>) -> Vec<Job> {
        let (again, new): (Vec<_>, Vec<_>) = jobs.into_iter().partition(|job| job.came.tries > 0);
        let mut left = self.inbox.put_first(again);
        left.extend(self.inbox.put(new));
        left
    }

    /// Sends a command to this node, for its bare answer.
    pub async fn command(&self, command: Command) -> Result<Value, CallError> {
        let request = Request::single(command, |value, _| Ok(value));
        for job in self.inbox.put([request.job]) {
            job.refuse();
        }
        answer(request.answered).await
    }

    /// Has a lane tried to connect of late, and failed, or does it not answer?
    pub fn is_down(&self) -> bool {
        self.down().is_some()
    }

    /// It does not answer.
    pub(super) fn doubt(&self) {
        if !self.is_down() {
            self.set_down(Some((Instant::now(), Duration::ZERO)));
        }
    }

    /// Until when no lane tries to connect, if one has failed to, and how long that pause is.
    pub(super) fn down(&self) -> Option<(Instant, Duration)> {
        *self.down.lock()
    }

    /// Notes what came of a lane's try to connect, for all of them.
    pub(crate) fn set_down(&self, down: Option<(Instant, Duration)>) {
        let metrics = &self.backend.shared.metrics;
        if self.cluster.is_none() {
            // Its address may have changed.
            metrics.forget_redis_nodes();
        }
        metrics.redis_node(&self.backend.address(), down.is_none());
        *self.down.lock() = down;
    }

    pub(super) fn count(&self, error: CallError) {
        self.backend.shared.metrics.count_redis_error(error.kind());
    }

    /// The Cluster that this is a node of.
    pub(super) fn cluster(&self) -> Option<Arc<Cluster>> {
        self.cluster.as_ref()?.upgrade()
    }
}
