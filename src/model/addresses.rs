//! Which addresses callbacks may go to: not those by which a stranger who may publish could reach what stands behind
//! dueq. Whatever is not plainly the public internet is refused unless the operator names it.
//!
//! The networks are those of IANA's special-purpose address registries (RFC 6890 and its successors), globally reachable
//! ones included: no receiver of callbacks lives in any of them.

use super::CallUrl;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use url::Host;

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)
}

const fn v6(a: u16, b: u16, c: u16, bits: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), bits)
}

/// IPv4 networks that are refused.
const REFUSED_V4: [Ipv4Net; 20] = [
    v4(0, 0, 0, 0, 8),          // this network; 0.0.0.0 reaches the machine itself
    v4(10, 0, 0, 0, 8),         // private
    v4(100, 64, 0, 0, 10),      // carrier-grade NAT
    v4(127, 0, 0, 0, 8),        // loopback
    v4(168, 63, 129, 16, 32),   // Azure's platform, seen from its machines only
    v4(169, 254, 0, 0, 16),     // link-local, clouds' metadata
    v4(172, 16, 0, 0, 12),      // private
    v4(192, 0, 0, 0, 24),       // protocol assignments
    v4(192, 0, 2, 0, 24),       // documentation
    v4(192, 31, 196, 0, 24),    // AS112
    v4(192, 52, 193, 0, 24),    // multicast tunnelling
    v4(192, 88, 99, 0, 24),     // 6to4 relays
    v4(192, 168, 0, 0, 16),     // private
    v4(192, 175, 48, 0, 24),    // AS112
    v4(198, 18, 0, 0, 15),      // benchmarking
    v4(198, 51, 100, 0, 24),    // documentation
    v4(203, 0, 113, 0, 24),     // documentation
    v4(224, 0, 0, 0, 4),        // multicast
    v4(240, 0, 0, 0, 4),        // reserved
    v4(255, 255, 255, 255, 32), // broadcast
];

/// All of IPv6 that is given out as unicast. Outside are loopback, unspecified, IPv4-mapped, -compatible and -translated,
/// unique-local, link-local, site-local, multicast, discard, SRv6.
const UNICAST_V6: Ipv6Net = v6(0x2000, 0, 0, 3);

/// IPv6 networks within [`UNICAST_V6`] that are refused.
const REFUSED_V6: [Ipv6Net; 5] = [
    v6(0x2001, 0, 0, 23),     // protocol assignments: Teredo, benchmarking, ORCHID
    v6(0x2001, 0xdb8, 0, 32), // documentation
    v6(0x2002, 0, 0, 16),     // 6to4
    v6(0x2620, 0x4f, 0x8000, 48), // AS112
    v6(0x3fff, 0, 0, 20),     // documentation
];

/// Decides about addresses: as literals when a URL is published, and about every address that is dialled.
#[derive(Clone, Debug, Default)]
pub struct AddressGuard {
    allowed: Vec<IpNet>,
    own: Vec<SocketAddr>,
}

/// The address is not to be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not an address that callbacks may go to")]
pub struct RefusedAddress(pub IpAddr);

impl AddressGuard {
    /// One that lets through what is public and what `allowed` names; `own` are dueq's listeners.
    pub fn new(allowed: Vec<IpNet>, own: Vec<SocketAddr>) -> Self {
        Self { allowed, own }
    }

    /// May this address be dialled?
    pub fn check(&self, address: SocketAddr) -> Result<(), RefusedAddress> {
        let ip = address.ip();
        let named = self.allowed.iter().any(|net| names(net, ip));
        if named || (is_public(ip) && !self.own.iter().any(|own| is_own(*own, address))) {
            Ok(())
        } else {
            Err(RefusedAddress(ip))
        }
    }

