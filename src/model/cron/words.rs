//! What an expression means, in words: `every day at 09:00`. Only of expressions that have few.

use super::{Cron, DAY_OF_MONTH, MONTH, MONTHS, WEEKDAYS};

/// Times of day that are listed, at most.
const MAX_TIMES: usize = 4;
/// Days and months that are listed, at most; a range counts as one.
const MAX_LISTED: usize = 7;

impl Cron {
    /// What it means, in words; `None` where that takes many.
    pub fn words(&self) -> Option<String> {
        let is_plain = self.nearest == 0 && self.nth == [0; 6];
        let is_any_day = self.days == DAY_OF_MONTH.all();
        // Sunday comes last.
        let weekdays = (self.weekdays >> 1) | (self.weekdays & 1) << 6;
        let is_any_weekday = weekdays == 0x7f;
        if !is_plain || self.last_day || self.last_working_day {
            return None;
        }
        let names: Vec<_> = WEEKDAYS.split(' ').cycle().skip(1).take(7).collect();
        let weekdays = || Some(format!(" on {}", ranges(weekdays, |day| names[day].to_owned())?));
        let days =
            || Some(format!(" on day {} of the month", ranges(self.days, |day| day.to_string())?));
        let when = match (is_any_day, is_any_weekday) {
            (true, true) => String::new(),
            (true, false) => weekdays()?,
            (false, true) => days()?,
            (false, false) if self.both_days => return None,
            (false, false) => format!("{} or{}", weekdays()?, days()?),
        };
        let time = self.time_words()?;
        let every_day = if when.is_empty() && time.starts_with("at") { "every day " } else { "" };
        let mut words = format!("{every_day}{time}{when}");
        if self.months != MONTH.all() {
            let names: Vec<_> = MONTHS.split(' ').collect();
            words += &format!(" in {}", ranges(self.months, |month| names[month - 1].to_owned())?);
        }
        Some(words)
    }

    /// When within a day. A time of day begins with `at`.
    fn time_words(&self) -> Option<String> {
        let (minutes, hours) = (values(self.minutes), values(self.hours));
        let hour_step = step(self.hours, 24).filter(|hours| *hours < 12);
        match (step(self.minutes, 60), hour_step) {
            (Some(1), Some(1)) if self.seconds != 1 => {
                Some(every(step(self.seconds, 60)?, "second"))
            }
            _ if self.seconds != 1 => None,
            (Some(n), Some(1)) => Some(every(n, "minute")),
            (Some(n), None) => {
                let (first, last) = (hours.first()?, hours.last()?);
                let in_a_row = last - first + 1 == hours.len();
                in_a_row
                    .then(|| format!("{} from {first:02}:00 to {last:02}:59", every(n, "minute")))
            }
            (None, Some(n)) if minutes == [0] => Some(every(n, "hour")),
            (None, Some(n)) if minutes.len() <= MAX_TIMES => {
                let past = minutes.iter().map(|minute| format!(":{minute:02}"));
                Some(format!("{} at {}", every(n, "hour"), list(past)))
            }
            (None, None) if minutes.len() * hours.len() <= MAX_TIMES => {
                let at = |hour| minutes.iter().map(move |minute| format!("{hour:02}:{minute:02}"));
                Some(format!("at {}", list(hours.iter().flat_map(at))))
            }
            _ => None,
        }
    }
}

/// The values whose bits are set.
fn values(bits: u64) -> Vec<usize> {
    (0..64).filter(|value| bits >> value & 1 == 1).collect()
}

/// The n where the bits are each n-th of `size`, evenly, from 0 on.
fn step(bits: u64, size: usize) -> Option<u64> {
    let of = |n: &usize| (0..size).step_by(*n).fold(0, |bits, value| bits | 1 << value);
    let mut steps = (1..size).filter(|n| size.is_multiple_of(*n));
    steps.find(|n| of(n) == bits).map(|n| n as u64)
}

