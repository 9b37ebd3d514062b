//! Where dueq does not go: addresses that are not public, unless it was told so.

use serde_json::json;

use crate::facts::{a_while, called, patient, ready, schedule, scheduled};
use crate::harness::*;

/// Literals of every class that is refused, in the spellings that readers of URLs accept.
const REFUSED: &str = "127.0.0.1 127.1 2130706433 0x7f.0.0.1 0177.0.0.1 127.0.0.1. 0.0.0.0 10.0.0.1 172.16.0.1 192.168.1.1:8080 \
    169.254.169.254/latest/meta-data 100.64.0.1 192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1 \
    240.0.0.1 255.255.255.255 [::1] [::] [::ffff:127.0.0.1] [::ffff:8.8.8.8] [64:ff9b::7f00:1] [2002:7f00:1::] \
    [2001::1] [fc00::1] [fe80::1] [ff02::1] [2001:db8::1]";

/// An instance that may call nothing but public addresses.
async fn strict() -> Client {
    client().await // the shared server of the harness was told nothing
}

#[tokio::test]
async fn a_literal_refused_address_is_refused_when_it_is_scheduled() {
    let client = strict().await;
    for url in REFUSED.split(' ').map(|address| format!("http://{address}/")) {
        let answer = schedule(&client, &url, json!({"delay_ms": 600_000})).await;
        assert_eq!(answer.status, 422, "{url}: {answer}");
        answer.problem(422, "callback_address_refused");
    }
}

#[tokio::test]
async fn so_it_is_in_a_topic_in_a_message_and_in_a_change() {
    let client = strict().await;
    let (topic, url) = (topic("refused"), "http://10.1.2.3/");
    let answer = client.put_topic(&topic, json!({"push": {"url": url}})).await;
    answer.problem(422, "callback_address_refused");
    client.topic(&topic).await.problem(404, "topic_not_found");
    client.new_topic(&topic, json!({"push": {"url": "https://example.com/"}})).await;
    let answer = client.update_topic(&topic, json!({"push": {"url": url}})).await;
    answer.problem(422, "callback_address_refused");
    let own = json!({"payload": 1, "delay_ms": 600_000, "callback": {"url": url}});
    client.publish(&topic, own.clone()).await.problem(422, "callback_address_refused");
    assert_eq!(client.publish_batch(&topic, &[own]).await.status, 422);
    let public = json!({"url": "https://example.com/", "delay_ms": 600_000});
    let id = client.post("/callbacks", &public).await.expect(201).text("id");
    let answer = client.update(&id, json!({"callback": {"url": url}})).await;
    answer.problem(422, "callback_address_refused");
    client.delete(&id).await.expect(204);
}

#[tokio::test]
async fn a_name_for_a_refused_address_is_dead_with_the_reason() {
    let (client, receiver) = (strict().await, Receiver::start().await);
    let port = receiver.addr().port();
    let more = json!({"backoff": patient()});
    let answer = schedule(&client, &format!("http://localhost:{port}/"), more).await;
    if answer.status == 422 {
        answer.problem(422, "callback_address_refused"); // a name that is known to be one
        return;
    }
    let id = answer.expect(201).text("id");
    let seen = eventually("dead", || async {
        let seen = client.get(&id).await.expect(200).json();
        (seen["state"] == "dead").then_some(seen)
    })
    .await;
    assert!(text(&seen, "last_error").contains("refused"), "{seen}");
    assert_eq!(receiver.count() + receiver.connections(), 0);
}

#[tokio::test]
async fn what_another_instance_let_in_is_not_called_by_one_that_may_not() {
    let redis = Redis::start().await;
    let lax = Dueq::calling(&redis).args(["--no-dispatch"]).start().await;
    let strict = Dueq::on(&redis).start().await;
    let receiver = Receiver::start().await;
    let more = json!({"payload": 1, "backoff": patient()});
    let id = scheduled(&lax.client(), &receiver.url("/"), more).await;
    let seen = eventually("dead", || async {
        let seen = strict.client().get(&id).await.expect(200).json();
        (seen["state"] == "dead").then_some(seen)
    })
    .await;
    assert!(text(&seen, "last_error").contains("refused"), "{seen}");
    assert_eq!(receiver.count() + receiver.connections(), 0);
}

#[tokio::test]
async fn an_allowed_network_is_allowed_and_no_other() {
    let redis = Redis::start().await;
    let receiver = Receiver::start().await;
    let network = format!("{}/32", receiver.addr().ip());
    let dueq = Dueq::on(&redis).args(["--callback-allow", &network]).start().await;
    let client = dueq.client();
    scheduled(&client, &receiver.url("/"), json!({})).await;
    receiver.wait_for(1).await;
    schedule(&client, "http://10.0.0.1/", json!({})).await.problem(422, "callback_address_refused");
    let other = format!("http://127.200.200.200:{}/", receiver.addr().port());
    schedule(&client, &other, json!({})).await.problem(422, "callback_address_refused");
}

