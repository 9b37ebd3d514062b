//! What an instance does by itself, without a request. No state of a message needs it: a lease that is over, a message
//! that falls due or has outlived its time is seen by whichever script comes first, and the loops see to it that something
//! comes first. Only here are deaths told of in another topic, and only here do schedules tick; what is noted of either
//! waits for as long as it takes.

pub mod callbacks;
mod dead_letters;
mod housekeeping;
mod schedules;

pub use dead_letters::WriteDeadLetter;
pub use housekeeping::run_housekeeping;
pub use schedules::tick_schedules;