/// `every minute`, `every 5 minutes`.
pub(crate) fn every(count: u64, unit: &str) -> String {
    if count == 1 { format!("every {unit}") } else { format!("every {count} {unit}s") }
}

/// `a`, `a and b`, `a, b and c`.
fn list(words: impl Iterator<Item = String>) -> String {
    match &words.collect::<Vec<_>>()[..] {
        [before @ .., last] if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        words => words.concat(),
    }
}

/// Values as a list in which three or more in a row are a range.
fn ranges(bits: u64, name: impl Fn(usize) -> String) -> Option<String> {
    let values = values(bits);
    let rows = values.chunk_by(|a, b| a + 1 == *b).flat_map(|row| match row {
        [first, _, .., last] => vec![format!("{} to {}", name(*first), name(*last))],
        few => few.iter().map(|value| name(*value)).collect(),
    });
    let rows: Vec<_> = rows.collect();
    (rows.len() <= MAX_LISTED).then(|| list(rows.into_iter()))
}

#[cfg(test)]
mod tests {
    use super::Cron;

    fn words(expr: &str) -> Option<String> {
        Cron::parse(expr).unwrap().words()
    }

    #[test]
    fn usual_expressions_have_words() {
        for (expr, expected) in [
            ("* * * * *", "every minute"),
            ("*/5 * * * *", "every 5 minutes"),
            ("0 * * * *", "every hour"),
            ("15,45 * * * *", "every hour at :15 and :45"),
            ("0 */2 * * *", "every 2 hours"),
            ("30 */6 * * *", "every 6 hours at :30"),
            ("0 9 * * *", "every day at 09:00"),
            ("0 9 ? * ?", "every day at 09:00"),
            ("30 8,20 * * *", "every day at 08:30 and 20:30"),
            ("0 9 * * MON-FRI", "at 09:00 on Monday to Friday"),
            ("0 9 * * 0,6", "at 09:00 on Saturday and Sunday"),
            ("0 9 * * 5-7", "at 09:00 on Friday to Sunday"),
            ("0 9 1,15 * *", "at 09:00 on day 1 and 15 of the month"),
            ("0 0 13 * fri", "at 00:00 on Friday or on day 13 of the month"),
            ("0 0 1 JAN,Jul *", "at 00:00 on day 1 of the month in January and July"),
            ("* * * * * *", "every second"),
            ("*/10 * * * * *", "every 10 seconds"),
            ("*/15 * * * SAT", "every 15 minutes on Saturday"),
            (
                "*/15 8-18 * * monday-Fri",
                "every 15 minutes from 08:00 to 18:59 on Monday to Friday",
            ),
            ("* 9 * * *", "every minute from 09:00 to 09:59"),
            ("@daily", "every day at 00:00"),
            (" @Hourly ", "every hour"),
            ("0 9 ? * 2-6", "at 09:00 on Tuesday to Saturday"),
            ("0 9 * * FRI-MON", "at 09:00 on Monday and Friday to Sunday"),
            ("5/15 * * * *", "every hour at :05, :20, :35 and :50"),
            ("0 */12 * * *", "every day at 00:00 and 12:00"),
            ("0 9 * DEC-FEB *", "every day at 09:00 in January, February and December"),
        ] {
            assert_eq!(words(expr).as_deref(), Some(expected), "{expr}");
        }
    }

    #[test]
    fn what_takes_many_words_has_none() {
        for expr in [
            "0 9 L * *",
            "0 9 15W * *",
            "0 9 * * MON#1",
            "*/7 * * * *",
            "*/5 8,18 * * *",
            "0,10,20,30,50 * * * *",
            "5 0 9 * * *",
            "0 9 */2 * *",
            "0 9 13 * +FRI",
            "0 9 13 * +5",
            "*/5 22-2 * * *",
        ] {
            assert_eq!(words(expr), None, "{expr}");
        }
    }
}
