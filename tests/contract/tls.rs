//! The listener with TLS: what is negotiated, whose certificates count, and how they are exchanged while requests go on.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, HandshakeKind, SupportedProtocolVersion, crypto::ring};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::harness::*;

const SOON: Duration = Duration::from_secs(10);

/// `dueq serve` under this certificate.
pub fn serving(redis: &Redis, authority: &Authority, identity: &Identity) -> Launch {
    Dueq::on(redis)
        .args(["--tls-cert"])
        .args([&identity.cert])
        .args(["--tls-key"])
        .args([&identity.key])
        .tls(authority.client(None))
}

/// An authority, what it signed for localhost, and a server with that.
pub async fn started(more: &[&str]) -> (Dueq, Arc<ClientConfig>) {
    let authority = Authority::new();
    let identity = authority.sign("dueq", &["localhost"]);
    let launch = serving(&shared().await.redis, &authority, &identity).args(more);
    (launch.start().await, authority.client(None))
}

/// One that offers these versions and protocols.
fn offering(
    authority: &Authority,
    versions: &[&'static SupportedProtocolVersion],
    protocols: &[&str],
) -> Arc<ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    let ca = std::fs::read(authority.ca()).unwrap();
    use rustls::pki_types::pem::PemObject;
    roots.add(rustls::pki_types::CertificateDer::from_pem_slice(&ca).unwrap()).unwrap();
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Arc::new(config)
}

#[tokio::test]
async fn tls_1_2_and_1_3_are_spoken_and_http_1_1_is_agreed_on() {
    let authority = Authority::new();
    let identity = authority.sign("dueq", &["localhost"]);
    let dueq = serving(&shared().await.redis, &authority, &identity).start().await;
    assert!(dueq.log().contains(&format!("serving https://{}", dueq.addr())), "{}", dueq.log());
    for version in [&TLS12, &TLS13] {
        for (offered, agreed) in [
            (&["h2", "http/1.1"][..], Some("http/1.1")),
            (&["http/1.1"], Some("http/1.1")),
            (&[], None),
        ] {
            let config = offering(&authority, &[version], offered);
            let stream = TcpStream::connect(dueq.addr()).await.unwrap();
            let name = "localhost".try_into().unwrap();
            let stream = TlsConnector::from(config).connect(name, stream).await.unwrap();
            let (_, session) = stream.get_ref();
            assert_eq!(session.protocol_version(), Some(version.version));
            assert_eq!(session.alpn_protocol(), agreed.map(str::as_bytes));
            let mut wire = Wire::over(stream);
            for _ in 0..3 {
                wire.request("GET /healthz HTTP/1.1\r\nhost: localhost", b"").await;
                wire.answer("/healthz", SOON).await.unwrap().expect(200);
            }
        }
        let h2_only = offering(&authority, &[version], &["h2"]);
        assert!(Wire::tls(dueq.addr(), &h2_only).await.is_err());
    }
}

#[tokio::test]
async fn plain_http_to_the_port_is_told_to_use_https() {
    let (dueq, _) = started(&[]).await;
    let body = vec![b'x'; 2_000_000];
    for (request, body) in [("GET /healthz", &b""[..]), ("POST /topics/t/messages/raw", &body)] {
        let mut wire = Wire::connect(dueq.addr()).await;
        let head =
            format!("{request} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}", body.len());
        wire.request(&head, body).await;
        let answer = wire.answer(request, SOON).await.unwrap();
        assert_eq!(answer.status, 400, "{answer}");
        let problem = answer.json();
        assert_eq!((&problem["code"], &problem["status"]), (&json!("refused"), &json!(400)));
        assert!(problem["detail"].as_str().unwrap().contains("https://"), "{answer}");
        assert!(wire.closes_within(SOON).await);
    }
    for noise in
        [&b"\x80\x2e\x01\x00\x02"[..], b"\x16\x03\x01\x00\x05hello", b"SSH-2.0-x\r\n\r\n", b"\0"]
    {
        let mut wire = Wire::connect(dueq.addr()).await;
        wire.write(noise).await;
        drop(wire);
    }
    let finished = Launch::command(["topics", "--server", &dueq.url()]).finish().await;
    assert!(finished.stderr.contains("https://"), "{finished:?}");
}

