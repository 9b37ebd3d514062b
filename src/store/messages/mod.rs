//! Messages: how they are published, changed and moved, and how their deaths are published.

pub(crate) mod change;
pub(crate) mod dead_letters;
pub(crate) mod moves;
pub(crate) mod publish;
pub(crate) mod publish_special;
pub(crate) mod update;
