//! The rows: a figure or a ratio, what it should be, and what it was made of.

use std::fmt::{self, Display, Formatter};

/// What a figure should be.
#[derive(Clone, Copy)]
pub enum Wanted {
    Anything,
    AtLeast(f64),
    AtMost(f64),
    Between(f64, f64),
}

use Wanted::*;

impl Wanted {
    fn is_met(self, figure: f64) -> bool {
        match self {
            Anything => true,
            AtLeast(least) => figure >= least,
            AtMost(most) => figure <= most,
            Between(least, most) => (least..=most).contains(&figure),
        }
    }
}

impl Display for Wanted {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Anything => Ok(()),
            AtLeast(least) => f.pad(&format!(">= {least}")),
            AtMost(most) => f.pad(&format!("<= {most}")),
            Between(least, most) => f.pad(&format!("{least} to {most}")),
        }
    }
}

struct Row {
    what: String,
    figure: Option<f64>,
    wanted: Wanted,
    detail: String,
}

/// What the run measured.
#[derive(Default)]
pub struct Table(Vec<Row>);

impl Table {
    /// A ratio: the median of the rounds' own, so that what drifts from round to round falls out.
    pub fn compare(
        &mut self,
        what: &str,
        wanted: Wanted,
        unit: &str,
        rounds: impl Iterator<Item = Option<(f64, f64)>>,
    ) {
        let Some(rounds) = rounds.collect::<Option<Vec<(f64, f64)>>>() else {
            let other = if what.contains("wrk") { "wrk" } else { "beanstalkd" };
            return self.missing(what, &format!("{other} is missing: apt-get install {other}"));
        };
        let median_of =
            |pick: &dyn Fn(&(f64, f64)) -> f64| median(rounds.iter().map(pick).collect());
        let detail =
            format!("{:.1} / {:.1} {unit}", median_of(&|pair| pair.0), median_of(&|pair| pair.1));
        let figure = Some(median_of(&|(ours, theirs)| ours / theirs));
        self.0.push(Row { what: what.to_owned(), figure, wanted, detail });
    }

    /// A figure by itself: the median of the rounds'.
    pub fn figure(
        &mut self,
        what: &str,
        wanted: Wanted,
        unit: &str,
        rounds: impl IntoIterator<Item = f64>,
    ) {
        let figure = Some(median(rounds.into_iter().collect()));
        self.0.push(Row { what: what.to_owned(), figure, wanted, detail: unit.to_owned() });
    }

    /// Something that could not be measured.
    pub fn missing(&mut self, what: &str, why: &str) {
        let (what, detail) = (what.to_owned(), why.to_owned());
        self.0.push(Row { what, figure: None, wanted: Anything, detail });
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let width = self.0.iter().map(|row| row.what.len()).max().unwrap_or(0);
        for Row { what, figure, wanted, detail } in &self.0 {
            let shown = figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.2}"));
            let met = figure.is_none_or(|figure| wanted.is_met(figure));
            let verdict = if met { "" } else { "MISSED" };
            writeln!(f, "{what:<width$}  {shown:>9}  {wanted:<10}  {verdict:<6}  {detail}")?;
        }
        Ok(())
    }
}

pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
