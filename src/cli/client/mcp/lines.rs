//! The transport: a JSON-RPC message per line on standard input and output.
//!
//! rmcp's own ignores lines that are not JSON and those that are too long; here each is answered with an error. Two threads
//! read and write, because neither a read of standard input nor a write without a reader can be cancelled, and a runtime
//! waits for such calls before it ends.

use rmcp::{
    RoleServer,
    model::{
        ClientJsonRpcMessage, ClientRequest, GetMeta as _, JsonRpcMessage, ServerJsonRpcMessage,
    },
    transport::Transport,
};
use serde::Deserialize;
use serde_json::{Value, json};
use std::{
    future::Future,
    io::{self, BufRead as _, Read as _, Write as _},
    thread,
};
use tokio::sync::{mpsc, oneshot};

/// The longest line, in bytes. Payloads have up to 1 MiB, and their JSON may be escaped.
const MAX_LINE: u64 = 4 << 20;

/// Messages between the threads and the server.
const BUFFER: usize = 16;

/// The client's lines and the answers to them.
pub struct Lines {
    read: mpsc::Receiver<ClientJsonRpcMessage>,
    write: Option<mpsc::Sender<String>>,
    has_begun: bool,
}

impl Lines {
    /// Begins to read. The second value resolves when all answers are written, or can no longer be.
    pub fn begin() -> (Self, oneshot::Receiver<()>) {
        let ((into, read), (write, answers)) = (mpsc::channel(BUFFER), mpsc::channel(BUFFER));
        let (done, written) = oneshot::channel();
        let refusals = write.clone();
        thread::spawn(move || read_lines(&into, &refusals));
        thread::spawn(move || write_lines(answers, done));
        (Self { read, write: Some(write), has_begun: false }, written)
    }
}

/// Passes on each line that is a message, and answers the others.
fn read_lines(into: &mpsc::Sender<ClientJsonRpcMessage>, answers: &mpsc::Sender<String>) {
    let mut input = io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        match input.by_ref().take(MAX_LINE).read_until(b'\n', &mut line) {
            Ok(1..) => {}
            Ok(0) | Err(_) => return,
        }
        let is_cut = line.len() as u64 == MAX_LINE && !line.ends_with(b"\n");
        let passed = match is_cut {
            true if input.skip_until(b'\n').is_err() => return,
            true => answers.blocking_send(refusal(-32600, None, "the line is too long")).is_ok(),
            false => match parse(&line) {
                Ok(None) => true,
                Ok(Some(message)) => into.blocking_send(message).is_ok(),
                Err(refusal) => answers.blocking_send(refusal).is_ok(),
            },
        };
        if !passed {
            return;
        }
    }
}

/// Reads a message; a blank line is none.
///
/// Errors: the answer to a line that is no message.
fn parse(line: &[u8]) -> Result<Option<ClientJsonRpcMessage>, String> {
    if line.trim_ascii().is_empty() {
        return Ok(None);
    }
    // It may be JSON that no value can hold, such as 1e400 or half a surrogate pair; its sender waits for an answer all the same.
    let value: Value = serde_json::from_slice(line).map_err(|error| {
        let id = serde_json::from_slice(line).ok().and_then(|Named { id }| of_request(id));
        let code = if id.is_some() { -32600 } else { -32700 };
        refusal(code, id, &format!("cannot be read as JSON: {error}"))
    })?;
    let id = value.get("id").cloned().and_then(of_request);
    let message = serde_json::from_value(value);
    message.map(Some).map_err(|error| refusal(-32600, id, &format!("not a message: {error}")))
}

/// What names a request.
#[derive(Deserialize)]
struct Named {
    id: Value,
}

fn of_request(id: Value) -> Option<Value> {
    Some(id).filter(|id| id.is_number() || id.is_string())
}

/// An error of JSON-RPC, as a line.
fn refusal(code: i32, id: Option<Value>, reason: &str) -> String {
    let error = json!({"code": code, "message": reason});
    json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string()
}

fn write_lines(mut answers: mpsc::Receiver<String>, _done: oneshot::Sender<()>) {
    let mut output = io::stdout().lock();
    while let Some(line) = answers.blocking_recv() {
        if writeln!(output, "{line}").and_then(|()| output.flush()).is_err() {
            return;
        }
    }
}

impl Transport<RoleServer> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let write = self.write.clone();
        async move {
            let line = serde_json::to_string(&message)?;
            let closed = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            write.ok_or(io::ErrorKind::NotConnected)?.send(line).await.map_err(closed)
        }
    }

    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let message = self.read.recv().await?;
            self.has_begun |= begins(&message);
            // rmcp ends at a notification before the session has begun.
            if self.has_begun || matches!(message, JsonRpcMessage::Request(_)) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.write = None;
        Ok(())
    }
}

/// Whether a session begins with this message: an `initialize`, or a request that names the version of the protocol itself.
fn begins(message: &ClientJsonRpcMessage) -> bool {
    match message {
        JsonRpcMessage::Request(request) => match &request.request {
            ClientRequest::InitializeRequest(_) => true,
            ClientRequest::PingRequest(_) | ClientRequest::DiscoverRequest(_) => false,
            other => other.get_meta().protocol_version().is_some(),
        },
        _ => false,
    }
}
