//! The proof: clients that write down what they did and what came of it, a checker that holds the
//! record against every promise of dueq, and faults caused on purpose on real processes.
//!
//! `tests/faults` runs all of it for seconds, with every `make test`; `tests/prove` for as long as
//! its numbers need, with `make prove`.

// Neither binary uses all of it.
#![allow(dead_code, unused_imports)]

pub mod actor;
pub mod audit;
pub mod bugs;
pub mod checker;
pub mod clients;
pub mod disk;
pub mod fuzz;
pub mod history;
pub mod limits;
pub mod load;
pub mod model;
pub mod partitions;
pub mod proxy;
pub mod record;
pub mod scenarios;
pub mod shim;
pub mod stage;
pub mod watch;
