//! The readers of `dueq-model`.

mod queries;
mod stored;
mod times;
mod urls;
