//! Which addresses callbacks may go to: not those by which a stranger who may publish could reach the network
//! behind dueq. Whatever is not plainly the public internet is refused unless the operator names it.
//!
//! The networks are those of IANA's special-purpose address registries (RFC 6890 and its successors), globally reachable
//! ones included: no receiver of callbacks lives in any of them.

use super::CallUrl;
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use rustix::io::Errno;
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::OnceLock,
};
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

/// Decides about addresses: as literals when a URL is published, and about every address that is dialled. Without any
/// networks it lets through what is public, this machine's own addresses apart.
#[derive(Clone, Debug, Default)]
pub struct AddressGuard {
    /// Further networks that are let through.
    pub allowed: Vec<IpNet>,
    /// Where there are any: what alone is let through, public or not.
    pub only: Vec<IpNet>,
    /// What is refused whatever else names it.
    pub denied: Vec<IpNet>,
}

/// The address is not to be called.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("callbacks to {0} are not allowed")]
pub struct RefusedAddress(pub IpAddr);

impl AddressGuard {
    /// May this address be dialled? Errors: the system cannot tell now whose it is, so it may not.
    pub fn lets(&self, ip: IpAddr) -> io::Result<bool> {
        let named = |nets: &[IpNet]| nets.iter().any(|net| names(net, ip));
        let denied = named(&self.denied)
            || embedded(ip).is_some_and(|ip| self.denied.iter().any(|net| names(net, ip.into())));
        if denied || !self.only.is_empty() {
            return Ok(!denied && named(&self.only));
        }
        Ok(named(&self.allowed) || (is_public(ip) && !is_of_this_machine(ip)?))
    }

    /// May this address be published? An address that cannot be judged now is checked again when it is dialled.
    pub fn check(&self, ip: IpAddr) -> Result<(), RefusedAddress> {
        if self.lets(ip).unwrap_or(true) { Ok(()) } else { Err(RefusedAddress(ip)) }
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
        self.check(ip)
    }
}

/// Does the network hold the address? A packet to an IPv4-mapped address goes to the IPv4 address in it, so the two are
/// one here, and an IPv6 network names them only if it is all of mapped addresses: `::/0` is not meant for IPv4.
pub(super) fn names(net: &IpNet, ip: IpAddr) -> bool {
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

/// The IPv4 address that a packet to this one ends at by NAT64 or 6to4.
fn embedded(ip: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(ip) = ip else { return None };
    let [a, b, c, d, e, f, g, h] = ip.segments();
    let v4 = |high: u16, low: u16| {
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Some(Ipv4Addr::new(a, b, c, d))
    };
    match [a, b, c, d, e, f] {
        [0x64, 0xff9b, 0, 0, 0, 0] => v4(g, h),
        [0x2002, high, low, ..] => v4(high, low),
        _ => None,
    }
}

/// A socket can be bound to an address of its own machine, and to no other. Nothing is sent. Errors: there is no socket
/// to try it with, or no port.
fn is_of_this_machine(ip: IpAddr) -> io::Result<bool> {
    // Where the system lets sockets be bound to any address (ip_nonlocal_bind), this tells nothing: what is left then is that
    // a socket that talks to an address of its own machine mostly has that address itself.
    static TELLS: OnceLock<bool> = OnceLock::new();
    let bound = |ip: IpAddr| is_own(UdpSocket::bind((ip, 0)));
    let ip = ip.to_canonical();
    let tells = match TELLS.get() {
        Some(tells) => *tells,
        None => {
            let tells = !bound(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)))?;
            *TELLS.get_or_init(|| tells)
        }
    };
    if tells {
        return bound(ip);
    }
    let any: IpAddr =
        if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let socket = UdpSocket::bind((any, 0))?;
    // What cannot be reached is nobody's.
    let talks = || {
        socket.connect((ip, 9))?;
        socket.local_addr()
    };
    Ok(talks().is_ok_and(|local: SocketAddr| local.ip() == ip))
}

