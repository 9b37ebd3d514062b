//! When schedules tick. Instants are milliseconds of Redis's clock like all others; a cron expression is read in its time
//! zone, where it means what is on the clock on the wall there (see [`Cron`]).

use super::{
    Cron, InvalidCron, InvalidTimezone, LAST, MAX_DELAY_MS, Millis, TopicName, Zones,
    cron::words::every,
};
use jiff::{Timestamp, tz::TimeZone};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Shortest time between the ticks of `every_ms`, ms.
pub const MIN_EVERY_MS: u64 = 1_000;
/// Characters of a cron expression, at most.
pub const MAX_CRON_CHARS: usize = 256;
/// Missed ticks that are made up for, at most.
pub const MAX_CATCH_UP: usize = 1_000;
/// Changes of a zone's offset that tell by which offsets another database may have worked: those of four years.
const RECENT_CHANGES: usize = 8;
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

    /// Why no schedule may be made under this name, where none may.
    pub fn unfit(&self) -> Option<&'static str> {
        let is_route = self.as_str() == "preview";
        is_route.then_some("no schedule can be called `preview`, the route of previews")
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
#[serde(untagged)]
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

/// A cron expression in its time zone, of which the name is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CronTiming {
    #[serde(rename = "cron")]
    expr: String,
    timezone: String,
    /// Why it cannot tick: an earlier version took more expressions, another instance may know more time zones.
    #[serde(skip, default = "unread")]
    read: Result<(Cron, TimeZone), String>,
}

fn unread() -> Result<(Cron, TimeZone), String> {
    Err("its time zone has not been looked up".to_owned())
}

impl CronTiming {
    /// Reads an expression.
    pub fn parse(expr: &str, zone: TimeZone) -> Result<Self, InvalidCron> {
        let timezone = zone.iana_name().unwrap_or("UTC").to_owned();
        Ok(Self { read: Ok((Cron::parse(expr)?, zone)), timezone, expr: expr.to_owned() })
    }

    /// The expression as it was given.
    pub fn expr(&self) -> &str {
        &self.expr
    }

    /// The name of the time zone.
    pub fn timezone(&self) -> &str {
        &self.timezone
    }

    /// Why it does not tick, or what its author may have meant otherwise.
    pub fn warning(&self) -> Option<String> {
        match &self.read {
            Ok((cron, _)) => cron.warning().map(str::to_owned),
            Err(reason) => Some(format!("does not tick: {reason}")),
        }
    }

    fn next_after(&self, at: Millis) -> Option<Millis> {
        let (cron, zone) = self.read.as_ref().ok()?;
        let next = cron.next(zone, at.div_euclid(1_000))? * 1_000;
        Some(next).filter(|next| *next <= LAST)
    }

    /// The ticks at or before `at`, latest first.
    fn back_from(&self, at: Millis) -> impl Iterator<Item = Millis> {
        let previous = |at: i64| {
            let (cron, zone) = self.read.as_ref().ok()?;
            cron.previous(zone, at)
        };
        let ticks =
            std::iter::successors(previous(at.div_euclid(1_000)), move |at| previous(at - 1));
        ticks.map(|tick| tick * 1_000)
    }

    /// Where a tick belongs that another time zone database has put at `next`, if it put it at no tick of this one: the
    /// time of day that it is by one of the offsets that the zone had in recent years, the nearest that matches.
    fn moved(&self, next: Millis) -> Option<Millis> {
        let (cron, zone) = self.read.as_ref().ok()?;
        let at = next.div_euclid(1_000);
        let instant = Timestamp::from_second(at).ok()?;
        let present = i64::from(zone.to_offset(instant).seconds());
        let others = zone.preceding(instant).take(RECENT_CHANGES).map(|change| change.offset());
        let others = others.map(|offset| i64::from(offset.seconds()));
        let places =
            others.filter(|other| cron.matches(at + other)).map(|other| at + other - present);
        let place = places.min_by_key(|place| (place - at).abs())?;
        Some(cron.next(zone, place - 1)? * 1_000)
    }
}

impl Timing {
    /// A stored timing by these time zones.
    pub fn in_zones(self, zones: &Zones) -> Self {
        match self {
            Self::Cron(CronTiming { expr, timezone, .. }) => {
                let zone = zones.get(&timezone).map_err(|InvalidTimezone| {
                    format!("this instance knows no time zone `{timezone}`")
                });
                let parsed = Cron::parse(&expr).map_err(|error| format!("`{expr}` {error}"));
                let read = parsed.and_then(|parsed| Ok((parsed, zone?)));
                Self::Cron(CronTiming { expr, timezone, read })
            }
            // What no request could have put there must neither divide by zero nor overflow.
            Self::Every { every_ms, anchor_ms } => {
                let most = MAX_DELAY_MS as Millis;
                let every_ms = every_ms.clamp(MIN_EVERY_MS as Millis, most);
                Self::Every { every_ms, anchor_ms: anchor_ms.clamp(-LAST, LAST) }
            }
        }
    }

    /// What it means, in words; `None` where that takes many.
    pub fn words(&self) -> Option<String> {
        match self {
            Self::Cron(CronTiming { read, timezone, .. }) => {
                let words = read.as_ref().ok()?.0.words()?;
                Some(format!("{words} in {timezone}"))
            }
            Self::Every { every_ms, .. } => {
                let units = [(86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute")];
                let units = units.into_iter().chain([(1_000, "second"), (1, "millisecond")]);
                let mut fitting = units.filter(|(ms, _)| every_ms % ms == 0);
                fitting.next().map(|(ms, unit)| every((every_ms / ms) as u64, unit))
            }
        }
    }

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

    /// Where the tick belongs that is kept at `next` and has not been made at `now`. It stays, unless another time zone
    /// database put it at no tick of this one. `sooner`: an earlier tick may be missing, since that database or a clock that
    /// was ahead knew none. Otherwise it counts as made, at another instant.
    pub fn revised(&self, next: Millis, now: Millis, sooner: bool) -> Option<Millis> {
        let soonest = self.next_after(now)?;
        if let Self::Cron(cron) = self
            && cron.next_after(next - 1) != Some(next)
            && let Some(moved) = cron.moved(next)
        {
            return Some(moved);
        }
        let sooner = sooner || matches!(self, Self::Every { .. });
        Some(if next > now && sooner { next.min(soonest) } else { next })
    }

    /// Why it does not tick, or what its author may have meant otherwise.
    pub fn warning(&self) -> Option<String> {
        if let Self::Cron(cron) = self { cron.warning() } else { None }
    }

    /// Whether its expression and its time zone are known here.
    pub fn can_tick(&self) -> bool {
        !matches!(self, Self::Cron(CronTiming { read: Err(_), .. }))
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

#[cfg(test)]
mod tests;
