//! Names that only this machine has: which `Host` and `Origin` are let in where there are no keys.
//!
//! A name is taken only in the one form that clients send: userinfo, a final dot, `127.1`, `2130706433`, `%6cocalhost`
//! and the like are refused rather than understood, since two readers may understand them differently. Nothing here
//! allocates: it runs before every request. The last `Host` that was let in is remembered.

use super::AccessError;
use axum::{
    extract::Request,
    http::{HeaderName, HeaderValue, header},
};
use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Mutex,
};

const NO_HOST: &str = "the request has no Host header; without API keys dueq answers only to loopback names and those \
    in --allow-host";
const HOST: &str =
    "the request's Host is neither loopback nor named by --allow-host, and there are no API keys";
const ORIGIN: &str =
    "the request's Origin is neither loopback nor named by --allow-host, and there are no API keys";

const FORWARDED: &str = "the request came through a proxy, and there are no API keys: allow the hosts that clients \
    use with --allow-host, and have the proxy pass on Host";
const SITE: &str =
    "the request comes from a page of another site (Sec-Fetch-Site), and there are no API keys";
/// What proxies add.
static PROXIED: [HeaderName; 5] = [
    header::FORWARDED,
    header::VIA,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-real-ip"),
];
/// Where a browser says that the page is from that has it send the request.
pub(super) const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// A host without its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host<'a> {
    Address(IpAddr),
    Name(&'a str),
}

/// Hosts that are let in besides those of loopback.
#[derive(Debug)]
pub struct Hosts {
    allowed: Vec<String>,
    /// The last `Host` of a request that said nothing else of where it is from, and was let in.
    known: Mutex<Option<HeaderValue>>,
}

impl Hosts {
    /// Loopback and `allowed`, names or addresses.
    ///
    /// Errors: where one of them is no host.
    pub fn new(allowed: &[String]) -> Result<Self, AccessError> {
        for text in allowed {
            Host::of_setting(text).ok_or_else(|| AccessError::Host(text.clone()))?;
        }
        Ok(Self { allowed: allowed.to_vec(), known: Mutex::default() })
    }

    /// What is wrong with the names that the request gives, if anything: the authority of its URI, and every `Host`
    /// and `Origin`, must be let in. It must name a host somehow; a browser always does, so a client that does not (HTTP/1.0)
    /// is no danger, but none that a client of today needs either.
    pub fn refuse(&self, request: &Request) -> Option<&'static str> {
        let headers = request.headers();
        let says_more = |name: &HeaderName| {
            PROXIED.contains(name) || *name == header::ORIGIN || *name == SEC_FETCH_SITE
        };
        let mut hosts = headers.get_all(header::HOST).iter();
        let host = match (hosts.next(), hosts.next(), request.uri().authority()) {
            (host, None, None) if !headers.keys().any(says_more) => host,
            _ => None,
        };
        if host.is_some() && self.known.lock().is_ok_and(|known| known.as_ref() == host) {
            return None;
        }
        let refusal = self.refuse_names(request);
        if let (None, Some(host), Ok(mut known)) = (refusal, host, self.known.lock()) {
            *known = Some(host.clone());
        }
        refusal
    }

    fn refuse_names(&self, request: &Request) -> Option<&'static str> {
        let headers = request.headers();
        let is_proxied = PROXIED.iter().any(|name| headers.contains_key(name));
        if is_proxied && self.allowed.is_empty() {
            return Some(FORWARDED);
        }
        // A page of the same site may be another's, unless its origin is let in.
        let has_origin = headers.contains_key(header::ORIGIN);
        let is_near = |site: &HeaderValue| match site.as_bytes() {
            b"same-origin" | b"none" => true,
            b"same-site" => has_origin,
            _ => false,
        };
        if !headers.get_all(&SEC_FETCH_SITE).iter().all(is_near) {
            return Some(SITE);
        }
        let authority = request.uri().authority();
        let mut hosts = headers.get_all(header::HOST).iter().peekable();
        if authority.is_none() && hosts.peek().is_none() {
            return Some(NO_HOST);
        }
        // Behind a proxy, the names of loopback are the proxy's own.
        let good = |host: Option<Host>| {
            host.is_some_and(|it| self.allows(it) || (!is_proxied && it.is_loopback()))
        };
        let host_is_good = authority.is_none_or(|text| good(Host::of_authority(text.as_str())))
            && hosts.all(|value| good(value.to_str().ok().and_then(Host::of_authority)));
        if !host_is_good {
            return Some(if is_proxied { FORWARDED } else { HOST });
        }
        let mut origins = headers.get_all(header::ORIGIN).iter();
        let origin_is_good = origins.all(|value| {
            value.to_str().ok().and_then(Host::of_origin).is_some_and(|it| self.lets_in(it))
        });
        (!origin_is_good).then_some(ORIGIN)
    }

    fn lets_in(&self, host: Host) -> bool {
        host.is_loopback() || self.allows(host)
    }

    fn allows(&self, host: Host) -> bool {
        self.allowed.iter().filter_map(|text| Host::of_setting(text)).any(|allowed| {
            match (allowed, host) {
                (Host::Address(allowed), Host::Address(host)) => allowed == host,
                (Host::Name(allowed), Host::Name(host)) => allowed.eq_ignore_ascii_case(host),
                _ => false,
            }
        })
    }
}

