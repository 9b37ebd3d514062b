//! The output of the bench: a table for people, or one JSON object for programs.

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
    /// Duration of a request; in the part `lateness`, the time from due to leased.
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// CPU time of dueq per message; known only for a server that the bench started.
    pub dueq_cpu_us: Option<f64>,
    pub redis_cpu_us: Option<f64>,
    /// Requests that failed or got a wrong response.
    pub failed: u64,
    #[serde(flatten)]
    pub lateness: Option<Lateness>,
}

/// Figures that only the part `lateness` has.
#[derive(Debug, Serialize)]
pub struct Lateness {
    pub p999_ms: u32,
    pub max_ms: u32,
    /// Messages that were leased before their due time.
    pub early: usize,
    /// Messages that were not leased within five seconds.
    pub missing: usize,
}

/// Everything that a run measured.
#[derive(Debug, Default)]
pub struct Report {
    pub rows: Vec<Row>,
}

impl Report {
    /// The report as JSON: dueq's version and the rows.
    pub fn to_json(&self) -> Value {
        json!({"version": env!("CARGO_PKG_VERSION"), "rows": self.rows})
    }

    /// The report as a table.
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
                "{:<26}{:>11}{:>12.0}{:>10.2}{:>10.2}{:>13}{:>14}",
                row.operation,
                row.connections,
                row.per_s,
                row.p50_ms,
                row.p99_ms,
                micros(row.dueq_cpu_us),
                micros(row.redis_cpu_us),
            );
            if row.failed > 0 {
                let _ = writeln!(notes, "{}: {} requests failed", row.operation, row.failed);
            }
            if let Some(Lateness { p999_ms, max_ms, early, missing }) = &row.lateness {
                let _ = writeln!(
                    notes,
                    "{}: from the due time to the lease; p99.9 {p999_ms} ms, {max_ms} ms at most, {early} early, {missing} missing",
                    row.operation
                );
            }
        }
        text + "Rates count messages, CPU is of one message. Payloads have 200 bytes.\n" + &notes
    }
}
