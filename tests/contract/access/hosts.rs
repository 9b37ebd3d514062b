//! Without keys: a table of names in Host and Origin, and of those that only look good.

use super::{OPEN, locked, routes, status};
use crate::harness::*;

const LOOPBACK: &[&str] = &[
    "127.0.0.1",
    "127.0.0.1:1",
    "127.9.8.7:65535",
    "localhost",
    "LOCALHOST:8080",
    "a.localhost",
    "[::1]",
    "[::1]:8080",
];

const STRANGE: &[&str] = &[
    "",
    "x",
    "evil.example:8080",
    "127.0.0.1.evil.example",
    "localhost.evil.example",
    "evil-localhost",
    "localhost.",
    "127.0.0.1.:80",
    "evil@localhost",
    "localhost@evil.example",
    "localhost:80@evil.example",
    "localhost:",
    "localhost:99999",
    "0.0.0.0:8080",
    "10.0.0.1",
    "127.1",
    "2130706433",
    "0x7f.0.0.1",
    "::1",
    "[::]",
    "[::1%25lo]",
    "[::ffff:127.0.0.1]",
    "[::ffff:10.0.0.1]",
    "localhost, evil.example",
    "localhost/evil.example",
    "%6cocalhost",
    "http://localhost",
];

#[tokio::test]
async fn without_keys_only_hosts_of_loopback_are_answered() {
    let addr = shared().await.dueq.addr();
    for host in LOOPBACK {
        status(addr, &format!("GET /topics HTTP/1.1\r\nhost: {host}"), 200).await;
        status(addr, &format!("GET http://{host}/topics HTTP/1.1\r\nhost: {host}"), 200).await;
        status(addr, &format!("GET http://{host}/topics HTTP/1.0"), 200).await;
    }
    for host in STRANGE {
        status(addr, &format!("GET /topics HTTP/1.1\r\nhost: {host}"), 403).await;
        for (method, path) in [("GET", "/openapi.json"), ("GET", "/nowhere"), ("POST", "/healthz/")]
        {
            status(addr, &format!("{method} {path} HTTP/1.1\r\nhost: {host}"), 403).await;
        }
    }
    for head in [
        "GET /topics HTTP/1.0",
        "GET /topics HTTP/1.1",
        "GET http://evil.example/topics HTTP/1.1\r\nhost: localhost",
        "GET http://evil@localhost/topics HTTP/1.1\r\nhost: localhost",
        "GET http://localhost/topics HTTP/1.1\r\nhost: evil.example",
        "GET /topics HTTP/1.1\r\nhost: localhost\r\nhost: evil.example",
        "GET /topics HTTP/1.1\r\nhost: evil.example\r\nhost: localhost",
    ] {
        status(addr, head, 403).await;
    }
}

#[tokio::test]
async fn without_keys_only_origins_of_loopback_are_answered() {
    let addr = shared().await.dueq.addr();
    let head = |origins: &str| format!("GET /topics HTTP/1.1\r\nhost: 127.0.0.1{origins}");
    for host in LOOPBACK {
        for scheme in ["http", "https"] {
            status(addr, &head(&format!("\r\norigin: {scheme}://{host}")), 200).await;
        }
    }
    for host in STRANGE {
        status(addr, &head(&format!("\r\norigin: http://{host}")), 403).await;
    }
    for origin in
        ["null", "", "localhost", "file://", "file://localhost", "http://localhost/", "about:blank"]
    {
        status(addr, &head(&format!("\r\norigin: {origin}")), 403).await;
    }
    let two = |first, second| format!("\r\norigin: http://{first}\r\norigin: http://{second}");
    status(addr, &head(&two("localhost", "127.0.0.1")), 200).await;
    status(addr, &head(&two("localhost", "evil.example")), 403).await;
    status(addr, &head(&two("evil.example", "localhost")), 403).await;
}

#[tokio::test]
async fn every_route_but_healthz_and_readyz_looks_at_host_and_origin() {
    let client = client().await;
    for (method, path) in routes() {
        for stranger in [("host", "evil.example"), ("origin", "http://evil.example")] {
            let answer = client.send(&method, &path, &[stranger], None).await;
            if OPEN.contains(&path.as_str()) {
                answer.expect(200);
            } else if method == "HEAD" {
                answer.expect(403);
            } else {
                answer.problem(403, "host_not_allowed");
            }
        }
    }
}

#[tokio::test]
async fn healthz_and_readyz_answer_whoever_asks() {
    for dueq in [instance().await, locked().await] {
        for path in OPEN {
            for names in ["x: y", "host: evil.example\r\norigin: null", "host: \r\nhost: a@b"] {
                status(dueq.addr(), &format!("GET {path} HTTP/1.1\r\n{names}"), 200).await;
                status(dueq.addr(), &format!("GET {path} HTTP/1.0\r\n{names}"), 200).await;
            }
        }
    }
}

