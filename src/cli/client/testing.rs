//! A mock server for the tests of this module: it records the requests that a command sends, and what the command prints
//! for the answers. Commands are parsed from words, as a user types them.

use super::{Failure, ToServer};
use clap::Parser;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

/// The answer to a successful publish.
pub const CREATED: &str = "HTTP/1.1 201 Created\r\ncontent-length: 10\r\n\r\n{\"id\":\"1\"}";

/// The answer to a success without a body.
pub const NO_CONTENT: &str = "HTTP/1.1 204 No Content\r\n\r\n";

/// 200 with this body.
pub fn ok(body: &str) -> String {
    answer("200 OK", body)
}

/// An answer with this status and body.
pub fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// A request that a command sent, and the command's whole output.
#[derive(Debug)]
pub struct Sent {
    /// Method and path.
    pub head: String,
    /// The other lines of the head, in lower case.
    pub headers: Vec<String>,
    /// The body.
    pub body: String,
    /// The command's output.
    pub shown: String,
}

impl Sent {
    /// Method and path, and the body.
    pub fn lines(&self) -> (&str, &str) {
        (&self.head, &self.body)
    }
}

#[derive(Parser)]
struct Words {
    #[command(subcommand)]
    command: ToServer,
}

/// Returns whether clap refuses the words.
pub fn unparsed(words: &[&str]) -> bool {
    Words::try_parse_from([&["dueq"], words].concat()).is_err()
}

/// Runs a command that sends one request and must succeed.
pub async fn asked(words: &[&str], answer: impl AsRef<str>) -> Sent {
    asked_in_turn(words, &[answer.as_ref().to_owned()]).await.remove(0)
}

/// Runs a command that sends as many requests as there are answers, and must succeed.
pub async fn asked_in_turn(words: &[&str], answers: &[String]) -> Vec<Sent> {
    let (outcome, sent) = tried(words, answers).await;
    outcome.unwrap();
    sent
}

/// Runs a command that sends as many requests as there are answers.
pub async fn tried(words: &[&str], answers: &[String]) -> (Result<(), Failure>, Vec<Sent>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let server = format!("http://{}/", listener.local_addr().unwrap());
    let words = [&["dueq"], words, &["--server", &server]].concat();
    let command = Words::try_parse_from(words).unwrap().command;
    let mut shown = Vec::new();
    let serving = async {
        let mut sent = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.unwrap();
            sent.push(request(&mut stream).await);
            // The next request arrives on a connection of its own.
            let answer = answer.replacen("\r\n", "\r\nconnection: close\r\n", 1);
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
        sent
    };
    // As on a pipe.
    let mut writer = anstream::StripStream::new(&mut shown);
    let (outcome, mut sent) = tokio::join!(command.execute(&mut writer), serving);
    for sent in &mut sent {
        sent.shown = String::from_utf8(shown.clone()).unwrap();
    }
    (outcome, sent)
}

async fn request(stream: &mut TcpStream) -> Sent {
    let (mut text, mut bytes) = (String::new(), [0; 4096]);
    loop {
        let length = stream.read(&mut bytes).await.unwrap();
        assert!(length > 0, "the request ends early: {text}");
        text.push_str(std::str::from_utf8(&bytes[..length]).unwrap());
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let mut lines = head.lines();
        let first = lines.next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
        let headers: Vec<String> = lines.map(str::to_lowercase).collect();
        let length = headers.iter().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() == length.map_or(0, |length| length.parse().unwrap()) {
            return Sent { head: first, headers, body: body.to_owned(), shown: String::new() };
        }
    }
}
