//! Hosts, origins and keys as strangers send them: whatever is let in is a name of this machine to a browser too.

use super::{hosts::Hosts, key_file::KeyFile, keys::Keys};
use axum::{
    body::Body,
    extract::Request,
    http::{HeaderName, HeaderValue, header},
};
use dueq_fuzz::{cases, piece, soon, spoilt, text};
use dueq_model::Secret;
use proptest::{collection::vec, prelude::*, sample::select};
use url::{Host, Url};

/// A request with this header, and a good host beside.
fn request(name: HeaderName, value: &[u8]) -> Option<Request> {
    let mut request = Request::new(Body::empty());
    request.headers_mut().insert(header::HOST, HeaderValue::from_static("localhost"));
    request.headers_mut().insert(name, HeaderValue::from_bytes(value).ok()?);
    Some(request)
}

/// Does a browser take this URL for one of this machine?
fn is_loopback(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else { return false };
    match url.host() {
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        Some(Host::Domain(name)) => name.split('.').next_back() == Some("localhost"),
        None => false,
    }
}

fn host() -> impl Strategy<Value = Vec<u8>> {
    let good = [
        "localhost:8080",
        "127.0.0.1",
        "[::1]:80",
        "a.localhost",
        "127.255.1.2:65535",
        "evil.com",
        "[::ffff:127.0.0.1]",
    ];
    let mixed = vec(prop_oneof![select(good.to_vec()).prop_map(str::to_owned), piece()], 1..4);
    prop_oneof![
        select(good.to_vec()).prop_map(|host| host.as_bytes().to_vec()),
        spoilt(select(good.to_vec())),
        mixed.prop_map(|parts| parts.concat().into_bytes()),
        vec(any::<u8>(), 0..20),
    ]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_host_that_is_let_in_is_of_this_machine_to_a_browser_too(host in host()) {
        let hosts = Hosts::new(&[]).unwrap();
        let Some(request) = request(header::HOST, &host) else { return Ok(()) };
        if hosts.refuse(&request).is_none() {
            let host = std::str::from_utf8(&host).unwrap();
            prop_assert!(is_loopback(&format!("http://{host}/")), "{:?} is let in", host);
        }
    }

    #[test]
    fn an_origin_that_is_let_in_is_of_this_machine_to_a_browser_too(
        scheme in prop_oneof![select(vec!["http://", "https://", "HTTP://", "ftp://", "", "null"]).prop_map(str::to_owned), text()],
        host in host(),
    ) {
        let origin = [scheme.as_bytes(), &host].concat();
        let hosts = Hosts::new(&[]).unwrap();
        let Some(request) = request(header::ORIGIN, &origin) else { return Ok(()) };
        if hosts.refuse(&request).is_none() {
            let origin = std::str::from_utf8(&origin).unwrap();
            prop_assert!(is_loopback(origin), "{:?} is let in", origin);
        }
    }

    #[test]
    fn an_allowed_host_is_refused_at_start_or_lets_itself_in(allowed in prop_oneof![text(), "[a-zA-Z0-9._-]{1,20}", "[0-9a-f:]{2,12}"]) {
        let Ok(hosts) = soon(|| Hosts::new(std::slice::from_ref(&allowed))) else { return Ok(()) };
        let bracketed = if allowed.contains(':') && !allowed.starts_with('[') { format!("[{allowed}]") } else { allowed.clone() };
        for host in [bracketed.clone(), bracketed.to_uppercase() + ":8080"] {
            let Some(request) = request(header::HOST, host.as_bytes()) else { continue };
            prop_assert_eq!(hosts.refuse(&request), None, "{}", host);
        }
    }

    #[test]
    fn only_the_key_itself_is_a_key(value in spoilt(select(vec!["Bearer first-key", "bearer  second", "Basic first-key",
        "AWS4-HMAC-SHA256 Credential=second/20261126/eu/sqs/aws4_request, Signature=0"]))) {
        let given: Vec<Secret> = ["first-key", "second"].map(|key| Secret::from(key.to_owned())).into();
        let keys = Keys::read(&given, None).unwrap().unwrap();
        let Some(request) = request(header::AUTHORIZATION, &value) else { return Ok(()) };
        if soon(|| keys.of(request.headers(), true).is_ok()) {
            let said = String::from_utf8(value).unwrap();
            if said.starts_with("AWS4-HMAC-SHA256 ") {
                prop_assert!(["=first-key/", "=second/"].iter().any(|key| said.contains(key)), "{}", said);
                return Ok(());
            }
            let words: Vec<_> = said.split_ascii_whitespace().collect();
            prop_assert!(words[0].eq_ignore_ascii_case("bearer") && words.len() == 2, "{}", said);
            prop_assert!(["first-key", "second"].contains(&words[1]), "{}", said);
        }
    }

    #[test]
    fn a_key_that_is_given_is_refused_at_start_or_lets_in(key in text()) {
        let Ok(Some(keys)) = Keys::read(&[Secret::from(key.clone())], None) else { return Ok(()) };
        let request = request(header::AUTHORIZATION, format!("Bearer {key}").as_bytes()).unwrap();
        prop_assert!(keys.of(request.headers(), true).is_ok());
    }

    #[test]
    fn a_key_file_is_refused_line_by_line_or_has_all_its_keys(
        lines in vec(spoilt(select(vec![
            "# a comment", "", "shop 0123456789abcdef0123456789abcdef publish:orders.* read:* rate=50 topics=3 bytes=9",
            "ops 0123456789abcdef0123456789abcdee admin", "0123456789abcdef0123456789abcdea0123456789abcdef",
        ])), 0..8),
    ) {
        let text: Vec<u8> = lines.join(&b'\n');
        match soon(|| KeyFile::parse(&text, &[])) {
            Ok(file) => prop_assert!(file.entries.len() <= text.split(|byte| *byte == b'\n').count()),
            Err(wrong) => prop_assert!(wrong.to_string().contains("line ")),
        }
    }
}
