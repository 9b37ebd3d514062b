//! Progress bars of commands that take long: on standard error, if that is a terminal, and only once it has become clear that
//! they take long.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::{Duration, Instant};

/// How long a command runs without one.
const PATIENCE: Duration = Duration::from_millis(500);

/// A progress bar, removed on drop.
pub struct Progress {
    bar: ProgressBar,
    what: &'static str,
    /// When to show it. `None`: it is shown, or never will be.
    at: Option<Instant>,
}

impl Progress {
    /// Creates a bar that begins with `what` is being done.
    pub fn new(what: &'static str) -> Self {
        let is_seen = !ProgressDrawTarget::stderr().is_hidden();
        let at = is_seen.then(|| Instant::now() + PATIENCE);
        Self { bar: ProgressBar::hidden(), what, at }
    }

    /// Creates a bar that is never shown.
    pub fn hidden() -> Self {
        Self { bar: ProgressBar::hidden(), what: "", at: None }
    }

    /// Shows the bar if it is time; returns whether this is the moment.
    pub fn appears(&mut self) -> bool {
        let due = self.at.is_some_and(|at| at <= Instant::now());
        if due {
            self.at = None;
            self.bar.set_message(self.what);
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.bar.set_style(style("{msg} {human_pos} ({per_sec})"));
        }
        due
    }

    /// Sets what there is to do in all.
    pub fn set_total(&self, total: u64) {
        self.bar.set_length(total);
        self.bar.set_style(style(
            "{msg} {wide_bar} {human_pos} of {human_len} ({per_sec}, {eta} left)",
        ));
    }

    /// Sets how much is done.
    pub fn set(&self, done: u64) {
        self.bar.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
