//! A private redis-server: on a free port, in a directory of its own, with its AOF if wanted.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use deadpool_redis::redis::aio::MultiplexedConnection;
use deadpool_redis::redis::{self, FromRedisValue};
use rustix::process::Signal;

use super::process::{Process, temp_dir, text_of};
use super::turns;
use super::watch::{self, NOTED_MICROS, Server};

/// How a [`Redis`] is to be started.
#[derive(Clone, Default)]
pub struct RedisOptions {
    appendonly: bool,
    socket: bool,
    cluster: bool,
    args: Vec<String>,
    env: Vec<(String, OsString)>,
    within: Vec<OsString>,
    dir: Option<PathBuf>,
}

impl RedisOptions {
    /// Keeps an append-only file, so that [`Redis::restart`] finds the data again.
    pub fn appendonly(mut self) -> Self {
        self.appendonly = true;
        self
    }

    /// Listens on a Unix socket instead of a port.
    pub fn socket(mut self) -> Self {
        self.socket = true;
        self
    }

    /// In cluster mode.
    pub fn cluster(mut self) -> Self {
        self.cluster = true;
        self.args(["--cluster-enabled", "yes"])
    }

    /// Further arguments of redis-server, such as `--maxmemory 4mb`, word by word.
    pub fn args<S: Into<String>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// An environment variable of its own, such as `LD_PRELOAD`.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Started by this command, which runs the words after its own in its place (`nsenter …`).
    pub fn within<S: Into<OsString>>(mut self, words: impl IntoIterator<Item = S>) -> Self {
        self.within = words.into_iter().map(Into::into).collect();
        self
    }

    /// In this directory instead of one of its own; its log stays here, whatever mount it sees.
    pub fn dir(mut self, dir: &Path) -> Self {
        self.dir = Some(dir.to_owned());
        self
    }

    /// Starts it and waits until it answers.
    pub async fn start(mut self) -> Redis {
        turns::turn().await;
        let dir = self.dir.clone().unwrap_or_else(|| temp_dir("redis"));
        // Another process may take the free port before redis-server does: then try another.
        for _ in 0..5 {
            let port = if self.socket { 0 } else { free_port() };
            if self.cluster && !is_redis_6() {
                // The bus's port is otherwise the other + 10000, which may be none.
                self = self.args(["--cluster-port", &free_port().to_string()]);
            }
            if let Some(process) = launch(&self, &dir, port).await {
                let watched = watch::server(process.pid(), &url(&self, &dir, port));
                return Redis { process, watched, options: self, dir, port };
            }
        }
        panic!("no redis-server: {}", text_of(&dir.join("log")));
    }
}

/// A running redis-server.
pub struct Redis {
    process: Process,
    watched: Option<Arc<Server>>,
    options: RedisOptions,
    dir: PathBuf,
    port: u16,
}

impl Redis {
    /// One that keeps nothing on disk, which is what most tests want.
    pub async fn start() -> Redis {
        RedisOptions::default().start().await
    }

    /// To be told more before it starts.
    pub fn options() -> RedisOptions {
        RedisOptions::default()
    }

    /// The URL as `--redis-url` takes it.
    pub fn url(&self) -> String {
        url(&self.options, &self.dir, self.port)
    }

    /// Its TCP port; 0 on a Unix socket.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its directory, with `log`, `appendonlydir` and, if it has one, `redis.sock`.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// What it has logged.
    pub fn log(&self) -> String {
        text_of(&self.dir.join("log"))
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill9(&mut self) {
        self.looked_at();
        self.process.kill9();
    }

    /// Starts it again at the same address on the same directory, ending it first if it lives.
    pub async fn restart(&mut self) {
        self.kill9();
        self.mend();
        let end = Instant::now() + Duration::from_secs(10);
        loop {
            if let Some(process) = launch(&self.options, &self.dir, self.port).await {
                self.watched = watch::server(process.pid(), &self.url());
                self.process = process;
                return;
            }
            assert!(Instant::now() < end, "no restart: {}", self.log());
        }
    }

    /// What the guide tells an operator to do before a Redis that did not end properly is started
    /// again: half a script at the end of the log would be applied at its second start.
    fn mend(&self) {
        let log = if is_redis_6() { "appendonly.aof" } else { "appendonly.aof.manifest" };
        let log = self.dir.join("appendonlydir").join(log);
        if !log.exists() {
            return;
        }
        // The server is the checker too, by that name.
        let mut checker = Command::new(server())
            .arg0("redis-check-aof")
            .arg("--fix")
            .arg(log)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("redis-check-aof");
        // It asks before it cuts anything off, and not otherwise.
        let _ = checker.stdin.take().expect("its stdin").write_all(b"y\n");
        checker.wait().expect("redis-check-aof");
    }

    /// SIGSTOP: it keeps its connections and answers nothing.
    pub fn pause(&mut self) {
        self.stopped();
        self.process.stop();
    }

    /// SIGCONT.
    pub fn resume(&mut self) {
        self.process.signal(Signal::CONT);
        self.stopped();
    }

    fn stopped(&self) {
        if let Some(watched) = &self.watched {
            watched.stopped();
        }
    }

    /// The watch's last look, if it lives.
    fn looked_at(&mut self) {
        if let Some(watched) = self.watched.take()
            && self.process.ended().is_none()
        {
            watched.look();
        }
    }

    /// A new connection of the test's own.
    pub async fn connection(&self) -> MultiplexedConnection {
        connect(&self.url()).await.expect("a connection to Redis")
    }

    /// One command on a new connection, its words separated as given.
    ///
    /// # Panics
    /// When Redis answers an error.
    pub async fn command<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let mut command = redis::cmd(words[0]);
        for word in &words[1..] {
            command.arg(*word);
        }
        command
            .query_async(&mut self.connection().await)
            .await
            .unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// Redis's clock in milliseconds, the only one that decides anything.
    pub async fn time_ms(&self) -> i64 {
        let (seconds, micros): (i64, i64) = self.command(&["TIME"]).await;
        seconds * 1000 + micros / 1000
    }

    /// One number of INFO, such as `total_commands_processed`.
    pub async fn info(&self, field: &str) -> i64 {
        let text: String = self.command(&["INFO", "all"]).await;
        text.lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))
            .and_then(|value| value.trim().parse().ok())
            .unwrap_or_else(|| panic!("INFO has no number {field}"))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.looked_at();
    }
}

