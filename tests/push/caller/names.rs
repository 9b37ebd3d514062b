//! Names: every address that one has is checked, and the one that was checked is dialled.

use std::net::IpAddr;

use dueq_loops::callbacks::{Caller, Verdict};

use super::dns::NameServer;
use super::{answer, call, caller, receiver, receiver_at};
use crate::harness::{Ending, Receiver, Reply};

const CLOSING: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|ip| ip.parse().unwrap()).collect()
}

/// A name that is a public address and loopback by turns, and who would be called there.
struct Rebinding {
    public: Receiver,
    loopback: Receiver,
    caller: Caller,
    url: String,
    _dns: NameServer,
}

async fn rebinding() -> Rebinding {
    // 127.0.0.2 stands for a public address; both listen on one port.
    let public = receiver_at("127.0.0.2:0", Reply::bytes(CLOSING.to_vec(), Ending::Close)).await;
    let port = public.addr().port();
    let loopback = receiver_at(&format!("127.0.0.1:{port}"), answer(200, "", "")).await;
    let _dns = NameServer::start(|_, asked| {
        Some(ips(if asked.is_multiple_of(2) { &["127.0.0.2"] } else { &["127.0.0.1"] }))
    })
    .await;
    let caller = caller(&["127.0.0.2/32"], Some(_dns.address));
    Rebinding { public, loopback, caller, url: format!("http://rebind.test:{port}/"), _dns }
}

#[tokio::test]
async fn a_name_that_turns_to_loopback_after_it_was_checked_never_gets_there() {
    let Rebinding { loopback, caller, url, .. } = &rebinding().await;
    let (mut delivered, mut refused) = (0, 0);
    for _ in 0..40 {
        match call(caller, url).await.verdict {
            Verdict::Delivered => delivered += 1,
            Verdict::Dead => refused += 1,
            // A connection that was just closed was chosen.
            Verdict::Retry { .. } => {}
        }
    }
    assert_eq!(loopback.accepted(), 0);
    assert!(delivered > 0 && refused > 0, "{delivered} delivered, {refused} refused");
}

#[tokio::test]
async fn many_calls_at_once_of_a_rebinding_name_never_get_to_loopback() {
    let Rebinding { public, loopback, caller, url, .. } = &rebinding().await;
    // Calls at the same time share a question, so the name turns from wave to wave.
    for _ in 0..10 {
        futures_util::future::join_all((0..10).map(|_| call(caller, url))).await;
    }
    assert_eq!(loopback.accepted(), 0);
    assert!(public.accepted() > 0);
}

#[tokio::test]
async fn of_the_addresses_of_a_name_only_the_allowed_are_dialled() {
    let allowed = receiver_at("127.0.0.3:0", answer(200, "", "")).await;
    let port = allowed.addr().port();
    let refused = receiver_at(&format!("127.0.0.1:{port}"), answer(200, "", "")).await;
    let addresses = ["127.0.0.1", "10.0.0.1", "::1", "127.0.0.3", "::ffff:127.0.0.1"];
    let dns = NameServer::start(move |_, _| Some(ips(&addresses))).await;
    let caller = caller(&["127.0.0.3/32"], Some(dns.address));
    let outcome = call(&caller, &format!("http://mixed.test:{port}/")).await;
    assert_eq!(outcome.verdict, Verdict::Delivered, "{:?}", outcome.report);
    assert_eq!((allowed.accepted(), refused.accepted()), (1, 0));
}

#[tokio::test]
async fn where_one_address_does_not_take_connections_the_next_is_tried() {
    let receiver = receiver(answer(200, "", "")).await;
    let dns = NameServer::start(|_, _| Some(ips(&["127.0.0.9", "::1", "127.0.0.1"]))).await;
    let caller = caller(&["127.0.0.0/8", "::1/128"], Some(dns.address));
    let url = format!("http://two.test:{}/", receiver.addr().port());
    assert_eq!(call(&caller, &url).await.verdict, Verdict::Delivered);
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_tried_again_later() {
    let dns = NameServer::start(|_, _| None).await;
    let caller = caller(&[], Some(dns.address));
    let outcome = call(&caller, "http://nowhere.test/").await;
    assert_eq!(outcome.verdict, Verdict::Retry { after: None });
    assert_eq!(outcome.report.error.as_deref(), Some("no such host: nowhere.test"));
    assert_eq!(outcome.report.status, None);
}

#[tokio::test]
async fn a_name_server_that_says_nothing_does_not_hold_a_call() {
    let silent = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let caller = caller(&[], Some(silent.local_addr().unwrap()));
    let outcome = call(&caller, "http://slow.test/").await;
    assert_eq!(outcome.verdict, Verdict::Retry { after: None });
    let error = outcome.report.error.unwrap();
    assert!(error.starts_with("cannot look up slow.test: "), "{error}");
    assert!(outcome.report.duration_ms < 8_000, "{} ms", outcome.report.duration_ms);
}
