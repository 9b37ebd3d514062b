//! Messages: how they are published, changed and told of after their death.

pub(crate) mod change;
pub(crate) mod dead_letters;
pub(crate) mod publish;
pub(crate) mod publish_special;
pub(crate) mod update;
