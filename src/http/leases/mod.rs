//! Leases: how consumers keep, end and prolong what they hold.

pub(crate) mod hold;
pub(crate) mod lease;
