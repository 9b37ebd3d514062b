//! dueq: a delay queue over HTTP on Redis. This page is the map: which files a request passes through, in their order.
//!
//! # A publish
//!
//! 1. `http/server.rs` accepts the connection. `http/guard.rs` gives the request its id and asks `http/access.rs` whether
//!    it may pass.
//! 2. `http/publish.rs` is the handler. `http/extract.rs` reads path and body; `http/message_fields.rs` turns the fields
//!    into a `NewMessage` or a list of what is wrong with them.
//! 3. `store/messages.rs`, `Store::publish`: finds the topic (`store/registry.rs`, a cache of Redis's registry), gives the
//!    message its id (`store/ids.rs`), and submits it (`store/submit.rs`).
//! 4. `store/inbox.rs` holds the request until a lane is free. `store/lane.rs` takes all that waits, `store/job.rs` groups
//!    it by script and topic, and `store/lanes.rs` sends the groups as one pipeline: group commit.
//! 5. `store/publish.rs` writes the arguments of `scripts/publish.lua` and reads its reply, which
//!    `store/reply.rs` decodes. The script wakes waiting consumers itself.
//! 6. Back in `http/publish.rs`, the message becomes JSON; an error becomes a status in `http/problem/errors.rs`.
//!
//! # A lease with a long poll
//!
//! 1. `http/lease.rs` is the handler, behind the same `server`, `guard` and `extract`. It acknowledges `acks` first, through
//!    `store/holds.rs` and `store/ack.rs`.
//! 2. `waiting/mod.rs`, `WaitingRooms`: asks for messages at once and, if there are none, registers the consumer.
//! 3. `waiting/hall.rs` knows who waits for which topic, in the order in which they came. `waiting/room.rs` is one task per
//!    topic with waiters: it asks for all of them, and sleeps until the next due time or a wake-up (`waiting/alarm.rs`).
//! 4. `store/leases.rs`, `Store::lease`: through the same inbox and lanes. `store/lease.rs` writes the arguments of
//!    `lease.lua` and reads the reply into `store/grants.rs`.
//! 5. `store/wakes.rs` hears the wake-ups that scripts publish, on every instance.
//! 6. `http/lease.rs` writes the messages with their tokens (`model/token.rs`). If the client is gone, `store/grants.rs`
//!    gives the messages back.
//!
//! # A callback
//!
//! 1. `http/callbacks.rs` publishes the message to the topic `_callbacks`, as above.
//! 2. `loops/callbacks/mod.rs` runs one sender per pushed topic. `sender.rs` leases messages that can be called soon, through
//!    `waiting` like any consumer.
//! 3. `places.rs` says whose turn it is: limits in all and per host. `parked.rs` keeps what has to wait for its host.
//! 4. `flight.rs` sees one message through its call and extends its lease meanwhile. `store/calls.rs` checks that the call
//!    may still begin.
//! 5. `request.rs` builds and signs the request. `client.rs` makes the call; `dial.rs` resolves the host and checks the
//!    address (`model/addresses.rs`); `wire.rs` bounds what is read.
//! 6. `outcome.rs` decides what the answer means, and `flight.rs` acks or nacks the message.
//!
//! # The rest
//!
//! `app.rs` starts and stops everything in order. `loops` holds the other background work: schedules, dead letters,
//! housekeeping. `cli` has the subcommands, and `guide` the pages that the server shows at `/guide`. The keys in Redis are
//! described in `migrations-lua/README.md`.
//!
//! Modules import in one direction:
//! `seeded ← model ← error ← background ← metrics ← store ← longpoll ← {http, loops} ← app ← cli ← main`.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod app;
pub mod background;
pub mod cli;
pub mod config;
pub mod error;
pub mod http;
pub mod longpoll;
pub mod loops;
pub mod metrics;
pub mod model;
mod seeded;
pub mod store;
