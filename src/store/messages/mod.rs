//! Messages: how they are published and changed, and how their deaths are published.

pub(crate) mod change;
pub(crate) mod dead_letters;
pub(crate) mod publish;
pub(crate) mod publish_special;
pub(crate) mod update;