impl<'a> Host<'a> {
    /// `host` or `host:port`, as a `Host` header has it.
    fn of_authority(text: &'a str) -> Option<Self> {
        // The colons of an IPv6 address are inside brackets.
        let name_end = text.rfind(']').map_or(0, |at| at + 1);
        let (host, port) = match text[name_end..].find(':') {
            Some(at) => (&text[..name_end + at], Some(&text[name_end + at + 1..])),
            None => (text, None),
        };
        if port.is_some_and(|port| !is_port(port)) {
            return None;
        }
        match host.strip_prefix('[') {
            Some(rest) => {
                let address: Ipv6Addr = rest.strip_suffix(']')?.parse().ok()?;
                Some(Self::Address(address.into()))
            }
            None => Self::of_name(host),
        }
    }

    /// `scheme://host` or `scheme://host:port`, as an `Origin` header has it; `null` is none.
    fn of_origin(text: &'a str) -> Option<Self> {
        let (scheme, authority) = text.split_once("://")?;
        let is_web = ["http", "https"].iter().any(|web| scheme.eq_ignore_ascii_case(web));
        if is_web { Self::of_authority(authority) } else { None }
    }

    /// What `--allow-host` takes: a name or an address, IPv6 with or without brackets.
    fn of_setting(text: &'a str) -> Option<Self> {
        let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        match bare.unwrap_or(text).parse::<Ipv6Addr>() {
            Ok(address) => Some(Self::Address(address.into())),
            Err(_) => Self::of_name(text),
        }
    }

    /// An IPv4 address of four decimal numbers, or a DNS name.
    fn of_name(text: &'a str) -> Option<Self> {
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Some(Self::Address(address.into()));
        }
        // What ends in a number is an address in disguise to a browser (`127.1`, `0x7f000001`).
        let last = text.rsplit('.').next().unwrap_or(text);
        let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
        let number = last.bytes().all(|byte| byte.is_ascii_digit())
            || hex.is_some_and(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()));
        (text.len() <= 253 && !number && text.split('.').all(is_label)).then_some(Self::Name(text))
    }

    /// 127.0.0.0/8, ::1, and the names that RFC 6761 (6.3) keeps for loopback.
    fn is_loopback(self) -> bool {
        match self {
            Self::Address(address) => address.is_loopback(),
            Self::Name(name) => {
                let last = name.rsplit('.').next().unwrap_or(name);
                last.eq_ignore_ascii_case("localhost")
            }
        }
    }
}

/// RFC 1123, and the underscore that containers' names have.
fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
        && !label.starts_with('-')
        && !label.ends_with('-')
}

