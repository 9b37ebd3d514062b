//! A browser that is driven as a person drives one: through its debugging pipe (the DevTools protocol), a JSON object and
//! a zero byte each way.

use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;

use super::chromium;
use crate::harness::*;

/// A busy machine shows a page late.
const ANSWER_TIME: Duration = Duration::from_secs(60);

/// One page in a browser of its own.
pub struct Browser {
    to: pipe::Sender,
    from: BufReader<pipe::Receiver>,
    session: Option<String>,
    calls: u64,
    _process: Process,
}

impl Browser {
    /// Opens the page. The browser believes any certificate.
    pub async fn at(url: &str) -> Browser {
        let dir = temp_dir("browser");
        let [requests, answers] = ["requests", "answers"].map(|name| dir.join(name));
        fifo(&requests);
        fifo(&answers);
        // The shell opens both pipes for reading and writing, so that nobody waits for anybody.
        let mut command = chromium(&dir);
        command.args(["--ignore-certificate-errors", "--remote-debugging-pipe"]);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", r#"exec 3<>"$1" 4<>"$2"; shift 2; exec "$@""#, "browser"]);
        shell.arg(&requests).arg(&answers).arg(command.get_program()).args(command.get_args());
        shell.env("HOME", &dir).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Process::start(&mut shell);
        let open = || pipe::OpenOptions::new().read_write(true).clone();
        let mut browser = Browser {
            to: open().open_sender(&requests).unwrap(),
            from: BufReader::new(open().open_receiver(&answers).unwrap()),
            session: None,
            calls: 0,
            _process: process,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"})).await;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", attach).await;
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        browser.call("Page.navigate", json!({"url": url})).await;
        browser
    }

    /// What this JavaScript evaluates to; promises are awaited.
    pub async fn eval(&mut self, script: &str) -> Value {
        self.tried(script).await.unwrap_or_else(|why| panic!("{script}: {why}"))
    }

    /// Waits until this JavaScript is true. While a page is replaced by the next, nothing evaluates.
    pub async fn until(&mut self, script: &str) {
        let end = tokio::time::Instant::now() + ANSWER_TIME;
        loop {
            let found = self.tried(&format!("Boolean({script})")).await;
            if found == Ok(Value::Bool(true)) {
                return;
            }
            if tokio::time::Instant::now() > end {
                let page = self.tried("document.documentElement.outerHTML").await;
                panic!("never {script}: {found:?}\n{page:?}");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// The same as `eval`, or what the browser or the script says against it.
    async fn tried(&mut self, script: &str) -> Result<Value, Value> {
        let how = json!({"expression": script, "awaitPromise": true, "returnByValue": true});
        let mut done = self.ask("Runtime.evaluate", how).await?;
        if done["exceptionDetails"].is_null() {
            Ok(done["result"]["value"].take())
        } else {
            Err(done["exceptionDetails"].take())
        }
    }

    async fn call(&mut self, method: &str, params: Value) -> Value {
        self.ask(method, params).await.unwrap_or_else(|why| panic!("{method}: {why}"))
    }

    /// Makes this call, and reads on to its answer.
    async fn ask(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        self.calls += 1;
        let mut call = json!({"id": self.calls, "method": method, "params": params});
        if let Some(session) = &self.session {
            call["sessionId"] = json!(session);
        }
        self.to.write_all(format!("{call}\0").as_bytes()).await.unwrap();
        loop {
            let mut said = Vec::new();
            let read = self.from.read_until(0, &mut said);
            tokio::time::timeout(ANSWER_TIME, read).await.expect("the browser answers").unwrap();
            let mut said: Value =
                serde_json::from_slice(said.strip_suffix(b"\0").unwrap()).unwrap();
            // The others are events.
            if said["id"] == self.calls {
                let error = said["error"].take();
                return if error.is_null() { Ok(said["result"].take()) } else { Err(error) };
            }
        }
    }
}
