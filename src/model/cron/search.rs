//! The search for the next and the previous tick. It takes one step per month and one per change of the zone's offset, within
//! a bound of years.

use super::Cron;
use jiff::{
    Timestamp,
    civil::Date,
    tz::{Offset, TimeZone},
};

/// s.
pub(super) const DAY: i64 = 86_400;
/// No matching days are further apart: 29 February on a given weekday, around a century without a leap day. s.
const HORIZON: i64 = 48 * 366 * DAY;
/// Beyond all instants of the calendar, s.
const FAR: i64 = 1 << 40;

impl Cron {
    /// The first tick after `at`, both in seconds since 1970.
    pub fn next(&self, zone: &TimeZone, at: i64) -> Option<i64> {
        let (mut from, end) = (at + 1, at + HORIZON);
        while from < end {
            let stretch = Stretch::at(zone, from)?;
            if from == stretch.from && self.is_in_gap(&stretch) {
                return Some(from);
            }
            let start = self.begin(&stretch).max(from + stretch.offset);
            if let Some(tick) = self.first(start, stretch.to.min(end) + stretch.offset) {
                return Some(tick - stretch.offset);
            }
            from = stretch.to;
        }
        None
    }

    /// The last tick at or before `at`.
    pub fn previous(&self, zone: &TimeZone, at: i64) -> Option<i64> {
        let (mut to, end) = (at + 1, at - HORIZON);
        while to > end {
            let stretch = Stretch::at(zone, to - 1)?;
            let start = self.begin(&stretch).max(end + stretch.offset);
            if let Some(tick) = self.nearest(to - 1 + stretch.offset, start, Direction::Back) {
                return Some(tick - stretch.offset);
            }
            if self.is_in_gap(&stretch) {
                return Some(stretch.from);
            }
            to = stretch.from;
        }
        None
    }

    /// Whether a tick is skipped by the change with which this stretch begins, and comes right after it.
    fn is_in_gap(&self, stretch: &Stretch) -> bool {
        let gap = (stretch.from + stretch.before, stretch.from + stretch.offset);
        !self.elapsed && gap.0 < gap.1 && self.first(gap.0, gap.1).is_some()
    }

    /// Where ticks of a stretch begin, on the clock on the wall: what comes a second time may not count.
    fn begin(&self, stretch: &Stretch) -> i64 {
        let begin = stretch.from + stretch.offset;
        if self.elapsed { begin } else { begin.max(stretch.from + stretch.before) }
    }

    /// Does this second match, on the clock on the wall?
    pub fn matches(&self, local: i64) -> bool {
        self.first(local, local + 1).is_some()
    }

    /// The first match from `from` to before `to`, in seconds since 1970 on the clock on the wall.
    pub(super) fn first(&self, from: i64, to: i64) -> Option<i64> {
        self.nearest(from, to - 1, Direction::Ahead)
    }

    /// The nearest match from `at` on, but not beyond `limit`.
    fn nearest(&self, at: i64, limit: i64, direction: Direction) -> Option<i64> {
        let within = |found: &i64| direction.order(*found, limit);
        let (date, time) = (date_of(at)?, at.rem_euclid(DAY));
        let (mut month, today) = (date.first_of_month(), date.day() as u32);
        let days = self.days_of(month);
        if days & (1 << today) != 0
            && let Some(found) = self.time(time, direction)
        {
            return Some(at - time + found).filter(within);
        }
        let mut day = direction.nearest(days, direction.beyond(today));
        while day.is_none() {
            month = match direction {
                Direction::Ahead => month.last_of_month().tomorrow().ok()?,
                Direction::Back => month.yesterday().ok()?.first_of_month(),
            };
            let begin = if direction == Direction::Ahead {
                month
            } else {
                month.last_of_month().tomorrow().ok()?
            };
            seconds_of(begin).filter(within)?;
            day = direction.edge(self.days_of(month));
        }
        let edge = self.time(if direction == Direction::Ahead { 0 } else { DAY - 1 }, direction)?;
        Some(seconds_of(month)? + (i64::from(day?) - 1) * DAY + edge).filter(within)
    }

