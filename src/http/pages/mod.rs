//! Pages for people: the dashboard and the page of the API. They hold nothing and need no key.

pub(crate) mod docs;
pub(crate) mod etag;
pub(crate) mod guide;
pub(crate) mod ui;
