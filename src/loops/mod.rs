//! Background work of an instance. The state of messages does not depend on it: the next script that touches a topic ends
//! leases and TTLs and makes messages due, and housekeeping makes sure that such a script runs. Only dead letters and the
//! ticks of schedules need these loops. Both are recorded in Redis and wait there until a loop gets to them.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod callbacks;
mod dead_letters;
mod history;
mod housekeeping;
mod instances;
mod schedules;

pub use dead_letters::WriteReport;
pub use history::{keep_history, watch_redis};
pub use housekeeping::run_housekeeping;
pub use instances::register_instance;
pub use schedules::tick_schedules;
