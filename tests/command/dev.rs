//! `dueq dev` and `dueq listen`: a developer's server and receiver, and how they work together.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use crate::harness::*;

/// Starts a receiver on a free port, and waits until it listens; it and its URL.
async fn listening(launch: Launch) -> (Dueq, String) {
    let listener = launch.spawn();
    let url = eventually("it listens", || async {
        let log = listener.log();
        let (_, rest) = log.split_once("listening on ")?;
        rest.split_once(',').map(|(url, _)| url.to_owned())
    })
    .await;
    (listener, url)
}

/// Calls a receiver, which is no dueq and answers as it likes.
async fn call(url: String, body: &'static str) -> reqwest::Response {
    let request = reqwest::Client::new().post(url).header("content-type", "application/json");
    request.body(body).send().await.unwrap()
}

fn listen(data_dir: &Path, words: &[&str]) -> Launch {
    let launch = Launch::command(["listen", "0", "--data-dir"]).args([data_dir]);
    launch.args(words)
}

async fn prints(process: &Dueq, text: &str) {
    eventually(text, || async { process.log().contains(text).then_some(()) }).await;
}

#[tokio::test]
async fn a_developer_is_called_sees_a_retry_and_a_redrive_and_ends_all_by_ctrl_c() {
    let data = temp_dir("dev");
    let mut dueq = Launch::command(["dev", "--data-dir"]).args([&data]).start().await;
    let (mut listener, receiver) =
        listening(listen(&data, &["--status", "500", "--then", "204"])).await;
    let client = dueq.client();
    // The block is there once the server answers, and its secret is the one that is kept.
    prints(&dueq, " is ready.").await;
    let file = data.join("signing-secret");
    let (secret, mode) = (text_of(&file), file.metadata().unwrap().permissions().mode());
    let log = dueq.log();
    for part in [secret.trim(), &format!("{}/ui\n", dueq.url()), "dueq listen 9123 --data-dir "] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert_eq!(mode & 0o777, 0o600);
    let words = ["healthcheck", "--server", &dueq.url()];
    assert_eq!(Launch::command(words).finish().await.code, 0);

    let later = json!({"url": format!("{receiver}/close?a=1"), "payload": {"order": 42},
        "headers": {"x-tenant": "7"}, "backoff": {"kind": "fixed", "base_ms": 100}});
    client.post("/callbacks", &later).await.expect(201);
    for part in ["POST /close?a=1 → 500\n", "POST /close?a=1 → 204\n", "attempt       2\n"] {
        prints(&listener, part).await;
    }
    let log = listener.log();
    for part in [
        "  topic         _callbacks\n",
        " late)\n",
        "  x-tenant      7\n",
        "  signature     valid\n",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    assert!(log.contains("\n  {\n    \"order\": 42\n  }\n") && !log.contains('\u{1b}'), "{log}");
    eventually("it is done", || async {
        (client.total("_callbacks", "acked").await == 1).then_some(())
    })
    .await;
    // Strangers are turned away.
    assert_eq!(call(receiver.clone(), "\"\\u001b[2J\"").await.status(), 401);
    prints(&listener, "not accepted: there is no webhook-signature").await;

    let words = ["listen", &receiver["http://".len()..]];
    let taken = Launch::command(words).finish().await;
    assert_eq!(taken.code, 2, "{taken:?}");
    assert!(taken.stderr.contains("another program does; name another port"), "{taken:?}");
    let words = ["dev", "--listen", dueq.addr(), "--data-dir", "other"];
    let taken = Launch::command(words).finish().await;
    assert!(taken.code == 2 && taken.stderr.contains("cannot listen on"), "{taken:?}");
    assert_eq!(taken.stdout, "");

    for process in [&mut listener, &mut dueq] {
        process.process.signal_group(Signal::INT);
        assert_eq!(process.exit().await, 0, "{}", process.log());
    }
}

#[tokio::test]
async fn a_receiver_answers_as_told_and_calls_in_flight_are_answered_at_ctrl_c() {
    let none = temp_dir("listen");
    let words = [
        "--body",
        "{\"a\":1}",
        "--header",
        "retry-after=5",
        "--header",
        "content-type=application/json",
    ];
    let (mut quick, url) = listening(listen(&none, &words)).await;
    let answer = call(format!("{url}/a"), "[1e400]").await;
    assert_eq!(answer.status(), 200);
    let headers = answer.headers().clone();
    assert_eq!(headers["retry-after"], "5");
    assert_eq!(headers["content-type"], "application/json");
    assert_eq!(answer.text().await.unwrap(), "{\"a\":1}");
    prints(&quick, "  [\n    1e400\n  ]\n").await;
    prints(&quick, "not checked: there is no secret").await;
    assert_eq!(quick.term().await, 0);

    let (mut slow, url) = listening(listen(&none, &["--delay", "1h"])).await;
    let waiting = tokio::spawn(call(format!("{url}/slow"), "1"));
    prints(&slow, "POST /slow → 204").await;
    let began = Instant::now();
    slow.process.signal_group(Signal::INT);
    assert_eq!(waiting.await.unwrap().status(), 204);
    assert_eq!(slow.exit().await, 0, "{}", slow.log());
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());

    // Nobody reads what is printed any more.
    let port = free_port().to_string();
    let mut command = Command::new("sh");
    command.args(["-c", "\"$0\" listen \"$1\" | head -n 1"]).arg(binary()).arg(&port);
    let mut shell = Process::start(command.current_dir(&none).stdout(Stdio::null()));
    let end = Instant::now() + Duration::from_secs(20);
    while shell.ended().is_none() {
        assert!(Instant::now() < end, "it goes on");
        let _ = reqwest::get(format!("http://127.0.0.1:{port}/")).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn what_a_receiver_cannot_do_is_refused_with_exit_code_2() {
    let dir = temp_dir("listen-bad");
    std::fs::write(dir.join("signing-secret"), "whsec_sesame\n").unwrap();
    let dir = dir.to_str().unwrap();
    for (words, reason) in [
        (&["listen", "99999"][..], "expected a port such as 9123"),
        (&["listen", "nowhere:1"], "expected a port such as 9123"),
        (&["listen", "192.0.2.1:9123"], "cannot listen on 192.0.2.1:9123"),
        (&["listen", "0", "--then", "204"], "--status"),
        (&["listen", "0", "--status", "99"], "99"),
        (&["listen", "0", "--header", "content-length=1"], "cannot be sent"),
        (&["listen", "0", "--secret", "whsec_sesame"], "--secret: must be whsec_"),
        (&["listen", "0", "--data-dir", dir], "signing-secret: must be whsec_"),
        (&["dev", "--data-dir", dir], "signing-secret: must be whsec_"),
        (&["dev", "--data-dir", "/dev/null/x"], "cannot keep a signing secret in /dev/null/x/"),
    ] {
        let finished = Launch::command(words).finish().await;
        assert_eq!(finished.code, 2, "{words:?}: {finished:?}");
        assert!(finished.stderr.contains(reason), "{words:?}: {finished:?}");
        assert!(!finished.stderr.contains("sesame") && finished.stdout.is_empty(), "{finished:?}");
    }
}

/// `dueq dev` on a terminal, with a desktop whose browser notes what it opens. Returns what that was, after a graceful end.
async fn opened(words: &[&str], env: &[(&str, &str)]) -> String {
    let dir = temp_dir("dev-browser");
    let browser = dir.join("xdg-open");
    std::fs::write(&browser, "#!/bin/sh\necho \"$1\" > opened\n").unwrap();
    std::fs::set_permissions(&browser, PermissionsExt::from_mode(0o755)).unwrap();
    let command =
        format!("exec {} dev --listen 127.0.0.1:0 {}", binary().display(), words.join(" "));
    let mut script = Command::new("script");
    for name in ["SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY", "CI", "DUEQ_NO_OPEN", "DUEQ_LISTEN"] {
        script.env_remove(name);
    }
    script.args(["--quiet", "--flush", "--return", "--command", &command, "shown"]);
    script.env("PATH", format!("{}:{}", dir.display(), std::env::var("PATH").unwrap()));
    script.env("DISPLAY", ":0").envs(env.iter().copied());
    script.current_dir(&dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = Process::start(&mut script);
    let shown = || text_of(&dir.join("shown"));
    eventually("it is ready", || async { shown().contains("Ctrl-C stops dueq").then_some(()) })
        .await;
    if words.is_empty() && env.is_empty() {
        eventually("it is opened", || async { dir.join("opened").exists().then_some(()) }).await;
    }
    let dueq = children(process.pid())[0];
    let pid = rustix::process::Pid::from_raw(dueq as i32).unwrap();
    rustix::process::kill_process(pid, Signal::TERM).unwrap();
    assert!(process.wait(Duration::from_secs(20)).await.success(), "{}", shown());
    assert!(shown().contains("\u{1b}[1m"), "in colour: {}", shown());
    text_of(&dir.join("opened"))
}

#[tokio::test]
async fn the_dashboard_is_opened_on_a_desktop_and_nowhere_else() {
    let (desktop, no_open, ssh, none) = tokio::join!(
        opened(&[], &[]),
        opened(&["--no-open"], &[]),
        opened(&[], &[("SSH_CONNECTION", "192.0.2.1 1 192.0.2.2 22")]),
        opened(&[], &[("DISPLAY", "")]),
    );
    assert!(desktop.starts_with("http://127.0.0.1:") && desktop.ends_with("/ui\n"), "{desktop}");
    assert_eq!([&*no_open, &ssh, &none], ["", "", ""]);
}
