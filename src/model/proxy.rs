//! The proxy by which calls leave, and the hosts that are called without it.

use super::{Secret, addresses::names};
use base64::{Engine, engine::general_purpose::STANDARD};
use ipnet::IpNet;
use percent_encoding::percent_decode_str;
use std::{net::IpAddr, str::FromStr};
use url::{Host, Url};

/// An HTTP proxy that opens tunnels (CONNECT).
#[derive(Clone, Debug)]
pub struct Proxy {
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The value of `proxy-authorization`, if its URL has a user.
    pub authorization: Option<Secret>,
    /// Hosts that are called without it.
    pub except: Vec<NoProxy>,
}

/// Hosts that are called without the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoProxy {
    /// The addresses of a network, in URLs that have an address.
    Network(IpNet),
    /// This name.
    Host(String),
    /// This name and all below it, written `.example.com`.
    Domain(String),
}

/// Why a text is no proxy. It does not quote the text, which may have a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be http:// with a host and a port, and maybe a user and a password before them")]
pub struct InvalidProxy;

/// Why a text names no hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("must be a host, a domain such as .example.com, or a network such as 10.0.0.0/8")]
pub struct InvalidNoProxy;

impl Proxy {
    /// Reads its URL.
    pub fn parse(url: &str, except: &[NoProxy]) -> Result<Self, InvalidProxy> {
        let url = Url::parse(url).map_err(|_| InvalidProxy)?;
        let is_plain = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        let host = match url.host() {
            Some(Host::Domain(name)) => name.to_owned(),
            Some(Host::Ipv4(ip)) => ip.to_string(),
            Some(Host::Ipv6(ip)) => ip.to_string(),
            None => return Err(InvalidProxy),
        };
        if url.scheme() != "http" || !is_plain {
            return Err(InvalidProxy);
        }
        let decoded = |text: &str| percent_decode_str(text).collect::<Vec<u8>>();
        let (user, password) = (url.username(), url.password().unwrap_or_default());
        let pair = [decoded(user), decoded(password)].join(&b':');
        let authorization = format!("Basic {}", STANDARD.encode(pair));
        Ok(Self {
            host,
            port: url.port_or_known_default().unwrap_or(80),
            authorization: (!user.is_empty()).then(|| Secret::from(authorization)),
            except: except.to_vec(),
        })
    }

    /// Is this host of a URL, a name or an address without brackets, called through it?
    pub fn is_for(&self, host: &str) -> bool {
        let address = host.parse::<IpAddr>().ok();
        let name = host.trim_end_matches('.').to_ascii_lowercase();
        !self.except.iter().any(|except| match except {
            NoProxy::Network(net) => address.is_some_and(|ip| names(net, ip)),
            NoProxy::Host(host) => name == *host,
            NoProxy::Domain(domain) => {
                name.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
        })
    }
}

impl FromStr for NoProxy {
    type Err = InvalidNoProxy;

    fn from_str(text: &str) -> Result<Self, InvalidNoProxy> {
        if let Ok(net) = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)) {
            return Ok(Self::Network(net));
        }
        let (domain, name) = match text.strip_prefix('.') {
            Some(name) => (true, name),
            None => (false, text),
        };
        let name = name.to_ascii_lowercase();
        let is_letter = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
        let is_label = |label: &str| !label.is_empty() && label.bytes().all(is_letter);
        match name.split('.').all(is_label) {
            true if domain => Ok(Self::Domain(name)),
            true => Ok(Self::Host(name)),
            false => Err(InvalidNoProxy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_domains_and_networks_are_called_without_the_proxy() {
        let except = ["a.test", ".B.test", "10.0.0.0/8", "2001:db8::1"];
        let except = except.map(|text| text.parse::<NoProxy>().unwrap());
        let proxy = Proxy::parse("http://u%40x:p%3A@proxy.test:3128", &except).unwrap();
        assert_eq!((proxy.host.as_str(), proxy.port), ("proxy.test", 3128));
        // printf '%s' 'u@x:p:' | base64
        assert_eq!(proxy.authorization.as_ref().unwrap().reveal(), "Basic dUB4OnA6");
        assert!(!format!("{proxy:?}").contains("dUB4OnA6"));
        for (host, through) in [
            ("a.test", false),
            ("A.test.", false),
            ("x.a.test", true),
            ("b.test", false),
            ("x.y.b.test", false),
            ("ab.test", true),
            ("10.1.2.3", false),
            ("::ffff:10.1.2.3", false),
            ("11.1.2.3", true),
            ("2001:db8::1", false),
            ("2001:db8::2", true),
        ] {
            assert_eq!(proxy.is_for(host), through, "{host}");
        }
        for bad in
            ["", "*", "a b", "a..b", "http://a.test", "a.test:80", "10.0.0.0/33", ".", "a.test."]
        {
            assert_eq!(bad.parse::<NoProxy>(), Err(InvalidNoProxy), "{bad}");
        }
        for bad in [
            "proxy:3128",
            "https://proxy",
            "socks5://proxy",
            "http://",
            "http://proxy/a",
            "http://proxy?a",
            "http://proxy:x",
        ] {
            assert!(Proxy::parse(bad, &[]).is_err(), "{bad}");
        }
    }
}