#[tokio::test]
async fn with_a_client_authority_only_its_certificates_are_let_in() {
    let (authority, clients, stranger) = (Authority::new(), Authority::new(), Authority::new());
    let identity = authority.sign("dueq", &["localhost"]);
    let (ours, theirs) = (clients.sign("a", &["a"]), stranger.sign("b", &["b"]));
    let old = clients.sign_for_years("old", &["a"], 2020, 2021);
    let launch = serving(&shared().await.redis, &authority, &identity);
    let launch = launch.args(["--tls-client-ca"]).args([clients.ca()]);
    let dueq = launch.tls(authority.client(Some(&ours))).start().await;
    let get = async |identity: Option<&Identity>| {
        Wire::get_tls(dueq.addr(), &authority.client(identity), "/topics").await
    };
    get(Some(&ours)).await.unwrap().expect(200);
    for identity in [None, Some(&theirs), Some(&old)] {
        assert!(get(identity).await.is_err(), "{identity:?}");
    }
    let url = dueq.https_url();
    let check = ["healthcheck", "--server", &url, "--ca"];
    let check = || Launch::command(check).args([authority.ca()]);
    let finished = check().finish().await;
    assert_eq!(finished.code, 1, "{finished:?}");
    assert!(finished.stderr.contains("--client-cert"), "{finished:?}");
    let pair = |launch: Launch, identity: &Identity| {
        let launch = launch.args(["--client-cert"]).args([&identity.cert]);
        launch.args(["--client-key"]).args([&identity.key])
    };
    let finished = pair(check(), &ours).finish().await;
    assert_eq!(finished.code, 0, "{finished:?}");
    let finished = pair(check(), &old).finish().await;
    assert!(finished.code == 1 && finished.stderr.contains("expired at"), "{finished:?}");
}

#[tokio::test]
async fn the_command_line_checks_the_certificate() {
    let authority = Authority::new();
    let identity = authority.sign("dueq", &["localhost", "dueq.example"]);
    let dueq = serving(&shared().await.redis, &authority, &identity).start().await;
    let (url, by_address) = (dueq.https_url(), dueq.url().replace("http:", "https:"));
    let ask = |url: &str| Launch::command(["topics", "--server", url]);
    for launch in [
        ask(&url).args(["--ca"]).args([authority.ca()]),
        ask(&url).env("DUEQ_CA", authority.ca()),
        ask(&url).env("SSL_CERT_FILE", authority.ca()),
        ask(&by_address).env("DUEQ_CA", authority.ca()).env("DUEQ_SERVER_NAME", "dueq.example"),
    ] {
        let finished = launch.finish().await;
        assert_eq!(finished.code, 0, "{finished:?}");
    }
    for (launch, words) in [
        (ask(&url).env("DUEQ_CA", Authority::new().ca()), &["not signed by", "--ca"][..]),
        (ask(&by_address).env("DUEQ_CA", authority.ca()), &["not for 127.0.0.1", "--server-name"]),
    ] {
        let finished = launch.finish().await;
        assert_eq!(finished.code, 1, "{finished:?}");
        assert!(words.iter().all(|word| finished.stderr.contains(word)), "{finished:?}");
    }
    for args in [["--ca", "/nowhere/ca"], ["--client-cert", "/a"], ["--server-name", "a b"]] {
        let finished = ask(&url).args(args).finish().await;
        assert_eq!(finished.code, 2, "{finished:?}");
        assert!(finished.stderr.contains(args[0]), "{finished:?}");
    }
}

