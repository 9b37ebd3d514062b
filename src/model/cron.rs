//! Cron expressions: a grammar that refuses what it does not know. Each field becomes a set of bits; [`search`] finds the
//! ticks.
//!
//! Like Vixie's cron: if both days are given, either matches, unless one begins with `*`. A tick that the change to summer
//! time skips comes once, at the first moment after the gap, and one that occurs twice comes the first time. If the
//! second, the minute or the hour begins with `*`, the ticks follow elapsed time instead: those in the gap are left out,
//! and those that occur twice come twice.

mod search;
pub(super) mod words;

use search::DAY;

/// 2000-01-01 and the 28 years that follow, which have all the years that there are: leap or not, with any first weekday.
const ALL_YEARS: (i64, i64) = (946_684_800, 946_684_800 + (28 * 365 + 7) * DAY);

/// A field of an expression.
struct Field {
    name: &'static str,
    low: u32,
    high: u32,
    /// The names of the values from `low` on.
    names: &'static str,
    takes: &'static str,
}

const MONTHS: &str =
    "January February March April May June July August September October November December";
const WEEKDAYS: &str = "Sunday Monday Tuesday Wednesday Thursday Friday Saturday";

type Text = &'static str;

const fn field(name: Text, low: u32, high: u32, names: Text, takes: Text) -> Field {
    Field { name, low, high, names, takes }
}

const SECOND: Field = field("second", 0, 59, "", "0-59");
const MINUTE: Field = field("minute", 0, 59, "", "0-59");
const HOUR: Field = field("hour", 0, 23, "", "0-23");
const DAY_OF_MONTH: Field = field("day of the month", 1, 31, "", "1-31, ?, L, LW or W as in 15W");
const MONTH: Field = field("month", 1, 12, MONTHS, "1-12 or JAN-DEC");
const DAY_OF_WEEK: Field = field(
    "day of the week",
    0,
    7,
    WEEKDAYS,
    "0-7 or SUN-SAT (0 and 7 are Sunday), ?, L as in 5L or # as in MON#2",
);

/// Why a text is no cron expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCron {
    /// Not as many fields as there must be.
    #[error(
        "must have 5 fields (minute, hour, day of the month, month, day of the week), 6 with seconds first, or be one \
            of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly"
    )]
    Fields,
    /// A field that cannot be read: which, with what item, and what it takes.
    #[error("{0}")]
    Field(String),
    /// No day fits.
    #[error("never comes: no month of any year has such a day")]
    Never,
}

/// A cron expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cron {
    seconds: u64,
    minutes: u64,
    hours: u64,
    months: u64,
    days: u64,
    /// Days whose nearest working day is meant.
    nearest: u64,
    last_day: bool,
    last_working_day: bool,
    weekdays: u64,
    /// Weekdays of which the first, second, … fifth or the last one in the month is meant.
    nth: [u64; 6],
    /// Both days must match. Otherwise either.
    both_days: bool,
    /// The ticks follow elapsed time.
    elapsed: bool,
    /// A weekday may be meant as Quartz counts them.
    like_quartz: bool,
}

impl Cron {
    /// Reads an expression. Errors: also for one that no day ever fits.
    pub fn parse(text: &str) -> Result<Self, InvalidCron> {
        let text = alias(text.trim_ascii()).unwrap_or(text);
        let mut fields: Vec<&str> = text.split_ascii_whitespace().collect();
        if fields.len() == 5 {
            fields.insert(0, "0");
        }
        let [second, minute, hour, day, month, weekday] = fields[..] else {
            return Err(InvalidCron::Fields);
        };
        let mut cron = Self::default();
        cron.seconds = SECOND.read(second, |item| SECOND.values(item))?;
        cron.minutes = MINUTE.read(minute, |item| MINUTE.values(item))?;
        cron.hours = HOUR.read(hour, |item| HOUR.values(item))?;
        cron.days = DAY_OF_MONTH.read(day, |item| cron.day(item))?;
        cron.months = MONTH.read(month, |item| MONTH.values(item))?;
        let bare = weekday.strip_prefix('+');
        cron.weekdays = DAY_OF_WEEK.read(bare.unwrap_or(weekday), |item| cron.weekday(item))?;
        let is_star = |field: &str| field.starts_with(['*', '?']);
        cron.both_days = bare.is_some() || is_star(day) || is_star(weekday);
        cron.elapsed = [second, minute, hour].into_iter().any(is_star);
        let counts = |item: &str| {
            item.split(['#', '/']).next().unwrap_or_default().contains(|c: char| c.is_ascii_digit())
        };
        cron.like_quartz = day == "?" && weekday.split(',').any(counts);
        cron.first(ALL_YEARS.0, ALL_YEARS.1).ok_or(InvalidCron::Never)?;
        Ok(cron)
    }

