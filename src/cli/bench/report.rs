//! What the bench prints: tables for people, one JSON object for machines.

use std::fmt::Write;

use serde_json::{Value, json};

use super::targets::{self, Verdict};

/// A table: the first column to the left, numbers to the right.
#[derive(Debug, Clone)]
pub struct Table {
    title: String,
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl Table {
    /// An empty table.
    pub fn new(title: &str, columns: &[&str]) -> Self {
        Self {
            title: title.to_owned(),
            columns: columns.iter().map(ToString::to_string).collect(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a row; cells beyond the columns are not shown.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// Adds a line below the table.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// The table as text, with a line at its end.
    pub fn render(&self) -> String {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells
                .chain(self.columns.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.columns.len()).map(width).collect();
        let mut text = format!("{}\n", self.title);
        let mut line = |cells: &[String]| {
            let mut out = String::from(" ");
            for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
                // Writing to a String cannot fail.
                let _ = match column {
                    0 => write!(out, " {cell:<width$}"),
                    _ => write!(out, "  {cell:>width$}"),
                };
            }
            text.push_str(out.trim_end());
            text.push('\n');
        };
        line(&self.columns);
        let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
        line(&rules);
        for row in &self.rows {
            line(row);
        }
        for note in &self.notes {
            let _ = writeln!(text, "  * {note}");
        }
        text
    }
}

/// What one part of the bench has to say.
#[derive(Debug)]
pub struct Section {
    /// Its name, as in `--only`.
    pub name: &'static str,
    /// For people.
    pub table: Table,
    /// For machines.
    pub figures: Value,
    /// Figures that a number to reach is about.
    pub verdicts: Vec<Verdict>,
}

/// Everything a run gave.
#[derive(Debug, Default)]
pub struct Report {
    sections: Vec<Section>,
}

impl Report {
    /// Takes in a part.
    pub fn add(&mut self, section: Section) {
        self.sections.push(section);
    }

    fn verdicts(&self) -> Vec<Verdict> {
        let all = self.sections.iter().flat_map(|section| &section.verdicts);
        all.copied().collect()
    }

    /// All tables, and the numbers to reach at the end.
    pub fn render(&self) -> String {
        let mut text = String::new();
        for section in &self.sections {
            text.push_str(&section.table.render());
            text.push('\n');
        }
        text + &targets::table(&self.verdicts()).render()
    }

    /// One object: the parts by name, `targets`, and the version measured.
    pub fn to_json(&self) -> Value {
        let mut object = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "targets": targets::to_json(&self.verdicts()),
        });
        for section in &self.sections {
            object[section.name] = section.figures.clone();
        }
        object
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new("Rates", &["what", "per s", "p50 µs"]);
        table.row(["publish".into(), "12,345".into(), "7".into()]);
        table.row(["ack".into(), "9".into(), "1,234,567".into()]);
        table.note("a note");
        let text = table.render();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Rates");
        assert_eq!(lines[1], "  what      per s     p50 µs");
        assert_eq!(lines[2], "  -------  ------  ---------");
        assert_eq!(lines[3], "  publish  12,345          7");
        assert_eq!(lines[4], "  ack           9  1,234,567");
        assert_eq!(lines[5], "  * a note");
    }

    #[test]
    fn a_report_is_one_object() {
        let mut report = Report::default();
        report.add(Section {
            name: "idle",
            table: Table::new("Idle", &["what"]),
            figures: json!({"commands_per_s": 12.5}),
            verdicts: vec![Verdict { target: targets::Target::Idle, measured: 12.5 }],
        });
        let object = report.to_json();
        assert_eq!(object["idle"]["commands_per_s"], 12.5);
        assert_eq!(object["targets"][0]["reached"], true);
        assert!(report.render().contains("Numbers to reach"));
    }
}
