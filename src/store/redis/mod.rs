//! How Redis is reached: one server, a primary that Sentinels name, or a Cluster; its clock, its wake-ups, and what it says of itself.

pub(crate) mod backend;
pub(crate) mod clock;
pub(crate) mod cluster;
pub(crate) mod connect_error;
pub(crate) mod connection;
pub(crate) mod connection_source;
pub(crate) mod outage;
pub(crate) mod probe;
pub(crate) mod redis_args;
pub(crate) mod sentinel;
pub(crate) mod server_info;
pub(crate) mod wakes;