    /// May this URL be published? A name always may: what it resolves to is checked when it is dialled.
    pub fn check_url(&self, url: &CallUrl) -> Result<(), RefusedAddress> {
        // A literal in whatever spelling is an address here: the parser knows 0x7f.1 and 2130706433.
        let Ok(url) = url.url() else { return Ok(()) };
        let ip = match url.host() {
            Some(Host::Ipv4(ip)) => IpAddr::V4(ip),
            Some(Host::Ipv6(ip)) => IpAddr::V6(ip),
            Some(Host::Domain(_)) | None => return Ok(()),
        };
        self.check(SocketAddr::new(ip, url.port_or_known_default().unwrap_or_default()))
    }
}

/// Does the network hold the address? A packet to an IPv4-mapped address goes to the IPv4 address in it, so the two are
/// one here, and an IPv6 network names them only if it is all of mapped addresses: `::/0` is not meant for IPv4.
fn names(net: &IpNet, ip: IpAddr) -> bool {
    match (net, ip.to_canonical()) {
        (IpNet::V4(net), IpAddr::V4(ip)) => net.contains(&ip),
        (IpNet::V6(net), IpAddr::V4(ip)) => {
            net.prefix_len() >= 96 && net.contains(&ip.to_ipv6_mapped())
        }
        (IpNet::V6(net), IpAddr::V6(ip)) => net.contains(&ip),
        (IpNet::V4(_), IpAddr::V6(_)) => false,
    }
}

fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !REFUSED_V4.iter().any(|net| net.contains(&ip)),
        IpAddr::V6(ip) => {
            UNICAST_V6.contains(&ip) && !REFUSED_V6.iter().any(|net| net.contains(&ip))
        }
    }
}

fn is_own(own: SocketAddr, address: SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    own.port() == address.port()
        && (own.ip().to_canonical() == ip || (own.ip().is_unspecified() && is_of_this_machine(ip)))
}

