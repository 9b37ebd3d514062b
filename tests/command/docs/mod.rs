//! What there is to read: the README, the guide, and the page at `/docs`. The page is shown by a real browser that is cut
//! off from every other machine: all of it is there, and nothing of it comes from elsewhere.

pub mod browser;
pub mod pages;
mod tables;

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use browser::Browser;

use crate::harness::*;

/// A name as a server has in a real network: on loopback addresses some pages fetch less.
pub const HOST: &str = "dueq.test";

/// Chromium under any of its names, for this directory and without a window. The build that can show none comes first: it
/// takes half of the processor time. It finds no other machine.
fn chromium(dir: &Path) -> Command {
    // Debian's command of the first is a script that would be stopped in its place.
    let names = [
        "/usr/lib/chromium/chromium-headless-shell",
        "chromium",
        "chromium-browser",
        "google-chrome",
        "chromium-headless-shell",
    ];
    let there = |name: &&str| {
        let asked = Command::new(name).arg("--version").stderr(Stdio::null()).output();
        asked.is_ok_and(|output| output.status.success())
    };
    let name = names.into_iter().find(there);
    let mut command =
        Command::new(name.expect("no chromium: `tests/setup.sh` installs what the tests need"));
    command
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
        .args(["--no-first-run", "--disable-extensions", "--disable-background-networking"])
        .args(["--disable-component-update", "--disable-sync", "--disable-default-apps"])
        .arg(format!("--host-resolver-rules=MAP {HOST} 127.0.0.1, MAP * ~NOTFOUND"))
        .arg(format!("--user-data-dir={}", dir.join("profile").display()));
    command
}

/// The page's elements once its scripts have run, and the log of the browser's network.
async fn rendered(url: &str) -> (String, String) {
    let dir = temp_dir("chromium");
    let net_log = dir.join("net.json");
    let dom = dir.join("dom.html");
    let mut browser = Process::start(
        chromium(&dir)
            .arg(format!("--log-net-log={}", net_log.display()))
            .args(["--virtual-time-budget=20000", "--dump-dom", url])
            .env("HOME", &dir)
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(&dom).unwrap())
            .stderr(Stdio::null()),
    );
    let status = browser.wait(Duration::from_secs(90)).await;
    assert!(status.success(), "chromium: {status}");
    (text_of(&dom), text_of(&net_log))
}

/// Every address that the page at `origin` asked for; what the browser wants for itself is not among
/// them.
fn asked_by(origin: &str, network: &str) -> Vec<String> {
    let asked = |line: &str| -> Option<String> {
        let event: Value = serde_json::from_str(line.trim_end_matches(',')).ok()?;
        let params = &event["params"];
        let ours = params["initiator"].as_str()?.starts_with(origin);
        ours.then(|| params["url"].as_str().unwrap_or("no URL").to_owned())
    };
    network.lines().filter_map(asked).collect()
}

#[tokio::test]
#[ignore = "needs a browser: make test-all"]
async fn the_docs_show_every_operation_in_order_of_use_and_fetch_nothing_from_elsewhere() {
    let dueq = Dueq::on(&shared().await.redis).args(["--allow-host", HOST]).start().await;
    let port = dueq.addr().rsplit(':').next().unwrap();
    let origin = format!("http://{HOST}:{port}");
    let (page, network) = rendered(&format!("{origin}/docs")).await;
    for shown in [
        "publishMessage",
        "publishRaw",
        "leaseMessages",
        "ackMessage",
        "nackMessage",
        "extendLease",
        "getMessage",
        "deleteMessage",
        "getTopic",
        "listTopics",
    ] {
        assert!(page.contains(shown), "{shown} is not on the page:\n{page}");
    }
    let mut shown = page.split(" id=\"operations-").skip(1).filter(|id| !id.starts_with("tag-"));
    assert!(shown.next().unwrap().starts_with("messages-publishMessage\""));
    let mut leases = shown.skip_while(|id| !id.starts_with("leases-"));
    for operation in ["leaseMessages", "ackMessage", "nackMessage"] {
        let id = leases.next().unwrap();
        assert!(id.starts_with(&format!("leases-{operation}\"")), "{operation}: {id}");
    }
    let asked = asked_by(&origin, &network);
    let document = format!("{origin}/openapi.json");
    assert!(asked.contains(&document), "the page reads the document: {asked:?}");
    assert!(!page.contains("id=\"log-in\""), "there are no keys");
    let foreign: Vec<_> = asked.iter().filter(|url| !url.starts_with(&origin)).collect();
    assert!(foreign.is_empty(), "the page asked for {foreign:?}");
}

/// Fills in the form of the page and sends it.
pub async fn log_in(browser: &mut Browser, key: &str) {
    browser.until("document.querySelector('#log-in')").await;
    let key = serde_json::to_string(key).unwrap();
    let form = "document.querySelector('#log-in')";
    browser
        .eval(&format!("{form}.querySelector('input').value = {key}; {form}.requestSubmit()"))
        .await;
}

/// Sends the request of an operation without parameters from the page, and sees its 200.
pub async fn tries_out(browser: &mut Browser, operation: &str) {
    let block = format!("document.querySelector('#operations-{operation}')");
    for button in [".opblock-summary-control", ".try-out__btn", ".execute"] {
        let button = format!("{block}?.querySelector('{button}')");
        browser.until(&button).await;
        browser.eval(&format!("{button}.click()")).await;
    }
    let status =
        format!("{block}?.querySelector('.live-responses-table tbody .response-col_status')");
    browser.until(&format!("{status}?.textContent.includes('200')")).await;
}

#[tokio::test]
#[ignore = "needs a browser: make test-all"]
async fn where_there_are_keys_the_docs_ask_for_one() {
    let dueq =
        Dueq::on(&shared().await.redis).args(["--api-key", "the-key-of-the-docs"]).start().await;
    let port = dueq.addr().rsplit(':').next().unwrap();
    let (page, _) = rendered(&format!("http://{HOST}:{port}/docs/")).await;
    assert!(page.contains("<form id=\"log-in\">") && page.contains("type=\"password\""), "{page}");
    assert!(!page.contains("publishMessage"), "{page}");
}

#[tokio::test]
#[ignore = "needs a browser: make test-all"]
async fn who_logs_in_tries_requests_out_and_the_page_keeps_no_key() {
    const KEY: &str = "the-key-of-the-docs";
    let dueq = Dueq::on(&shared().await.redis).args(["--api-key", KEY]).start().await;
    let port = dueq.addr().rsplit(':').next().unwrap();
    let mut browser = Browser::at(&format!("http://{HOST}:{port}/docs/")).await;
    log_in(&mut browser, "another-key-than-that").await;
    let alert = "document.querySelector('#log-in [role=alert]').textContent";
    browser.until(&format!("{alert}.includes('not valid')")).await;
    log_in(&mut browser, KEY).await;
    tries_out(&mut browser, "topics-listTopics").await;
    let kept = "JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])";
    let kept = browser.eval(kept).await;
    let kept = kept.as_str().unwrap();
    assert!(kept.starts_with(r#"[{},{},"","http://"#) && !kept.contains(KEY), "{kept}");
    browser.eval("document.querySelector('#logged-in button').click()").await;
    browser.until("document.querySelector('#log-in')").await;
    assert!(!dueq.log().contains(KEY));
}
