//! The arithmetic of the bench: percentiles, medians and the way numbers are
//! written. Kept apart from the measuring so that it can be tested without a
//! server.

/// Latencies of one measurement, in microseconds, sorted when asked.
///
/// Every sample is kept (four bytes each): a histogram would save memory that
/// nobody misses at these counts, and would round the tail that is looked for.
#[derive(Debug, Default, Clone)]
pub struct Samples {
    values: Vec<u32>,
    sorted: bool,
}

impl Samples {
    /// Adds one sample.
    pub fn push(&mut self, value: u32) {
        self.values.push(value);
        self.sorted = false;
    }

    /// Takes in what another collector has seen.
    pub fn merge(&mut self, mut other: Samples) {
        self.values.append(&mut other.values);
        self.sorted = false;
    }

    /// How many samples there are.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// The smallest value that `share` (0…1) of the samples do not exceed
    /// (nearest rank); 0 without samples.
    pub fn percentile(&mut self, share: f64) -> u32 {
        if !self.sorted {
            self.values.sort_unstable();
            self.sorted = true;
        }
        let rank = (share * self.values.len() as f64).ceil() as usize;
        let index = rank.clamp(1, self.values.len().max(1)) - 1;
        self.values.get(index).copied().unwrap_or(0)
    }
}

/// The middle of some figures (the mean of the two middle ones where their
/// number is even); 0 without any.
pub fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// The median of the ratios of two series measured side by side, round by
/// round: what drifts from round to round falls out. 0 without a pair.
pub fn paired_ratio(figures: &[f64], reference: &[f64]) -> f64 {
    let ratios: Vec<f64> = figures
        .iter()
        .zip(reference)
        .filter(|(_, reference)| **reference > 0.0)
        .map(|(figure, reference)| figure / reference)
        .collect();
    median(&ratios)
}

/// A whole number with a comma every three digits: `12,345`.
pub fn thousands(number: f64) -> String {
    let digits = format!("{:.0}", number.abs());
    let mut text = String::from(if number <= -0.5 { "-" } else { "" });
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Microseconds as milliseconds with two decimals: `1.25`.
pub fn millis(micros: u32) -> String {
    format!("{:.2}", f64::from(micros) / 1000.0)
}

/// A share as a percentage: `58.3 %`.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_nearest_rank() {
        let mut samples = Samples::default();
        for value in (1..=100).rev() {
            samples.push(value);
        }
        assert_eq!(samples.percentile(0.5), 50);
        assert_eq!(samples.percentile(0.99), 99);
        assert_eq!(samples.percentile(0.999), 100);
        assert_eq!(samples.percentile(1.0), 100);
        assert_eq!(samples.percentile(0.0), 1);
    }

    #[test]
    fn no_sample_is_no_panic() {
        assert_eq!(Samples::default().percentile(0.99), 0);
        assert_eq!(median(&[]), 0.0);
        assert_eq!(paired_ratio(&[1.0], &[]), 0.0);
    }

    #[test]
    fn merged_samples_are_sorted_again() {
        let mut samples = Samples::default();
        samples.push(5);
        assert_eq!(samples.percentile(1.0), 5);
        let mut other = Samples::default();
        other.push(9);
        other.push(1);
        samples.merge(other);
        assert_eq!((samples.len(), samples.percentile(1.0)), (3, 9));
        assert_eq!(samples.percentile(0.01), 1);
    }

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn a_ratio_pairs_the_rounds() {
        assert_eq!(paired_ratio(&[5.0, 10.0, 40.0], &[10.0, 20.0, 80.0]), 0.5);
        assert_eq!(paired_ratio(&[5.0], &[0.0]), 0.0);
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(thousands(0.0), "0");
        assert_eq!(thousands(999.6), "1,000");
        assert_eq!(thousands(1_234_567.2), "1,234,567");
        assert_eq!(thousands(-1200.0), "-1,200");
        assert_eq!(millis(1250), "1.25");
        assert_eq!(percent(0.5834), "58.3 %");
    }
}
