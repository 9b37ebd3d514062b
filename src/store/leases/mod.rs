//! Leases: how messages are granted, and what their holders can do.

pub(crate) mod ack;
mod attempts;
pub(crate) mod extend;
pub(crate) mod grants;
pub(crate) mod group_settings;
pub(crate) mod groups;
pub(crate) mod lease;
pub(crate) mod nack;
pub(crate) mod settle;
