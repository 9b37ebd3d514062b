//! dueq: a delay queue over HTTP on Redis. This page is the map of the code: it lists the files that a request passes
//! through, in order.
//!
//! # A publish
//!
//! 1. `http/server/mod.rs` accepts the connection. `http/mod.rs` lists the routes and wraps them in `http/guard/mod.rs`, which gives
//!    the request its id and asks `http/access/mod.rs` whether it may pass.
//! 2. `http/messages/publish.rs` is the handler. `http/request/path.rs` takes the topic and `http/request/extract.rs` the body, which
//!    `http/server/budget.rs` reads within bounds. `http/messages/fields.rs` declares the fields with `request!`
//!    (`http/input/mod.rs`); `http/input/fields.rs` reads them and lists what is wrong.
//! 3. `store/messages/publish.rs`, `Store::publish`: finds or creates the topic (`store/registry.rs`, a cache of Redis's registry),
//!    chooses its partition (`store/partition.rs`), gives it its id (`store/ids.rs`) and submits it. A script that answers `STALE` did nothing: the registry is
//!    read again and the publish repeated (`store/stale.rs`). A message with more than a due time, and any message of a
//!    topic with `max_messages`, goes by `store/messages/publish_special.rs`.
//! 4. `store/batch/mod.rs` explains group commit. `batch/lanes.rs` puts the request into `batch/inbox.rs`. `batch/lane.rs`
//!    takes what waits, within bounds, has `batch/request.rs` group it by operation and topic, and sends the groups as one
//!    pipeline.
//! 5. The `Op` in `store/messages/publish.rs` writes the arguments of `migrations-lua/scripts/publish.lua` for a whole group, and
//!    reads its reply (`store/reply.rs`). The script wakes waiting consumers itself (`includes/waiting.lua`).
//! 6. Back in `http/messages/publish.rs`, the message becomes JSON: declared with `answer!` (`http/openapi/answer.rs`), written by `json` in
//!    `http/mod.rs`. An error gets its status in `http/problem/mod.rs`, and its body in `http/guard/mod.rs`.
//!
//! # A lease with a long poll
//!
//! 1. `http/leases/lease.rs` is the handler, behind the same `server`, `guard` and `extract`. It starts the `acks`
//!    (`store/leases/settle.rs`, `store/leases/ack.rs`) and then the lease.
//! 2. `longpoll/mod.rs` asks for messages at once, unless consumers already wait for the topic. If there are none, it lets
//!    the consumer wait.
//! 3. `longpoll/wait_list.rs` keeps the waiting consumers of each topic, in order of arrival.
//! 4. `longpoll/topic_task.rs` is one task per topic with waiters. It leases for up to 64 of them at a time, and sleeps
//!    until the next due time (`longpoll/timer.rs`) or a wake-up. A lease that finds nothing sets a mark in Redis, so that
//!    the next publish sends a wake-up.
//! 5. `store/redis/wakes.rs` receives the wake-ups that scripts publish, on every instance, for the task of the topic.
//! 6. `store/leases/lease.rs`: `Store::lease` serves the first ask and the task's, with one `Op` for both
//!    (`store/leases/lease/op.rs`, `migrations-lua/scripts/lease.lua`). In a topic of several partitions, `store/leases/lease/walk.rs` says
//!    which of them to ask. They go through the same lanes. `store/leases/grants.rs` holds what was leased.
//! 7. `http/leases/lease.rs` writes the messages with their tokens (`model/token.rs`). If the client is gone (`http/server/stream.rs`),
//!    `store/leases/grants.rs` gives the messages back by a nack (`store/leases/nack.rs`).
//!
//! # A callback
//!
//! 1. `http/callbacks/mod.rs` publishes the message to the topic `_callbacks`, as above.
//! 2. `loops/callbacks/mod.rs` runs one sender per pushed topic. `callbacks/sender.rs` leases messages that can be called
//!    soon, through `longpoll` like any consumer.
//! 3. `callbacks/slots.rs` limits the calls in flight, in total and per host. `callbacks/parked.rs` keeps messages that
//!    have to wait for their host.
//! 4. `callbacks/dispatcher.rs` handles one message's call and extends its lease meanwhile. `store/callbacks/push.rs` checks that
//!    the call may still begin.
//! 5. `callbacks/request.rs` builds and signs the request. `callbacks/client.rs` makes the call; `callbacks/dial.rs`
//!    resolves the host and checks the address (`model/addresses.rs`); `callbacks/wire.rs` limits how much is read.
//! 6. `callbacks/outcome.rs` interprets the response, and `callbacks/dispatcher.rs` acks or nacks the message.
//!
//! # The rest
//!
//! `app.rs` starts and stops everything in order. `embedded` runs a private Redis where none is given. `loops` holds the
//! other background work: schedules, dead letters, housekeeping. `store/redis/backend.rs` meets Redis and notes its epoch, one
//! uninterrupted life of its data; `store/redis/sentinel/mod.rs` finds the primary that Sentinels watch over,
//! `store/redis/cluster/mod.rs` the primaries of a Cluster, and `store/redis/clock.rs` follows the time of each. `store/export` writes
//! and loads dumps, and `store/audit` looks for damage. `cli` has the subcommands: `cli/client/commands.rs` is the table of those
//! that send a request. `bench` is a program of its own, and `guide` has the pages that the server shows at `/guide`. The keys in Redis are described in `migrations-lua/README.md`.
//!
//! The parts are crates of one workspace, each of which names only those before it: `model`, `base` (files, TLS, metrics,
//! traces), `store`, `longpoll`, `http` and `loops`, and this one, which has the program: its options, `app` and `cli`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod app;
pub mod cli;
pub mod config;
pub mod embedded;