fn is_port(text: &str) -> bool {
    // `parse` alone would take `+80`.
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loopback(text: &str) -> bool {
        Host::of_authority(text).is_some_and(Host::is_loopback)
    }

    #[test]
    fn loopback_has_these_names() {
        for text in [
            "127.0.0.1",
            "127.0.0.1:8080",
            "127.255.3.4:1",
            "[::1]",
            "[::1]:65535",
            "[0:0:0:0:0:0:0:1]:80",
            "localhost",
            "LocalHost:8080",
            "a.b-c.localhost:8080",
        ] {
            assert!(loopback(text), "{text}");
        }
    }

    #[test]
    fn and_none_that_looks_like_one() {
        for text in [
            "",
            ":",
            ":80",
            ".",
            "localhost.",
            "127.0.0.1.",
            "localhost:",
            "localhost:x",
            "localhost:65536",
            "localhost:+80",
            "localhost:80:80",
            "127.1",
            "127.0.0.01",
            "2130706433",
            "0x7f000001",
            "0177.0.0.1",
            "0.0.0.0",
            "127.0.0.1.evil.com",
            "localhost.evil.com",
            "notlocalhost",
            "evil-localhost",
            ".localhost",
            "a..localhost",
            "-.localhost",
            "evil.com@localhost",
            "localhost@evil.com",
            "localhost/",
            "localhost#",
            "localhost\\evil.com",
            "evil.com:80@localhost",
            "%6cocalhost",
            "l\u{f6}calhost",
            "localhost evil.com",
            "localhost,evil.com",
            " localhost",
            "::1",
            "::1]",
            "[::1",
            "[::1]x",
            "x[::1]",
            "[::1]:",
            "[::1%lo]",
            "[::]",
            "[::ffff:127.0.0.1]",
            "[::2]",
            "[127.0.0.1]",
            "[localhost]",
            "[[::1]]",
            "[::1].localhost",
            "[]",
            "]",
            "[",
            "evil.com",
        ] {
            assert!(!loopback(text), "{text}");
        }
        assert!(!loopback(&format!("{}localhost", "a.".repeat(130))), "too long a name");
    }

    #[test]
    fn an_origin_is_a_scheme_of_the_web_and_a_host() {
        for text in ["http://localhost:3000", "https://127.0.0.1", "http://[::1]:80"] {
            assert!(Host::of_origin(text).is_some_and(Host::is_loopback), "{text}");
        }
        for text in [
            "null",
            "",
            "localhost",
            "http:",
            "http://",
            "http:///",
            "http://localhost/",
            "http://localhost http://localhost",
            "file://",
            "file://localhost",
            "ftp://localhost",
            "http://evil.com",
            "http://a@localhost",
            "http://localhost:80/x",
            "://localhost",
            "http:localhost",
            "http://http://localhost",
        ] {
            assert!(!Host::of_origin(text).is_some_and(Host::is_loopback), "{text}");
        }
    }

    #[test]
    fn what_is_allowed_is_a_host_without_port() {
        let good = ["queue", "Queue.Example.com", "my_queue", "10.1.2.3", "fd00::1", "[fd00::1]"];
        let hosts = Hosts::new(&good.map(str::to_owned)).unwrap();
        for text in ["QUEUE:80", "queue.example.COM", "10.1.2.3", "[FD00:0::1]:8080", "localhost"] {
            assert!(Host::of_authority(text).is_some_and(|host| hosts.lets_in(host)), "{text}");
        }
        for text in ["a.queue", "example.com", "10.1.2.4", "[fd00::2]"] {
            assert!(!Host::of_authority(text).is_some_and(|host| hosts.lets_in(host)), "{text}");
        }
        for text in
            ["", "*", "*.example.com", "queue:80", "http://queue", "queue.", "10.1", "[queue]"]
        {
            assert!(Hosts::new(&[text.to_owned()]).is_err(), "{text}");
        }
    }

    #[test]
    fn what_was_let_in_lets_in_nothing_else() {
        let hosts = Hosts::new(&["queue".to_owned()]).unwrap();
        let refused = |lines: &[(&str, &str)]| {
            let builder = Request::builder().uri("/");
            let request = lines.iter().fold(builder, |it, (name, value)| it.header(*name, *value));
            hosts.refuse(&request.body(axum::body::Body::empty()).unwrap())
        };
        for _ in 0..2 {
            assert_eq!(refused(&[("host", "localhost:1")]), None);
            assert_eq!(refused(&[("host", "evil.com")]), Some(HOST));
            assert_eq!(refused(&[]), Some(NO_HOST));
            assert_eq!(refused(&[("host", "localhost:1"), ("host", "evil.com")]), Some(HOST));
            let with = |name, value| refused(&[("host", "localhost:1"), (name, value)]);
            assert_eq!(with("via", "1.1 proxy"), Some(FORWARDED));
            assert_eq!(with("x-real-ip", "192.0.2.1"), Some(FORWARDED));
            assert_eq!(with("origin", "http://evil.com"), Some(ORIGIN));
            assert_eq!(with("sec-fetch-site", "cross-site"), Some(SITE));
            assert_eq!(refused(&[("host", "queue")]), None);
        }
    }
}
