//! A program that uses an SDK: `tests/sdk/<language>/run.sh SUBCOMMAND …`, its lines as they come.

#![allow(dead_code)] // the bench uses less of it than the tests

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{Process, temp_dir, text_of};

/// The signing secret of the server.
pub const SIGNING_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// What is derived of it for callbacks where there are no API keys.
const WEBHOOK_SECRET: &str = "whsec_yXzYbQgMRc4HFalbc9wveQBWfJFXxTM82nOwT2yO7yc=";
/// What a program may take to say or do what is waited for. The first run prepares its folder.
const PATIENCE: Duration = Duration::from_secs(300);
/// What a generator may take that is built first.
const BUILD: Duration = Duration::from_secs(1500);

/// A running program of one language.
pub struct Program {
    process: Process,
    dir: PathBuf,
    what: String,
    patience: Duration,
}

impl Program {
    /// Starts the subcommand against this server.
    pub fn start(language: &str, server: &str, words: &[&str]) -> Program {
        let mut words = words.to_vec();
        // The others need no server, or find it as a user's program does.
        if !["example", "framework", "orders", "unit"].contains(&words[0]) {
            words.extend(["--server", server]);
        }
        Program::of(&format!("tests/sdk/{language}/run.sh"), server, &words, PATIENCE)
    }

    /// Starts `tests/sdk/generators.sh` for one generator.
    pub fn generator(name: &str, server: &str) -> Program {
        Program::of("tests/sdk/generators.sh", server, &["--server", server, name], BUILD)
    }

    fn of(script: &str, server: &str, words: &[&str], patience: Duration) -> Program {
        let dir = temp_dir("program");
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new(root.join(script));
        command
            .args(words)
            .env("DUEQ_SERVER", server)
            .env("WEBHOOK_SECRET", WEBHOOK_SECRET)
            .env_remove("DUEQ_API_KEY")
            .current_dir(root)
            .stdin(Stdio::null())
            .stdout(File::create(dir.join("stdout")).expect("a file for stdout"))
            .stderr(File::create(dir.join("stderr")).expect("a file for stderr"));
        let what = format!("{script} {}", words.join(" "));
        Program { process: Process::start(&mut command), dir, what, patience }
    }

    /// Every whole line of stdout so far.
    pub fn lines(&self) -> Vec<String> {
        let text = text_of(&self.dir.join("stdout"));
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(str::to_owned).collect()
    }

    /// What stands after this word in the lines that begin with it: ids of messages.
    pub fn said(&self, word: &str) -> Vec<String> {
        let after = |line: &String| line.strip_prefix(word)?.strip_prefix(' ').map(str::to_owned);
        self.lines().iter().filter_map(after).collect()
    }

    /// Waits until its lines satisfy this.
    ///
    /// # Panics
    /// When they do not in time, or when the program ends before.
    pub async fn until(&mut self, wanted: &str, holds: impl Fn(&Program) -> bool) {
        let end = Instant::now() + self.patience;
        while !holds(self) {
            if let Some(status) = self.process.ended()
                && !holds(self)
            {
                panic!("{} ended ({status}) without: {wanted}\n{}", self.what, self.shown());
            }
            assert!(Instant::now() < end, "{}: not {wanted}\n{}", self.what, self.shown());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits for its end, which must be exit code 0: its lines.
    pub async fn finished(&mut self) -> Vec<String> {
        let status = self.process.wait(self.patience).await;
        assert!(status.success(), "{}: {status}\n{}", self.what, self.shown());
        self.lines()
    }

    /// SIGTERM, and the graceful end that it asks for.
    pub async fn stopped(&mut self) {
        self.process.signal(Signal::TERM);
        let lines = self.finished().await;
        assert_eq!(lines.last().map(String::as_str), Some("stopped"), "{}", self.shown());
    }

    /// SIGTERM, and its end, by the signal or by itself.
    pub async fn ended(&mut self) {
        self.process.signal(Signal::TERM);
        self.process.wait(self.patience).await;
    }

    /// SIGKILL for it and whatever it started.
    pub fn killed(&mut self) {
        self.process.signal_group(Signal::KILL);
        self.process.kill9();
    }

    fn shown(&self) -> String {
        let tail = |text: String| {
            let lines: Vec<&str> = text.lines().collect();
            lines[lines.len().saturating_sub(40)..].join("\n")
        };
        let (out, err) = (self.dir.join("stdout"), self.dir.join("stderr"));
        format!("--- stdout\n{}\n--- stderr\n{}\n---", tail(text_of(&out)), tail(text_of(&err)))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        self.killed();
    }
}