fn url(options: &RedisOptions, dir: &Path, port: u16) -> String {
    if options.socket {
        format!("redis+unix://{}", dir.join("redis.sock").display())
    } else {
        format!("redis://127.0.0.1:{port}/")
    }
}

async fn connect(url: &str) -> redis::RedisResult<MultiplexedConnection> {
    // The default of 500 ms is short for a large reply on a busy machine.
    let patient = redis::AsyncConnectionConfig::new()
        .set_response_timeout(Some(Duration::from_secs(10)))
        .set_connection_timeout(Some(Duration::from_secs(5)));
    redis::Client::open(url)?.get_multiplexed_async_connection_with_config(&patient).await
}

/// The server under test: `redis-server`, or the one that `TEST_REDIS` names, such as another version's.
pub fn server() -> OsString {
    std::env::var_os("TEST_REDIS").unwrap_or_else(|| "redis-server".into())
}

/// Is the server older than Redis 7? Its append-only log is one file in the working directory, and it has fewer settings.
pub fn is_redis_6() -> bool {
    static OLD: OnceLock<bool> = OnceLock::new();
    *OLD.get_or_init(|| {
        let version = Command::new(server()).arg("--version").output().expect("a server");
        String::from_utf8_lossy(&version.stdout).contains(" v=6.")
    })
}

/// A free port that only a caller of this function gets: it is below those that the kernel gives to outgoing
/// connections and to listeners on port 0, and no other call in this process returns it.
pub fn free_port() -> u16 {
    static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());
    // A cluster's Redis 6 takes the port 10,000 above for its bus, which is none of these, and below 32,768 as well.
    let ports = || 10_000 + rand::random::<u16>() % 10_000;
    let mut given = GIVEN.lock().expect("the ports given");
    std::iter::repeat_with(ports)
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok() && given.insert(*port))
        .expect("a free port")
}

/// One start: the process once it answers PING with our process id, or nothing if it ended (the
/// port was taken meanwhile).
async fn launch(options: &RedisOptions, dir: &Path, port: u16) -> Option<Process> {
    let log = File::options().create(true).append(true).open(dir.join("log")).expect("a log file");
    let mut words = options.within.clone();
    let mut working = dir.to_owned();
    if is_redis_6() {
        // So that the log is in the same directory whatever the version, made where the server sees it.
        working.push("appendonlydir");
        words.extend(["sh", "-c", "mkdir -p \"$0\" && exec \"$@\""].map(OsString::from));
        words.push(working.clone().into());
    }
    words.push(server());
    let mut words = words.into_iter();
    let mut command = Command::new(words.next().expect("a program"));
    command
        .args(words)
        .envs(options.env.iter().map(|(name, value)| (name, value)))
        .args(["--save", "", "--bind", "127.0.0.1", "--daemonize", "no"])
        .args(["--slowlog-log-slower-than", NOTED_MICROS])
        .args(["--port", &port.to_string(), "--dir"])
        .arg(working)
        .args(["--appendonly", if options.appendonly { "yes" } else { "no" }]);
    if options.socket {
        command.arg("--unixsocket").arg(dir.join("redis.sock"));
    }
    let mut process = Process::start(
        command
            .args(&options.args)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log),
    );
    let url = url(options, dir, port);
    let end = Instant::now() + Duration::from_secs(15);
    while process.ended().is_none() {
        if answers(&url, process.pid()).await {
            return Some(process);
        }
        assert!(
            Instant::now() < end,
            "redis-server does not answer: {}",
            text_of(&dir.join("log"))
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    None
}

/// Whether the server at `url` is that process and has loaded its data.
async fn answers(url: &str, pid: u32) -> bool {
    let Ok(mut connection) = connect(url).await else {
        return false;
    };
    let info: redis::RedisResult<String> = redis::cmd("INFO").query_async(&mut connection).await;
    info.is_ok_and(|text| {
        let is = |line: &str| text.lines().any(|l| l.trim() == line);
        is(&format!("process_id:{pid}")) && is("loading:0")
    })
}
