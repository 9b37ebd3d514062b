//! Which client a request is from, if trusted proxies passed it on.

use super::activity::Activity;
use axum::{
    extract::{FromRequestParts, Request},
    http::{Extensions, HeaderMap, HeaderName, header, request::Parts},
};
use ipnet::IpNet;
use serde::Serialize;
use std::{
    convert::Infallible,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The address that a request comes from: the connection's, and from the guard on the client's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer(pub IpAddr);

impl Peer {
    fn of(extensions: &Extensions) -> Self {
        extensions.get().copied().unwrap_or(Self(Ipv4Addr::UNSPECIFIED.into()))
    }
}

impl<S: Sync> FromRequestParts<S> for Peer {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.extensions))
    }
}

/// The address that a request comes from.
pub(crate) fn peer_of(request: &Request) -> IpAddr {
    Peer::of(request.extensions()).0
}

/// The clients that the two headers of a request name where they disagree: what proxies say of it, and what the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Claims([IpAddr; 2]);

/// The networks of proxies that are trusted.
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// Proxies in these networks.
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    /// Replaces the address of a request's connection by that of its client, and notes what was not believed.
    pub(crate) fn resolve(&self, request: &mut Request) -> Option<IpAddr> {
        let Peer(peer) = *request.extensions().get()?;
        match self.client(peer, request.headers()) {
            Ok(client) => {
                if client != peer {
                    request.extensions_mut().insert(Peer(client));
                    let activity = request.extensions().get::<Arc<Activity>>();
                    activity.inspect(|activity| activity.is_from(client));
                }
                Some(client)
            }
            Err(claims) => {
                request.extensions_mut().insert(claims);
                Some(peer)
            }
        }
    }

    /// The address of the client that a request is from, which came over a connection from `peer`.
    ///
    /// Each proxy appends the address that it got the request from, so the list is read from its end, for as long as the
    /// one who said so is trusted. A proxy that sets one of the two headers passes on whatever a client has put into the
    /// other: where they disagree, neither is believed, which is the error.
    fn client(&self, peer: IpAddr, headers: &HeaderMap) -> Result<IpAddr, Claims> {
        let peer = peer.to_canonical();
        if !self.trust(peer) {
            return Ok(peer);
        }
        let values = |name| headers.get_all(name).iter().rev().map(|value| value.to_str().ok());
        let listed = values(X_FORWARDED_FOR)
            .flat_map(|value| value.unwrap_or("?").rsplit(',').map(|entry| address(entry.trim())));
        let forwarded = values(header::FORWARDED).flat_map(|value| {
            let elements = value.and_then(|value| split(value, ',')).unwrap_or(vec!["?"]);
            elements.into_iter().rev().map(forwarded_for)
        });
        let has = |name| headers.contains_key(name);
        let listed = has(X_FORWARDED_FOR).then(|| self.walk(peer, listed));
        let forwarded = has(header::FORWARDED).then(|| self.walk(peer, forwarded));
        match (listed, forwarded) {
            (Some(one), Some(other)) if one != other => Err(Claims([one, other])),
            (Some(client), _) | (None, Some(client)) => Ok(client),
            (None, None) => Ok(peer),
        }
    }

    /// The first address that is not trusted, or the last that could be read.
    fn walk(&self, peer: IpAddr, mut entries: impl Iterator<Item = Option<IpAddr>>) -> IpAddr {
        let mut client = peer;
        while self.trust(client)
            && let Some(Some(next)) = entries.next()
        {
            client = next;
        }
        client
    }

    /// Is it the address of such a proxy?
    pub(crate) fn trust(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

/// An address with or without a port; an IPv6 address before a port is in brackets.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok().or_else(|| Some(text.parse::<SocketAddr>().ok()?.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

/// The `for` of an element of `Forwarded` (RFC 7239).
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let pairs = split(element, ';')?.into_iter().filter_map(|pair| pair.trim().split_once('='));
    let mut nodes = pairs.filter(|(name, _)| name.eq_ignore_ascii_case("for"));
    let (_, node) = nodes.next()?;
    address(node.trim_matches('"'))
}

