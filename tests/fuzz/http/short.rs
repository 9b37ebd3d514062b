//! The short way beside hyper: whatever bytes come, it takes no request that hyper would not read in the same way. What it does
//! not take is hyper's to read anyhow.

use super::head;
use crate::PublicUrl;
use axum::{
    body::Body,
    http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, Uri, header},
};
use bytes::Bytes;
use dueq_fuzz::{cases, spoilt};
use http_body_util::BodyExt;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use proptest::{collection::vec, prelude::*, sample::select};
use std::{cell::RefCell, convert::Infallible};
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

/// A request as its handler gets it.
#[derive(Debug, PartialEq)]
struct Seen {
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

/// What the short way makes of these bytes, up to the first request that it passes on.
fn by_short_way(bytes: &[u8]) -> Vec<Seen> {
    let mut rest = Bytes::copy_from_slice(bytes);
    let mut all = Vec::new();
    let find = |path: &str, _: &HeaderMap| {
        (path.starts_with("/topics/") || ["/lease", "/sqs/0/a"].contains(&path)).then_some(())
    };
    while let Some(head) = head::parse(&rest, &PublicUrl::default(), find) {
        let end = head.body + head.length;
        if rest.len() < end {
            break;
        }
        let body = rest.slice(head.body..end);
        let (parts, ()) = head.request.into_parts();
        all.push(Seen { method: parts.method, uri: parts.uri, headers: parts.headers, body });
        rest = rest.slice(end..);
    }
    all
}

/// What hyper makes of them.
fn by_hyper(bytes: &[u8]) -> Vec<Seen> {
    let seen = RefCell::new(Vec::new());
    let service = service_fn(async |request: Request<Incoming>| {
        let (parts, body) = request.into_parts();
        if let Ok(body) = body.collect().await {
            let (method, uri, headers) = (parts.method, parts.uri, parts.headers);
            seen.borrow_mut().push(Seen { method, uri, headers, body: body.to_bytes() });
        }
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mut client, server) = duplex(1 << 20);
        let mut http = hyper::server::conn::http1::Builder::new();
        http.max_headers(512).half_close(true);
        let serve = http.serve_connection(TokioIo::new(server), service);
        let ask = async {
            client.write_all(bytes).await.unwrap();
            client.shutdown().await.unwrap();
            let _ = client.read_to_end(&mut Vec::new()).await;
        };
        let _ = tokio::join!(serve, ask);
    });
    seen.into_inner()
}

const HEADS: [&str; 7] = [
    "POST /topics/orders/messages HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 13\r\n\r\n\
        {\"payload\":1}",
    "POST /lease HTTP/1.1\r\nHost: q:8080\r\nAccept: */*\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\n{}",
    "POST /topics/a%2Fb/messages/raw?priority=3&key=a+b HTTP/1.1\r\nhost: [::1]\r\nauthorization: Bearer abc\r\n\
        idempotency-key: k\r\ncontent-length: 0\r\n\r\n",
    "POST /sqs/0/a HTTP/1.1\r\nhost: a\r\nX-Amz-Target: AmazonSQS.SendMessage\r\namz-sdk-request: attempt=1\r\nContent-Length: 2\r\n\r\n{}",
    "POST /topics/a/lease HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST /topics/a/lease HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\ncontent-length: 2\r\n\r\n{}GET ",
    "GET /topics/a HTTP/1.0\r\nhost: a\r\nx: \u{e9}\r\n folded\r\n\r\n",
];

/// Lines that change how a request is read.
const LINES: [&str; 14] = [
    "content-length: 2\r\n",
    "Content-Length:+2\r\n",
    "content-length: 0002\r\n",
    "content-length : 2\r\n",
    "content-length: 2, 2\r\n",
    "transfer-encoding: chunked\r\n",
    "Transfer-Encoding:\tidentity\r\n",
    "connection: close\r\n",
    "connection: upgrade, keep-alive\r\n",
    "upgrade: h2c\r\n",
    "expect: 100-continue\r\n",
    "\tfolded\r\n",
    "host: b\n",
    "accept: a\rb\r\n",
];

/// One to three requests, some with such a line after one of theirs.
fn requests() -> impl Strategy<Value = String> {
    let one = (select(&HEADS[..]), prop::option::of((select(&LINES[..]), 0..5_usize)));
    let one = one.prop_map(|(head, line)| match line {
        None => head.to_owned(),
        Some((line, after)) => {
            let mut lines: Vec<_> = head.split_inclusive("\r\n").collect();
            lines.insert((after + 1).min(lines.len()), line);
            lines.concat()
        }
    });
    vec(one, 1..4).prop_map(|all| all.concat())
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn what_the_short_way_takes_hyper_reads_alike(bytes in spoilt(requests())) {
        let short = by_short_way(&bytes);
        if !short.is_empty() {
            let mut long = by_hyper(&bytes);
            long.truncate(short.len());
            prop_assert_eq!(short, long);
        }
    }
}

#[test]
fn plain_requests_are_taken_and_others_are_not() {
    let [publish, lease, raw, sqs, others @ ..] = HEADS;
    let all = by_short_way([publish, lease, raw, sqs].concat().as_bytes());
    let paths: Vec<_> = all.iter().map(|seen| seen.uri.to_string()).collect();
    let raw = "/topics/a%2Fb/messages/raw?priority=3&key=a+b";
    assert_eq!(paths, ["/topics/orders/messages", "/lease", raw, "/sqs/0/a"]);
    assert_eq!(all[0].body, "{\"payload\":1}");
    let json = HeaderValue::from_static("application/json");
    assert_eq!(all[0].headers.get(header::CONTENT_TYPE), Some(&json));
    assert_eq!(all[2].headers.get(HeaderName::from_static("idempotency-key")).unwrap(), "k");
    let long = format!(
        "POST /lease HTTP/1.1\r\nhost: a\r\ncontent-length: 8150\r\n\r\n{}",
        " ".repeat(8150)
    );
    let with = |line: &str| publish.replacen("\r\n", &format!("\r\n{line}"), 1);
    let others = others.into_iter().map(str::to_owned);
    let refused = LINES.iter().filter(|line| !line.contains("\tfolded")).map(|line| with(line));
    let more = [with("x-other: 1\r\n"), with("host: b\r\n"), with("connection: close\r\n"), long];
    let kinds = [("POST", "GET"), ("POST", "post"), ("/topics", "http://a/topics"), ("1.1", "1.0")];
    let kinds = kinds.map(|(from, to)| publish.replacen(from, to, 1));
    for other in others.chain(refused).chain(more).chain(kinds) {
        assert_eq!(by_short_way(other.as_bytes()), [], "{other}");
    }
}
