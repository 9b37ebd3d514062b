//! What every answer says to the pages of other sites, also where the request is no HTTP.

use crate::harness::*;
use crate::tls::started;

#[tokio::test]
async fn no_answer_can_be_framed_or_embedded_by_another_site() {
    let client = client().await;
    for path in ["/healthz", "/topics", "/nowhere", "/guide", "/ui", "/docs/", "/metrics", "/"] {
        let answer = client.get_path(path).await;
        for (name, wanted) in
            [("cross-origin-resource-policy", "same-origin"), ("x-frame-options", "DENY")]
        {
            let header = answer.headers.get(name).and_then(|value| value.to_str().ok());
            assert_eq!(header, Some(wanted), "{path}: {name}");
        }
        assert!(answer.headers.get("strict-transport-security").is_none(), "{path}: no TLS");
    }
}

#[tokio::test]
async fn what_is_no_http_is_refused_as_a_problem() {
    let addr = shared().await.dueq.addr();
    for head in [
        "NONSENSE",
        "GET /topics HTTP/9.9",
        "G@T /topics HTTP/1.1",
        "GET /a b HTTP/1.1",
        "GET /topics HTTP/1.1\r\na b: c",
    ] {
        let mut wire = Wire::connect(addr).await;
        wire.request(head, b"").await;
        let answer = wire.answer(head, std::time::Duration::from_secs(10)).await;
        let answer = answer.unwrap_or_else(|| panic!("{head:?} is not answered"));
        assert_eq!(answer.status, 400, "{head:?}: {answer}");
        let kind = answer.headers.get("content-type").and_then(|value| value.to_str().ok());
        assert_eq!(kind, Some("application/problem+json"), "{head:?}: {answer}");
        assert_eq!(answer.json()["status"], 400, "{head:?}: {answer}");
    }
}

#[tokio::test]
async fn answers_by_tls_have_browsers_stay_with_it_and_others_do_not() {
    let (dueq, client) = started(&[]).await;
    for path in ["/healthz", "/topics", "/nowhere", "/ui", "/guide/nowhere", "/openapi.json"] {
        let answer = Wire::get_tls(dueq.addr(), &client, path).await.unwrap();
        assert_eq!(answer.header("strict-transport-security"), "max-age=31536000", "{path}");
        let plain = shared().await.dueq.client().get_path(path).await;
        assert!(plain.headers.get("strict-transport-security").is_none(), "{path}");
    }
}
