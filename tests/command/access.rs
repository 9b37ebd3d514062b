//! Keys and addresses: what is refused at the start, and never with the key in its words.

use std::path::PathBuf;

use crate::harness::*;
use crate::refusals::one_line;

const SECRET: &str = "sesame-open-sesame";

/// `dueq serve` on a Redis that is there, with these arguments after the others.
async fn serve(args: &[&str]) -> Finished {
    let url = shared().await.redis.url();
    Launch::command(["serve", "--redis-url", &url]).args(args).finish().await
}

fn file(text: &str) -> PathBuf {
    let path = temp_dir("keys").join("keys");
    replace(&path, text);
    path
}

/// Starts, and answers `/topics` with this status to whoever has this key.
async fn answers(launch: Launch, key: &str, status: u16) {
    let dueq = launch.start().await;
    let authorization = [("authorization", format!("Bearer {key}"))];
    let authorization = authorization.each_ref().map(|(name, value)| (*name, value.as_str()));
    dueq.client().send("GET", "/topics", &authorization, None).await.expect(status);
    assert!(!dueq.log().contains(key), "{}", dueq.log());
}

#[tokio::test]
async fn a_wide_address_without_keys_is_refused_and_says_what_to_do() {
    for listen in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[2001:db8::1]:0", "[::ffff:192.0.2.1]:0"]
    {
        let finished = serve(&["--listen", listen]).await;
        one_line(&finished, &[listen, "--api-key", "--insecure", "loopback"]);
    }
}

/// One that listens here; where it is reached.
async fn listening(listen: &str, more: &[&str]) -> (Dueq, Client) {
    let launch = Dueq::on(&shared().await.redis).args(["--listen", listen, "--addr-file", "addr"]);
    let file = launch.dir().join("addr");
    let dueq = launch.args(more).spawn();
    let addr = eventually("the address", || async {
        Some(text_of(&file)).filter(|text| !text.is_empty())
    })
    .await;
    let client = Client::new(&format!("http://{}", addr.replace("0.0.0.0", "127.0.0.1")));
    client.get_path("/readyz").await.expect(200);
    (dueq, client)
}

fn warns(dueq: &Dueq, words: &str) -> bool {
    dueq.log().lines().any(|line| line.contains("WARN") && line.contains(words))
}

#[tokio::test]
async fn a_wide_address_is_served_with_a_key() {
    let (dueq, client) = listening("0.0.0.0:0", &["--api-key", SECRET]).await;
    client.get_path("/topics").await.problem(401, "unauthorized");
    assert!(!dueq.log().contains("WARN"), "{}", dueq.log());
}

#[tokio::test]
async fn a_wide_address_is_served_by_insecure_which_lifts_nothing_else() {
    let (dueq, client) = listening("0.0.0.0:0", &["--insecure"]).await;
    client.get_path("/topics").await.expect(200);
    let stranger = [("host", "evil.example")];
    client.send("GET", "/topics", &stranger, None).await.problem(403, "host_not_allowed");
    assert!(warns(&dueq, "--insecure"), "{}", dueq.log());
}

#[tokio::test]
async fn loopback_needs_no_key() {
    for listen in ["127.0.0.1:0", "127.1.2.3:0", "[::1]:0"] {
        let (dueq, client) = listening(listen, &[]).await;
        client.get_path("/topics").await.expect(200);
        assert!(!dueq.log().contains("WARN"), "{}", dueq.log());
    }
}

#[tokio::test]
async fn a_key_that_may_be_guessed_is_warned_of() {
    let (dueq, _) = listening("127.0.0.1:0", &["--api-key", "brief-1", "--api-key", SECRET]).await;
    assert!(warns(&dueq, "fewer than 16 characters: 1"), "{}", dueq.log());
}

#[tokio::test]
async fn what_is_no_key_is_refused_without_being_shown() {
    let long = "x".repeat(257);
    let spaced = format!("{SECRET} x");
    for key in ["", &spaced, &long, "sesame\u{e9}", "sesame\t", "a,,sesame", "sesame,"] {
        let finished = serve(&["--listen", "127.0.0.1:0", "--api-key", key]).await;
        one_line(&finished, &["--api-key", "256"]);
        assert!(!finished.stderr.contains("sesame"), "{finished:?}");
        assert!(!finished.stderr.contains("xx"), "{finished:?}");
    }
    let launch = Dueq::on(&shared().await.redis).env("DUEQ_API_KEYS", "");
    one_line(&launch.args(["--listen", "127.0.0.1:0"]).finish().await, &["DUEQ_API_KEYS"]);
}

