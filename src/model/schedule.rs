//! When schedules tick. Instants are milliseconds of Redis's clock like all others; a cron expression is read in its time
//! zone, where it means what is on the clock on the wall there.
//!
//! At a change to summer time a time of day that is left out ticks once, at the first moment after the gap; at the change
//! back one that comes twice ticks once, the first time. An expression that names a range, a list or `*` of hours,
//! minutes or seconds counts what passes instead: it skips what is left out, and ticks in both repeated hours.

use super::{LAST, MAX_DELAY_MS, Millis, TopicName};
use chrono::{DateTime, TimeZone};
use chrono_tz::Tz;
use croner::{
    Cron, Direction,
    parser::{CronParser, Year},
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Shortest time between the ticks of `every_ms`, ms.
pub const MIN_EVERY_MS: u64 = 1_000;
/// Characters of a cron expression, at most.
pub const MAX_CRON_CHARS: usize = 256;
/// Characters of the name of a time zone, at most.
pub const MAX_TIMEZONE_CHARS: usize = 64;
/// Missed ticks that are made up for, at most.
pub const MAX_CATCH_UP: usize = 1_000;
/// How late (ms) a tick is made that nothing makes up for.
const LATE_MS: Millis = 2_000;

/// A valid name of a schedule: as a topic that is not dueq's own may be called.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct ScheduleName(TopicName);

/// The text is no name of a schedule.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "a schedule name must have 1 to 128 of the characters A-Z a-z 0-9 . _ -, begin with a letter or digit and not \
        contain `..`"
)]
pub struct InvalidScheduleName;

impl ScheduleName {
    /// Checks `text` against the rule for names.
    pub fn parse(text: &str) -> Result<Self, InvalidScheduleName> {
        let name = TopicName::parse(text).ok().filter(|name| !name.is_reserved());
        name.map(Self).ok_or(InvalidScheduleName)
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for ScheduleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// What happens to ticks that were missed. `one`: the latest is made up for. `none`: none is. `all`: the latest 1000
/// are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// The latest is made up for.
    #[default]
    One,
    /// None is.
    None,
    /// All are, the latest 1000 at most.
    All,
}

/// When a schedule ticks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredTiming", into = "StoredTiming")]
pub enum Timing {
    /// By the clock on the wall.
    Cron(CronTiming),
    /// At even distances.
    Every {
        /// The distance, ms.
        every_ms: Millis,
        /// From where the ticks are counted, ms; itself none.
        anchor_ms: Millis,
    },
}

/// A cron expression in its time zone.
#[derive(Clone, Debug, PartialEq)]
pub struct CronTiming {
    expr: String,
    timezone: Tz,
    cron: Box<Cron>,
}

/// The fields of a cron expression, with the values that each takes.
const FIELDS: [(&str, &str); 6] = [
    ("second", "0-59"),
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day of the month", "1-31, L or W"),
    ("month", "1-12 or JAN-DEC"),
    ("day of the week", "0-7, SUN-SAT, L or #"),
];

/// Why a text is no cron expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCron {
    /// Not as many fields as there must be.
    #[error(
        "must have 5 fields (minute, hour, day of the month, month, day of the week), or 6 with seconds first"
    )]
    Fields,
    /// A field that cannot be read.
    #[error("the {name} `{given}` is not valid: it takes {takes}, with lists, ranges and steps")]
    Field {
        /// The field's name.
        name: &'static str,
        /// What was given.
        given: String,
        /// The values that it takes.
        takes: &'static str,
    },
    /// Not a time zone.
    #[error(transparent)]
    Timezone(#[from] InvalidTimezone),
    /// No instant fits.
    #[error("never comes")]
    Never,
}

/// The text names no time zone.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("must be the name of a time zone such as Europe/Berlin")]
pub struct InvalidTimezone;

/// Reads the IANA name of a time zone.
pub fn parse_timezone(text: &str) -> Result<Tz, InvalidTimezone> {
    text.parse().map_err(|_| InvalidTimezone)
}

/// Names the first field that cannot be read by itself, since the parser's errors name none.
fn wrong_field(parser: &CronParser, expr: &str) -> InvalidCron {
    let given: Vec<&str> = expr.split_ascii_whitespace().collect();
    let fields = &FIELDS[FIELDS.len() - given.len()..];
    for (place, (name, takes)) in fields.iter().enumerate() {
        let mut alone = vec!["*"; given.len()];
        alone[place] = given[place];
        if parser.parse(&alone.join(" ")).is_err() {
            return InvalidCron::Field { name, given: given[place].to_owned(), takes };
        }
    }
    InvalidCron::Fields
}

impl CronTiming {
    /// Reads an expression that comes at some time after `now`.
    pub fn parse(expr: &str, timezone: Tz, now: Millis) -> Result<Self, InvalidCron> {
        let timing = Self::read(expr, timezone)?;
        timing.next_after(now).map(|_| ()).ok_or(InvalidCron::Never)?;
        Ok(timing)
    }

