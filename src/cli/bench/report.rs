//! What the bench prints: one table for reading, one JSON object for programs.

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
