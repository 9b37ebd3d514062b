//! A public URL with a base path, and the client's address behind proxies: alone, and behind a real nginx with TLS.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use serde_json::json;
use tokio::net::TcpSocket;
use tokio_rustls::TlsConnector;

use crate::harness::*;

const SOON: Duration = Duration::from_secs(10);
const KEY: &str = "a-key-of-thirty-two-characters-ab";

#[tokio::test]
async fn links_follow_the_public_url_and_requests_are_served_with_and_without_its_path() {
    let public = ["--public-url", "https://q.example/some/dueq/"];
    let dueq = Dueq::on(&shared().await.redis).args(public).start().await;
    let (client, topic) = (dueq.client(), topic("public"));
    for base in ["", "/some/dueq"] {
        for path in ["messages", "messages/raw"] {
            let route = format!("{base}/topics/{topic}/{path}");
            let answer = client.post(&route, &json!({"payload": 1})).await.expect(201);
            let id = answer.text("id");
            let location = format!("https://q.example/some/dueq/messages/{id}");
            assert_eq!(answer.header("location"), location);
            client.get_path(&format!("{base}/messages/{id}")).await.expect(200);
        }
        client.get_path(&format!("{base}/topics?limit=1")).await.expect(200);
        client.get_path(&format!("{base}/readyz")).await.expect(200);
        client.get_path(&format!("{base}/nothing")).await.problem(404, "route_not_found");
        let page = client.get_path(&format!("{base}/guide")).await.expect(200);
        let html = String::from_utf8(page.body).unwrap();
        let links = html.split("href=\"").skip(1);
        assert!(links.clone().all(|link| link.starts_with("/some/dueq/guide")), "{html}");
        assert!(links.count() > 15, "{html}");
        let html = client.get_path(&format!("{base}/guide/flags")).await.expect(200).body;
        let html = String::from_utf8(html).unwrap();
        assert!(html.contains("href=\"/some/dueq/guide/redis\""), "{html}");
        let moved = client.get_path(&format!("{base}/docs")).await;
        assert_eq!((moved.status, moved.header("location")), (303, "/some/dueq/docs/"));
        let page =
            client.get_path(&format!("{base}/docs/swagger-initializer.js")).await.expect(200);
        let script = String::from_utf8(page.body).unwrap();
        // Relative to /docs/.
        assert!(script.contains("\"../openapi.json\""), "{script}");
        for document in ["openapi.json", "openapi-3.0.json"] {
            let document = client.get_path(&format!("{base}/{document}")).await.expect(200).json();
            assert_eq!(document["servers"][0]["url"], "/some/dueq");
        }
        let root = if base.is_empty() { "/" } else { base };
        let text = String::from_utf8(client.get_path(root).await.expect(200).body).unwrap();
        assert!(text.contains("curl https://q.example/some/dueq/topics/"), "{text}");
        assert!(text.contains(" /some/dueq/docs\n"), "{text}");
        let browser = client.send("GET", root, &[("accept", "text/html")], None).await.expect(303);
        assert_eq!(browser.header("location"), "/some/dueq/guide");
    }
    for outside in ["/some/topics", "/some/dueqs/topics", "/some", "/dueq/topics"] {
        client.get_path(outside).await.problem(404, "route_not_found");
    }
    client.get_path("/some/dueq/topics?nope=1").await.problem(422, "invalid_input");
    client.send("PUT", "/some/dueq/topics", &[], None).await.refused(405);
}

#[tokio::test]
async fn without_a_path_only_locations_differ() {
    let launch = Dueq::on(&shared().await.redis).env("DUEQ_PUBLIC_URL", "http://q.example:8000");
    let dueq = launch.start().await;
    let client = dueq.client();
    let answer = client.publish(&topic("public"), json!({"payload": 1})).await.expect(201);
    let location = format!("http://q.example:8000/messages/{}", answer.text("id"));
    assert_eq!(answer.header("location"), location);
    let document = client.get_path("/openapi.json").await.expect(200).json();
    assert_eq!(document["servers"][0]["url"], "/");
}