    fn read(expr: &str, timezone: Tz) -> Result<Self, InvalidCron> {
        if !matches!(expr.split_ascii_whitespace().count(), 5 | 6) || expr.contains('@') {
            return Err(InvalidCron::Fields);
        }
        let parser = CronParser::builder().year(Year::Disallowed).build();
        let cron = parser.parse(expr).map_err(|_| wrong_field(&parser, expr))?;
        Ok(Self { expr: expr.to_owned(), timezone, cron: Box::new(cron) })
    }

    /// The expression as it was given.
    pub fn expr(&self) -> &str {
        &self.expr
    }

    /// The name of the time zone.
    pub fn timezone(&self) -> &'static str {
        self.timezone.name()
    }

    /// The second in which this instant lies, on the clock on the wall.
    fn local(&self, at: Millis) -> Option<DateTime<Tz>> {
        self.timezone.timestamp_opt(at.div_euclid(1_000), 0).single()
    }

    fn next_after(&self, at: Millis) -> Option<Millis> {
        let next = self.cron.find_next_occurrence(&self.local(at)?, false).ok()?;
        Some(next.timestamp_millis())
    }

    /// The ticks at or before `at`, latest first.
    fn back_from(&self, at: Millis) -> impl Iterator<Item = Millis> {
        let ticks = self.local(at).map(|at| self.cron.iter_from(at, Direction::Backward));
        ticks.into_iter().flatten().map(|tick| tick.timestamp_millis())
    }
}

impl Timing {
    /// The first tick after `at`; `None` where there is none in the calendar any more.
    pub fn next_after(&self, at: Millis) -> Option<Millis> {
        match self {
            Self::Cron(cron) => cron.next_after(at),
            Self::Every { every_ms, anchor_ms } => {
                let passed = at.saturating_sub(*anchor_ms).div_euclid(*every_ms).max(0);
                passed.checked_add(1)?.checked_mul(*every_ms)?.checked_add(*anchor_ms)
            }
        }
    }

    /// Which ticks are made at `now`, in order, where `first` is the first one that was not made.
    pub fn ticks(&self, first: Millis, now: Millis, catch_up: CatchUp) -> Vec<Millis> {
        if first > now {
            return Vec::new();
        }
        let most = if catch_up == CatchUp::All { MAX_CATCH_UP } else { 1 };
        // Mostly there is no other; and the first was announced, so it counts even if the time zone has changed since.
        let mut ticks = match self.next_after(first) {
            Some(second) if second <= now => self.latest(first, now, most),
            _ => vec![first],
        };
        ticks.retain(|tick| catch_up != CatchUp::None || now - tick <= LATE_MS);
        ticks
    }

    /// The latest ticks from `first` to `now`, at most so many, in order.
    fn latest(&self, first: Millis, now: Millis, most: usize) -> Vec<Millis> {
        let since = |tick: &Millis| *tick > first;
        let mut ticks: Vec<_> = match self {
            Self::Cron(cron) => cron.back_from(now).take(most).take_while(since).collect(),
            Self::Every { every_ms, anchor_ms } => {
                let last = now - now.saturating_sub(*anchor_ms).rem_euclid(*every_ms);
                let back = (0..most as Millis).map(|back| last - back * every_ms);
                back.take_while(since).collect()
            }
        };
        if ticks.len() < most {
            ticks.push(first);
        }
        ticks.reverse();
        ticks
    }
}

/// How a timing is kept.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum StoredTiming {
    Cron { cron: String, timezone: String },
    Every { every_ms: Millis, anchor_ms: Millis },
}

impl From<Timing> for StoredTiming {
    fn from(timing: Timing) -> Self {
        match timing {
            Timing::Cron(cron) => {
                Self::Cron { timezone: cron.timezone().to_owned(), cron: cron.expr }
            }
            Timing::Every { every_ms, anchor_ms } => Self::Every { every_ms, anchor_ms },
        }
    }
}

impl TryFrom<StoredTiming> for Timing {
    type Error = InvalidCron;

    fn try_from(stored: StoredTiming) -> Result<Self, InvalidCron> {
        match stored {
            StoredTiming::Cron { cron, timezone } => {
                Ok(Self::Cron(CronTiming::read(&cron, parse_timezone(&timezone)?)?))
            }
            // What no request could have put there must neither divide by zero nor overflow.
            StoredTiming::Every { every_ms, anchor_ms } => {
                let most = MAX_DELAY_MS as Millis;
                let every_ms = every_ms.clamp(MIN_EVERY_MS as Millis, most);
                Ok(Self::Every { every_ms, anchor_ms: anchor_ms.clamp(-LAST, LAST) })
            }
        }
    }
}

#[cfg(test)]
mod tests;