/// Whether the address that a socket was to be bound to is this machine's own.
fn is_own<T>(bound: io::Result<T>) -> io::Result<bool> {
    const STRANGE: [Errno; 2] = [Errno::ADDRNOTAVAIL, Errno::AFNOSUPPORT];
    match bound {
        Ok(_) => Ok(true),
        Err(error) if STRANGE.iter().any(|errno| Errno::from_io_error(&error) == Some(*errno)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// The address or, in IPv6, the network of 64 bits, which mostly has one owner.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nets(nets: &[&str]) -> Vec<IpNet> {
        nets.iter().map(|net| net.parse().unwrap()).collect()
    }

    fn guard(allowed: &[&str]) -> AddressGuard {
        AddressGuard { allowed: nets(allowed), ..AddressGuard::default() }
    }

    fn lets(guard: &AddressGuard, ip: &str) -> bool {
        guard.check(ip.parse().unwrap()).is_ok()
    }

    #[test]
    fn the_first_and_last_address_of_every_refused_network_is_refused_and_its_neighbours_are_not() {
        let all = guard(&[]);
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
        let v4 = guard(&["127.0.0.0/8"]);
        assert!(lets(&v4, "127.1.2.3") && lets(&v4, "::ffff:127.1.2.3"));
        for other in ["10.0.0.1", "::1", "::ffff:10.0.0.1", "::127.0.0.1", "64:ff9b::127.0.0.1"] {
            assert!(!lets(&v4, other), "{other}");
        }
        let mapped = guard(&["::ffff:10.0.0.0/104"]);
        assert!(lets(&mapped, "10.1.2.3") && lets(&mapped, "::ffff:10.1.2.3"));
        assert!(!lets(&mapped, "192.168.0.1"));
        let v6 = guard(&["::/0"]);
        assert!(lets(&v6, "::1") && lets(&v6, "fd00::1"));
        assert!(!lets(&v6, "127.0.0.1") && !lets(&v6, "::ffff:127.0.0.1"));
    }

    #[test]
    fn deny_beats_only_and_only_beats_allow() {
        let allowed = nets(&["127.0.0.0/8"]);
        let only = nets(&["10.0.0.0/8", "64:ff9b::/96", "8.8.0.0/16"]);
        let denied = nets(&["10.1.0.0/16", "8.8.8.8/32"]);
        let no_only = AddressGuard { allowed, denied, ..AddressGuard::default() };
        for let_in in ["127.0.0.1", "9.9.9.9", "8.8.4.4"] {
            assert!(lets(&no_only, let_in), "{let_in}");
        }
        for refused in ["8.8.8.8", "::ffff:8.8.8.8", "10.1.0.1", "10.2.0.1"] {
            assert!(!lets(&no_only, refused), "{refused}");
        }
        let guard = AddressGuard { only, ..no_only };
        for let_in in ["10.2.0.1", "8.8.4.4", "64:ff9b::10.2.0.1"] {
            assert!(lets(&guard, let_in), "{let_in}");
        }
        let denied = ["10.1.0.1", "::ffff:10.1.0.1", "64:ff9b::10.1.0.1", "64:ff9b::8.8.8.8"];
        for refused in ["127.0.0.1", "9.9.9.9", "2600::1"].iter().chain(&denied) {
            assert!(!lets(&guard, refused), "{refused}");
        }
    }

    #[test]
    fn every_address_of_this_machine_is_its_own() {
        let of = |ip: &str| is_of_this_machine(ip.parse().unwrap()).unwrap();
        assert!(of("127.0.0.1") && of("127.1.2.3") && of("::ffff:127.0.0.1"));
        assert!(!of("8.8.8.8") && !of("192.0.2.1") && !of("2600::1"));
    }

    #[test]
    fn an_address_of_which_the_system_cannot_tell_whose_it_is_counts_as_neither() {
        let failed = |errno: Errno| is_own::<()>(Err(errno.into()));
        for errno in [Errno::ADDRNOTAVAIL, Errno::AFNOSUPPORT] {
            assert!(!failed(errno).unwrap(), "{errno}");
        }
        for errno in [Errno::MFILE, Errno::NFILE, Errno::ADDRINUSE, Errno::NOBUFS, Errno::PERM] {
            assert!(failed(errno).is_err(), "{errno}");
        }
    }

    #[test]
    fn a_literal_in_any_spelling_is_checked_and_a_name_is_not() {
        let guard = guard(&[]);
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

    #[test]
    fn an_ipv6_client_is_its_network() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2:3::4"), of("2001:db8:1:2:ffff::"));
        assert_ne!(of("2001:db8:1:2::"), of("2001:db8:1:3::"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
    }
}
