//! A server behind TLS, as a proxy makes one: the client commands check its certificate and speak to it.

use std::path::PathBuf;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use crate::client::failed;
use crate::harness::*;

/// Serves one empty list of topics over TLS: its URL, and a file with the certificate authority to trust.
async fn served() -> (String, PathBuf) {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority).unwrap();
    let file = temp_dir("tls").join("ca.pem");
    std::fs::write(&file, authority.pem()).unwrap();

    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        // A client that does not trust the certificate ends here.
        let Ok(mut stream) = acceptor.accept(stream).await else { return };
        let _ = stream.read(&mut [0; 4096]).await.unwrap();
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 12\r\n\r\n{\"items\":[]}";
        stream.write_all(answer).await.unwrap();
        stream.flush().await.unwrap();
    });
    (url, file)
}

#[tokio::test]
async fn a_server_behind_tls_is_asked() {
    let (url, authority) = served().await;
    let launch = Launch::command(["topics", "--server", &url]).env("SSL_CERT_FILE", authority);
    let finished = launch.finish().await;
    assert_eq!((finished.code, &*finished.stdout), (0, "no topics\n"), "{finished:?}");
}

#[tokio::test]
async fn a_certificate_of_nobody_known_is_refused() {
    let (url, _) = served().await;
    let (_, other) = served().await;
    let launch = Launch::command(["topics", "--server", &url]).env("SSL_CERT_FILE", other);
    let finished = launch.finish().await;
    assert_eq!(finished.code, 1, "{finished:?}");
    assert!(finished.stderr.contains("not signed by a trusted authority"), "{finished:?}");
}

#[tokio::test]
async fn the_wrong_scheme_is_told_with_the_right_one() {
    let address = shared().await.dueq.addr();
    let (url, authority) = served().await;
    let server = format!("https://{address}");
    let upper = server.to_uppercase();
    let launch = Launch::command(["topics", "--server", &upper]).env("SSL_CERT_FILE", authority);
    let finished = launch.finish().await;
    let advice = format!("dueq: {server} speaks plain HTTP: use http://{address}\n");
    assert_eq!((finished.code, finished.stderr), (1, advice));

    let server = url.replace("https", "http");
    let told = failed(1, &["topics", "--server", &server]).await;
    let advice = format!("{server} does not speak plain HTTP: if it speaks TLS, use {url}");
    assert_eq!(told, format!("dueq: {advice}\n"));

    // OpenSSL answers plain HTTP by closing the connection.
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { listener.accept().await.unwrap().0.read(&mut [0; 4096]).await });
    let told = failed(1, &["topics", "--server", &address.to_string()]).await;
    let advice =
        format!("http://{address} closed the connection: if it speaks TLS, use https://{address}");
    assert_eq!(told, format!("dueq: {advice}\n"));
}