    /// The days of this month that match, as bits.
    pub(super) fn days_of(&self, month: Date) -> u64 {
        if self.months & (1 << month.month()) == 0 {
            return 0;
        }
        let count = month.days_in_month() as u32;
        let first = month.first_of_month().weekday().to_sunday_zero_offset() as u32;
        let weekday = |day: u32| (first + day - 1) % 7;
        let working = |day: u32| !matches!(weekday(day), 0 | 6);
        let (mut days, mut by_weekday) = (self.days, 0);
        for day in 1..=count {
            let bit = 1 << weekday(day);
            let place = (day as usize - 1) / 7;
            let is_last = day + 7 > count && self.nth[5] & bit != 0;
            if self.weekdays & bit != 0 || self.nth[place] & bit != 0 || is_last {
                by_weekday |= 1 << day;
            }
            if self.nearest & (1 << day) != 0 {
                // Never in another month.
                let near = [day, day.wrapping_sub(1), day + 1, day.wrapping_sub(2), day + 2];
                let near =
                    near.into_iter().find(|near| (1..=count).contains(near) && working(*near));
                days |= near.map_or(0, |near| 1 << near);
            }
        }
        if self.last_day {
            days |= 1 << count;
        }
        if self.last_working_day {
            days |= (1..=count).rev().find(|day| working(*day)).map_or(0, |day| 1 << day);
        }
        days &= (2 << count) - 1;
        if self.both_days { days & by_weekday } else { days | by_weekday }
    }

    /// The nearest matching time of day from this one on.
    fn time(&self, time: i64, direction: Direction) -> Option<i64> {
        let (hour, minute, second) = parts(time);
        if self.hours & (1 << hour) != 0 {
            if self.minutes & (1 << minute) != 0
                && let Some(second) = direction.nearest(self.seconds, Some(second))
            {
                return Some(time_of(hour, minute, second));
            }
            if let Some(minute) = direction.nearest(self.minutes, direction.beyond(minute)) {
                return Some(time_of(hour, minute, direction.edge(self.seconds)?));
            }
        }
        let hour = direction.nearest(self.hours, direction.beyond(hour))?;
        Some(time_of(hour, direction.edge(self.minutes)?, direction.edge(self.seconds)?))
    }
}

/// In which direction to look.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Ahead,
    Back,
}

impl Direction {
    /// Whether `one` does not come after `other`.
    fn order(self, one: i64, other: i64) -> bool {
        if self == Self::Ahead { one <= other } else { one >= other }
    }

    /// The nearest bit that is set, from `at` on.
    fn nearest(self, bits: u64, at: Option<u32>) -> Option<u32> {
        let bits =
            bits & if self == Self::Ahead { u64::MAX << at? } else { u64::MAX >> (63 - at?) };
        let found =
            if self == Self::Ahead { bits.trailing_zeros() } else { bits.leading_zeros() ^ 63 };
        (bits != 0).then_some(found)
    }

    /// The first bit that is set.
    fn edge(self, bits: u64) -> Option<u32> {
        self.nearest(bits, Some(if self == Self::Ahead { 0 } else { 63 }))
    }

    fn beyond(self, at: u32) -> Option<u32> {
        if self == Self::Ahead { Some(at + 1) } else { at.checked_sub(1) }
    }
}

/// A stretch of time in which a zone has one offset. Instants and offsets in seconds.
struct Stretch {
    from: i64,
    to: i64,
    offset: i64,
    /// The offset before it.
    before: i64,
}

impl Stretch {
    fn at(zone: &TimeZone, at: i64) -> Option<Self> {
        let (now, then) = (Timestamp::from_second(at).ok()?, Timestamp::from_second(at + 1).ok()?);
        let offset = i64::from(zone.to_offset(now).seconds());
        let from = zone.preceding(then).next().map(|change| change.timestamp().as_second());
        let to = zone.following(now).next().map(|change| change.timestamp().as_second());
        let before = from.and_then(|from| Timestamp::from_second(from - 1).ok());
        let before = before.map_or(offset, |before| i64::from(zone.to_offset(before).seconds()));
        Some(Self { from: from.unwrap_or(-FAR), to: to.unwrap_or(FAR), offset, before })
    }
}

pub(super) fn date_of(local: i64) -> Option<Date> {
    Some(Offset::UTC.to_datetime(Timestamp::from_second(local).ok()?).date())
}

fn seconds_of(date: Date) -> Option<i64> {
    let midnight = Offset::UTC.to_timestamp(date.at(0, 0, 0, 0)).ok()?;
    Some(midnight.as_second())
}

/// The hour, minute and second of a time of day.
pub(super) fn parts(time: i64) -> (u32, u32, u32) {
    let time = time as u32;
    (time / 3_600, time / 60 % 60, time % 60)
}

fn time_of(hour: u32, minute: u32, second: u32) -> i64 {
    i64::from(hour * 3_600 + minute * 60 + second)
}
