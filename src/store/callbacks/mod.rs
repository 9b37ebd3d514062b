//! What dueq needs of the store to call URLs: topics that are pushed, names of keys, hosts.

pub(crate) mod callback_names;
pub(crate) mod hosts;
pub(crate) mod push;
