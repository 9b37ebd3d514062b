//! The real `dueq` binary: `dueq serve` as a child that is ready, and any other call with what it printed and how it ended.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustls::ClientConfig;

use super::certs::tunnel;
use super::client::Client;
use super::process::{Process, code, temp_dir, text_of};
use super::ready::is_ok;
use super::redis::Redis;
use super::turns::turn;
use super::watch::{self, Instance};

/// The binary under test: cargo's, or the one that `TEST_DUEQ` names, such as an older release.
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        std::env::var_os("TEST_DUEQ").unwrap_or_else(|| env!("CARGO_BIN_EXE_dueq").into()).into()
    })
}

/// A build with seeded bugs: what a launch starts that has one of them on ([`Launch::bug`]).
pub struct Seeded {
    /// The binary, built with the feature `seeded-bugs`.
    pub binary: PathBuf,
    /// The file with the bugs that are patches of scripts.
    pub patches: PathBuf,
}

/// Set by whoever hunts bugs, before the first launch that has one on.
pub static SEEDED: OnceLock<Seeded> = OnceLock::new();

/// A command of a binary, behind the words that start it, without any `DUEQ_*` of the surroundings.
fn command(within: &[OsString], binary: &Path) -> Command {
    let mut words = within.iter().map(OsString::as_os_str).chain([binary.as_os_str()]);
    let mut command = Command::new(words.next().expect("a program"));
    command.args(words);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("DUEQ_") {
            command.env_remove(name);
        }
    }
    command
}

/// What a finished call of the command left behind.
#[derive(Debug)]
pub struct Finished {
    /// Exit code, or 128 + the signal.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

/// A `dueq` to be started.
pub struct Launch {
    args: Vec<OsString>,
    env: Vec<(String, OsString)>,
    within: Vec<OsString>,
    binary: PathBuf,
    dir: PathBuf,
    limit: Duration,
    listen: String,
    tls: Option<Arc<ClientConfig>>,
}

impl Launch {
    /// Any call of the command, `words` after `dueq`.
    pub fn command<S: AsRef<OsStr>>(words: impl IntoIterator<Item = S>) -> Launch {
        Launch {
            args: words.into_iter().map(|w| w.as_ref().to_owned()).collect(),
            env: Vec::new(),
            within: Vec::new(),
            binary: binary().to_owned(),
            dir: temp_dir("dueq"),
            limit: Duration::from_secs(20),
            listen: "127.0.0.1:0".to_owned(),
            tls: None,
        }
    }

    /// Further arguments, word by word; they come last, so they win.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Launch {
        self.args.extend(args.into_iter().map(|a| a.as_ref().to_owned()));
        self
    }

    /// An environment variable of its own.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Launch {
        self.env.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Started by this command, which runs the words after its own in its place (`nsenter …`).
    pub fn within<S: Into<OsString>>(mut self, words: impl IntoIterator<Item = S>) -> Launch {
        self.within = words.into_iter().map(Into::into).collect();
        self
    }

    /// Of another binary than the one under test.
    pub fn of(mut self, binary: &Path) -> Launch {
        binary.clone_into(&mut self.binary);
        self
    }

    /// With this seeded bug on, if any.
    pub fn bug(self, bug: Option<&str>) -> Launch {
        let Some(bug) = bug else { return self };
        let Seeded { binary, patches } = SEEDED.get().expect("a build with seeded bugs");
        self.of(binary).env("DUEQ_SEEDED_BUG", bug).env("DUEQ_SEEDED_PATCH", patches)
    }

    /// At this address, as a server has it that is started again, rather than on a free port.
    pub fn listen(mut self, address: &str) -> Launch {
        address.clone_into(&mut self.listen);
        self
    }

    /// It serves HTTPS, and is asked like this whether it is ready.
    pub fn tls(mut self, config: Arc<ClientConfig>) -> Launch {
        self.tls = Some(config);
        self
    }

    /// How long it may take to get ready, or to finish (20 s unless told).
    pub fn limit(mut self, limit: Duration) -> Launch {
        self.limit = limit;
        self
    }

    /// Its working directory, where its log is too.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Starts the process without waiting for anything.
    pub fn spawn(self) -> Dueq {
        let addr_file = self.dir.join("addr");
        let out = File::create(self.dir.join("stdout")).expect("a file for stdout");
        let err = File::create(self.dir.join("stderr")).expect("a file for stderr");
        let mut command = command(&self.within, &self.binary);
        command
            .args(&self.args)
            .envs(self.env)
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(out)
            .stderr(err);
        let process = Process::start(&mut command);
        Dueq {
            watched: watch::instance(process.pid(), &self.dir),
            process,
            shares: false,
            addr_file,
            addr: String::new(),
            dir: self.dir,
            tls: self.tls,
        }
    }

    /// Starts `dueq serve` and waits until `/readyz` says 200.
    ///
    /// # Panics
    /// When that takes longer than the limit or the process ends, showing its log.
    pub async fn start(self) -> Dueq {
        self.start_until("/readyz").await
    }

    /// Starts `dueq serve` and waits until it answers at all, ready or not.
    pub async fn start_unready(self) -> Dueq {
        self.start_until("/healthz").await
    }

