//! The guide's reference tables name what the program and its OpenAPI document name: no more, no less.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Value, json};

use crate::harness::*;

type Names = BTreeSet<String>;

/// A page of the guide, or the part below one of its headings.
fn page(name: &str, heading: Option<&str>) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/guide/{name}.md"));
    let text = std::fs::read_to_string(path).unwrap();
    let Some(heading) = heading else { return text };
    let opening = format!("\n## {heading}\n");
    let below = text.split(&opening).nth(1).unwrap_or_else(|| panic!("{name}: no {heading}"));
    below.split("\n## ").next().unwrap().to_owned()
}

/// The words in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// The words in backticks of a column of the text's tables.
fn column(text: &str, number: usize) -> Names {
    let rows = text.lines().filter(|line| line.starts_with("| "));
    rows.flat_map(|row| quoted(row.split('|').nth(number + 1).unwrap()))
        .map(str::to_owned)
        .collect()
}

fn document() -> Value {
    serde_json::from_str(include_str!("../../../openapi/openapi.json")).unwrap()
}

/// The fields of a schema.
fn fields(schema: &str) -> Names {
    let document = document();
    let properties = document["components"]["schemas"][schema]["properties"].as_object();
    properties.unwrap_or_else(|| panic!("no {schema}")).keys().cloned().collect()
}

#[tokio::test]
async fn the_flags_are_those_of_serve() {
    let help = Launch::command(["serve", "--help"]).finish().await.stdout;
    let table = page("flags", None);
    let words = |mark: &'static str| {
        let lines = help.lines().map(str::trim).filter_map(move |line| line.strip_prefix(mark));
        lines.map(|rest| rest.split([' ', '=', ']']).next().unwrap().to_owned())
    };
    let mut flags: Names = words("--").map(|name| format!("--{name}")).collect();
    assert!(flags.remove("--help") || flags.len() > 20, "{flags:?}");
    assert_eq!(column(&table, 0), flags);
    for variable in words("[env: ") {
        let flag = format!("--{}", variable["DUEQ_".len()..].to_lowercase().replace('_', "-"));
        let told = flags.contains(&flag) || table.contains(&format!("`{variable}`"));
        assert!(told, "{variable} is not its flag's name, and not in the table");
    }
    for default in words("[default: ") {
        assert!(column(&table, 1).contains(&default), "the default {default}");
    }
    // The chart's settings are those that it does not set by other values, and that make sense in its Pods.
    let schema: Value =
        serde_json::from_str(include_str!("../../../docker/helm/values.schema.json")).unwrap();
    let settings = schema["properties"]["settings"]["patternProperties"].as_object().unwrap();
    let pattern = settings.keys().next().unwrap().trim_matches(['^', '(', ')', '$']);
    flags.retain(|flag| {
        let own = "listen api-key api-key-file insecure allow-host tls-cert tls-key tls-client-ca \
            addr-file sentinel-master data-dir fsync signing-secret signing-secret-file";
        let redis = flag.starts_with("--redis-") && flag != "--redis-timeout-ms";
        !redis && !own.split_whitespace().any(|own| flag[2..] == *own)
    });
    assert_eq!(pattern.split('|').map(|name| format!("--{name}")).collect::<Names>(), flags);
}

#[test]
fn the_error_codes_are_those_of_the_document() {
    let document = document();
    let mut codes: Names = ["route_not_found".to_owned()].into();
    for operation in
        document["paths"].as_object().unwrap().values().flat_map(|path| path.as_object().unwrap())
    {
        for response in
            operation.1["responses"].as_object().into_iter().flat_map(|all| all.values())
        {
            let told = response["description"].as_str().unwrap_or_default();
            let before = told.split("; ").filter_map(|part| part.split_once(": "));
            codes.extend(before.flat_map(|(before, _)| quoted(before).map(str::to_owned)));
        }
    }
    assert_eq!(column(&page("errors", None), 1), codes);
}

#[test]
fn the_routes_are_those_of_the_document() {
    let document = document();
    let mut routes = Names::new();
    for (path, item) in document["paths"].as_object().unwrap() {
        let methods = item.as_object().unwrap().keys().filter(|name| *name != "parameters");
        routes.extend(methods.map(|method| format!("{} {path}", method.to_uppercase())));
    }
    assert_eq!(column(&page("api", None), 0), routes);
}

#[test]
fn the_fields_are_those_of_the_document() {
    assert_eq!(column(&page("messages", Some("Fields of a publish")), 0), fields("PublishRequest"));
    assert_eq!(column(&page("topics", Some("Settings")), 0), fields("PutTopicRequest"));
    assert_eq!(column(&page("callbacks", Some("Settings of `push`")), 0), fields("PushRequest"));
    let schedule = column(&page("schedules", Some("Fields")), 0);
    assert_eq!(schedule, fields("PutScheduleRequest"));
    let mut lease = fields("LeaseRequest");
    lease.extend(fields("LeaseFromTopicsRequest"));
    assert_eq!(column(&page("workers", Some("Fields of a lease request")), 0), lease);
}

#[tokio::test]
async fn the_metrics_are_those_of_a_server() {
    let redis = Redis::start().await;
    let dueq = Dueq::calling(&redis).start().await;
    let client = dueq.client();
    client.published("metrics", json!({"payload": 1})).await;
    let lease = client.post("/topics/metrics/lease", &json!({})).await.expect(200);
    assert_eq!(lease.json()["messages"].as_array().unwrap().len(), 1);
    let receiver = Receiver::start().await;
    client.post("/callbacks", &json!({"url": receiver.url("/")})).await.expect(201);
    eventually("the callback is done", || async {
        (client.total("_callbacks", "acked").await == 1).then_some(())
    })
    .await;
    let metrics = client.get_path("/metrics").await.expect(200);
    let metrics = String::from_utf8_lossy(&metrics.body).into_owned();
    let types = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names = types.map(|line| match line.split_once(' ').unwrap() {
        (name, "counter") => format!("{name}_total"),
        (name, _) => name.to_owned(),
    });
    let mut names: Names = names.collect();
    names.insert("dueq_redis_errors_total".to_owned()); // only after an error
    names.insert("dueq_tls_certificate_not_after_seconds".to_owned()); // only with TLS
    assert_eq!(column(&page("metrics", None), 0), names);
}
