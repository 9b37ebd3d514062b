//! What survives faults: killed instances and a killed Redis, cut connections, a Redis that is
//! full, stopped or busy; and what has to be right for a cluster. Clients work on while a fault
//! happens and record every answer; `checker` then holds the record and what lies in Redis against
//! the promises. A failure prints the seed of its random choices.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod cluster;
mod dead_topic;
mod durability;
mod epochs;
mod fuzz;
mod groups;
mod growth;
mod half_done;
#[path = "../harness/mod.rs"]
mod harness;
mod load;
mod lost_links;
mod machinery;
mod memory;
mod model;
mod monitor;
mod overload;
#[path = "../proof/mod.rs"]
mod proof;
mod publisher;
mod replicas;
mod rolling;
mod schedules;
mod seeded;
mod sentinel;
mod slots;
mod steps;
mod tzdata;
mod upgrade;
mod waking;
mod watch;
