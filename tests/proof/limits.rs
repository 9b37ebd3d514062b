//! Limits of a topic that no answer names and no partition keeps. A scenario that configures a topic with them notes them in
//! the record, so that the checker can hold grants against them.

/// The limits of a topic; default: none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Limits {
    /// How many messages may be leased at once.
    pub max_leased: Option<usize>,
    /// How many messages may be granted a second.
    pub rate_per_s: Option<f64>,
}
