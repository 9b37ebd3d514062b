//! What a timing means, in words: `every day at 09:00 in Europe/Berlin`. Only of expressions that have few.

use super::{
    super::cron::{alias, digits},
    CronTiming, Timing,
};
use std::ops::RangeInclusive;

const DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: &str =
    "January February March April May June July August September October November December";
/// Times of day that are listed, at most.
const MAX_TIMES: usize = 4;

/// A field of an expression.
#[derive(PartialEq)]
enum Field {
    /// All values.
    Any,
    /// Every n-th from the first on, evenly.
    Step(usize),
    /// These, in order.
    These(Vec<usize>),
}

impl Field {
    /// Reads numbers, names, ranges, lists and even steps; `names` are those of the first values.
    fn read(text: &str, values: RangeInclusive<usize>, names: &[&str]) -> Option<Self> {
        let (low, size) = (*values.start(), values.clone().count());
        if matches!(text, "*" | "?" | "*/1") {
            return Some(Self::Any);
        }
        if let Some(step) = text.strip_prefix("*/") {
            return step.parse().ok().filter(|n| *n > 0 && size.is_multiple_of(*n)).map(Self::Step);
        }
        let value = |text: &str| {
            let is_name =
                |name: &&str| [name, &name[..3]].iter().any(|it| it.eq_ignore_ascii_case(text));
            let named = names.iter().position(is_name).map(|at| at + low);
            named.or_else(|| digits(text)?.try_into().ok()).filter(|value| values.contains(value))
        };
        let mut these = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (value(first)?, value(last)?);
            if first > last {
                return None;
            }
            these.extend(first..=last);
        }
        these.sort_unstable();
        these.dedup();
        (!these.is_empty()).then_some(Self::These(these))
    }
}

/// `a`, `a and b`, `a, b and c`.
fn list(words: &[String]) -> String {
    match words {
        [before @ .., last] if !before.is_empty() => format!("{} and {last}", before.join(", ")),
        _ => words.concat(),
    }
}

/// Values as a list in which three or more in a row are a range.
fn ranges(values: &[usize], name: impl Fn(usize) -> String) -> String {
    let rows = values.chunk_by(|a, b| a + 1 == *b).flat_map(|row| match row {
        [first, _, .., last] => vec![format!("{} to {}", name(*first), name(*last))],
        few => few.iter().map(|value| name(*value)).collect(),
    });
    list(&rows.collect::<Vec<_>>())
}

/// `every minute`, `every 5 minutes`.
fn every(count: usize, unit: &str) -> String {
    if count == 1 { format!("every {unit}") } else { format!("every {count} {unit}s") }
}

/// When within a day. A time of day begins with `at`.
fn time_of(second: &Field, minute: &Field, hour: &Field) -> Option<String> {
    use Field::{Any, Step, These};
    if !matches!(second, These(at) if **at == [0]) {
        return match (second, minute, hour) {
            (Any, Any, Any) => Some(every(1, "second")),
            (Step(n), Any, Any) => Some(every(*n, "second")),
            _ => None,
        };
    }
    let past = |minutes: &[usize]| {
        (minutes.len() <= MAX_TIMES).then(|| {
            list(&minutes.iter().map(|minute| format!(":{minute:02}")).collect::<Vec<_>>())
        })
    };
    let unit = |n: usize, minutes: &[usize]| match minutes {
        [0] => Some(every(n, "hour")),
        _ => Some(format!("{} at {}", every(n, "hour"), past(minutes)?)),
    };
    // Hours in a row.
    let within = |hours: &[usize]| match hours {
        [first, .., last] if last - first + 1 == hours.len() => {
            Some(format!(" from {first:02}:00 to {last:02}:59"))
        }
        [only] => Some(format!(" from {only:02}:00 to {only:02}:59")),
        _ => None,
    };
    match (minute, hour) {
        (Any, Any) => Some(every(1, "minute")),
        (Step(n), Any) => Some(every(*n, "minute")),
        (Any, These(hours)) => Some(every(1, "minute") + &within(hours)?),
        (Step(n), These(hours)) => Some(every(*n, "minute") + &within(hours)?),
        (These(minutes), Any) => unit(1, minutes),
        (These(minutes), Step(n)) => unit(*n, minutes),
        (These(minutes), These(hours)) if minutes.len() * hours.len() <= MAX_TIMES => {
            let at = |hour| minutes.iter().map(move |minute| format!("{hour:02}:{minute:02}"));
            Some(format!("at {}", list(&hours.iter().flat_map(at).collect::<Vec<_>>())))
        }
        _ => None,
    }
}