#[tokio::test]
async fn what_is_no_url_or_network_is_refused() {
    let redis = shared().await.redis.url();
    for (flag, value) in [
        ("--public-url", "q.example"),
        ("--public-url", "https://q.example/topics"),
        ("--public-url", "https://q.example/?a=b"),
        ("--public-url", "https://u:p@q.example/"),
        ("--public-url", ""),
        ("--sqs-account", "12345678901"),
        ("--trusted-proxy", "proxy.example"),
        ("--trusted-proxy", "10.0.0.0/33"),
        ("--trusted-proxy", "10.0.0.1,"),
    ] {
        let launch = Launch::command(["serve", "--listen", "127.0.0.1:0", "--redis-url", &redis]);
        let finished = launch.args([flag, value]).finish().await;
        assert_eq!(finished.code, 2, "{value}: {finished:?}");
        assert!(finished.stderr.contains(flag), "{value}: {finished:?}");
    }
}

/// The peers of refused requests, as they were logged, after so many.
async fn peers(dueq: &Dueq, count: usize) -> Vec<String> {
    eventually("the log", || async {
        let log = dueq.log();
        let lines = log.lines().filter(|line| line.contains("a request was refused"));
        let peer = |line: &str| {
            let rest = line.split("peer=").nth(1).unwrap_or_else(|| panic!("{line}"));
            rest.split_whitespace().next().unwrap().to_owned()
        };
        Some(lines.map(peer).collect::<Vec<_>>()).filter(|peers| peers.len() == count)
    })
    .await
}

#[tokio::test]
async fn the_log_names_the_forwarded_client_if_the_proxy_is_trusted() {
    let list = [("x-forwarded-for", "192.0.2.1, 198.51.100.7, 10.1.2.3")];
    let forwarded = [("forwarded", "for=192.0.2.1, for=\"[2001:db8::7]:80\", for=10.1.2.3")];
    for (proxies, told, is) in [
        ("10.0.0.0/8", &list[..], "127.0.0.1"),
        ("127.0.0.1", &list[..], "10.1.2.3"),
        ("127.0.0.1,10.0.0.0/8", &list, "198.51.100.7"),
        ("127.0.0.0/8,10.0.0.0/8", &forwarded, "2001:db8::7"),
        ("127.0.0.0/8,10.0.0.0/8", &[list[0], forwarded[0]], "127.0.0.1"),
        ("127.0.0.0/8", &[], "127.0.0.1"),
    ] {
        let launch = Dueq::on(&shared().await.redis).args(["--log", "dueq=debug"]);
        let dueq = launch.args(["--api-key", KEY, "--trusted-proxy", proxies]).start().await;
        dueq.client().send("GET", "/topics", told, None).await.problem(401, "unauthorized");
        assert_eq!(peers(&dueq, 1).await, [is], "{proxies} {told:?}");
    }
}

