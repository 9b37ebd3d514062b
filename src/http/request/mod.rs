//! What handlers take from a request: its path, its query, its headers and its body.

pub(crate) mod context;
pub(crate) mod cursor;
pub(crate) mod extract;
pub(crate) mod path;
