//! What cannot start says why in one line, and ends with 2.

use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::harness::*;

/// Exit code 2, nothing on stdout, one line `dueq: …` on stderr that holds these words.
#[track_caller]
pub fn one_line(finished: &Finished, words: &[&str]) {
    assert_eq!(finished.code, 2, "{finished:?}");
    assert!(finished.stdout.is_empty(), "{finished:?}");
    let lines: Vec<&str> = finished.stderr.lines().collect();
    assert_eq!(lines.len(), 1, "one line on stderr: {finished:?}");
    assert!(lines[0].starts_with("dueq: "), "{finished:?}");
    for word in words {
        assert!(lines[0].contains(word), "no {word:?}: {finished:?}");
    }
}

/// The same for what goes wrong after it has begun, and logged: the last line says why.
#[track_caller]
fn last_line(finished: &Finished, words: &[&str]) {
    let last = finished.stderr.lines().next_back().unwrap_or_default().to_owned();
    one_line(&Finished { code: finished.code, stdout: String::new(), stderr: last }, words);
}

/// `dueq serve` on any port with these arguments, run to its end.
async fn serve(args: &[&str]) -> Finished {
    Launch::command(["serve", "--listen", "127.0.0.1:0"]).args(args).finish().await
}

/// An executable file with this text.
fn script(name: &str, text: &str) -> PathBuf {
    let path = temp_dir("bin").join(name);
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[tokio::test]
async fn a_redis_binary_that_is_not_there() {
    let data = temp_dir("data").join("d");
    let data = data.to_str().unwrap();
    let finished = serve(&["--data-dir", data, "--redis-bin", "/nowhere/redis-server"]).await;
    one_line(&finished, &["/nowhere/redis-server"]);
}

#[tokio::test]
async fn no_redis_on_the_path_says_how_to_get_one() {
    let launch = Launch::command(["serve", "--listen", "127.0.0.1:0"]);
    let finished = launch.env("PATH", temp_dir("empty")).finish().await;
    one_line(&finished, &["redis-server", "--redis-url"]);
}

#[tokio::test]
async fn a_binary_that_is_no_redis() {
    let bin = script("redis-server", "#!/bin/sh\necho something else\n");
    let finished = serve(&["--redis-bin", bin.to_str().unwrap()]).await;
    one_line(&finished, &[bin.to_str().unwrap()]);
}

#[tokio::test]
async fn a_redis_binary_that_is_too_old() {
    let version = "Redis server v=6.0.16 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64 build=0";
    let bin = script("redis-server", &format!("#!/bin/sh\necho '{version}'\n"));
    let finished = serve(&["--redis-bin", bin.to_str().unwrap()]).await;
    one_line(&finished, &["6.0.16", "6.2"]);
}

#[tokio::test]
async fn a_redis_binary_that_ends_at_once() {
    let version = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.2.1 bits=64 build=0";
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo '{version}' && exit 0\necho broken config >&2\nexit 1\n"
    );
    let bin = script("redis-server", &text);
    let finished = serve(&["--redis-bin", bin.to_str().unwrap()]).await;
    one_line(&finished, &[]);
}

#[tokio::test]
async fn a_port_in_use() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let url = crate::harness::shared().await.redis.url();
    let finished =
        Launch::command(["serve", "--listen", &addr, "--redis-url", &url]).finish().await;
    one_line(&finished, &[&addr]);
}

#[tokio::test]
async fn a_port_in_use_before_any_redis_is_started() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let data = temp_dir("data");
    let launch = Launch::command(["serve", "--listen", &addr, "--data-dir"]).args([&data]);
    one_line(&launch.finish().await, &[&addr]);
    Dueq::embedded(&data).start().await; // nothing holds the directory
}

#[tokio::test]
async fn a_data_directory_that_cannot_be_written() {
    // Tests may run as root, who may write anywhere: a path below a file is nobody's.
    let file = temp_dir("data").join("file");
    std::fs::write(&file, "").unwrap();
    let data = file.join("below");
    let finished = serve(&["--data-dir", data.to_str().unwrap()]).await;
    one_line(&finished, &[file.to_str().unwrap()]);
}

#[tokio::test]
async fn an_address_file_that_cannot_be_written() {
    let url = shared().await.redis.url();
    let finished = serve(&["--redis-url", &url, "--addr-file", "/nowhere/at/all"]).await;
    last_line(&finished, &["/nowhere/at/all"]);
}

#[tokio::test]
async fn a_redis_url_that_is_none() {
    for url in
        ["http://127.0.0.1:6379/", "127.0.0.1", "redis://", "redis://127.0.0.1:notaport/", ""]
    {
        if url.is_empty() {
            assert_eq!(serve(&["--redis-url", url]).await.code, 2);
            continue;
        }
        let form = ["--redis-url", "redis://[USER:PASSWORD@]HOST[:PORT]"];
        one_line(&serve(&["--redis-url", url]).await, &form);
        let file = temp_dir("url").join("url");
        std::fs::write(&file, url).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        let path = file.to_str().unwrap();
        one_line(&serve(&["--redis-url-file", path]).await, &["--redis-url-file", form[1]]);
        for command in
            [&["migrate"][..], &["audit"], &["dump"], &["bench", "--server", "http://127.0.0.1:9"]]
        {
            let finished = Launch::command(command).args(["--redis-url", url]).finish().await;
            assert_ne!(finished.code, 0, "{finished:?}");
            assert!(finished.stderr.contains(form[1]), "{command:?}: {finished:?}");
        }
    }
}

