//! The lanes of one instance: tasks that each own one connection and share one inbox.

use super::{
    super::{
        backend::{Backend, ConnectError, Link},
        registry::Topic,
        reply::{self, CallError, refusal},
        scripts::Script,
    },
    CallContext, Op,
    inbox::Inbox,
    lane::Lane,
    request::{Answered, Call, Job},
};
use crate::{background::Background, model::TopicName, seeded};
use deadpool_redis::redis::{Cmd, Pipeline, Value, aio::ConnectionLike};
use std::{
    panic::{AssertUnwindSafe, catch_unwind},
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
    /// Those of one topic.
    Topic(TopicName),
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
        let mut first = Some(backend.connect().await?);
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
    pub async fn submit<O: Op>(&self, topic: &Arc<Topic>, op: O) -> Result<O::Output, CallError> {
        let (job, answered) = Job::new(topic, op, std::time::Instant::now());
        self.inbox.put(job);
        answer(answered).await
    }

    /// Sends requests that go to Redis in this order, and waits for all answers.
    pub async fn submit_many<O: Op>(
        &self,
        requests: impl Iterator<Item = (Arc<Topic>, O)>,
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
        requests: impl Iterator<Item = (Arc<Topic>, O)>,
    ) -> Vec<Answered<O::Output>> {
        let since = std::time::Instant::now();
        let (jobs, answers): (Vec<_>, Vec<_>) =
            requests.map(|(topic, op)| Job::new(&topic, op, since)).unzip();
        if !jobs.is_empty() {
            self.inbox.put_all(jobs);
        }
        answers
    }

    /// Sends one command of no script. Errors: as for every call.
    pub async fn command(&self, command: Cmd) -> Result<Value, CallError> {
        let (job, answered) = Job::command(command);
        self.inbox.put(job);
        answer(answered).await
    }

    /// Wakes this instance's consumers of `topic` while the wake-up that the script sent does not reach them.
    pub fn wake(&self, topic: &TopicName) {
        if !self.listening.load(Ordering::Relaxed) || seeded::bug("wake-up left to the instance") {
            // Nobody waits while the instance stops.
            let _ = self.wakes.send(Wake::Topic(topic.clone()));
        }
    }

    /// Sends `calls` and hands out the answers. Returns whether the connection must not be used again.
    pub(super) async fn exchange(
        &self,
        link: &mut Link,
        mut calls: Vec<Box<dyn Call>>,
        limit: Duration,
    ) -> bool {
        loop {
            let mut context = CallContext::new(&self.backend, link.epoch);
            let replies = match self.send(link, &calls, &context, limit).await {
                Ok(replies) => replies,
                Err(error) => {
                    let bug = seeded::bug("unavailable after it was sent");
                    let error = if bug { CallError::Unavailable } else { error };
                    for call in calls {
                        self.count(error);
                        hand_out(call, &mut context, Err(error));
                    }
                    self.conclude(context);
                    return true;
                }
            };
            self.backend.metrics.redis_seconds.observe(context.sent.elapsed().as_secs_f64());
            let (mut unknown, mut demoted) = (Vec::new(), false);
            for (call, reply) in calls.into_iter().zip(replies) {
                match code(&reply) {
                    // Redis was told to forget its scripts: this call did not run.
                    Some("NOSCRIPT") if call.script().is_some() => unknown.push(call),
                    code => {
                        demoted |= code == Some("READONLY");
                        self.finish(call, reply, &mut context);
                    }
                }
            }
            self.conclude(context);
            if unknown.is_empty() {
                return demoted && !seeded::bug("lanes stay at a replica");
            }
            if let Err(lost) = self.load_scripts(link, &unknown, limit).await {
                // They did not run, and will not.
                self.count_refused(unknown.len());
                unknown.into_iter().for_each(|call| call.refuse());
                return lost;
            }
            calls = unknown;
        }
    }

    /// One pipeline there and back within `limit`.
    async fn send(
        &self,
        link: &mut Link,
        calls: &[Box<dyn Call>],
        context: &CallContext<'_>,
        limit: Duration,
    ) -> Result<Vec<Value>, CallError> {
        let mut pipeline = Pipeline::with_capacity(calls.len());
        for call in calls {
            pipeline.add_command(call.command(context));
        }
        let sent = link.connection.req_packed_commands(&pipeline, 0, calls.len());
        match tokio::time::timeout(limit, sent).await {
            Ok(Ok(replies)) if replies.len() == calls.len() => Ok(replies),
            Ok(Ok(_)) => Err(CallError::Unknown),
            Ok(Err(error)) => {
                tracing::warn!(%error, calls = calls.len(), "the answers of Redis were lost");
                Err(CallError::Unknown)
            }
            Err(_) => {
                tracing::warn!(calls = calls.len(), "Redis did not answer in time");
                Err(CallError::Unknown)
            }
        }
    }

    /// Makes the scripts of these calls known to Redis. An error says whether the connection must not be used again.
    async fn load_scripts(
        &self,
        link: &mut Link,
        calls: &[Box<dyn Call>],
        limit: Duration,
    ) -> Result<(), bool> {
        let mut scripts: Vec<&Script> = calls.iter().filter_map(|call| call.script()).collect();
        scripts.sort_by_key(|script| script.name);
        scripts.dedup_by_key(|script| script.name);
        let mut load = Pipeline::with_capacity(scripts.len());
        for script in &scripts {
            load.cmd("SCRIPT").arg("LOAD").arg(script.source);
        }
        let loading = link.connection.req_packed_commands(&load, 0, scripts.len());
        match tokio::time::timeout(limit, loading).await {
            Ok(Ok(loaded)) if loaded.iter().all(|reply| code(reply).is_none()) => Ok(()),
            loaded => Err(!matches!(loaded, Ok(Ok(_)))),
        }
    }

    fn finish(&self, call: Box<dyn Call>, reply: Value, context: &mut CallContext<'_>) {
        let result = match reply {
            Value::ServerError(error) => {
                let refused = refusal(&error);
                if refused == CallError::Unavailable && self.may_complain() {
                    tracing::warn!(%error, "Redis refuses calls");
                }
                self.count(refused);
                Err(refused)
            }
            reply => Ok(reply),
        };
        hand_out(call, context, result);
    }

    /// Wakes whom the replies asked to wake, and puts back what had no room.
    fn conclude(&self, context: CallContext<'_>) {
        context.wakes.iter().for_each(|topic| self.wake(&topic.name));
        self.inbox.put_back(context.again);
    }

    /// True once a second at most: what goes wrong for every request is logged for some.
    fn may_complain(&self) -> bool {
        let now = self.started.elapsed().as_secs() + 1;
        self.complained.swap(now, Ordering::Relaxed) != now
    }

    /// Counts calls that were never sent.
    pub(super) fn count_refused(&self, calls: usize) {
        (0..calls).for_each(|_| self.count(CallError::Unavailable));
    }

    /// Until when no lane tries to connect, if one has failed to, and how long that pause is.
    pub(super) fn down(&self) -> Option<(Instant, Duration)> {
        *self.down.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Notes what came of a lane's try to connect, for all of them.
    pub(super) fn set_down(&self, down: Option<(Instant, Duration)>) {
        *self.down.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = down;
    }

    fn count(&self, error: CallError) {
        self.backend.metrics.count_redis_error(error.kind());
    }
}

/// The answer that arrives. A lane that ended without one had sent the request, or may have.
async fn answer<T>(answered: Answered<T>) -> Result<T, CallError> {
    answered.await.unwrap_or(Err(CallError::Unknown))
}

/// Hands out what came back. A reply that dueq falls over must not end the lane, which would leave requests waiting for
/// ever; those of this call are answered that their outcome is not known.
fn hand_out(call: Box<dyn Call>, context: &mut CallContext<'_>, result: Result<Value, CallError>) {
    if catch_unwind(AssertUnwindSafe(|| call.finish(context, result))).is_err() {
        tracing::error!("a bug: a reply from Redis could not be delivered");
    }
}

fn code(reply: &Value) -> Option<&str> {
    if let Value::ServerError(error) = reply { Some(reply::code(error)) } else { None }
}
