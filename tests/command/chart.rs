//! The chart in `docker/helm`: helm renders it, the schemas of Kubernetes judge what comes out, and a dueq takes its settings.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::docs::pages::{python, root};
use crate::harness::*;
use crate::redis_tls::TlsRedis;

/// YAML as JSON, checked by the schemas of the oldest Kubernetes that the chart names and of the newest one known. There are
/// none for what operators bring.
const CHECK: &str = "
import json, sys, yaml, kubernetes_validate
found = [document for document in yaml.safe_load_all(sys.stdin) if document]
for document in found:
    if document['kind'] not in ('ServiceMonitor', 'ScaledObject'):
        for version in ('1.30', '1.37'):
            kubernetes_validate.validate(document, version, strict=True)
json.dump(found, sys.stdout)
";

/// Runs helm with this word on the chart and these values.
fn helm(word: &[&str], values: &Value) -> Output {
    let file = temp_dir("helm").join("values.json");
    std::fs::write(&file, values.to_string()).unwrap();
    let mut command = Command::new(python().with_file_name("helm"));
    command.args(word).arg("docker/helm").args(["--kube-version", "1.37.0", "--values"]).arg(file);
    command.current_dir(root()).output().expect("no helm: `tests/setup.sh helm` gets it")
}

/// What these values make, each by its kind.
fn rendered(values: &Value) -> BTreeMap<String, Value> {
    let output = helm(&["template", "q"], values);
    assert!(output.status.success(), "{values}: {}", String::from_utf8_lossy(&output.stderr));
    documents(&output.stdout)
}

fn documents(yaml: &[u8]) -> BTreeMap<String, Value> {
    let mut command = Command::new(python());
    command.args(["-c", CHECK]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(yaml).unwrap();
    let output = child.wait_with_output().unwrap();
    let yaml = String::from_utf8_lossy(yaml);
    assert!(output.status.success(), "{}\n{yaml}", String::from_utf8_lossy(&output.stderr));
    let found: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let number = found.len();
    let by_kind: BTreeMap<_, _> =
        found.into_iter().map(|document| (text(&document, "kind").to_owned(), document)).collect();
    assert_eq!(by_kind.len(), number, "one of each kind:\n{yaml}");
    by_kind
}

/// A Redis and keys, and these values besides.
fn with(more: Value) -> Value {
    let mut values =
        json!({"redis": {"url": "redis://redis:6379/"}, "secrets": {"keys": {"name": "dueq"}}});
    merge(&mut values, more);
    values
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from,
    }
}

fn pod(documents: &BTreeMap<String, Value>) -> &Value {
    &documents["Deployment"]["spec"]["template"]["spec"]
}

/// The variables of the container; each is set once.
fn variables(documents: &BTreeMap<String, Value>) -> BTreeMap<&str, &str> {
    let listed = pod(documents)["containers"][0]["env"].as_array().unwrap();
    let variables: BTreeMap<_, _> =
        listed.iter().map(|one| (text(one, "name"), text(one, "value"))).collect();
    assert_eq!(variables.len(), listed.len(), "{listed:?}");
    variables
}

#[test]
#[ignore = "needs helm: make test-all"]
fn the_chart_makes_what_the_manifest_has_and_passes_the_linter() {
    let lint = helm(&["lint", "--strict"], &with(json!({})));
    assert!(lint.status.success(), "{lint:?}");
    let chart = rendered(&with(json!({})));
    assert_eq!(Vec::from_iter(chart.keys()), ["Deployment", "PodDisruptionBudget", "Service"]);
    let labels = &chart["Deployment"]["metadata"]["labels"];
    assert_eq!(text(labels, "app.kubernetes.io/version"), env!("CARGO_PKG_VERSION"));
    let mut manifest = documents(&std::fs::read(root().join("docker/k8s/dueq.yaml")).unwrap());
    let (ours, theirs) = (pod(&chart), pod(&manifest));
    for field in ["securityContext", "terminationGracePeriodSeconds", "enableServiceLinks"] {
        assert_eq!(ours[field], theirs[field], "{field}");
    }
    let container = |pod: &Value| {
        let mut container = pod["containers"][0].clone();
        for own in ["env", "volumeMounts", "imagePullPolicy"] {
            container.as_object_mut().unwrap().remove(own);
        }
        container
    };
    assert_eq!(container(ours), container(theirs));
    let (ours, mut theirs) = (variables(&chart), variables(&manifest));
    theirs.remove("DUEQ_REDIS_URL_FILE");
    theirs.insert("DUEQ_REDIS_URL", "redis://redis:6379/");
    assert_eq!(ours, theirs);
    manifest.remove("Secret");
    assert!(manifest.keys().eq(chart.keys()), "{:?}", manifest.keys());
}