#[tokio::test]
async fn a_file_without_a_key_is_refused() {
    for text in ["", "\n \n", "# a comment\n\t# another\n"] {
        let path = file(text);
        let path = path.to_str().unwrap();
        one_line(&serve(&["--api-key-file", path]).await, &[path]);
        one_line(&serve(&["--api-key-file", path, "--api-key", SECRET]).await, &[path]);
    }
    one_line(&serve(&["--api-key-file", "/nowhere/keys"]).await, &["/nowhere/keys"]);
    let path = file(&format!("# ours\n{SECRET}\n\nsesame and more\n"));
    let finished = serve(&["--api-key-file", path.to_str().unwrap()]).await;
    one_line(&finished, &["line 4", path.to_str().unwrap()]);
    assert!(!finished.stderr.contains("sesame"), "{finished:?}");
}

#[tokio::test]
async fn an_allowed_host_that_is_none_is_refused() {
    for host in ["", "*", "queue:80", "http://queue", "queue.", "a/b", "127.1"] {
        one_line(&serve(&["--allow-host", host]).await, &["--allow-host", &format!("{host:?}")]);
    }
}

#[tokio::test]
async fn keys_come_from_flags_from_the_environment_and_from_a_file() {
    let redis = &shared().await.redis;
    let on = || Dueq::on(redis);
    let path = file("# ours\n\n  filed-key-of-tests  \r\nanother-filed-key");
    let longest = "k".repeat(256);
    answers(on().args(["--api-key", "x", "--api-key", SECRET]), SECRET, 200).await;
    answers(on().args(["--api-key", &longest]), &longest, 200).await;
    answers(on().env("DUEQ_API_KEYS", format!("other-key,{SECRET}")), SECRET, 200).await;
    answers(on().args(["--api-key-file"]).args([&path]), "filed-key-of-tests", 200).await;
    answers(on().env("DUEQ_API_KEY_FILE", &path), "another-filed-key", 200).await;
    answers(on().env("DUEQ_API_KEY_FILE", &path).args(["--api-key", SECRET]), SECRET, 200).await;
    answers(on().env("DUEQ_API_KEY_FILE", &path), SECRET, 401).await;
    let both = on().env("DUEQ_API_KEYS", SECRET).args(["--api-key", "the-flag-wins"]);
    answers(both, SECRET, 401).await;
}

#[tokio::test]
async fn insecure_and_hosts_come_from_the_environment_too() {
    let redis = &shared().await.redis;
    let dueq = Dueq::on(redis).env("DUEQ_ALLOW_HOSTS", "queue.example,10.1.2.3").start().await;
    for (host, status) in [("queue.example", 200), ("10.1.2.3", 200), ("example", 403)] {
        dueq.client().send("GET", "/topics", &[("host", host)], None).await.expect(status);
    }
    for (insecure, wide) in [("true", true), ("1", true), ("false", false), ("0", false)] {
        let launch = Dueq::on(redis).env("DUEQ_INSECURE", insecure);
        // Ends either way: the second is refused later, at a file that cannot be written.
        let finished =
            launch.args(["--listen", "0.0.0.0:0", "--addr-file", "/nowhere/addr"]).finish().await;
        assert_eq!(finished.code, 2, "{finished:?}");
        assert_eq!(finished.stderr.contains("/nowhere/addr"), wide, "{insecure}: {finished:?}");
    }
}

#[tokio::test]
async fn the_help_does_not_show_keys_of_the_environment() {
    let launch = Launch::command(["serve", "--help"]).env("DUEQ_API_KEYS", SECRET);
    let finished = launch.finish().await;
    assert!(finished.stdout.contains("DUEQ_API_KEYS"), "{finished:?}");
    assert!(!finished.stdout.contains("sesame"), "{finished:?}");
}

#[tokio::test]
async fn healthcheck_needs_no_key() {
    let launch = Dueq::on(&shared().await.redis).args(["--api-key", SECRET]);
    let dueq = launch.start().await;
    let finished = Launch::command(["healthcheck", "--server"]).args([dueq.url()]).finish().await;
    assert_eq!(finished.code, 0, "{finished:?}");
}

#[tokio::test]
async fn a_client_without_a_key_is_told_how_to_give_one() {
    let dueq = Dueq::on(&shared().await.redis).args(["--api-key", SECRET]).start().await;
    let finished = Launch::command(["topics", "--server", dueq.addr()]).finish().await;
    assert_eq!(finished.code, 1, "{finished:?}");
    let advice = "(401 unauthorized): set DUEQ_API_KEY or pass --api-key\n";
    assert!(finished.stderr.ends_with(advice), "{finished:?}");
}