#[tokio::test]
async fn a_name_of_an_allowed_address_is_called() {
    let (client, _) = ready().await;
    let receiver = Receiver::at("127.0.0.1:0".parse().unwrap()).await;
    let url = format!("http://localhost:{}/named", receiver.addr().port());
    scheduled(&client, &url, json!({"backoff": crate::facts::fixed(100)})).await;
    let call = receiver.wait_at("/named").await;
    assert_eq!(call.header("host"), format!("localhost:{}", receiver.addr().port()));
}

#[tokio::test]
async fn dueqs_own_listener_is_not_called() {
    let client = strict().await;
    let url = format!("http://{}/topics/_callbacks/purge", client.addr());
    schedule(&client, &url, json!({})).await.problem(422, "callback_address_refused");
}

#[tokio::test]
async fn proxies_of_the_surroundings_are_ignored() {
    let redis = Redis::start().await;
    let (proxy, receiver) = (Receiver::start().await, Receiver::start().await);
    let mut launch = Dueq::calling(&redis);
    for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "ALL_PROXY"] {
        launch = launch.env(name, proxy.url(""));
    }
    let dueq = launch.start().await;
    scheduled(&dueq.client(), &receiver.url("/"), json!({})).await;
    receiver.wait_for(1).await;
    a_while(200).await;
    assert_eq!(proxy.count() + proxy.connections(), 0);
}

#[tokio::test]
async fn a_name_that_is_not_found_is_tried_again() {
    let (client, _) = ready().await;
    let more = json!({"payload": 1, "backoff": patient(), "timeout_ms": 5000});
    let id = scheduled(&client, "http://no-such-host.invalid/", more).await;
    let seen = crate::facts::becomes(&client, &id, "delayed", 1).await;
    assert!(!text(&called(&seen)[0], "error").is_empty(), "{seen}");
}

#[tokio::test]
async fn what_a_name_resolves_to_is_not_told() {
    let (client, receiver) = (strict().await, Receiver::start().await);
    let url = format!("http://localhost:{}/", receiver.addr().port());
    let id = scheduled(&client, &url, json!({"backoff": patient()})).await;
    let seen = crate::facts::becomes(&client, &id, "dead", 1).await;
    let error = text(&seen, "last_error");
    assert!(error.starts_with("callback_address_refused: localhost "), "{seen}");
    assert!(!error.contains("127.0.0.1") && !error.contains("::1"), "{seen}");
}

#[tokio::test]
async fn denied_networks_are_refused_and_only_those_named_are_called() {
    let redis = Redis::start().await;
    let (receiver, denied) = (Receiver::start().await, Receiver::start().await);
    let ip = |receiver: &Receiver| format!("{}/32", receiver.addr().ip());
    let args = ["--callback-only", "127.0.0.0/8", "--callback-deny", &ip(&denied)];
    let dueq = Dueq::on(&redis).args(args).start().await;
    let client = dueq.client();
    scheduled(&client, &receiver.url("/"), json!({})).await;
    receiver.wait_for(1).await;
    for refused in [&denied.url("/"), "http://8.8.8.8/", "http://10.0.0.1/"] {
        let answer = schedule(&client, refused, json!({"delay_ms": 600_000})).await;
        answer.problem(422, "callback_address_refused");
    }
    // Deny beats allow too.
    let args = ["--callback-allow", "127.0.0.0/8", "--callback-deny", &ip(&denied)];
    let dueq = Dueq::on(&redis).args(args).start().await;
    let answer = schedule(&dueq.client(), &denied.url("/"), json!({})).await;
    answer.problem(422, "callback_address_refused");
    assert_eq!(denied.connections(), 0);
}

/// Runs a script in a network of its own, where 8.8.4.4 is this machine's.
async fn in_own_network(script: &str, args: [&std::path::Path; 2]) -> std::process::Output {
    let script =
        format!("ip link set lo up && ip address add 8.8.4.4/32 dev lo || exit 77\n{script}");
    let mut command = std::process::Command::new("unshare");
    command.args(["-rn", "sh", "-c", &script]).args(args);
    tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
}

#[tokio::test]
async fn this_machines_own_public_addresses_are_not_called() {
    let dir = temp_dir("own-address");
    let args = [binary(), dir.as_path()];
    if !in_own_network("exit 0", args).await.status.success() {
        eprintln!("skipped: no network of its own can be made here");
        return;
    }
    let script = "\"$0\" serve --listen 127.0.0.1:8099 --data-dir \"$1/data\" >\"$1/log\" 2>&1 &
        dueq=$!
        for _ in $(seq 200); do
            \"$0\" healthcheck --server http://127.0.0.1:8099 >/dev/null 2>&1 && break
            sleep 0.1
        done
        \"$0\" callback http://8.8.4.4:9/ --delay 1h --server http://127.0.0.1:8099
        code=$?
        kill $dueq
        wait $dueq
        exit $code";
    let output = in_own_network(script, args).await;
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(told.contains("callbacks to 8.8.4.4 are not allowed"), "{told}");
}