#[tokio::test]
async fn what_cannot_be_served_with_is_refused_at_the_start() {
    let authority = Authority::new();
    let good = authority.sign("good", &["localhost"]);
    let old = authority.sign_for_years("old", &["localhost"], 2020, 2021);
    let new = authority.sign_for_years("new", &["localhost"], 3000, 3001);
    let redis = shared().await.redis.url();
    let serve = |args: Vec<&std::path::Path>| {
        let mut launch =
            Launch::command(["serve", "--redis-url", &redis, "--listen", "127.0.0.1:0"]);
        for (flag, path) in ["--tls-cert", "--tls-key", "--tls-client-ca"].iter().zip(args) {
            launch = launch.args([flag]).args([path]);
        }
        launch.finish()
    };
    let nowhere = std::path::Path::new("/nowhere/file");
    let (secret, small) = (temp_dir("keys").join("secret.pem"), temp_dir("keys").join("small.pem"));
    let text = std::fs::read_to_string(&good.key).unwrap();
    let head = "-----BEGIN EC PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: AES-128-CBC,00
";
    replace(&secret, &text.replace("-----BEGIN PRIVATE KEY-----", head).replace("END ", "END EC "));
    let mut rsa = std::process::Command::new("openssl");
    assert!(
        rsa.args(["genrsa", "-out"]).arg(&small).arg("1024").output().unwrap().status.success()
    );
    for (args, words) in [
        (vec![&*old.cert, &*old.key], &["old.pem", "expired at 2021-01-01T00:00:00Z"][..]),
        (vec![&*new.cert, &*new.key], &["new.pem", "not valid before 3000-01-01T00:00:00Z"]),
        (vec![&*good.cert, &*old.key], &["old-key.pem", "good.pem"]),
        (vec![&*good.key, &*good.key], &["no certificate in", "good-key.pem"]),
        (vec![&*good.cert, &*good.cert], &["no private key in", "good.pem"]),
        (vec![&*good.cert, &*secret], &["secret.pem cannot be used: it is encrypted"]),
        (vec![&*good.cert, &*small], &["small.pem", "an RSA key needs 2048 bits"]),
        (vec![&*good.cert, nowhere], &["cannot read /nowhere/file"]),
        (vec![&*good.cert, &*good.key, nowhere], &["cannot read /nowhere/file"]),
        (vec![&*good.cert, &*good.key, &*good.key], &["no certificate in"]),
    ] {
        let finished = serve(args).await;
        assert_eq!((finished.code, finished.stderr.lines().count()), (2, 1), "{finished:?}");
        assert!(words.iter().all(|word| finished.stderr.contains(word)), "{finished:?}");
    }
    for args in [["--tls-cert", "/a"], ["--tls-key", "/a"], ["--tls-client-ca", "/a"]] {
        let finished = Launch::command(["serve", "--redis-url", &redis]).args(args).finish().await;
        assert!(finished.code == 2 && finished.stderr.contains("--tls-"), "{finished:?}");
    }
}

/// The certificate that a new connection is shown.
async fn shown(dueq: &Dueq, config: &Arc<ClientConfig>) -> Vec<u8> {
    let stream = TcpStream::connect(dueq.addr()).await.unwrap();
    let name = "localhost".try_into().unwrap();
    let stream = TlsConnector::from(config.clone()).connect(name, stream).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
}

