//! Group commit. A lane is a task that owns one connection; it takes all requests that wait, sends them as one pipeline
//! of few script calls, and hands each request its own answer. While a call is under way the next requests gather, so
//! the busier dueq is, the less each message costs; a lone request waits for nobody.

use super::{
    backend::{Backend, ConnectError, Link},
    call::{Call, Context},
    inbox::Inbox,
    lane::Lane,
    reply::{self, CallError, refusal},
    scripts,
};
use crate::{background::Background, seeded};
use deadpool_redis::redis::{Pipeline, Value, aio::ConnectionLike};
use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// How often somebody looks for requests that have waited too long while all lanes were held up.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A topic whose consumers should look again.
#[derive(Clone, Debug)]
pub enum Wake {
    /// Those of one topic.
    Topic(crate::model::TopicName),
    /// All of them: wake-ups may have been lost.
    All,
}

/// The lanes of one instance.
pub(crate) struct Lanes {
    pub backend: Backend,
    pub(super) inbox: Inbox,
    /// How long a request waits for Redis, from its coming to its answer.
    pub(super) timeout: Duration,
    pub(super) wakes: mpsc::UnboundedSender<Wake>,
    /// The wake-ups that scripts send out reach this instance.
    pub(super) listening: AtomicBool,
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
        let inbox = Inbox::new(lanes);
        let tasks = TaskTracker::new();
        let (started, complained) = (Instant::now(), AtomicU64::new(0));
        let this = Arc::new(Self {
            backend,
            inbox,
            timeout,
            wakes,
            listening: AtomicBool::new(false),
            tasks,
            stopping: CancellationToken::new(),
            down: Mutex::default(),
            started,
            complained,
        });
        for _ in 0..lanes {
            this.spawn_lane(first.take(), false);
        }
        this.spawn_lane(None, true);
        let (watched, background) = (Arc::downgrade(&this), this.background());
        let watch = move || {
            let watched = watched.clone();
            async move {
                // Local and cheap: a look at the oldest request, ten times a second.
                while let Some(lanes) = watched.upgrade() {
                    lanes.inbox.refuse_older(lanes.timeout);
                    drop(lanes);
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            }
        };
        tokio::spawn(async move { background.keep("time-outs", watch).await });
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

    /// Sends `calls` and hands out the answers. Returns whether the connection must not be used again.
    pub(super) async fn exchange(
        &self,
        link: &mut Link,
        calls: Vec<Box<dyn Call>>,
        limit: Duration,
    ) -> bool {
        let mut context = Context::new(&self.backend, link.epoch);
        let lost = match self.send(&mut link.connection, &calls, &context, limit).await {
            Ok(replies) => {
                self.backend.metrics.redis_seconds.observe(context.sent.elapsed().as_secs_f64());
                let forgotten = replies.iter().any(|reply| code(reply) == Some("NOSCRIPT"));
                if forgotten {
                    let sent = context.sent;
                    return Box::pin(self.load_and_repeat(link, calls, (replies, sent), limit))
                        .await;
                }
                let demoted = replies.iter().any(|reply| code(reply) == Some("READONLY"))
                    && !seeded::bug("lanes stay at a replica");
                for (call, reply) in calls.into_iter().zip(replies) {
                    self.finish(call, reply, &mut context);
                }
                demoted
            }
            Err(error) => {
                let bug = seeded::bug("unavailable after it was sent");
                let error = if bug { CallError::Unavailable } else { error };
                for call in calls {
                    self.count(error);
                    hand_out(call, &mut context, Err(error));
                }
                true
            }
        };
        for topic in context.wakes {
            self.wake(&topic.name);
        }
        self.inbox.put_back(context.again);
        lost
    }

    /// One pipeline there and back within `limit`.
    async fn send(
        &self,
        connection: &mut impl ConnectionLike,
        calls: &[Box<dyn Call>],
        context: &Context<'_>,
        limit: Duration,
    ) -> Result<Vec<Value>, CallError> {
        let mut pipeline = Pipeline::with_capacity(calls.len());
        for call in calls {
            pipeline.add_command(call.command(context));
        }
        let sent = connection.req_packed_commands(&pipeline, 0, calls.len());
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

    /// Redis was told to forget its scripts: those calls did not run, so they are sent again once it knows them.
    async fn load_and_repeat(
        &self,
        link: &mut Link,
        calls: Vec<Box<dyn Call>>,
        (replies, sent): (Vec<Value>, std::time::Instant),
        limit: Duration,
    ) -> bool {
        let mut context = Context { sent, ..Context::new(&self.backend, link.epoch) };
        let mut again = Vec::new();
        for (call, reply) in calls.into_iter().zip(replies) {
            if code(&reply) == Some("NOSCRIPT") {
                again.push(call);
            } else {
                self.finish(call, reply, &mut context);
            }
        }
        for topic in context.wakes {
            self.wake(&topic.name);
        }
        self.inbox.put_back(context.again);
        let load = scripts::loading();
        let loading = link.connection.req_packed_commands(&load, 0, load.len());
        match tokio::time::timeout(limit, loading).await {
            Ok(Ok(loaded)) if loaded.iter().all(|reply| code(reply).is_none()) => {
                self.exchange(link, again, limit).await
            }
            // They did not run, and will not.
            loaded => {
                self.count_refused(again.len());
                again.into_iter().for_each(|call| call.refuse());
                !matches!(loaded, Ok(Ok(_)))
            }
        }
    }

    fn finish(&self, call: Box<dyn Call>, reply: Value, context: &mut Context<'_>) {
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

    /// True once a second at most: what goes wrong for every request is logged for some.
    fn may_complain(&self) -> bool {
        let now = self.started.elapsed().as_secs() + 1;
        self.complained.swap(now, Ordering::Relaxed) != now
    }

    /// Counts calls that were never sent.
    pub(super) fn count_refused(&self, calls: usize) {
        for _ in 0..calls {
            self.count(CallError::Unavailable);
        }
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

/// Hands out what came back. A reply that dueq falls over must not end the lane, which would leave requests waiting for
/// ever; those of this call are answered that their outcome is not known.
fn hand_out(call: Box<dyn Call>, context: &mut Context<'_>, result: Result<Value, CallError>) {
    let finish = std::panic::AssertUnwindSafe(|| call.finish(context, result));
    if std::panic::catch_unwind(finish).is_err() {
        tracing::error!("a defect: a reply of Redis could not be handed out");
    }
}

fn code(reply: &Value) -> Option<&str> {
    if let Value::ServerError(error) = reply { Some(reply::code(error)) } else { None }
}
