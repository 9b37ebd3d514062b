//! A promise that an answer broke.

use std::fmt;

/// What was promised, and what came instead.
#[derive(Clone, Debug)]
pub struct Broken {
    /// An invariant's name where one fits, such as `I7 attempts`, else `the contract`.
    pub promise: &'static str,
    pub text: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.promise, self.text)
    }
}

/// Whether a step went as the model says.
pub type Kept<T = ()> = Result<T, Broken>;

/// The contract itself, where no invariant fits.
pub const CONTRACT: &str = "the contract";

/// Demands a condition of an answer.
macro_rules! must {
    ($promise:expr, $condition:expr, $($text:tt)*) => {
        if !$condition {
            let text = format!($($text)*);
            return Err($crate::proof::model::broken::Broken { promise: $promise, text });
        }
    };
}
pub(super) use must;

/// Demands that two things are equal.
pub fn same<T: PartialEq + fmt::Debug>(
    promise: &'static str,
    what: &str,
    seen: T,
    wanted: T,
) -> Kept {
    must!(promise, seen == wanted, "{what} is {seen:?}, and should be {wanted:?}");
    Ok(())
}