    /// What its author may have meant otherwise.
    pub fn warning(&self) -> Option<&'static str> {
        self.like_quartz.then_some(
            "in the day of the week, 0 and 7 are Sunday and 1 is Monday; in Quartz, where `?` comes from, 1 is Sunday",
        )
    }

    /// An item of the day of the month that is no value, or its values.
    fn day(&mut self, item: &str) -> Result<u64, String> {
        let upper = item.to_ascii_uppercase();
        match (upper.as_str(), upper.strip_suffix('W')) {
            ("L", _) => self.last_day = true,
            ("LW", _) => self.last_working_day = true,
            (_, Some(day)) => self.nearest |= 1 << DAY_OF_MONTH.value(day)?,
            _ => return DAY_OF_MONTH.values(item),
        }
        Ok(0)
    }

    fn weekday(&mut self, item: &str) -> Result<u64, String> {
        let upper = item.to_ascii_uppercase();
        let (weekday, place) = match (upper.split_once('#'), upper.strip_suffix('L')) {
            (Some((weekday, place)), _) => (weekday, place),
            (None, Some(weekday)) if !weekday.is_empty() => (weekday, "L"),
            _ => return DAY_OF_WEEK.values(item),
        };
        let place = ["1", "2", "3", "4", "5", "L"].iter().position(|known| *known == place);
        let place = place.ok_or_else(|| format!("after # in `{item}` comes 1 to 5 or L"))?;
        self.nth[place] |= 1 << (DAY_OF_WEEK.value(weekday)? % 7);
        Ok(0)
    }
}

impl Field {
    /// All values, as bits.
    const fn all(&self) -> u64 {
        (2_u64 << self.high) - (1_u64 << self.low)
    }

    /// Reads a field, item by item.
    fn read(
        &self,
        given: &str,
        mut item: impl FnMut(&str) -> Result<u64, String>,
    ) -> Result<u64, InvalidCron> {
        let Self { name, takes, .. } = self;
        let refused = |reason| {
            InvalidCron::Field(format!(
                "the {name} `{given}` is not valid: it takes {takes}, with lists, ranges and steps; {reason}"
            ))
        };
        let mut items = given.split(',').map(|text| item(text).map_err(refused));
        items.try_fold(0, |bits, item| Ok(bits | item?))
    }

    /// The values of an item, as bits. A range whose end is before its start goes on from the lowest value.
    fn values(&self, item: &str) -> Result<u64, String> {
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => (range, Some(self.step(item, step)?)),
            None => (item, None),
        };
        let is_day = self.high == DAY_OF_MONTH.high || self.high == DAY_OF_WEEK.high;
        let (from, to) = match range.split_once('-') {
            _ if range == "*" || (item == "?" && is_day) => (self.low, self.high),
            Some((from, to)) => (self.value(from)?, self.value(to)?),
            None => {
                let from = self.value(range)?;
                (from, if step.is_some() { self.high } else { from })
            }
        };
        let count = if self.high == DAY_OF_WEEK.high { 7 } else { self.high - self.low + 1 };
        let to = if from > to { to + count } else { to };
        let values = (from..=to).step_by(step.unwrap_or(1));
        Ok(values.fold(0, |bits, value| bits | 1 << (self.low + (value - self.low) % count)))
    }

    fn step(&self, item: &str, text: &str) -> Result<usize, String> {
        let step = digits(text).filter(|step| (1..=self.high).contains(step));
        let step =
            step.ok_or_else(|| format!("the step of `{item}` must be from 1 to {}", self.high))?;
        Ok(step as usize)
    }

    /// A number, or a name in full or by its first three letters.
    fn value(&self, text: &str) -> Result<u32, String> {
        let named =
            |name: &str| name.eq_ignore_ascii_case(text) || name[..3].eq_ignore_ascii_case(text);
        let mut names = self.names.split_ascii_whitespace();
        let by_name = || names.position(named).map(|place| self.low + place as u32);
        let value = digits(text).or_else(by_name);
        value.filter(|value| (self.low..=self.high).contains(value)).ok_or_else(|| match text {
            "" => "an item is empty or incomplete".to_owned(),
            _ => format!("`{text}` is none of its values"),
        })
    }
}

/// A number without a sign.
fn digits(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The fields that a name such as `@daily` stands for.
fn alias(text: &str) -> Option<&'static str> {
    Some(match text.to_ascii_lowercase().as_str() {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
