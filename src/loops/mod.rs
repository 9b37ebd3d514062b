//! What an instance does by itself, without a request. Nothing here is needed for correctness or punctuality: a lease
//! that is over, a message that falls due or has outlived its time is seen by whichever script comes first. The loops
//! see to it that something comes first.

mod housekeeping;

pub use housekeeping::keep_house;