#[test]
#[ignore = "needs helm: make test-all"]
fn sentinel_and_cluster_are_named_to_dueq_as_what_they_are() {
    let secrets = json!({"keys": {"name": "dueq"}, "redisPassword": {"name": "redis"}});
    let urls = ["redis://a:26379/", "redis://b:26379/"];
    let sentinel = json!({"urls": urls, "master": "orders", "user": "dueq", "db": 3, "tls": true});
    let sentinel = rendered(&json!({"redis": {"sentinel": sentinel}, "secrets": secrets}));
    let cluster = rendered(&json!({"redis": {"cluster": {"urls": urls}}, "secrets": secrets}));
    let mut wanted = BTreeMap::from([
        ("DUEQ_REDIS_URL", "redis://a:26379/,redis://b:26379/"),
        ("DUEQ_REDIS_PASSWORD_FILE", "/etc/dueq/redis-password"),
        ("DUEQ_REDIS_MODE", "cluster"),
    ]);
    let of_redis = |documents| {
        let mut all = variables(documents);
        all.retain(|name, _| name.contains("REDIS") || name.contains("SENTINEL"));
        all
    };
    assert_eq!(of_redis(&cluster), wanted);
    wanted.extend([
        ("DUEQ_REDIS_MODE", "sentinel"),
        ("DUEQ_SENTINEL_MASTER", "orders"),
        ("DUEQ_REDIS_USER", "dueq"),
        ("DUEQ_REDIS_DB", "3"),
        ("DUEQ_REDIS_TLS", "true"),
    ]);
    assert_eq!(of_redis(&sentinel), wanted);
}

#[test]
#[ignore = "needs helm: make test-all"]
fn the_values_of_the_guide_are_values_of_the_chart() {
    let page = std::fs::read_to_string(root().join("src/guide/install.md")).unwrap();
    let yaml = page.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let file = temp_dir("helm").join("guide.yaml");
    std::fs::write(&file, yaml).unwrap();
    let output = helm(&["template", "q", "--values", file.to_str().unwrap()], &json!({}));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let chart = documents(&output.stdout);
    assert_eq!(chart.len(), 6, "{:?}", chart.keys());
    assert_eq!(variables(&chart)["DUEQ_CALLBACK_ALLOW"], "10.1.0.0/16");
}

