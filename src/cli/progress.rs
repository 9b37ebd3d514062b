//! Progress bars of commands that take long: on standard error, if that is a terminal, and only once it has become clear that
//! they take long.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::{
    fmt::Write,
    time::{Duration, Instant},
};

/// How long a command runs without one.
const PATIENCE: Duration = Duration::from_millis(500);

/// A progress bar, removed on drop.
pub struct Progress {
    bar: ProgressBar,
    what: String,
    total: Option<u64>,
    /// When to show it. `None`: it is shown, or never will be.
    at: Option<Instant>,
}

impl Progress {
    /// Creates a bar that begins with `what` is being done. `total`: what there is to do in all, where that is known before.
    pub fn new(what: &str, total: Option<u64>) -> Self {
        let is_seen = !ProgressDrawTarget::stderr().is_hidden();
        let at = is_seen.then(|| Instant::now() + PATIENCE);
        Self { bar: ProgressBar::hidden(), what: what.to_owned(), total, at }
    }

    /// Creates a bar that is never shown.
    pub fn hidden() -> Self {
        Self { bar: ProgressBar::hidden(), what: String::new(), total: None, at: None }
    }

    /// Shows the bar if it is time; returns whether this is the moment.
    pub fn appears(&mut self) -> bool {
        let due = self.at.is_some_and(|at| at <= Instant::now());
        if due {
            self.at = None;
            self.bar.set_style(style("{msg} {human_pos} ({rate})"));
            self.bar.set_message(self.what.clone());
            self.total.iter().for_each(|total| self.set_total(*total));
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        due
    }

    /// Sets what there is to do in all.
    pub fn set_total(&self, total: u64) {
        let template = "{msg} {wide_bar} {human_pos} of {human_len} ({rate}, {eta} left)";
        self.bar.set_style(style(template));
        self.bar.set_length(total);
    }

    /// Sets how much is done.
    pub fn set(&self, done: u64) {
        self.bar.set_position(done);
    }

    /// Adds what was done.
    pub fn add(&mut self, done: u64) {
        self.appears();
        self.bar.inc(done);
    }

    /// The bar itself, for code that prints while it is shown.
    pub fn bar(&self) -> ProgressBar {
        self.bar.clone()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).with_key(
        "rate",
        |state: &ProgressState, text: &mut dyn Write| {
            let _ = write!(text, "{:.0}/s", state.per_sec());
        },
    )
}
