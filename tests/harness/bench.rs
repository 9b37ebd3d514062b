//! `dueq bench` as a program that other benches start, and the rows that it prints.

use super::Launch;
use serde_json::Value;
use std::time::Duration;

/// The rows of one `dueq bench`.
pub struct BenchRows(Vec<Value>);

impl BenchRows {
    /// A number of the row of this operation at so many connections.
    pub fn get(&self, operation: &str, connections: usize, name: &str) -> f64 {
        let row = self.0.iter().find(|row| {
            row["operation"].as_str().is_some_and(|name| name.starts_with(operation))
                && row["connections"] == connections
        });
        let row =
            row.unwrap_or_else(|| panic!("no row {operation} at {connections}: {:?}", self.0));
        row[name].as_f64().unwrap_or_else(|| panic!("{operation} has no {name}: {row}"))
    }
}

/// `dueq bench` with so many seconds a measurement and these words; without `--server` it starts a server of its own, which
/// has this environment.
pub async fn dueq_bench(seconds: u64, words: &str, environment: &[(&str, &str)]) -> BenchRows {
    let words = format!("bench --json --seconds {seconds} {words}");
    let mut launch = Launch::command(words.split_whitespace()).limit(Duration::from_secs(600));
    for (name, value) in environment {
        launch = launch.env(name, value);
    }
    let finished = launch.finish().await;
    assert_eq!(finished.code, 0, "dueq {words}: {}", finished.stderr);
    let mut printed: Value = serde_json::from_str(&finished.stdout).expect("JSON");
    BenchRows(printed["rows"].as_array_mut().expect("rows").drain(..).collect())
}
