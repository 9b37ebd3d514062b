//! A certificate that ends while it is served: what is said before and after, and that a new one ends it.

use std::time::Duration;

use serde_json::{Value, json};

use crate::harness::*;
use crate::tls::serving;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// What `/readyz` warns of, asked by TLS.
async fn warnings(dueq: &Dueq, authority: &Authority) -> Value {
    let answer = Wire::get_tls(dueq.addr(), &authority.client(None), "/readyz").await.unwrap();
    answer.expect(200).json()["warnings"].clone()
}

fn warned(dueq: &Dueq, words: &str) -> usize {
    dueq.log().lines().filter(|line| line.contains("WARN") && line.contains(words)).count()
}

#[tokio::test]
async fn a_certificate_is_warned_of_before_and_after_its_end_until_it_is_renewed() {
    let authority = Authority::new();
    let names = &["localhost"];
    let identity = authority.sign_for("dueq", names, DAY * 6);
    let dueq = serving(&shared().await.redis, &authority, &identity).start().await;
    let said = warnings(&dueq, &authority).await;
    let said = said[0].as_str().unwrap();
    assert!(said.starts_with("the server's certificate expires at 20"), "{said}");
    eventually("a warning", || async { (warned(&dueq, said) == 1).then_some(()) }).await;
    let metrics = Wire::get_tls(dueq.addr(), &authority.client(None), "/metrics").await.unwrap();
    let metrics = String::from_utf8(metrics.body.to_vec()).unwrap();
    let metric = format!(
        "dueq_tls_certificate_not_after_seconds{{file=\"{}\"}} ",
        identity.cert.to_str().unwrap()
    );
    let line = metrics.lines().find_map(|line| line.strip_prefix(&*metric)).unwrap();
    assert!(line.parse::<u64>().unwrap() > 1_700_000_000, "{line}");

    // On a busy machine it may have ended before it is read.
    while warned(&dueq, "the server's certificate expired at") == 0 {
        authority.sign_for("dueq", names, Duration::from_secs(2));
        tokio::time::sleep(Duration::from_secs(4)).await;
    }
    authority.sign_for("dueq", names, DAY * 8);
    eventually("a new certificate", || async {
        let client = authority.client(None);
        let answer = Wire::get_tls(dueq.addr(), &client, "/readyz").await.ok()?;
        (answer.json()["warnings"] == json!(null)).then_some(())
    })
    .await;
    assert_eq!(warned(&dueq, said), 1, "{}", dueq.log());
}

#[tokio::test]
async fn a_certificate_that_is_an_authoritys_is_warned_of() {
    let authority = Authority::new();
    let identity = authority.sign("dueq", &["localhost"]);
    let dueq = serving(&shared().await.redis, &authority, &identity).start().await;
    let words = "is an authority's, which dueq and other clients refuse: make the server's with \
        -addext basicConstraints=critical,CA:FALSE";
    assert_eq!(warned(&dueq, words), 0, "{}", dueq.log());
    authority.serve_itself(&identity);
    eventually("a warning", || async { (warned(&dueq, words) == 1).then_some(()) }).await;
}
