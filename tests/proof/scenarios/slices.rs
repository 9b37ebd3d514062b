//! Two loads measured side by side: in short slices that take turns, so that what else the machine does slows both.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

/// Pairs that are measured at least, and at most.
const FEWEST: usize = 15;
const MOST: usize = 60;

/// What each pair of slices came to, per second: without what is measured, and with it.
#[derive(Default)]
pub struct Pairs(Vec<(f64, f64)>);

impl Pairs {
    /// One more pair; every other one begins with the second load.
    pub async fn measure<A, B>(&mut self, without: impl Fn() -> A, with: impl Fn() -> B)
    where
        A: Future<Output = f64>,
        B: Future<Output = f64>,
    {
        let pair = if self.0.len().is_multiple_of(2) {
            let first = without().await;
            (first, with().await)
        } else {
            let first = with().await;
            (without().await, first)
        };
        self.0.push(pair);
    }

    /// Is the ratio known to about 1 %, or not to be known any better?
    pub fn settled(&self) -> bool {
        self.0.len() >= FEWEST && (self.ratio().1 < 0.01 || self.0.len() >= MOST)
    }

    /// With what is measured ÷ without it: the middle of the pairs' ratios, and the standard error of that (1.25 of a
    /// mean's; the deviation is 1.48 × the middle one from the middle, which a few bad slices do not move).
    pub fn ratio(&self) -> (f64, f64) {
        let ratios: Vec<f64> = self.0.iter().map(|(without, with)| with / without).collect();
        let ratio = middle(ratios.clone());
        let deviation = 1.48 * middle(ratios.iter().map(|one| (one - ratio).abs()).collect());
        (ratio, 1.25 * deviation / (ratios.len() as f64).sqrt())
    }

    /// Is the ratio at least this, as far as one can tell (two standard errors)?
    pub fn reaches(&self, least: f64) -> bool {
        let (ratio, error) = self.ratio();
        ratio + 2.0 * error >= least
    }

    /// Per second, without and with.
    pub fn rates(&self) -> (f64, f64) {
        let (without, with) = self.0.iter().copied().unzip();
        (middle(without), middle(with))
    }
}

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Lets so many workers do `step` again and again for so long; what the steps count, per second.
pub async fn slice<F, S>(workers: usize, time: Duration, step: F) -> f64
where
    F: Fn() -> S + Send + Sync + 'static,
    S: Future<Output = usize> + Send,
{
    let (step, begin) = (Arc::new(step), Instant::now());
    let mut tasks = JoinSet::new();
    for _ in 0..workers {
        let step = step.clone();
        tasks.spawn(async move {
            let mut count = 0;
            while begin.elapsed() < time {
                count += step().await;
            }
            count
        });
    }
    let counts = tasks.join_all().await;
    counts.iter().sum::<usize>() as f64 / begin.elapsed().as_secs_f64()
}

impl fmt::Display for Pairs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ((without, with), (ratio, error)) = (self.rates(), self.ratio());
        let pairs = self.0.len();
        write!(
            f,
            "{with:.0}/s against {without:.0}/s, ratio {ratio:.3} ± {error:.3} ({pairs} pairs)"
        )
    }
}