#[tokio::test]
async fn a_redis_that_is_not_there() {
    let address = format!("127.0.0.1:{}", free_port());
    let finished = serve(&["--redis-url", &format!("redis://u:sesame@{address}/2")]).await;
    one_line(&finished, &["cannot reach Redis", &address]);
    assert!(!finished.stderr.contains("sesame"), "{finished:?}");
    let socket = serve(&["--redis-url", "redis+unix:///nowhere/redis.sock"]).await;
    one_line(&socket, &["cannot reach Redis", "/nowhere/redis.sock"]);
}

#[tokio::test]
async fn the_password_of_a_redis_url_is_not_shown() {
    let url = format!("redis://user:sesame-open@127.0.0.1:{}/", free_port());
    let finished = serve(&["--redis-url", &url]).await;
    assert_eq!(finished.code, 2, "{finished:?}");
    assert!(!finished.stderr.contains("sesame"), "{finished:?}");
}

/// Answers every command as a Redis of this version would that knows nothing else.
async fn old_redis(version: &'static str) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut seen, mut buffer) = (String::new(), [0; 4096]);
                while let Ok(n @ 1..) = stream.read(&mut buffer).await {
                    seen.push_str(&String::from_utf8_lossy(&buffer[..n]).to_uppercase());
                    for command in seen.split('*').filter(|command| !command.is_empty()) {
                        let info = format!("# Server\r\nredis_version:{version}\r\nrun_id:0\r\n");
                        let reply = if command.contains("\nINFO\r") {
                            format!("${}\r\n{info}\r\n", info.len())
                        } else if command.contains("\nPING\r") {
                            "+PONG\r\n".to_owned()
                        } else if command.contains("\nCLIENT\r") || command.contains("\nSELECT\r") {
                            "+OK\r\n".to_owned()
                        } else {
                            "-ERR unknown command\r\n".to_owned()
                        };
                        if stream.write_all(reply.as_bytes()).await.is_err() {
                            return;
                        }
                    }
                    seen.clear();
                }
            });
        }
    });
    url
}

#[tokio::test]
async fn a_running_redis_that_is_too_old() {
    let url = old_redis("6.0.16").await;
    one_line(&serve(&["--redis-url", &url]).await, &["6.0.16", "6.2"]);
}

#[tokio::test]
async fn a_schema_newer_than_it_knows() {
    let redis = Redis::start().await;
    Dueq::on(&redis).start().await;
    let schema: String = redis.command(&["GET", "dueq:{service}:schema"]).await;
    assert_eq!(schema, "2");
    let _: () = redis.command(&["SET", "dueq:{service}:schema", "99"]).await;
    one_line(&serve(&["--redis-url", &redis.url()]).await, &["99"]);
}

#[tokio::test]
async fn wrong_usage() {
    let url = shared().await.redis.url();
    for args in [
        &["--nope"][..],
        &["--listen", "nowhere"],
        &["--fsync", "never"],
        &["--callback-deny", "10.0.0.0/33"],
        &["--callback-only", "example.com"],
        &["--callback-max-timeout-ms", "99"],
        &["--callback-max-timeout-ms", "1800001"],
        &["--lanes", "0"],
        &["--threads", "0"],
        &["--threads", "many"],
        &["--drain-timeout-ms", "x"],
        &["--key-prefix", "a{b}"],
        &["--log-format", "xml"],
        &["extra"],
    ] {
        let launch = Launch::command(["serve", "--redis-url", &url]).args(args);
        let finished = launch.finish().await;
        assert_eq!(finished.code, 2, "{args:?}: {finished:?}");
        assert!(finished.stdout.is_empty() && !finished.stderr.is_empty(), "{finished:?}");
    }
    for words in [&["nope"][..], &[]] {
        let finished = Launch::command(words).finish().await;
        assert_eq!(finished.code, 2, "{words:?}: {finished:?}");
    }
}

#[tokio::test]
async fn a_signing_secret_that_is_none_is_refused_and_not_printed() {
    for secret in ["TOPSECRETbutbad", "whsec_c2hvcnQ="] {
        let finished = serve(&["--signing-secret", secret]).await;
        one_line(&finished, &["--signing-secret", "whsec_"]);
        assert!(!finished.stderr.contains(secret), "{finished:?}");
    }
    let good = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    one_line(&serve(&["--signing-secret", &[good; 3].join(",")]).await, &["at most 2"]);
}

#[tokio::test]
async fn limits_that_are_none() {
    for (flag, values) in [
        ("--max-connections", &["0", "-1", "x", "1000001", ""][..]),
        ("--max-inflight-bytes", &["0", "2097151", "x", "1099511627777", ""]),
    ] {
        for value in values {
            let finished = serve(&[&format!("{flag}={value}")]).await;
            assert_eq!(finished.code, 2, "{finished:?}");
            assert!(finished.stderr.contains(flag), "{finished:?}");
        }
    }
}