/// The parts of a value between separators that are not inside of quotes, where a backslash takes the meaning from what
/// follows. `None` if the quotes do not end: what a proxy has appended would seem to be inside of them.
fn split(value: &str, separator: char) -> Option<Vec<&str>> {
    let (mut quoted, mut escaped) = (false, false);
    let parts = value.split(|c: char| {
        match c {
            _ if std::mem::take(&mut escaped) => {}
            '"' => quoted = !quoted,
            '\\' => escaped = quoted,
            _ => {}
        }
        c == separator && !quoted
    });
    let parts = parts.collect();
    (!quoted).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, headers: &[(&str, &str)]) -> String {
        let networks = ["10.0.0.0/8", "fd00::/8", "127.0.0.1/32"].map(|net| net.parse().unwrap());
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        let client = TrustedProxies::new(networks.into()).client(peer.parse().unwrap(), &map);
        client.map_or_else(|Claims(both)| format!("{both:?}"), |client| client.to_string())
    }

    #[test]
    fn the_list_is_read_from_its_end_while_proxies_are_trusted() {
        for (peer, list, is) in [
            ("192.0.2.1", "198.51.100.7", "192.0.2.1"),
            ("10.0.0.1", "198.51.100.7", "198.51.100.7"),
            ("::ffff:10.0.0.1", "198.51.100.7", "198.51.100.7"),
            ("10.0.0.1", "1.1.1.1, 198.51.100.7", "198.51.100.7"),
            ("10.0.0.1", "1.1.1.1, 198.51.100.7, 10.9.9.9", "198.51.100.7"),
            ("10.0.0.1", "1.1.1.1, 198.51.100.7,fd00::1 , 10.9.9.9", "198.51.100.7"),
            ("10.0.0.1", "10.1.1.1, 10.2.2.2", "10.1.1.1"),
            ("10.0.0.1", "198.51.100.7:4321", "198.51.100.7"),
            ("10.0.0.1", "[2001:db8::1]:4321", "2001:db8::1"),
            ("10.0.0.1", "[2001:db8::1]", "2001:db8::1"),
            ("10.0.0.1", "2001:db8::1", "2001:db8::1"),
            ("10.0.0.1", "::ffff:198.51.100.7", "198.51.100.7"),
            ("10.0.0.1", "198.51.100.7, unknown", "10.0.0.1"),
            ("10.0.0.1", "198.51.100.7, , 10.2.2.2", "10.2.2.2"),
            ("10.0.0.1", "", "10.0.0.1"),
        ] {
            assert_eq!(client(peer, &[("x-forwarded-for", list)]), is, "{peer} {list:?}");
        }
        let lines = [("x-forwarded-for", "1.1.1.1"), ("x-forwarded-for", "198.51.100.7, 10.2.2.2")];
        assert_eq!(client("10.0.0.1", &lines), "198.51.100.7");
        assert_eq!(client("10.0.0.1", &[]), "10.0.0.1");
    }

    #[test]
    fn forwarded_is_read_as_rfc_7239_writes_it() {
        for (value, is) in [
            ("for=198.51.100.7", "198.51.100.7"),
            ("For=\"198.51.100.7:4321\";proto=https;by=10.0.0.1", "198.51.100.7"),
            ("for=1.1.1.1, proto=http;for=\"[2001:db8::1]:80\", for=10.1.1.1", "2001:db8::1"),
            ("for=198.51.100.7;by=\"_a,for=1.1.1.1\"", "198.51.100.7"),
            ("for=198.51.100.7, for=_hidden", "10.0.0.1"),
            ("for=198.51.100.7, proto=https", "10.0.0.1"),
            ("for=unknown", "10.0.0.1"),
            // Quotes of a client that do not end hide nothing that a proxy appends.
            ("for=6.6.6.6;by=\", for=198.51.100.7", "10.0.0.1"),
            ("for=6.6.6.6;by=\"\\\", for=198.51.100.7", "10.0.0.1"),
            ("for=6.6.6.6;by=\"a\\\", b\", for=198.51.100.7", "198.51.100.7"),
            ("nonsense", "10.0.0.1"),
        ] {
            assert_eq!(client("10.0.0.1", &[("forwarded", value)]), is, "{value}");
        }
    }

    #[test]
    fn where_the_two_headers_disagree_neither_is_believed() {
        let both =
            |list, value| client("10.0.0.1", &[("x-forwarded-for", list), ("forwarded", value)]);
        assert_eq!(both("198.51.100.7", "for=198.51.100.7"), "198.51.100.7");
        assert_eq!(both("198.51.100.7", "for=1.1.1.1"), "[198.51.100.7, 1.1.1.1]");
        assert_eq!(both("1.1.1.1", "for=198.51.100.7"), "[1.1.1.1, 198.51.100.7]");
    }
}
