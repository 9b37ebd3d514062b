//! listCallbackHosts, pauseCallbackHost, resumeCallbackHost: names, pages, bounds and refusals. What a pause does to calls is
//! in `tests/push`.

use serde_json::{Value, json};

use crate::harness::*;

const PAUSED: &str = "dueq:{callbacks}:paused";

async fn change(client: &Client, host: &str, verb: &str) -> Answer {
    client.post(&format!("/callbacks/hosts/{}/{verb}", encoded(host)), &json!({})).await
}

async fn page(client: &Client, query: &str) -> (Vec<String>, Option<String>) {
    let page = client.get_path(&format!("/callbacks/hosts{query}")).await.expect(200).json();
    let items = page["items"].as_array().unwrap();
    let names = items.iter().map(|item| text(item, "host").to_owned()).collect();
    (names, page.get("next_cursor").map(|cursor| cursor.as_str().unwrap().to_owned()))
}

#[tokio::test]
async fn a_host_is_named_as_it_is_dialled_however_it_is_written() {
    let (redis, _dueq, client) = alone().await;
    for (written, named) in [
        ("Hooks.EXAMPLE.com:443", "hooks.example.com:443"),
        ("[2001:DB8:0:0::1]:8080", "[2001:db8::1]:8080"),
        ("192.0.2.7:80", "192.0.2.7:80"),
        ("bücher.example:080", "xn--bcher-kva.example:80"),
    ] {
        let paused = change(&client, written, "pause").await.expect(200).json();
        assert_eq!((text(&paused, "host"), &paused["paused"]), (named, &json!(true)));
        assert_eq!((&paused["waiting"], &paused["in_flight"]), (&json!(0), &json!(0)));
        // Again: it is paused since then.
        assert_eq!(change(&client, named, "pause").await.expect(200).json(), paused);
    }
    let (names, more) = page(&client, "").await;
    let sorted =
        ["192.0.2.7:80", "[2001:db8::1]:8080", "hooks.example.com:443", "xn--bcher-kva.example:80"];
    assert_eq!((names, more), (sorted.map(str::to_owned).to_vec(), None));
    for host in sorted {
        let resumed = change(&client, host, "resume").await.expect(200).json();
        assert_eq!(resumed["paused"], false);
        change(&client, host, "resume").await.problem(404, "callback_host_not_found");
    }
    assert_eq!(page(&client, "").await, (vec![], None));
    let left: i64 = redis.command(&["EXISTS", PAUSED]).await;
    assert_eq!(left, 0);
}

#[tokio::test]
async fn what_is_no_host_is_refused() {
    let client = client().await;
    let long = format!("{}:80", "a".repeat(260));
    for bad in [
        "example.com",
        "example.com:",
        ":80",
        "example.com:http",
        "example.com:65536",
        "a b:80",
        "http://example.com:80",
        "user@example.com:80",
        "a/b:80",
        "::1:80x",
        "[::1]",
        "a%00:80",
        "*",
        &long,
    ] {
        for verb in ["pause", "resume"] {
            change(&client, bad, verb).await.problem(400, "invalid_host");
        }
    }
    client.post("/callbacks/hosts/%ff:443/pause", &json!({})).await.problem(400, "malformed_path");
    change(&client, "never-called.example:443", "resume")
        .await
        .problem(404, "callback_host_not_found");
    client.get_path("/callbacks/hosts/example.com:443").await.refused(404);
}

#[tokio::test]
async fn a_thousand_hosts_can_be_paused_and_the_list_pages_through_them() {
    let (redis, _dueq, client) = alone().await;
    let now = redis.time_ms().await.to_string();
    let names: Vec<String> = (0..999).map(|n| format!("h{n:03}.example:443")).collect();
    let mut add = vec!["HSET", PAUSED];
    names.iter().for_each(|name| add.extend([name.as_str(), &now]));
    let _: i64 = redis.command(&add).await;
    change(&client, "last.example:443", "pause").await.expect(200);
    change(&client, "one-more.example:443", "pause").await.problem(409, "too_many_paused_hosts");
    // One that is paused already is none more.
    change(&client, "h007.example:443", "pause").await.expect(200);

    let (mut listed, mut cursor) = (Vec::new(), Some(String::new()));
    while let Some(after) = cursor {
        let after = if after.is_empty() { after } else { format!("&cursor={after}") };
        let (names, next) = page(&client, &format!("?limit=300{after}")).await;
        assert!(names.len() == if next.is_some() { 300 } else { 100 });
        listed.extend(names);
        cursor = next;
    }
    let mut all = names;
    all.push("last.example:443".to_owned());
    assert_eq!(listed, all);
    change(&client, "h007.example:443", "resume").await.expect(200);
    change(&client, "one-more.example:443", "pause").await.expect(200);
}

#[tokio::test]
async fn reports_that_cannot_be_read_are_left_out() {
    let (redis, _dueq, client) = alone().await;
    let now = redis.time_ms().await.to_string();
    let report =
        json!([{"host": "a.example:443", "in_flight": 3, "took": "9 0:1", "new": [1]}]).to_string();
    for (name, report) in
        [("good", report.as_str()), ("bad", "{}"), ("worse", "[{\"took\":\"x\"}]"), ("none", "")]
    {
        let _: i64 = redis.command(&["ZADD", "dueq:{callbacks}:reported", &now, name]).await;
        if !report.is_empty() {
            let _: i64 = redis.command(&["HSET", "dueq:{callbacks}:reports", name, report]).await;
        }
    }
    let list = client.get_path("/callbacks/hosts").await.expect(200).json();
    let items: &Vec<Value> = list["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{list}");
    assert_eq!((text(&items[0], "host"), number(&items[0], "in_flight")), ("a.example:443", 3));
}