fn of_cron(expr: &str) -> Option<String> {
    // A `+` before a day of the week, and a day that begins with `*`, make the two days mean something else.
    let expr = alias(expr.trim()).unwrap_or(expr);
    let mut fields: Vec<&str> = expr.split_ascii_whitespace().collect();
    if fields.len() == 5 {
        fields.insert(0, "0");
    }
    let [second, minute, hour, day, month, weekday] = fields[..] else { return None };
    let read = |text, values| Field::read(text, values, &[]);
    let time = time_of(&read(second, 0..=59)?, &read(minute, 0..=59)?, &read(hour, 0..=23)?)?;
    let sunday_first: Vec<_> = DAYS[6..].iter().chain(&DAYS).copied().collect();
    let mut when = Vec::new();
    match Field::read(weekday, 0..=7, &sunday_first)? {
        Field::Any => {}
        Field::Step(_) => return None,
        Field::These(days) => {
            let mut days: Vec<_> = days.into_iter().map(|day| (day + 6) % 7).collect();
            days.sort_unstable();
            days.dedup();
            when.push(format!("on {}", ranges(&days, |day| DAYS[day].to_owned())));
        }
    }
    match read(day, 1..=31)? {
        Field::Any => {}
        Field::Step(_) => return None,
        Field::These(days) => {
            when.push(format!("on day {} of the month", ranges(&days, |day| day.to_string())));
        }
    }
    let days = when.join(" or ");
    let mut words = match (time.starts_with("at"), days.as_str()) {
        (true, "") => format!("every day {time}"),
        (false, "") => time,
        _ => format!("{time} {days}"),
    };
    let months: Vec<_> = MONTHS.split(' ').collect();
    match Field::read(month, 1..=12, &months)? {
        Field::Any => {}
        Field::Step(_) => return None,
        Field::These(these) => {
            words += &format!(" in {}", ranges(&these, |month| months[month - 1].to_owned()));
        }
    }
    Some(words)
}

impl Timing {
    /// What it means, in words; `None` where that takes many.
    pub fn words(&self) -> Option<String> {
        match self {
            Self::Cron(cron) => cron.words(),
            Self::Every { every_ms, .. } => {
                let units = [(86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute")];
                let units = units.into_iter().chain([(1_000, "second"), (1, "millisecond")]);
                let mut fitting = units.filter(|(ms, _)| every_ms % ms == 0);
                fitting.next().map(|(ms, unit)| every((every_ms / ms) as usize, unit))
            }
        }
    }
}

impl CronTiming {
    fn words(&self) -> Option<String> {
        self.read.as_ref().ok()?;
        of_cron(self.expr()).map(|words| format!("{words} in {}", self.timezone()))
    }
}

#[cfg(test)]
mod tests {
    use super::of_cron;

    #[test]
    fn usual_expressions_have_words() {
        for (expr, words) in [
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
        ] {
            assert_eq!(of_cron(expr).as_deref(), Some(words), "{expr}");
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
            "0 9 * * FRI-MON",
            "0 1,22-2 * * *",
            "5/15 * * * *",
        ] {
            assert_eq!(of_cron(expr), None, "{expr}");
        }
    }
}
