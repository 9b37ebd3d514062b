//! What the environment says: proxies are ignored, root certificates are not. Each test runs itself once more, as a
//! process of its own with the variables set.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;

use dueq_loops::callbacks::{Caller, Verdict};
use dueq_model::AddressGuard;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use tokio_rustls::rustls::{RootCertStore, ServerConfig, server::WebPkiClientVerifier};

use super::dns::NameServer;
use super::{CallRequest, answer, carried_out, receiver, request};
use crate::harness::{Authority, temp_dir};

/// Set in the second process, to the URL to call, and the name server to ask.
const URL: &str = "CALLBACKS_TEST_URL";
const DNS: &str = "CALLBACKS_TEST_DNS";
/// A client certificate of the caller, and the name that is called with.
const CERT: &str = "CALLBACKS_TEST_CERT";
const NAME: &str = "CALLBACKS_TEST_NAME";

/// Calls the URL of the environment where there is one: then this is the second process.
async fn called() -> Option<(Verdict, String)> {
    let url = std::env::var(URL).ok()?;
    let dns: SocketAddr = std::env::var(DNS).unwrap().parse().unwrap();
    let (allowed, cert) = (vec!["127.0.0.0/8".parse().unwrap()], std::env::var(CERT));
    let guard = AddressGuard { allowed, ..AddressGuard::default() };
    let caller = Caller::new(Arc::new(guard), Some(dns), None).unwrap();
    if let Ok(cert) = cert {
        caller.certify(&cert.parse().unwrap()).unwrap();
    }
    let bad = "bank=/none,/none".parse().unwrap();
    assert!(caller.certify(&bad).is_err(), "the one of before stays");
    let client_cert = std::env::var(NAME).ok();
    let outcome = carried_out(&caller, CallRequest { client_cert, ..request(&url) }).await;
    Some((outcome.verdict, outcome.report.error.unwrap_or_default()))
}

/// Runs the test of this name in a process of its own.
async fn run(test: &str, variables: &[(&str, String)]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).envs(variables.iter().cloned());
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}\n{errors}");
}

#[tokio::test]
async fn proxies_of_the_environment_are_ignored() {
    if let Some((verdict, error)) = called().await {
        assert_eq!(verdict, Verdict::Delivered, "{error}");
        return;
    }
    let dns = NameServer::of_numbers().await;
    let proxy = receiver(answer(500, "", "")).await;
    let receiver = receiver(answer(200, "", "")).await;
    let names =
        ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    let mut variables: Vec<_> = names.map(|name| (name, proxy.url("/"))).to_vec();
    variables.push((DNS, dns.address.to_string()));
    let port = receiver.addr().port();
    for host in ["127.0.0.1", "proxied.test"] {
        let url = (URL, format!("http://{host}:{port}/"));
        let name = "caller::surroundings::proxies_of_the_environment_are_ignored";
        run(name, &[&variables[..], &[url]].concat()).await;
    }
    assert_eq!((proxy.accepted(), receiver.count()), (0, 2));
}

/// A host `secure.test` with a certificate of its own, that answers every request 200.
async fn secure(dir: &std::path::Path) -> SocketAddr {
    let made = rcgen::generate_simple_self_signed(["secure.test".to_owned()]).unwrap();
    std::fs::write(dir.join("root.pem"), made.cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    serving(config).await
}

/// A host with this configuration that answers every request 200.
async fn serving(config: ServerConfig) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let acceptor = TlsAcceptor::from(Arc::new(config));
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let mut read = [0; 4_096];
            if stream.read(&mut read).await.is_ok() {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
            }
        }
    });
    address
}

#[tokio::test]
async fn https_wants_a_certificate_that_the_system_trusts_for_the_name() {
    if let Some((verdict, error)) = called().await {
        match std::env::var("CALLBACKS_TEST_ERROR") {
            Err(_) => assert_eq!(verdict, Verdict::Delivered, "{error}"),
            Ok(wanted) => {
                assert_eq!(verdict, Verdict::Retry { after: None });
                assert!(error.starts_with("no TLS: ") && error.contains(&wanted), "{error}");
            }
        }
        return;
    }
    let dns = NameServer::of_numbers().await;
    let dir = temp_dir("roots");
    let port = secure(&dir).await.port();
    let root = ("SSL_CERT_FILE", dir.join("root.pem").to_string_lossy().into_owned());
    let ask = (DNS, dns.address.to_string());
    let url = |host: &str| (URL, format!("https://{host}:{port}/"));
    let error = |text: &str| ("CALLBACKS_TEST_ERROR", text.to_owned());
    let name =
        "caller::surroundings::https_wants_a_certificate_that_the_system_trusts_for_the_name";
    run(name, &[url("secure.test"), ask.clone(), root.clone()]).await;
    run(name, &[url("other.test"), ask.clone(), root, error("not valid for name")]).await;
    run(name, &[url("secure.test"), ask, error("UnknownIssuer")]).await;
}

#[tokio::test]
async fn a_receiver_that_wants_a_client_certificate_gets_the_one_that_is_named() {
    if let Some((verdict, error)) = called().await {
        match std::env::var("CALLBACKS_TEST_ERROR") {
            Err(_) => assert_eq!(verdict, Verdict::Delivered, "{error}"),
            Ok(wanted) => {
                assert_eq!(verdict, Verdict::Retry { after: None });
                assert!(error.contains(&wanted), "{error}");
            }
        }
        return;
    }
    let (dns, authority) = (NameServer::of_numbers().await, Authority::new());
    let [server, client] = ["server", "client"].map(|it| authority.sign(it, &["secure.test"]));
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.ca()).unwrap()).unwrap();
    let provider = Arc::new(ring::default_provider());
    let wants = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(wants.build().unwrap())
        .with_single_cert(
            vec![CertificateDer::from_pem_file(&server.cert).unwrap()],
            PrivateKeyDer::from_pem_file(&server.key).unwrap(),
        )
        .unwrap();
    let url = (URL, format!("https://secure.test:{}/", serving(config).await.port()));
    let known = [
        url,
        (DNS, dns.address.to_string()),
        ("SSL_CERT_FILE", authority.ca().display().to_string()),
        (CERT, format!("bank={},{}", client.cert.display(), client.key.display())),
    ];
    let error = |text: &str| ("CALLBACKS_TEST_ERROR", text.to_owned());
    let name = |name: &str| (NAME, name.to_owned());
    let test = "caller::surroundings::a_receiver_that_wants_a_client_certificate_gets_the_one_that_is_named";
    for more in [
        vec![name("bank")],
        vec![error("the connection ")],
        vec![name("shop"), error("this instance has no --callback-client-cert shop")],
    ] {
        run(test, &[&known[..], &more].concat()).await;
    }
}