/// A socket that talks to an address of its own machine has that address itself. Nothing is sent.
fn is_of_this_machine(ip: IpAddr) -> bool {
    let any: IpAddr =
        if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let talks = || {
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect((ip, 9))?;
        socket.local_addr()
    };
    talks().is_ok_and(|local| local.ip() == ip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(allowed: &[&str], own: &[&str]) -> AddressGuard {
        let allowed = allowed.iter().map(|net| net.parse().unwrap()).collect();
        AddressGuard::new(allowed, own.iter().map(|own| own.parse().unwrap()).collect())
    }

    fn lets(guard: &AddressGuard, ip: &str) -> bool {
        guard.check(SocketAddr::new(ip.parse().unwrap(), 80)).is_ok()
    }

    #[test]
    fn the_first_and_last_address_of_every_refused_network_is_refused_and_its_neighbours_are_not() {
        let all = guard(&[], &[]);
        for (first, last, before, after) in [
            ("0.0.0.0", "0.255.255.255", "", "1.0.0.0"),
            ("10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"),
            ("100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"),
            ("127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"),
            ("168.63.129.16", "168.63.129.16", "168.63.129.15", "168.63.129.17"),
            ("169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"),
            ("172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"),
            ("192.0.0.0", "192.0.0.255", "191.255.255.255", "192.0.1.0"),
            ("192.0.2.0", "192.0.2.255", "192.0.1.255", "192.0.3.0"),
            ("192.31.196.0", "192.31.196.255", "192.31.195.255", "192.31.197.0"),
            ("192.52.193.0", "192.52.193.255", "192.52.192.255", "192.52.194.0"),
            ("192.88.99.0", "192.88.99.255", "192.88.98.255", "192.88.100.0"),
            ("192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"),
            ("192.175.48.0", "192.175.48.255", "192.175.47.255", "192.175.49.0"),
            ("198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"),
            ("198.51.100.0", "198.51.100.255", "198.51.99.255", "198.51.101.0"),
            ("203.0.113.0", "203.0.113.255", "203.0.112.255", "203.0.114.0"),
            ("224.0.0.0", "255.255.255.255", "223.255.255.255", ""),
            ("::", "1fff:ffff::", "", "2000::"),
            ("::ffff:8.8.8.8", "::ffff:0:8.8.8.8", "", ""),
            ("64:ff9b::8.8.8.8", "64:ff9b:1::1", "", ""),
            ("100::1", "5f00::1", "", ""),
            ("2001::", "2001:1ff:ffff::", "2000:ffff::", "2001:200::"),
            ("2001:db8::", "2001:db8:ffff::", "2001:db7:ffff::", "2001:db9::"),
            ("2002::", "2002:ffff::", "2001:ffff::", "2003::"),
            ("2620:4f:8000::", "2620:4f:8000:ffff::", "2620:4f:7fff::", "2620:4f:8001::"),
            ("3fff::", "3fff:fff:ffff::", "3ffe:ffff::", "3fff:1000::"),
            ("4000::", "ffff:ffff::", "3fff:ffff::", ""),
            ("fc00::", "fdff::", "", ""),
            ("fe80::1", "fec0::1", "", ""),
            ("::1", "::127.0.0.1", "", ""),
        ] {
            for refused in [first, last] {
                assert!(!lets(&all, refused), "{refused}");
            }
            for public in [before, after].into_iter().filter(|ip| !ip.is_empty()) {
                assert!(lets(&all, public), "{public}");
            }
        }
    }

    #[test]
    fn an_allowed_network_names_its_addresses_and_those_mapped_to_ipv6() {
        let v4 = guard(&["127.0.0.0/8"], &[]);
        assert!(lets(&v4, "127.1.2.3") && lets(&v4, "::ffff:127.1.2.3"));
        for other in ["10.0.0.1", "::1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::127.0.0.1"] {
            assert!(!lets(&v4, other), "{other}");
        }
        let mapped = guard(&["::ffff:10.0.0.0/104"], &[]);
        assert!(lets(&mapped, "10.1.2.3") && lets(&mapped, "::ffff:10.1.2.3"));
        assert!(!lets(&mapped, "192.168.0.1"));
        let v6 = guard(&["::/0"], &[]);
        assert!(lets(&v6, "::1") && lets(&v6, "fd00::1"));
        assert!(!lets(&v6, "127.0.0.1") && !lets(&v6, "::ffff:127.0.0.1"));
    }

    #[test]
    fn dueq_s_own_listeners_are_refused_even_where_their_address_is_public() {
        let own = guard(&[], &["8.8.8.8:80", "[2600::1]:80", "9.9.9.9:81"]);
        for refused in ["8.8.8.8", "2600::1"] {
            assert!(!lets(&own, refused), "{refused}");
        }
        assert!(lets(&own, "9.9.9.9"), "another port");
        assert!(lets(&guard(&["8.8.8.8/32"], &["8.8.8.8:80"]), "8.8.8.8"), "named");
        assert!(lets(&guard(&[], &["0.0.0.0:80"]), "8.8.8.8"), "not of this machine");
    }

    #[test]
    fn what_a_wildcard_listener_serves_is_any_address_of_this_machine() {
        let of = |ip: &str| is_of_this_machine(ip.parse().unwrap());
        assert!(of("127.0.0.1") && !of("8.8.8.8") && !of("192.0.2.1"));
        for (own, address) in [
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "127.0.0.1:80"),
            ("[::]:80", "[::ffff:7f00:1]:80"),
        ] {
            assert!(is_own(own.parse().unwrap(), address.parse().unwrap()), "{own} {address}");
        }
        assert!(!is_own("0.0.0.0:80".parse().unwrap(), "127.0.0.1:81".parse().unwrap()));
    }

    #[test]
    fn a_literal_in_any_spelling_is_checked_and_a_name_is_not() {
        let guard = guard(&[], &[]);
        let check = |url: &str| guard.check_url(&CallUrl::parse(url).unwrap());
        let loopback = Err(RefusedAddress(Ipv4Addr::LOCALHOST.into()));
        for url in
            ["http://0x7f.1/", "http://2130706433", "http://017700000001:8080", "https://127.1"]
        {
            assert_eq!(check(url), loopback, "{url}");
        }
        assert_eq!(check("http://localhost/"), Ok(()));
        assert_eq!(check("http://8.8.8.8:8080/"), Ok(()));
    }
}