/// An nginx with TLS in front of `addr`, which is below /dueq.
async fn nginx(identity: &Identity, addr: &str, dir: &Path, target: &str) -> (Process, u16) {
    let port = free_port();
    let conf = format!(
        "pid {dir}/pid;\nerror_log {dir}/error.log;\ndaemon off;\nmaster_process off;\nevents {{}}\n\
         http {{\n  access_log off;\n  client_body_temp_path {dir}/body;\n  proxy_temp_path {dir}/proxy;\n\
         fastcgi_temp_path {dir}/f;\n  uwsgi_temp_path {dir}/u;\n  scgi_temp_path {dir}/s;\n\
         server {{\n    listen 127.0.0.1:{port} ssl;\n    ssl_certificate {cert};\n    ssl_certificate_key {key};\n\
         location /dueq/ {{\n      proxy_pass http://{addr}{target};\n      proxy_http_version 1.1;\n\
         proxy_set_header Connection \"\";\n      proxy_set_header Host $host;\n\
         proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;\n    }}\n  }}\n}}\n",
        dir = dir.display(),
        cert = identity.cert.display(),
        key = identity.key.display(),
    );
    std::fs::write(dir.join("nginx.conf"), conf).unwrap();
    let program = ["/usr/sbin/nginx", "nginx"].into_iter().find(|name| {
        Command::new(name).arg("-v").stderr(Stdio::null()).status().is_ok_and(|s| s.success())
    });
    let program = program.expect("no nginx: `tests/setup.sh nginx` installs it");
    let process = Process::start(
        Command::new(program)
            .args(["-e", "stderr", "-p"])
            .arg(dir)
            .arg("-c")
            .arg(dir.join("nginx.conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(dir.join("stderr")).unwrap()),
    );
    eventually("nginx listens", || async {
        tokio::net::TcpStream::connect(("127.0.0.1", port)).await.ok()
    })
    .await;
    (process, port)
}

/// Asks nginx from this address of the machine.
async fn ask(from: &str, port: u16, config: &Arc<ClientConfig>, head: &str) -> Answer {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(format!("{from}:0").parse().unwrap()).unwrap();
    let stream = socket.connect(format!("127.0.0.1:{port}").parse().unwrap()).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let mut wire =
        Wire::over(TlsConnector::from(config.clone()).connect(name, stream).await.unwrap());
    wire.request(&format!("{head}\r\nhost: localhost"), b"").await;
    wire.answer(head, SOON).await.unwrap()
}

#[tokio::test]
#[ignore = "needs nginx: make test-all"]
async fn behind_nginx_with_tls_and_a_base_path() {
    let authority = Authority::new();
    let identity = authority.sign("nginx", &["localhost"]);
    // nginx takes the path off, or leaves it.
    for target in ["/", ""] {
        let dir = temp_dir("nginx");
        let addr = format!("127.0.0.1:{}", free_port());
        let (_nginx, port) = nginx(&identity, &addr, &dir, target).await;
        let public = format!("https://localhost:{port}/dueq");
        let launch = Dueq::on(&shared().await.redis).listen(&addr).args(["--log", "dueq=debug"]);
        let launch = launch.args(["--api-key", KEY, "--trusted-proxy", "127.0.0.1"]);
        let dueq = launch.args(["--public-url", &public]).start().await;
        let config = authority.client(None);

        let cli = |words: &[&str]| {
            let launch = Launch::command(words).env("DUEQ_CA", authority.ca());
            launch.args(["--server", &public, "--api-key", KEY]).finish()
        };
        let topic = topic("nginx");
        let published = cli(&["publish", &topic, "{\"order\": 1}", "--json"]).await;
        assert_eq!(published.code, 0, "{published:?}");
        let finished = cli(&["lease", &topic, "--wait", "1s"]).await;
        assert!(finished.stdout.contains("{\"order\": 1}"), "{finished:?}");
        assert_eq!(cli(&["healthcheck"]).await.code, 0);

        let key = format!("authorization: Bearer {KEY}");
        let raw = format!(
            "POST /dueq/topics/{topic}/messages/raw HTTP/1.1\r\n{key}\r\ncontent-length: 0"
        );
        let answer = ask("127.0.0.1", port, &config, &raw).await.expect(201);
        let location = answer.header("location");
        assert_eq!(location, format!("{public}/messages/{}", answer.text("id")));
        let path = location.split_once(&port.to_string()).unwrap().1;
        let get = |path: &str| format!("GET {path} HTTP/1.1\r\n{key}");
        ask("127.0.0.1", port, &config, &get(path)).await.expect(200);
        for page in ["/dueq/guide", "/dueq/guide/tutorial", "/dueq/docs/", "/dueq/openapi.json"] {
            ask("127.0.0.1", port, &config, &get(page)).await.expect(200);
        }
        let moved = ask("127.0.0.1", port, &config, &get("/dueq/docs")).await;
        assert_eq!((moved.status, moved.header("location")), (303, "/dueq/docs/"));

        // What a client writes into the header itself is not believed.
        let forged = "GET /dueq/topics HTTP/1.1\r\nx-forwarded-for: 192.0.2.99";
        assert_eq!(ask("127.0.0.2", port, &config, forged).await.status, 401);
        // Another trusted proxy before nginx is.
        assert_eq!(ask("127.0.0.1", port, &config, forged).await.status, 401);
        assert_eq!(peers(&dueq, 2).await, ["127.0.0.2", "192.0.2.99"], "{target:?}");
    }
}
