//! What holds for one group of a topic's messages in place of what its topic says. A partition keeps it as a line that its scripts
//! read too.

use super::{MAX_GROUP_CONCURRENCY, is_default};
use serde::{Deserialize, Serialize};

/// The largest weight of a group.
pub const MAX_GROUP_WEIGHT: u64 = 100;
/// Groups of a partition that may have settings of their own.
pub const MAX_OWN_GROUPS: usize = 10_000;

/// The limits of one group. Absent: the topic's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GroupLimits {
    /// How many of its messages may be leased at a time.
    #[serde(skip_serializing_if = "is_default")]
    pub concurrency: Option<i64>,
    /// How many may be granted per second.
    #[serde(skip_serializing_if = "is_default")]
    pub rate_per_s: Option<f64>,
    /// How many of these may be granted at once.
    #[serde(skip_serializing_if = "is_default")]
    pub burst: Option<i64>,
    /// How many turns it takes where a group of weight 1 takes one.
    #[serde(skip_serializing_if = "is_default")]
    pub weight: Option<i64>,
}

/// The settings of one group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupSettings {
    /// None of its messages is granted.
    pub paused: bool,
    /// Its limits.
    pub limits: GroupLimits,
}

impl GroupLimits {
    /// Errors: the name of a limit that is out of range.
    pub fn check(&self) -> Result<(), &'static str> {
        let is_in = |number: Option<i64>, most: u64| {
            number.is_none_or(|number| (1..=most as i64).contains(&number))
        };
        let rate = self.rate_per_s.is_none_or(|rate| (0.01..=100_000.0).contains(&rate));
        for (name, is_right) in [
            ("concurrency", is_in(self.concurrency, MAX_GROUP_CONCURRENCY)),
            ("rate_per_s", rate),
            ("burst", is_in(self.burst, MAX_GROUP_CONCURRENCY)),
            ("weight", is_in(self.weight, MAX_GROUP_WEIGHT)),
        ] {
            if !is_right {
                return Err(name);
            }
        }
        Ok(())
    }

    /// As scripts take them: concurrency, µs between two grants, burst, weight, grants per second.
    pub fn to_script(&self) -> String {
        let number = |it: Option<i64>| it.map(|it| it.to_string()).unwrap_or_default();
        let Self { concurrency, rate_per_s, burst, weight } = *self;
        let (interval, rate) = match rate_per_s {
            Some(rate) => (format!("{:.0}", micros_between(rate)), rate.to_string()),
            None => Default::default(),
        };
        [number(concurrency), interval, number(burst), number(weight), rate].join(",")
    }
}

impl GroupSettings {
    /// The settings in a line of a partition, and the name of their group; `None` where it cannot be read.
    pub fn parse(line: &str) -> Option<(Self, &str)> {
        let mut parts = line.splitn(7, ',');
        let paused = parts.next()? == "1";
        let mut number = || {
            let part = parts.next()?;
            if part.is_empty() { Some(None) } else { part.parse().ok().map(Some) }
        };
        let (concurrency, _, burst, weight) = (number()?, number()?, number()?, number()?);
        let rate = parts.next()?;
        let rate_per_s = if rate.is_empty() { None } else { Some(rate.parse().ok()?) };
        let limits = GroupLimits { concurrency, rate_per_s, burst, weight };
        Some((Self { paused, limits }, parts.next()?))
    }
}

/// µs between two grants at this many per second.
pub fn micros_between(rate_per_s: f64) -> f64 {
    (1e6 / rate_per_s).round()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_come_back_as_they_were() {
        let limits = GroupLimits {
            concurrency: Some(3),
            rate_per_s: Some(0.3),
            burst: None,
            weight: Some(100),
        };
        assert_eq!(limits.to_script(), "3,3333333,,100,0.3");
        for (limits, paused) in [(limits, true), (GroupLimits::default(), false)] {
            let line = format!("{},{},a,b", u8::from(paused), limits.to_script());
            let settings = GroupSettings { paused, limits };
            assert_eq!(GroupSettings::parse(&line), Some((settings, "a,b")));
        }
        for line in ["", "1", "1,,,,", "1,,,,,", "0,x,,,,,a", "0,,,,,x,a"] {
            assert_eq!(GroupSettings::parse(line), None, "{line}");
        }
    }
}