#[tokio::test]
async fn certificates_are_exchanged_while_requests_go_on() {
    let authority = Authority::new();
    let identity = authority.sign("dueq", &["localhost"]);
    let mut dueq = serving(&shared().await.redis, &authority, &identity).start().await;
    let config = authority.client(None);
    let mut kept = Wire::tls(dueq.addr(), &config).await.unwrap();
    let first = shown(&dueq, &config).await;
    let asking = {
        let (addr, config) = (dueq.addr().to_owned(), config.clone());
        tokio::spawn(async move {
            loop {
                Wire::get_tls(&addr, &config, "/topics").await.unwrap().expect(200);
            }
        })
    };
    for _ in 0..3 {
        let before = shown(&dueq, &config).await;
        authority.sign("dueq", &["localhost"]);
        let start = Instant::now();
        while shown(&dueq, &config).await == before {
            assert!(start.elapsed() < Duration::from_secs(2), "{}", dueq.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    let good = shown(&dueq, &config).await;
    assert_ne!(good, first);
    let said = |words: &str| dueq.log().matches(words).count();
    // An expired certificate, one of another key, and noise keep the old in force, and each is said once.
    let other = authority.sign_for_years("old", &["localhost"], 2020, 2021);
    std::fs::copy(&other.cert, &identity.cert).unwrap();
    eventually("it is said", || async { (said("expired at") == 1).then_some(()) }).await;
    replace(&identity.cert, "noise");
    eventually("it is said", || async { (said("no certificate in") == 1).then_some(()) }).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!((said("expired at"), said("no certificate in")), (1, 1), "{}", dueq.log());
    assert_eq!(shown(&dueq, &config).await, good);
    // A good one again; SIGHUP need not wait for the next look.
    authority.sign("dueq", &["localhost"]);
    dueq.process.signal(Signal::HUP);
    eventually("it is shown", || async { (shown(&dueq, &config).await != good).then_some(()) })
        .await;
    assert!(!asking.is_finished(), "no request failed");
    asking.abort();
    kept.request("GET /healthz HTTP/1.1\r\nhost: localhost", b"").await;
    let answer = kept.answer("a kept connection", SOON).await.unwrap().expect(200);
    assert_eq!(answer.header("connection"), "close", "the next one shows the new certificate");
}

/// How the second of two connections shakes hands.
async fn comes_back(dueq: &Dueq, config: &Arc<ClientConfig>) -> HandshakeKind {
    let mut kind = None;
    for _ in 0..2 {
        let stream = TcpStream::connect(dueq.addr()).await.unwrap();
        let name = "localhost".try_into().unwrap();
        let mut stream = TlsConnector::from(config.clone()).connect(name, stream).await.unwrap();
        // Tickets come with what is read.
        stream
            .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .await
            .unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
        kind = stream.get_ref().1.handshake_kind();
    }
    kind.unwrap()
}

#[tokio::test]
async fn a_session_is_resumed_only_where_no_client_certificate_could_expire_meanwhile() {
    let authority = Authority::new();
    let identity = authority.sign("dueq", &["localhost"]);
    let redis = &shared().await.redis;
    let (free, ca) = (serving(redis, &authority, &identity).start().await, authority.ca());
    for version in [&TLS12, &TLS13] {
        let config = offering(&authority, &[version], &[]);
        assert_eq!(comes_back(&free, &config).await, HandshakeKind::Resumed);
    }
    let worker = authority.sign("worker", &["worker"]);
    let config = authority.client(Some(&worker));
    let strict = serving(redis, &authority, &identity).args(["--tls-client-ca"]).args([&ca]);
    let strict = strict.tls(config.clone()).start().await;
    assert_eq!(comes_back(&strict, &config).await, HandshakeKind::Full);
}

#[tokio::test]
async fn a_stop_waits_for_requests_and_not_for_handshakes() {
    let (mut dueq, config) = started(&[]).await;
    let mut silent = TcpStream::connect(dueq.addr()).await.unwrap();
    silent.write_all(b"\x16\x03\x01").await.unwrap();
    let topic = topic("stop");
    let mut poll = Wire::tls(dueq.addr(), &config).await.unwrap();
    let body = b"{\"wait_ms\":30000}";
    let head = format!(
        "POST /topics/{topic}/lease HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}",
        body.len()
    );
    poll.request(&head, body).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    let start = Instant::now();
    assert_eq!(dueq.term().await, 0);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(
        poll.answer("the poll", SOON).await.unwrap().expect(200).json()["messages"],
        json!([])
    );
    assert!(poll.closes_within(SOON).await);
    let _ = silent.read(&mut [0; 16]).await;
}
