//! Secrets that are given at the start, or stored with what is called. They are neither printed nor logged.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An API key, a signing secret, a password or a URL with one. `Debug` does not print it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// The secret as it was given.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

/// Accepts any text, because clap would print an invalid value in its error. The secret is validated where it is used.
impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(***)")
    }
}
