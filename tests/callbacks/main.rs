//! The client that makes calls, against receivers and name servers of the tests' own: what it must never reach, what it
//! sends, and what it makes of the answers. No Redis and no server is needed for it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../harness/mod.rs"]
mod harness;

mod answers;
mod dns;
mod memory;
mod names;
mod receiver;
mod surroundings;
mod table;
mod timing;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dueq::loops::callbacks::{CallOutcome, CallRequest, Caller};
use dueq::model::{AddressGuard, CallMethod, CallUrl};
use http::HeaderMap;

/// A client that may call what these networks name.
fn caller(allowed: &[&str], dns: Option<SocketAddr>) -> Caller {
    let allowed = allowed.iter().map(|net| net.parse().unwrap()).collect();
    Caller::new(Arc::new(AddressGuard { allowed, ..AddressGuard::default() }), dns).unwrap()
}

/// A POST of three bytes.
fn request(url: &str) -> CallRequest {
    CallRequest {
        url: CallUrl::parse(url).unwrap(),
        method: CallMethod::Post,
        timeout: Duration::from_secs(10),
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
