//! What Redis is asked to do, command by command: MONITOR, with what scripts do inside told apart.

use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// One command of a client, and the commands that a script of it ran.
#[derive(Clone, Debug)]
pub struct Call {
    pub words: Vec<String>,
    pub inner: Vec<Vec<String>>,
}

/// A MONITOR that runs until its marker is seen.
pub struct Monitor {
    reader: JoinHandle<Vec<Call>>,
}

impl Monitor {
    /// Begins on the Redis at this port.
    pub async fn start(port: u16) -> Monitor {
        let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        stream.write_all(b"MONITOR\r\n").await.unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        assert_eq!(line, "+OK\r\n");
        let reader = tokio::spawn(async move {
            let mut calls: Vec<Call> = Vec::new();
            let mut line = String::new();
            while stream.read_line(&mut line).await.unwrap() > 0 {
                let (from, words) = parse(line.trim_end());
                if words == ["ECHO", MARKER] {
                    break;
                }
                match calls.last_mut() {
                    Some(call) if from == "lua" => call.inner.push(words),
                    _ => calls.push(Call { words, inner: Vec::new() }),
                }
                line.clear();
            }
            calls
        });
        Monitor { reader }
    }

    /// Everything until now: send ECHO of [`MARKER`] first.
    pub async fn calls(self) -> Vec<Call> {
        timeout(Duration::from_secs(10), self.reader).await.expect("the marker comes").unwrap()
    }
}

/// What ends a [`Monitor`].
pub const MARKER: &str = "the monitored part ends here";

/// `+1700000000.123456 [0 127.0.0.1:4321] "HGET" "key" "a \"word\""` → who, words. Bytes that are no
/// ASCII stay escaped; keys have none.
fn parse(line: &str) -> (String, Vec<String>) {
    let (head, rest) = line.split_once("] ").unwrap_or_else(|| panic!("no MONITOR line: {line}"));
    let from = head.rsplit(' ').next().unwrap().to_owned();
    let (mut words, mut word, mut inside) = (Vec::new(), String::new(), false);
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        match (inside, c) {
            (false, '"') => inside = true,
            (false, _) => {}
            (true, '"') => {
                words.push(std::mem::take(&mut word));
                inside = false;
            }
            (true, '\\') => match chars.next() {
                Some(escaped @ ('"' | '\\')) => word.push(escaped),
                other => word.extend(['\\'].into_iter().chain(other)),
            },
            (true, c) => word.push(c),
        }
    }
    (from, words)
}

#[test]
fn a_line_of_monitor_is_read() {
    let line = r#"+1.5 [0 127.0.0.1:1] "EVALSHA" "a \"b\\" "\x00\r" """#;
    let words = ["EVALSHA", r#"a "b\"#, r"\x00\r", ""];
    assert_eq!(parse(line), ("127.0.0.1:1".into(), words.map(String::from).to_vec()));
    assert_eq!(parse(r#"+1.5 [0 lua] "TIME""#), ("lua".into(), vec!["TIME".into()]));
}
