//! The client that makes calls, against receivers and name servers of the tests' own: what it must never reach, what it
//! sends, and what it makes of the answers. No Redis and no server is needed for it.

mod call_memory;
mod dns;
mod names;
mod proxy;
mod surroundings;
mod timing;
mod urls;
mod verdicts;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dueq_loops::callbacks::{CallOutcome, CallRequest, Caller};
use dueq_model::{AddressGuard, CallMethod, CallUrl, Proxy};
use http::HeaderMap;

use crate::harness::{Ending, Receiver, Reply};

/// A client that may call what these networks name.
fn caller(allowed: &[&str], dns: Option<SocketAddr>) -> Caller {
    by_proxy(allowed, dns, None)
}

/// The same, maybe through a proxy.
fn by_proxy(allowed: &[&str], dns: Option<SocketAddr>, proxy: Option<Proxy>) -> Caller {
    let allowed = allowed.iter().map(|net| net.parse().unwrap()).collect();
    let guard = AddressGuard { allowed, ..AddressGuard::default() };
    Caller::new(Arc::new(guard), dns, proxy).unwrap()
}

/// A POST of three bytes.
fn request(url: &str) -> CallRequest {
    CallRequest {
        url: CallUrl::parse(url).unwrap(),
        method: CallMethod::Post,
        timeout: Duration::from_secs(10),
        connect_timeout: None,
        retry: None,
        auth: None,
        client_cert: None,
        keep_answer: 1_024,
        names_failed: false,
        headers: HeaderMap::new(),
        body: Bytes::from_static(b"abc"),
        now: 1_763_700_000_000,
    }
}

/// A call that nothing breaks off.
async fn carried_out(caller: &Caller, request: CallRequest) -> CallOutcome {
    caller.call(request, std::future::pending()).await.unwrap()
}

/// The same with a shorter time.
async fn call_within(caller: &Caller, url: &str, ms: u64) -> CallOutcome {
    carried_out(caller, CallRequest { timeout: Duration::from_millis(ms), ..request(url) }).await
}

async fn call(caller: &Caller, url: &str) -> CallOutcome {
    carried_out(caller, request(url)).await
}

/// A whole answer with its length; each of `headers` ends its line.
fn answer(status: u16, headers: &str, body: &str) -> Reply {
    let length = body.len();
    let head = format!("HTTP/1.1 {status} Said\r\ncontent-length: {length}\r\n{headers}\r\n");
    Reply::bytes(head + body, Ending::Keep)
}

/// A receiver at this address (port 0: a free one) with one answer for everybody.
async fn receiver_at(address: &str, reply: Reply) -> Receiver {
    let receiver = Receiver::at(address.parse().unwrap()).await;
    receiver.answer(reply);
    receiver
}

/// One on loopback.
async fn receiver(reply: Reply) -> Receiver {
    receiver_at("127.0.0.1:0", reply).await
}