    async fn start_until(mut self, path: &str) -> Dueq {
        turn().await;
        let addr_file = self.dir.join("addr").into_os_string();
        let first = ["--listen", &self.listen, "--addr-file"].map(OsString::from);
        self.args.splice(1..1, first.into_iter().chain([addr_file]));
        let end = Instant::now() + self.limit;
        let mut dueq = self.spawn();
        dueq.await_ok(path, end).await;
        dueq
    }

    /// Runs it to its end.
    ///
    /// # Panics
    /// When it does not end within the limit.
    pub async fn finish(self) -> Finished {
        turn().await;
        let limit = self.limit;
        let mut dueq = self.spawn();
        dueq.ends();
        let status = dueq.process.wait(limit).await;
        Finished {
            code: code(status),
            stdout: text_of(&dueq.dir.join("stdout")),
            stderr: text_of(&dueq.dir.join("stderr")),
        }
    }
}

/// A `dueq serve` that runs.
pub struct Dueq {
    /// The process, for signals of any kind.
    pub process: Process,
    /// Others use its Redis. Killed, it would keep for half a minute what it has claimed there.
    pub(super) shares: bool,
    watched: Option<Arc<Instance>>,
    addr: String,
    addr_file: PathBuf,
    dir: PathBuf,
    tls: Option<Arc<ClientConfig>>,
}

impl Dueq {
    /// One that uses this Redis.
    pub fn on(redis: &Redis) -> Launch {
        Dueq::at(&redis.url())
    }

    /// One that uses the Redis at this URL.
    pub fn at(url: &str) -> Launch {
        Launch::command(["serve", "--redis-url", url])
    }

    /// One that may call receivers, which listen on loopback addresses.
    pub fn calling(redis: &Redis) -> Launch {
        Dueq::on(redis).args(["--callback-allow", "127.0.0.0/8"])
    }

    /// One with its embedded Redis in this directory, the one that `TEST_REDIS` names if any.
    pub fn embedded(data_dir: &Path) -> Launch {
        let launch =
            Launch::command([OsStr::new("serve"), "--data-dir".as_ref(), data_dir.as_ref()]);
        match std::env::var_os("TEST_REDIS") {
            Some(server) => launch.args([OsStr::new("--redis-bin"), &server]),
            None => launch,
        }
    }

    /// `127.0.0.1:<port>`.
    pub fn addr(&self) -> &str {
        &self.addr
    }

    /// `http://127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// A new client, which belongs to the runtime of the caller.
    pub fn client(&self) -> Client {
        Client::new(&self.url())
    }

    /// A new client whose connections are brought to the instance by TLS.
    pub async fn https_client(&self) -> Client {
        let tls = self.tls.clone().expect("an instance with TLS");
        Client::new(&format!("http://{}", tunnel(tls, self.addr.clone()).await))
    }

    /// What it has printed so far, stdout and stderr.
    pub fn log(&self) -> String {
        text_of(&self.dir.join("stdout")) + &text_of(&self.dir.join("stderr"))
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill9(&mut self) {
        self.ends();
        self.process.kill9();
    }

    /// SIGSTOP.
    pub fn pause(&mut self) {
        self.process.stop();
    }

    /// SIGCONT.
    pub fn resume(&mut self) {
        if let Some(watched) = &self.watched {
            watched.stopped();
        }
        self.process.signal(Signal::CONT);
    }

    /// SIGTERM, then its exit code; at most 20 s.
    pub async fn term(&mut self) -> i32 {
        self.ends();
        self.process.signal(Signal::TERM);
        self.exit().await
    }

    /// Waits for its end, at most 20 s: the exit code, or 128 + the signal.
    pub async fn exit(&mut self) -> i32 {
        self.ends();
        code(self.process.wait(Duration::from_secs(20)).await)
    }

    /// Tells the watch that its end is meant.
    fn ends(&self) {
        if let Some(watched) = &self.watched {
            watched.killed();
        }
    }

    /// `https://localhost:<port>`.
    pub fn https_url(&self) -> String {
        format!("https://localhost:{}", self.addr.rsplit(':').next().expect("a port"))
    }

    /// Waits for the address file, then for a 200 of this path.
    pub async fn await_ok(&mut self, path: &str, end: Instant) {
        loop {
            self.addr = text_of(&self.addr_file).trim().to_owned();
            if !self.addr.is_empty() && is_ok(&self.addr, self.tls.as_ref(), path).await {
                return;
            }
            if let Some(status) = self.process.ended() {
                panic!("dueq ended with {}:\n{}", code(status), self.log());
            }
            assert!(Instant::now() < end, "no 200 of {path}:\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Does a line of the log say that dueq panicked, that one of its scripts broke off in the middle, or that an answer of Redis
/// was not what the program expects?
pub fn is_fault(line: &str) -> bool {
    const SIGNS: [&str; 4] = [
        "panicked at",
        "Wrong number of args calling Redis",
        ": attempt to ",
        "a reply of Redis cannot be read",
    ];
    SIGNS.iter().any(|sign| line.contains(sign))
}

impl Drop for Dueq {
    fn drop(&mut self) {
        if let Some(watched) = &self.watched {
            watched.over(self.process.ended().map(code));
        }
        if std::thread::panicking() {
            eprintln!("--- dueq {} printed:\n{}---", self.addr, self.log());
        } else if self.watched.is_none() {
            let log = self.log();
            assert!(!log.lines().any(is_fault), "dueq made a mistake:\n{log}");
        }
        if self.shares {
            self.process.term(Duration::from_secs(2));
        }
    }
}
