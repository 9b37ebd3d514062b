//! What the bench prints: one table for people, one JSON object for programs.

use serde::Serialize;
use serde_json::{Value, json};
use std::fmt::Write;

/// One measurement.
#[derive(Debug, Default, Serialize)]
pub struct Row {
    pub operation: String,
    pub connections: usize,
    pub messages: u64,
    pub per_s: f64,
    /// Of a request; of the part `lateness`: from the due time to the lease.
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// CPU time of dueq for each message; known for a server that the bench started.
    pub dueq_cpu_us: Option<f64>,
    pub redis_cpu_us: Option<f64>,
    /// Requests that were not answered as they should be.
    pub failed: u64,
    #[serde(flatten)]
    pub lateness: Option<Lateness>,
}

/// What only the part `lateness` has.
#[derive(Debug, Serialize)]
pub struct Lateness {
    pub max_ms: u32,
    /// Messages that were leased before their due time.
    pub early: u64,
    /// Messages that were not leased within five seconds.
    pub missing: i64,
}

/// Everything that a run measured.
#[derive(Debug, Default)]
pub struct Report {
    pub rows: Vec<Row>,
}

impl Report {
    /// The version of the bench, and the rows.
    pub fn to_json(&self) -> Value {
        json!({"version": env!("CARGO_PKG_VERSION"), "rows": self.rows})
    }

    /// The table.
    pub fn render(&self) -> String {
        let mut text = format!(
            "{:<26}{:>11}{:>12}{:>10}{:>10}{:>13}{:>14}\n",
            "operation",
            "connections",
            "per second",
            "p50 ms",
            "p99 ms",
            "dueq CPU µs",
            "Redis CPU µs"
        );
        let micros = |cpu: Option<f64>| cpu.map_or_else(|| "-".to_owned(), |us| format!("{us:.1}"));
        let mut notes = String::new();
        for row in &self.rows {
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{:<26}{:>11}{:>12}{:>10.2}{:>10.2}{:>13}{:>14}",
                row.operation,
                row.connections,
                thousands(row.per_s),
                row.p50_ms,
                row.p99_ms,
                micros(row.dueq_cpu_us),
                micros(row.redis_cpu_us),
            );
            if row.failed > 0 {
                let _ = writeln!(notes, "{}: {} requests failed", row.operation, row.failed);
            }
            if let Some(Lateness { max_ms, early, missing }) = &row.lateness {
                let _ = writeln!(
                    notes,
                    "{}: from the due time to the lease; {max_ms} ms at most, {early} early, {missing} missing",
                    row.operation
                );
            }
        }
        text + "Rates count messages, CPU is of one message. Payloads have 200 bytes.\n" + &notes
    }
}

/// A whole number with a comma every three digits: `12,345`.
fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (position, digit) in digits.chars().enumerate() {
        if position > 0 && (digits.len() - position).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let row = Row {
            operation: "publish".to_owned(),
            connections: 64,
            per_s: 1_234_567.2,
            p99_ms: 6.14,
            dueq_cpu_us: Some(22.04),
            failed: 2,
            ..Row::default()
        };
        let text = Report { rows: vec![row] }.render();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0].chars().count(), lines[1].chars().count());
        assert!(lines[1].contains(" 1,234,567 ") && lines[1].contains(" 22.0 "), "{text}");
        assert_eq!(lines[3], "publish: 2 requests failed");
    }

    #[test]
    fn numbers_are_grouped_by_three_digits() {
        assert_eq!(thousands(0.0), "0");
        assert_eq!(thousands(999.6), "1,000");
        assert_eq!(thousands(123_456.0), "123,456");
    }
}
