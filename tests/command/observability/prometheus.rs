//! A Prometheus of a test's own, which scrapes four times a second.

use std::path::Path;
use std::process::{Command, Stdio};

use reqwest::Client as Http;
use serde_json::Value;

use crate::harness::*;

/// A Prometheus that runs.
pub struct Prometheus {
    _process: Process,
    url: String,
    http: Http,
}

impl Prometheus {
    /// Scrapes the dueq at this address as job `dueq`, and evaluates these rules.
    pub async fn start(addr: &str, rules: &str) -> Prometheus {
        let (dir, port) = (temp_dir("prometheus"), free_port());
        let write = |name: &str, text: &str| std::fs::write(dir.join(name), text).unwrap();
        write("rules.yaml", rules);
        write(
            "prometheus.yaml",
            &format!(
                "global: {{scrape_interval: 250ms, scrape_timeout: 250ms, evaluation_interval: 250ms}}\n\
                 rule_files: [rules.yaml]\n\
                 scrape_configs: [{{job_name: dueq, static_configs: [{{targets: [\"{addr}\"]}}]}}]\n"
            ),
        );
        let this = Prometheus {
            _process: launch(&dir, port),
            url: format!("http://127.0.0.1:{port}/api/v1"),
            http: Http::builder().no_proxy().build().unwrap(),
        };
        eventually("prometheus is ready", || async {
            let ready = this.http.get(format!("http://127.0.0.1:{port}/-/ready")).send().await;
            ready.is_ok_and(|answer| answer.status().is_success()).then_some(())
        })
        .await;
        this
    }

    /// What the API answers here with these parameters.
    pub async fn get(&self, path: &str, query: &[(&str, &str)]) -> Value {
        let mut url = reqwest::Url::parse(&format!("{}/{path}", self.url)).unwrap();
        url.query_pairs_mut().extend_pairs(query);
        let answer = self.http.get(url).send().await.unwrap();
        let body = answer.bytes().await.unwrap();
        let answer: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(answer["status"], "success", "{path} {query:?}: {answer}");
        answer["data"].clone()
    }

    /// The samples that an expression gives now.
    pub async fn query(&self, expression: &str) -> Vec<Value> {
        let data = self.get("query", &[("query", expression)]).await;
        data["result"].as_array().unwrap().clone()
    }

    /// The labels of the alerts that fire.
    pub async fn firing(&self) -> Vec<Value> {
        let data = self.get("alerts", &[]).await;
        let alerts = data["alerts"].as_array().unwrap().iter();
        let firing = alerts.filter(|alert| alert["state"] == "firing");
        firing.map(|alert| alert["labels"].clone()).collect()
    }
}

fn launch(dir: &Path, port: u16) -> Process {
    let found = Command::new("prometheus").arg("--version").stderr(Stdio::null()).output();
    assert!(found.is_ok(), "no prometheus: `tests/setup.sh prometheus` installs it");
    Process::start(
        Command::new("prometheus")
            .arg(format!("--config.file={}", dir.join("prometheus.yaml").display()))
            .arg(format!("--storage.tsdb.path={}", dir.join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(dir.join("stderr")).unwrap()),
    )
}
