//! lmstfy, where `LMSTFY` names its server: with a Redis of its own that syncs its log every second, as dueq's does.

use crate::{
    harness::*,
    load::{Answer, after, drive},
};
use std::{
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
};

/// Jobs published, and jobs consumed and deleted, a second.
pub async fn rates(server: &Path) -> (f64, f64) {
    let redis = Redis::options().appendonly().args(["--appendfsync", "everysec"]).start().await;
    let (port, directory) = (free_port(), temp_dir("lmstfy"));
    let (config, address) = (directory.join("config.toml"), redis.port());
    let text = format!(
        r#"Host = "127.0.0.1"
           Port = {port}
           AdminPort = {}
           LogLevel = "error"
           AdminRedis = {{ Addr = "127.0.0.1:{address}" }}
           Pool = {{ default = {{ Addr = "127.0.0.1:{address}" }} }}"#,
        free_port()
    );
    std::fs::write(&config, text).expect("its configuration");
    let mut command = Command::new(server);
    // It wants no token then.
    command.current_dir(&directory).arg("-sv").arg("-c").arg(&config);
    let _process = Process::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
    eventually("lmstfy listens", || async { TcpStream::connect(("127.0.0.1", port)).ok() }).await;
    let jobs = "/api/bench/jobs";
    let request = |method, path: &str, body: &str| {
        let length = body.len();
        let head = format!("{method} {path} HTTP/1.1\r\nhost: bench\r\ncontent-length: {length}");
        format!("{head}\r\n\r\n{body}").into_bytes()
    };
    let publish = request("PUT", &format!("{jobs}?ttl=0&tries=1"), &"x".repeat(200));
    let published = drive(port, &publish, |answer, _| match status(answer) {
        Some("201") => Answer::Finished(1),
        Some(other) => panic!("lmstfy answered {other}"),
        None => Answer::Incomplete,
    });
    let consume = request("GET", &format!("{jobs}?ttr=3600"), "");
    let consumed = drive(port, &consume, |answer, next| match status(answer) {
        Some("200") => {
            let path = format!("{jobs}/job/{}", after(answer, r#""job_id":""#));
            *next = request("DELETE", &path, "");
            Answer::Finished(0)
        }
        Some("204") => Answer::Finished(1),
        Some("404") => Answer::Empty,
        Some(other) => panic!("lmstfy answered {other}"),
        None => Answer::Incomplete,
    });
    (published, consumed)
}

/// The status of a whole answer. A 204 has no body, and others end with the only brace that closes.
fn status(answer: &[u8]) -> Option<&str> {
    let end = if answer.starts_with(b"HTTP/1.1 204 ") { "\r\n\r\n" } else { "}" };
    answer.ends_with(end.as_bytes()).then(|| after(answer, "HTTP/1.1 "))
}
