//! How late messages were granted, counted by powers of two: some ten numbers tell of millions of grants, and those of
//! several instances add up. The price is that a quantile is known to within a factor of two.

use dueq_model::Millis;
use std::fmt;

/// Bucket 0 is on time, bucket n is from 2^(n-1) to below 2^n ms.
const BUCKETS: usize = 64;

/// How late messages were granted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// The longest, ms.
    most: Millis,
    /// As many buckets as are needed.
    counts: Vec<u64>,
}

impl Lateness {
    /// Counts a message that was granted this late, ms.
    pub fn observe(&mut self, late: Millis) {
        let late = late.max(0);
        self.most = self.most.max(late);
        self.add(bucket_of(late), 1);
    }

    /// Adds what another counted.
    pub fn merge(&mut self, other: &Self) {
        self.most = self.most.max(other.most);
        for (bucket, count) in other.counts.iter().enumerate() {
            self.add(bucket, *count);
        }
    }

    /// As scripts have it (`merge_lateness`); `None` where that cannot be read.
    pub fn parse(text: &str) -> Option<Self> {
        let mut lateness = Self::default();
        let mut parts = text.split_ascii_whitespace();
        let Some(most) = parts.next() else { return Some(lateness) };
        lateness.most = most.parse().ok().filter(|most| *most >= 0)?;
        for part in parts {
            let (bucket, count) = part.split_once(':')?;
            let bucket = bucket.parse().ok().filter(|bucket| *bucket < BUCKETS)?;
            lateness.add(bucket, count.parse().ok()?);
        }
        Some(lateness)
    }

    /// The longest, ms; `None` where nothing was granted.
    pub fn most(&self) -> Option<Millis> {
        (!self.counts.is_empty()).then_some(self.most)
    }

    /// The time (ms) that this share of the messages was not later than, as if those of a bucket were evenly spread.
    pub fn quantile(&self, share: f64) -> Option<Millis> {
        let all: u64 = self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count));
        let rank = (all as f64 * share).ceil().max(1.0);
        let mut before = 0.0;
        for (bucket, count) in self.counts.iter().enumerate() {
            let count = *count as f64;
            if count > 0.0 && before + count >= rank {
                let (low, high) = bounds(bucket);
                let high = high.min(self.most).max(low);
                let within = (rank - before) / count * (high - low) as f64;
                return Some(low.saturating_add(within.round() as Millis).min(self.most));
            }
            before += count;
        }
        None
    }

    fn add(&mut self, bucket: usize, count: u64) {
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        self.counts[bucket] = self.counts[bucket].saturating_add(count);
    }
}

impl fmt::Display for Lateness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.counts.is_empty() {
            return Ok(());
        }
        write!(f, "{}", self.most)?;
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.into_iter().try_for_each(|(bucket, count)| write!(f, " {bucket}:{count}"))
    }
}

fn bucket_of(late: Millis) -> usize {
    (Millis::BITS - late.leading_zeros()) as usize
}

/// The first and the last ms of a bucket.
fn bounds(bucket: usize) -> (Millis, Millis) {
    match bucket {
        0 => (0, 0),
        bucket => {
            let low = 1 << (bucket - 1).min(62);
            (low, low + (low - 1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(late: &[Millis]) -> Lateness {
        let mut lateness = Lateness::default();
        late.iter().for_each(|late| lateness.observe(*late));
        lateness
    }

    #[test]
    fn the_text_is_that_of_the_scripts() {
        let some = of(&[0, 0, 1, 5, 7, 1000, -3]);
        assert_eq!(some.to_string(), "1000 0:3 1:1 3:2 10:1");
        assert_eq!(Lateness::parse(&some.to_string()), Some(some));
        assert_eq!(Lateness::parse(""), Some(Lateness::default()));
        assert_eq!(Lateness::default().to_string(), "");
        for bad in ["x", "-1 0:1", "1 64:1", "1 0", "1 0:x", "1 0:-1"] {
            assert_eq!(Lateness::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn quantiles_are_right_to_within_a_factor_of_two_and_never_above_the_longest() {
        let none = Lateness::default();
        assert_eq!((none.most(), none.quantile(0.5)), (None, None));
        let late: Vec<_> = (1..=1000).collect();
        let all = of(&late);
        for share in [0.01, 0.5, 0.9, 0.99, 1.0] {
            let (is, exact) = (all.quantile(share).unwrap() as f64, 1000.0 * share);
            assert!((exact / 2.0..=exact * 2.0).contains(&is), "{share}: {is}");
        }
        assert_eq!(all.quantile(1.0), Some(1000));
        assert_eq!(of(&[700]).quantile(0.5), Some(700));
        assert_eq!(of(&[0, 0, 0, 9]).quantile(0.5), Some(0));
        assert_eq!(of(&[Millis::MAX]).quantile(0.99), Some(Millis::MAX));
    }

    #[test]
    fn what_instances_counted_adds_up() {
        let mut one = of(&[3, 900]);
        one.merge(&of(&[5, 70_000]));
        assert_eq!(one, of(&[3, 5, 900, 70_000]));
    }
}
