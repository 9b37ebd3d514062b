//! What stands in `docker/observability`: rules, dashboard and examples for KEDA, judged by promtool and by a Prometheus that
//! scrapes a dueq.

mod live;
mod prometheus;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::harness::*;

/// The directory of what is judged.
fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docker/observability")
}

fn file(name: &str) -> String {
    std::fs::read_to_string(dir().join(name)).unwrap()
}

/// Runs promtool in the directory, with this input.
fn promtool(words: &[&str], input: &Path) {
    let mut command = Command::new("promtool");
    command.args(words).current_dir(dir()).stdin(std::fs::File::open(input).unwrap());
    let output = command.output().expect("no promtool: `tests/setup.sh prometheus` installs it");
    assert!(output.status.success(), "promtool {words:?}: {output:?}");
}

/// The names of metrics in a text of PromQL or YAML: those of dueq and of its process.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c: char| !is_part(c));
    let ours = words.filter(|word| word.starts_with("dueq_") || word.starts_with("process_"));
    ours.map(str::to_owned).collect()
}

/// The expressions of the dashboard's panels.
fn panels() -> Vec<String> {
    let dashboard: Value = serde_json::from_str(&file("grafana.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    targets.map(|target| text(target, "expr").to_owned()).collect()
}

/// What follows this word in the lines of a YAML file, without quotes.
fn values(yaml: &str, word: &str) -> Vec<String> {
    let lines = yaml.lines().map(str::trim).filter_map(|line| line.strip_prefix(word));
    lines.map(|value| value.trim().trim_matches('"').to_owned()).collect()
}

#[test]
#[ignore = "needs promtool: make test-all"]
fn promtool_accepts_the_rules_and_every_alert_fires_when_it_should_and_not_before() {
    let nothing = Path::new("/dev/null");
    promtool(&["check", "rules", "rules.yaml"], nothing);
    promtool(&["test", "rules", "rules.test.yaml"], nothing);
    let alerts = values(&file("rules.yaml"), "- alert:");
    assert_eq!(alerts.len(), 11, "{alerts:?}");
    let tested = file("rules.test.yaml");
    for alert in alerts {
        assert!(tested.contains(&format!("alertname=\"{alert}\"")), "{alert} is not seen to fire");
    }
}

#[tokio::test]
#[ignore = "needs promtool: make test-all"]
async fn promtool_finds_nothing_wrong_with_the_metrics_of_a_server() {
    let redis = Redis::start().await;
    let dueq = Dueq::calling(&redis).start().await;
    let (client, receiver) = (dueq.client(), Receiver::start().await);
    client.published("metrics", json!({"payload": 1})).await;
    client.lease_one("metrics").await;
    client.post("/callbacks", &json!({"url": receiver.url("/")})).await.expect(201);
    receiver.wait_for(1).await;
    let schedule = json!({"every_ms": 1000, "topic": "metrics", "message": {"payload": 1}});
    client.send_json("PUT", "/schedules/metrics", &schedule).await.expect(201);
    let answer =
        client.send("GET", "/metrics", &[("accept", "text/plain")], None).await.expect(200);
    let scraped = temp_dir("promtool").join("metrics");
    std::fs::write(&scraped, &answer.body).unwrap();
    promtool(&["check", "metrics"], &scraped);
}

#[test]
fn every_panel_of_the_dashboard_asks_the_data_source_that_is_chosen() {
    let dashboard: Value = serde_json::from_str(&file("grafana.json")).unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert_eq!(
        (&variables[0]["name"], &variables[0]["type"]),
        (&json!("datasource"), &json!("datasource"))
    );
    let wanted = json!({"type": "prometheus", "uid": "${datasource}"});
    let mut rows = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        if panel["type"] == "row" {
            rows.push(text(panel, "title"));
            continue;
        }
        assert_eq!(panel["datasource"], wanted, "{panel}");
        assert!(!text(panel, "description").is_empty(), "{panel}");
        for target in panel["targets"].as_array().unwrap() {
            assert_eq!(target["datasource"], wanted, "{panel}");
        }
    }
    assert_eq!(rows, ["Overview", "Topic", "Callbacks", "Redis"]);
    assert!(variables[1..].iter().all(|variable| variable["datasource"] == wanted));
}
