//! Where callbacks go: a URL that is taken leads to the host that was checked, and no spelling of an address gets past
//! the guard.

use crate::{cases, soon, spoilt_text, text, url};
use dueq_model::*;
use ipnet::IpNet;
use proptest::{prelude::*, sample::select};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An IPv4 address, often one of a network that is refused.
fn v4() -> impl Strategy<Value = Ipv4Addr> {
    let begins = vec![
        0_u32,
        10 << 24,
        127 << 24,
        0xa9fe_0000,
        0xac10_0000,
        0xc0a8_0000,
        0xe000_0000,
        0x0808_0808,
    ];
    prop_oneof![
        any::<u32>(),
        (select(begins), 0..65_536_u32).prop_map(|(begin, rest)| begin | rest)
    ]
    .prop_map(Ipv4Addr::from)
}

/// An IPv6 address; many have an IPv4 address in them.
fn v6() -> impl Strategy<Value = Ipv6Addr> {
    let begins: Vec<u128> = vec![
        0,
        0xffff << 32,
        0xffff << 48,
        0x64_ff9b << 96,
        0x2002 << 112,
        0x2001 << 112,
        0xfe80 << 112,
        0xfd00 << 112,
        0x2600 << 112,
    ];
    prop_oneof![
        any::<u128>(),
        (select(begins), v4()).prop_map(|(begin, v4)| begin | u128::from(u32::from(v4))),
    ]
    .prop_map(Ipv6Addr::from)
}

/// The address in one of the spellings that a URL parser understands.
fn spelling(ip: Ipv4Addr, kind: usize) -> String {
    let ([a, b, c, d], number) = (ip.octets(), u32::from(ip));
    match kind {
        0 => ip.to_string(),
        1 => number.to_string(),
        2 => format!("0x{number:x}"),
        3 => format!("0{number:o}"),
        4 => format!("0x{a:x}.0{b:o}.{c}.{d}"),
        5 => format!("{a}.{}", number & 0xff_ffff),
        6 => format!("{a}.{b}.{}.", number & 0xffff).trim_end_matches('.').to_owned(),
        7 => ip.to_string().replacen('1', "%31", 1),
        8 => format!("[::ffff:{ip}]"),
        _ => format!("{a}\u{3002}{b}\u{3002}{c}\u{3002}{d}"),
    }
}

/// The host that the client dials, as `dial.rs` takes it from the request.
fn dialled(url: &CallUrl) -> (String, u16) {
    let url = url.url().unwrap();
    let uri: http::Uri = url.as_str().parse().unwrap();
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
    (uri.host().unwrap().trim_matches(['[', ']']).to_owned(), port)
}

fn guards() -> [AddressGuard; 3] {
    let allowed: Vec<IpNet> = ["127.0.0.0/8", "fd00::/8"].map(|net| net.parse().unwrap()).into();
    let denied = vec!["8.8.8.8/32".parse().unwrap()];
    let open = AddressGuard::default();
    [open.clone(), AddressGuard { allowed, ..open.clone() }, AddressGuard { denied, ..open }]
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn a_url_that_is_taken_leads_to_the_host_that_was_checked(
        text in prop_oneof![
            text(),
            text().prop_map(|text| format!("http://{text}")),
            spoilt_text(url().prop_map(|url| url.as_str().to_owned())),
            spoilt_text(Just("http://[::ffff:10.0.0.1]:8080/a?b#c")),
            spoilt_text(Just("https://b\u{fc}cher.example:0/%41")),
        ],
    ) {
        let Ok(call) = soon(|| CallUrl::parse(&text)) else { return Ok(()) };
        let url = call.url().unwrap();
        prop_assert!(["http", "https"].contains(&url.scheme()));
        prop_assert!(url.username().is_empty() && url.password().is_none());
        let (host, port) = dialled(&call);
        prop_assert_eq!(url.host_str().unwrap().trim_matches(['[', ']']), &host, "two readers, two hosts");
        prop_assert_eq!(url.port_or_known_default(), Some(port));
        prop_assert!(!host.is_empty() && call.host().ends_with(&port.to_string()));
        prop_assert_eq!(CallUrl::parse(call.as_str()), Ok(call.clone()));
        // Where an address is dialled, it was checked when the URL was published.
        for guard in guards() {
            if let Ok(ip) = host.parse::<IpAddr>() {
                let checked = guard.check(ip);
                prop_assert_eq!(guard.check_url(&call), checked);
            }
        }
        // As a client of WHATWG's mind would write it, it is the same URL.
        if let Ok(again) = CallUrl::parse(url.as_str()) {
            prop_assert_eq!(dialled(&again), (host, port));
        }
    }

    #[test]
    fn no_spelling_of_an_address_gets_past_the_guard(ip in v4(), kind in 0..10_usize, port in 1..=u16::MAX) {
        let Ok(url) = CallUrl::parse(&format!("http://{}:{port}/", spelling(ip, kind))) else { return Ok(()) };
        for guard in guards() {
            let plain = guard.check(ip.into()).is_ok();
            let mapped = matches!(url.url().unwrap().host(), Some(url::Host::Ipv6(_)));
            let taken = guard.check_url(&url).is_ok();
            prop_assert!(!taken || plain, "{} is taken", url.as_str());
            prop_assert!(mapped || taken == plain, "{}", url.as_str());
        }
    }

    #[test]
    fn an_address_with_a_refused_one_in_it_is_refused(ip in v6()) {
        let [open, loopback, denied] = guards();
        let taken = open.check(ip.into()).is_ok();
        prop_assert!(!taken || (ip.segments()[0] & 0xe000) == 0x2000, "{ip} is no public unicast");
        if let Some(v4) = ip.to_ipv4_mapped() {
            prop_assert!(!taken, "{ip} is mapped");
            prop_assert_eq!(loopback.check(ip.into()).is_ok(), v4.is_loopback());
        }
        prop_assert!(denied.check(ip.into()).is_err() || taken);
    }

    #[test]
    fn a_public_address_is_none_of_those_that_the_standard_library_knows_better(ip in v4()) {
        let taken = guards()[0].check(ip.into()).is_ok();
        let special = ip.is_private() || ip.is_loopback() || ip.is_link_local() || ip.is_broadcast()
            || ip.is_documentation() || ip.is_unspecified() || ip.is_multicast();
        prop_assert!(!(taken && special), "{ip}");
    }
}
