//! The table of URLs in `urls.txt`: each has its verdict, and none that is refused reaches a socket.

use dueq_loops::callbacks::Verdict;
use dueq_model::{AddressGuard, CallUrl};

use super::dns::NameServer;
use super::{answer, call, caller, receiver_at};

/// Verdict and URL of each line.
fn table(port: u16) -> Vec<(&'static str, String)> {
    let line = |line: &'static str| {
        let (verdict, url) = line.split_once(' ').unwrap();
        let url: String = serde_json::from_str(url).unwrap_or_else(|e| panic!("{line}: {e}"));
        (verdict, url.replace("PORT", &port.to_string()))
    };
    let lines = include_str!("urls.txt").lines();
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(line).collect()
}

/// What becomes of a URL when it is published.
fn published(guard: &AddressGuard, url: &str) -> &'static str {
    match CallUrl::parse(url) {
        Err(_) => "syntax",
        Ok(url) if guard.check_url(&url).is_err() => "refused",
        Ok(_) => "taken",
    }
}

#[test]
fn every_url_of_the_table_has_its_verdict_when_published() {
    let guard = AddressGuard::default();
    let table = table(80);
    let wrong = |(wanted, url): &(&str, String)| {
        let found = match published(&guard, url) {
            // What the network has to decide.
            "taken" if ["dial", "nowhere", "allowed"].contains(wanted) => *wanted,
            found => found,
        };
        (found != *wanted).then(|| format!("{wanted} {url:?} is {found}"))
    };
    let wrong: Vec<String> = table.iter().filter_map(wrong).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    assert!(table.len() >= 200, "{}", table.len());
}

#[tokio::test]
async fn no_url_of_the_table_that_is_refused_is_connected_to() {
    // All addresses of this machine, IPv4 ones too.
    let receiver = receiver_at("[::]:0", answer(200, "", "")).await;
    let dns = NameServer::of_numbers().await;
    let caller = caller(&[], Some(dns.address));
    for (wanted, url) in table(receiver.addr().port()) {
        let (verdict, begin) = match wanted {
            "nowhere" => (Verdict::Retry { after: None }, "no such host: "),
            // What would be refused when published may have come into Redis when more was allowed.
            "dial" | "refused" => (Verdict::Dead, "callback_address_refused: "),
            _ => continue,
        };
        let outcome = call(&caller, &url).await;
        let error = outcome.report.error.unwrap_or_default();
        // At the first that is wrong: the table begins with this machine's own listener, so that a broken guard is
        // found before anybody else's address is dialled.
        assert!(outcome.verdict == verdict && error.starts_with(begin), "{url:?}: {error}");
        assert_eq!(receiver.accepted(), 0, "{url:?}");
    }
}

#[tokio::test]
async fn the_listener_of_the_table_would_notice_a_connection() {
    let receiver = receiver_at("[::]:0", answer(200, "", "")).await;
    let dns = NameServer::of_numbers().await;
    let caller = caller(&["127.0.0.0/8", "::1/128"], Some(dns.address));
    let port = receiver.addr().port();
    let hosts = ["127.0.0.1", "2130706433", "[::1]", "[::ffff:127.0.0.1]", "localhost"];
    for host in hosts.iter().chain(&["127-0-0-1.v4.test", "--1.v6.test", "alias.test"]) {
        let before = receiver.accepted();
        let outcome = call(&caller, &format!("http://{host}:{port}/")).await;
        assert_eq!(outcome.verdict, Verdict::Delivered, "{host}: {:?}", outcome.report);
        assert!(receiver.accepted() > before || *host == "2130706433", "{host}");
    }
}
