//! Calls through a proxy: what is asked of it, what never reaches it, and whose fault its refusals are.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use dueq_loops::callbacks::{Caller, Verdict};
use dueq_model::{Auth, Proxy, Retry};
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::{CallRequest, answer, by_proxy, call, call_within, carried_out, receiver, request};

/// A proxy whose every name is one receiver. It answers as it is told, and opens a tunnel after a 200.
struct Tunnels {
    address: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    _task: JoinHandle<()>,
}

impl Tunnels {
    async fn start(says: &'static str, receiver: SocketAddr) -> Tunnels {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let heads = Arc::<Mutex<Vec<String>>>::default();
        let seen = heads.clone();
        let _task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let seen = seen.clone();
                tokio::spawn(async move {
                    let mut head = Vec::new();
                    while !head.ends_with(b"\r\n\r\n") {
                        head.push(stream.read_u8().await.unwrap());
                    }
                    seen.lock().unwrap().push(String::from_utf8(head).unwrap());
                    stream.write_all(says.as_bytes()).await.unwrap();
                    if says.ends_with("\r\n\r\n") && says.contains(" 200 ") {
                        let mut there = TcpStream::connect(receiver).await.unwrap();
                        let _ = copy_bidirectional(&mut stream, &mut there).await;
                    }
                    // It stays open until the caller closes it.
                    let _ = stream.read_u8().await;
                });
            }
        });
        Tunnels { address, heads, _task }
    }

    /// A caller that uses it, but not for these; it may call 127.0.0.2.
    fn caller(&self, except: &[&str]) -> Caller {
        let except: Vec<_> = except.iter().map(|text| text.parse().unwrap()).collect();
        let proxy = Proxy::parse(&format!("http://us%40er:pass@{}", self.address), &except);
        by_proxy(&["127.0.0.2/32"], None, Some(proxy.unwrap()))
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.heads.lock().unwrap())
    }
}

const OPEN: &str = "HTTP/1.1 200 Connection established\r\nvia: a\r\n\r\n";

#[tokio::test]
async fn a_tunnel_is_asked_for_and_kept_and_the_proxy_resolves_the_name() {
    let there = receiver(answer(200, "", "")).await;
    let proxy = Tunnels::start(OPEN, there.addr()).await;
    let caller = proxy.caller(&[]);
    for _ in 0..3 {
        assert_eq!(call(&caller, "http://hooks.invalid:8080/a").await.verdict, Verdict::Delivered);
    }
    let target = "hooks.invalid:8080";
    // printf '%s' 'us@er:pass' | base64
    let head = format!(
        "CONNECT {target} HTTP/1.1\r\nhost: {target}\r\nproxy-authorization: Basic dXNAZXI6cGFzcw==\r\n\r\n"
    );
    assert_eq!(proxy.asked(), [head]);
    for call in there.calls() {
        assert_eq!((call.path.as_str(), call.header("host")), ("/a", target));
        assert!(!call.has("proxy-authorization"), "{call:?}");
    }
    // A token, too.
    let auth = serde_json::json!({"kind": "oauth2", "name": "a", "secret": "b", "token_url": "http://login.invalid/"});
    let auth: Option<Auth> = serde_json::from_value(auth).unwrap();
    carried_out(&caller, CallRequest { auth, ..request("http://hooks.invalid/") }).await;
    assert!(proxy.asked()[0].starts_with("CONNECT login.invalid:80 "));
    // TLS is spoken with the receiver, here one that does not speak it.
    let failed = call_within(&caller, "https://[2606:4700::1111]/", 2_000).await;
    let error = failed.report.error.unwrap();
    assert!(error.starts_with("no TLS: ") || error.contains("connection"), "{error}");
    assert!(proxy.asked()[0].starts_with("CONNECT [2606:4700::1111]:443 "));
}

#[tokio::test]
async fn addresses_are_judged_and_exceptions_called_without_the_proxy() {
    let there = receiver(answer(200, "", "")).await;
    let proxy = Tunnels::start(OPEN, there.addr()).await;
    let caller = proxy.caller(&["127.0.0.0/8", ".near.invalid"]);
    let port = there.addr().port();
    let through = proxy.caller(&[]);
    for refused in [
        "http://127.0.0.1:1/",
        "http://[::1]/",
        "http://LocalHost./",
        "http://a.localhost/",
        "http://10.0.0.1/",
    ] {
        let outcome = call(&through, refused).await;
        assert_eq!(outcome.verdict, Verdict::Dead, "{refused}");
        assert!(outcome.report.error.unwrap().starts_with("callback_address_refused"));
    }
    assert_eq!(call(&through, "http://127.0.0.2:1/").await.verdict, Verdict::Delivered);
    assert_eq!(proxy.asked().len(), 1);
    // Without it: the guard judges as ever, and names are looked up here.
    let direct = call(&caller, &format!("http://127.0.0.1:{port}/")).await;
    assert_eq!(direct.verdict, Verdict::Dead, "{direct:?}");
    let unknown = call(&caller, "http://a.near.invalid/").await;
    assert_eq!(unknown.report.error.unwrap(), "no such host: a.near.invalid");
    assert!(proxy.asked().is_empty());
}

#[tokio::test]
async fn a_proxy_that_fails_is_not_the_receivers_fault() {
    let there = receiver(answer(200, "", "")).await;
    let again = Verdict::Retry { after: None };
    for (says, error, verdict) in [
        ("HTTP/1.1 407 Who\r\n\r\n", "cannot connect: the proxy answered 407", again),
        ("HTTP/1.1 502 Bad\r\n\r\n", "cannot connect: the proxy answered 502", Verdict::Dead),
        ("SSH-2.0\r\n\r\n", "cannot connect: the proxy does not speak HTTP", again),
        ("HTTP/1.1 200 ", "no answer in time through the proxy", Verdict::Dead),
    ] {
        let proxy = Tunnels::start(says, there.addr()).await;
        let retry = Some(Retry { never: vec!["connect".to_owned()], ..Retry::default() });
        let connect_timeout = Some(std::time::Duration::from_millis(500));
        let call = CallRequest { retry, connect_timeout, ..request("http://a.invalid/") };
        let outcome = carried_out(&proxy.caller(&[]), call).await;
        assert_eq!(outcome.verdict, verdict, "{says:?} {outcome:?}");
        assert!(outcome.report.error.as_ref().unwrap().ends_with(error), "{outcome:?}");
    }
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let proxy = Proxy::parse(&format!("http://{closed}"), &[]).unwrap();
    let outcome = call(&by_proxy(&[], None, Some(proxy)), "http://a.invalid/").await;
    assert_eq!(outcome.report.error.unwrap(), "cannot connect: the proxy: connection refused");
    assert_eq!(there.count(), 0);
}