/// All options; the secrets and settings are then given to a dueq.
#[tokio::test]
#[ignore = "needs helm: make test-all"]
async fn every_value_arrives_and_a_dueq_starts_with_the_settings() {
    let authority = Authority::new();
    let [server, own] = ["redis", "dueq"].map(|file| authority.sign(file, &["localhost"]));
    let redis = TlsRedis::start(&authority, &server, "yes").await;
    let secret = |name: &str| json!({"name": name});
    let chart = rendered(&json!({
        "image": {"repository": "registry.example/dueq", "tag": "0.1.0-slim", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "redis": {"url": redis.url("dueq@")},
        "secrets": {
            "keys": secret("dueq"), "signing": secret("dueq"), "redisPassword": secret("redis"),
            "redisCa": secret("redis-tls"), "redisCert": secret("redis-tls"), "redisKey": secret("redis-tls"),
        },
        "settings": {
            "drain-timeout-ms": 20500, "max-inflight-bytes": 268_435_456, "no-dispatch": true,
            "callback-allow": "10.0.0.0/8,192.168.0.0/16",
        },
        "env": [{"name": "OTEL_SERVICE_NAME", "value": "q"}],
        "service": {"type": "LoadBalancer", "port": 80, "annotations": {"a": "b"}},
        "ingress": {
            "enabled": true, "className": "nginx", "annotations": {"c": "d"}, "host": "q.example",
            "path": "/queue/", "tlsSecret": "q-tls",
        },
        "serviceMonitor": {"enabled": true, "labels": {"release": "prometheus"}, "token": {"name": "metrics"}},
        "autoscaling": {"hpa": {"enabled": true, "cpu": 50}},
        "podDisruptionBudget": {"maxUnavailable": "25%"},
        "preStopSeconds": 7,
        "podAnnotations": {"e": "f"}, "podLabels": {"g": "h"}, "nodeSelector": {"i": "j"},
        "tolerations": [{"operator": "Exists"}],
        "affinity": {"podAntiAffinity": {}},
        "volumes": [{"name": "audit", "emptyDir": {}}],
        "volumeMounts": [{"name": "audit", "mountPath": "/audit"}],
    }));
    let deployment = &chart["Deployment"]["spec"];
    assert!(deployment.get("replicas").is_none(), "the number is the autoscaler's");
    assert_eq!(chart["HorizontalPodAutoscaler"]["spec"]["maxReplicas"], 10);
    assert_eq!(chart["Ingress"]["spec"]["rules"][0]["host"], "q.example");
    let endpoint = &chart["ServiceMonitor"]["spec"]["endpoints"][0];
    let credentials = json!({"credentials": {"name": "metrics", "key": "token"}});
    assert_eq!((&endpoint["authorization"], &endpoint["path"]), (&credentials, &json!("/metrics")));
    assert_eq!(deployment["template"]["metadata"]["labels"]["g"], "h");
    let pod = pod(&chart);
    assert_eq!(pod["terminationGracePeriodSeconds"], 7 + 21 + 10);
    assert_eq!(pod["containers"][0]["volumeMounts"][1]["name"], "audit");
    let selector = &chart["ServiceMonitor"]["spec"]["selector"]["matchLabels"];
    let service = &chart["Service"]["metadata"]["labels"];
    for (name, value) in selector.as_object().unwrap() {
        assert_eq!(&service[name], value, "the ServiceMonitor finds the Service");
    }

    // The volume, as the kubelet makes it.
    let dir = temp_dir("etc");
    let held = BTreeMap::from([
        ("dueq/keys", "a-key-for-the-chart".to_owned()),
        ("dueq/signing-secret", format!("whsec_{}", "q".repeat(40))),
        ("redis/redis-password", "sesame".to_owned()),
        ("redis-tls/ca.crt", text_of(&authority.ca())),
        ("redis-tls/tls.crt", text_of(&own.cert)),
        ("redis-tls/tls.key", text_of(&own.key)),
    ]);
    for source in pod["volumes"][0]["projected"]["sources"].as_array().unwrap() {
        let item = &source["secret"]["items"][0];
        let place = format!("{}/{}", text(&source["secret"], "name"), text(item, "key"));
        std::fs::write(dir.join(text(item, "path")), &held[place.as_str()]).unwrap();
    }
    let variables = variables(&chart);
    assert_eq!(variables["DUEQ_PUBLIC_URL"], "https://q.example/queue");
    assert_eq!(variables["DUEQ_MAX_INFLIGHT_BYTES"], "268435456");
    let mut launch = Launch::command(["serve"]);
    for (name, value) in &variables {
        launch = launch.env(name, value.replace("/etc/dueq", dir.to_str().unwrap()));
    }
    let dueq = launch.start().await;
    dueq.client().get_path("/queue/topics").await.problem(401, "unauthorized");
}

#[test]
#[ignore = "needs helm: make test-all"]
fn keda_gets_the_triggers_that_are_given() {
    let triggers =
        json!([{"type": "cpu", "metricType": "Utilization", "metadata": {"value": "60"}}]);
    let keda = json!({"autoscaling": {"keda": {"enabled": true, "triggers": triggers}}});
    let chart = rendered(&with(keda));
    let scaled = &chart["ScaledObject"]["spec"];
    assert_eq!(scaled["triggers"], triggers);
    assert_eq!(scaled["scaleTargetRef"]["name"], chart["Deployment"]["metadata"]["name"]);
    assert!(chart["Deployment"]["spec"].get("replicas").is_none());
}

#[test]
#[ignore = "needs helm: make test-all"]
fn values_that_cannot_be_are_refused_by_name() {
    let sentinels = json!({"urls": ["redis://a:26379/"]});
    for (values, said) in [
        (json!({"secrets": {"keys": {"name": "dueq"}}}), "no Redis: set one of redis.url, "),
        (with(json!({"redis": {"sentinel": sentinels}})), "redis.url and redis.sentinel.urls"),
        (
            with(json!({"redis": {"url": "", "sentinel": sentinels, "cluster": sentinels}})),
            "more than one Redis: redis.sentinel.urls and redis.cluster.urls",
        ),
        (with(json!({"redis": {"url": "redis://:secret@redis/"}})), "has a password"),
        (with(json!({"redis": {"url": "http://redis/"}})), "redis.url: "),
        (with(json!({"settings": {"notify-url": "https://hooks/x"}})), "DUEQ_NOTIFY_URL"),
        (with(json!({"settings": {"callback-proxy": "http://u:p@h"}})), "DUEQ_CALLBACK_PROXY"),
        (with(json!({"redis": {"sentinel": {"db": 1}}})), "there are no Sentinels"),
        (with(json!({"secrets": {"redisCert": {"name": "tls"}}})), "secrets.redisKey.name"),
        (with(json!({"secrets": {"keys": {"name": ""}}})), "no API keys: set secrets.keys.name"),
        (with(json!({"ingress": {"enabled": true}})), "without ingress.host"),
        (with(json!({"serviceMonitor": {"enabled": true}})), "without serviceMonitor.token.name"),
        (
            with(json!({"autoscaling": {"hpa": {"enabled": true}, "keda": {"enabled": true}}})),
            "autoscaling.hpa and autoscaling.keda are both enabled",
        ),
        (with(json!({"autoscaling": {"keda": {"enabled": true}}})), "autoscaling.keda.triggers"),
        (with(json!({"autoscaling": {"minReplicas": 11}})), "11, more than"),
        (with(json!({"replicas": 0})), "replicas: "),
        (with(json!({"replica": 3})), "property replica is not allowed"),
        (
            with(json!({"settings": {"drian-timeout-ms": 1}})),
            "property drian-timeout-ms is not allowed",
        ),
        (
            with(json!({"settings": {"redis-url": "redis://a"}})),
            "property redis-url is not allowed",
        ),
    ] {
        let output = helm(&["template", "q"], &values);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(said), "{values}: {said:?} in {error}");
    }
}
