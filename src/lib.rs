//! dueq: a delay queue over HTTP on Redis. This page is the map of the code: it lists the files that a request passes
//! through, in order.
//!
//! # A publish
//!
//! 1. `http/server.rs` accepts the connection. `http/guard.rs` gives the request its id and asks `http/access.rs` whether
//!    it may pass.
//! 2. `http/publish.rs` is the handler. `http/path.rs` and `http/extract.rs` take path and body. `http/message_fields.rs`
//!    declares the fields, and `http/input/mod.rs` reads them or lists what is wrong with them.
//! 3. `store/publish.rs`, `Store::publish`: finds the topic (`store/registry.rs`, a cache of Redis's registry), gives the
//!    message its id (`store/ids.rs`) and submits it. Messages with more options go by `store/publish_special.rs`.
//! 4. `store/batch/inbox.rs` holds the request until a lane is free. `batch/lane.rs` takes all that waits, has
//!    `batch/request.rs` group it by operation and topic, and sends the groups as one pipeline.
//! 5. The `Op` in `store/publish.rs` writes the arguments of `scripts/publish.lua` for a whole group, and reads its reply
//!    (`store/reply.rs`). The script wakes waiting consumers itself.
//! 6. Back in `http/publish.rs`, the message becomes JSON (`http/answer.rs`); an error becomes a status in `http/problem.rs`.
//!
//! # A lease with a long poll
//!
//! 1. `http/lease.rs` is the handler, behind the same `server`, `guard` and `extract`. It acknowledges `acks` first,
//!    through `store/ack.rs`.
//! 2. `longpoll/mod.rs` asks for messages at once and, if there are none, lets the consumer wait.
//! 3. `longpoll/wait_list.rs` keeps the waiting consumers of each topic, in order of arrival.
//! 4. `longpoll/topic_task.rs` is one task per topic with waiters. It leases for all of them, and sleeps until the next
//!    due time or a wake-up (`longpoll/timer.rs`).
//! 5. `store/lease.rs`, `Store::lease` and its `Op` for `scripts/lease.lua`, goes through the same lanes. `store/grants.rs`
//!    holds what was leased.
//! 6. `store/wakes.rs` receives the wake-ups that scripts publish, on every instance.
//! 7. `http/lease.rs` writes the messages with their tokens (`model/token.rs`). If the client is gone, `store/grants.rs`
//!    gives the messages back.
//!
//! # A callback
//!
//! 1. `http/callbacks.rs` publishes the message to the topic `_callbacks`, as above.
//! 2. `loops/callbacks/mod.rs` runs one sender per pushed topic. `callbacks/sender.rs` leases messages that can be called
//!    soon, through `longpoll` like any consumer.
//! 3. `callbacks/slots.rs` limits the calls in flight, in total and per host. `callbacks/parked.rs` keeps messages that
//!    have to wait for their host.
//! 4. `callbacks/dispatcher.rs` handles one message's call and extends its lease meanwhile. `store/push.rs` checks that
//!    the call may still begin.
//! 5. `callbacks/request.rs` builds and signs the request. `callbacks/client.rs` makes the call; `callbacks/dial.rs`
//!    resolves the host and checks the address (`model/addresses.rs`); `callbacks/wire.rs` limits how much is read.
//! 6. `callbacks/outcome.rs` interprets the response, and `callbacks/dispatcher.rs` acks or nacks the message.
//!
//! # The rest
//!
//! `app.rs` starts and stops everything in order. `embedded` runs a private Redis where none is given. `loops` holds the
//! other background work: schedules, dead letters, housekeeping. `cli` has the subcommands, and `guide` the pages that the
//! server shows at `/guide`. The keys in Redis are described in `migrations-lua/README.md`.
//!
//! Modules import in one direction:
//! `{seeded, embedded} ← model ← error ← background ← metrics ← store ← longpoll ← {http, loops} ← app ← cli ← main`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod app;
pub mod background;
pub mod cli;
pub mod config;
pub mod embedded;
pub mod error;
pub mod http;
pub mod longpoll;
pub mod loops;
pub mod metrics;
pub mod model;
mod seeded;
pub mod store;