#[tokio::test]
async fn hosts_that_are_allowed_are_answered_beside_loopback() {
    let allowed = ["--allow-host", "queue.example", "--allow-host", "10.1.2.3,fd00::1"];
    let launch = Dueq::on(&shared().await.redis).args(allowed);
    let dueq = launch.start().await;
    let names = ["queue.example", "QUEUE.example:8080", "10.1.2.3:1", "[fd00::1]", "[FD00:0::1]:1"];
    for host in names.iter().chain(LOOPBACK) {
        let head = format!("GET /topics HTTP/1.1\r\nhost: {host}");
        status(dueq.addr(), &head, 200).await;
        status(dueq.addr(), &format!("{head}\r\norigin: https://{host}"), 200).await;
        status(dueq.addr(), &format!("{head}\r\norigin: null"), 403).await;
    }
    let others = ["a.queue.example", "queue.example.", "example", "10.1.2.30", "[fd00::2]"];
    for host in others.iter().chain(STRANGE) {
        status(dueq.addr(), &format!("GET /topics HTTP/1.1\r\nhost: {host}"), 403).await;
        let head = format!("GET /topics HTTP/1.1\r\nhost: localhost\r\norigin: http://{host}");
        status(dueq.addr(), &head, 403).await;
    }
}

#[tokio::test]
async fn behind_a_proxy_no_host_is_a_local_one_unless_hosts_are_named() {
    let redis = &shared().await.redis;
    let named = Dueq::on(redis).args(["--allow-host", "queue.example"]).start().await;
    let keyed = Dueq::on(redis).args(["--api-key", "a-key-of-the-tests"]).start().await;
    for header in ["forwarded: for=10.1.1.1", "X-Forwarded-For: 10.1.1.1", "via: 1.1 proxy"] {
        let proxied = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{header}");
        let addr = shared().await.dueq.addr();
        status(addr, &proxied("/topics"), 403).await;
        status(addr, &proxied("/openapi.json"), 403).await;
        for path in OPEN {
            status(addr, &proxied(path), 200).await;
        }
        // For what a proxy brings, loopback is the proxy's own name.
        status(named.addr(), &proxied("/topics"), 403).await;
        let of_client = format!("GET /topics HTTP/1.1\r\nhost: queue.example\r\n{header}");
        status(named.addr(), &of_client, 200).await;
        let key = "authorization: Bearer a-key-of-the-tests";
        status(keyed.addr(), &format!("{}\r\n{key}", proxied("/topics")), 200).await;
    }
}

#[tokio::test]
async fn without_keys_no_page_of_another_site_is_answered() {
    let addr = shared().await.dueq.addr();
    for (site, origin, wanted) in [
        ("same-origin", "", 200),
        ("none", "", 200),
        ("same-site", "", 403),
        ("same-site", "\r\norigin: http://localhost:3000", 200),
        ("same-site", "\r\norigin: http://evil.example", 403),
        ("cross-site", "", 403),
        ("cross-site", "\r\norigin: http://localhost:3000", 403),
        ("none\r\nsec-fetch-site: cross-site", "", 403),
        ("Cross-Site", "", 403),
        ("", "", 403),
    ] {
        let head =
            format!("GET /topics HTTP/1.1\r\nhost: localhost{origin}\r\nsec-fetch-site: {site}");
        status(addr, &head, wanted).await;
    }
    let page = "GET /guide HTTP/1.1\r\nhost: localhost\r\nsec-fetch-site: cross-site";
    status(addr, page, 200).await;
}

#[tokio::test]
async fn what_a_proxy_has_marked_must_name_an_allowed_host() {
    let launch = Dueq::on(&shared().await.redis).args(["--allow-host", "queue.example"]);
    let dueq = launch.start().await;
    for mark in [
        "x-forwarded-for: 203.0.113.7",
        "forwarded: for=203.0.113.7",
        "via: 1.1 proxy",
        "x-real-ip: 203.0.113.7",
        "x-forwarded-host: evil.example",
    ] {
        for (host, wanted) in [("queue.example", 200), ("127.0.0.1", 403), ("localhost:80", 403)] {
            let head = format!("GET /topics HTTP/1.1\r\nhost: {host}\r\n{mark}");
            status(dueq.addr(), &head, wanted).await;
        }
        let head = format!("GET /topics HTTP/1.1\r\nhost: queue.example\r\n{mark}");
        status(shared().await.dueq.addr(), &head, 403).await;
    }
    status(dueq.addr(), "GET /topics HTTP/1.1\r\nhost: 127.0.0.1", 200).await;
}
