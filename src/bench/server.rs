//! The server that is measured: a running one, or a child process `dueq serve` with a private Redis and a temporary
//! directory.

use crate::{
    Fallible,
    client::Address,
    work::{Lease, Target},
};
use dueq_base::{
    files::{create_new, random_name},
    remote::TlsArgs,
};
use dueq_store::{RedisArgs, RedisProbe};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Time-out for a child's start, and for its stop.
const START_STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// How the names of settings begin that choose keys, certificates or another Redis.
const OWN: [&str; 14] = [
    "DUEQ_API_KEY",
    "DUEQ_REDIS_URL",
    "DUEQ_REDIS_MODE",
    "DUEQ_REDIS_USER",
    "DUEQ_REDIS_DB",
    "DUEQ_REDIS_TLS",
    "DUEQ_REDIS_C",
    "DUEQ_REDIS_KEY",
    "DUEQ_REDIS_PASSWORD",
    "DUEQ_SENTINEL",
    "DUEQ_SIGNING",
    "DUEQ_TLS",
    "DUEQ_PUBLIC_URL",
    "DUEQ_TRUSTED_PROXY",
];

/// A server under test.
pub struct Server {
    pub address: Address,
    pub target: Target,
    redis: Option<RedisProbe>,
    child: Option<Dueq>,
}

impl Server {
    /// Connects to the server at this address.
    ///
    /// # Errors
    /// If the server or its Redis does not answer.
    pub async fn connect(
        address: Address,
        key: Option<&str>,
        redis: Option<&RedisArgs>,
    ) -> Fallible<Self> {
        let redis = match redis {
            Some(redis) => Some(RedisProbe::connect(redis).await?),
            None => None,
        };
        let this = Self { target: Target::new(&address.host, key), address, redis, child: None };
        match this.send("GET", "/readyz", "").await? {
            (200, _) => Ok(this),
            (status, body) => {
                Err(format!("{} is not ready ({status}): {body}", this.address.host).into())
            }
        }
    }

    /// Starts `dueq serve` and waits until it is ready.
    ///
    /// # Errors
    /// If it ends or takes too long; the message quotes the end of its log.
    pub async fn start(tls: &TlsArgs, trace_every: usize) -> Fallible<Self> {
        let mut child = Dueq::spawn()?;
        let begun = Instant::now();
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            if let Some(status) = child.process.try_wait()? {
                return Err(format!("dueq serve ended ({status}): {}", child.log()).into());
            }
            let url = fs::read_to_string(child.directory.join("address")).unwrap_or_default();
            let address = Address::of(url.trim(), tls);
            let address = address.map(|address| address.tracing(trace_every));
            let redis = child.directory.join("data/redis.sock");
            let redis = RedisArgs::at(format!("redis+unix://{}", redis.display()));
            if let Ok(address) = address
                && let Ok(this) = Self::connect(address, None, Some(&redis)).await
            {
                return Ok(Self { child: Some(child), ..this });
            }
            if begun.elapsed() > START_STOP_TIMEOUT {
                return Err(format!("dueq serve is not ready: {}", child.log()).into());
            }
        }
    }

    /// A consumer loop on this topic, of `max_messages` per request.
    pub fn lease(&self, topic: &str, max_messages: usize) -> Lease {
        Lease {
            target: self.target.clone(),
            path: format!("/topics/{topic}/lease"),
            max_messages,
            acks: true,
            wait_ms: 0,
            left: None,
            held: Vec::new(),
            late_ms: Vec::new(),
        }
    }

    /// A new topic with these settings: its name.
    pub async fn topic(&self, settings: &str) -> Fallible<String> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let (now, process) = (chrono::Utc::now().timestamp_millis(), std::process::id());
        let topic = format!("bench-{now}-{process}-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        match self.send("PUT", &format!("/topics/{topic}"), settings).await? {
            (201, _) => Ok(topic),
            (status, body) => Err(format!("making a topic was answered {status}: {body}").into()),
        }
    }

    /// Deletes the topic with its messages, and gives Redis time to free their memory.
    pub async fn delete(&self, topic: &str) -> Fallible<()> {
        match self.send("DELETE", &format!("/topics/{topic}?force=true"), "").await? {
            (204 | 404, _) => tokio::time::sleep(Duration::from_millis(300)).await,
            (status, body) => {
                return Err(format!("deleting a topic was answered {status}: {body}").into());
            }
        }
        Ok(())
    }

    /// CPU time that dueq and its Redis have used, µs; `None` where it is unknown.
    pub async fn cpu_us(&mut self) -> Fallible<[Option<f64>; 2]> {
        let redis_us = match &mut self.redis {
            Some(redis) => Some(redis.cpu_us().await?),
            None => None,
        };
        Ok([self.child.as_ref().and_then(Dueq::cpu_us), redis_us])
    }

    /// Sends one request over a connection of its own. Returns status and body.
    async fn send(&self, method: &str, path: &str, body: &str) -> Fallible<(u16, String)> {
        let request = self.target.request(method, path, body);
        let mut connection = self.address.connect().await?;
        // A server by TLS refuses a client's certificate only now.
        let sent = connection.send(&request).await;
        let (status, body) = sent.map_err(|error| self.address.reason(&error))?;
        Ok((status, String::from_utf8_lossy(body).into_owned()))
    }
}

/// A child process. It is stopped, and its directory removed, when dropped.
struct Dueq {
    process: Child,
    directory: PathBuf,
}

impl Dueq {
    fn spawn() -> Fallible<Self> {
        let directory = std::env::temp_dir().join(format!("dueq-bench-{}", random_name()?));
        fs::DirBuilder::new().mode(0o700).create(&directory)?;
        let directory = directory.canonicalize()?;
        let dueq = std::env::current_exe()?.with_file_name("dueq");
        let mut command = Command::new(&dueq);
        // It ends with this process, however that ends.
        command.args(["exec-child", "--parent"]).arg(std::process::id().to_string());
        command.arg("--").arg(&dueq);
        // Settings of the user's own dueq must not apply to this one.
        for (name, _) in std::env::vars_os() {
            if OWN.iter().any(|own| name.to_string_lossy().starts_with(own)) {
                command.env_remove(name);
            }
        }
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--addr-file"])
            .arg(directory.join("address"))
            .arg("--data-dir")
            .arg(directory.join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(create_new(&directory.join("log"))?);
        Ok(Self { process: command.spawn()?, directory })
    }

    /// The last lines of its log.
    fn log(&self) -> String {
        let text = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }

    /// CPU time of the process without its Redis, µs; `None` on systems without Linux's `/proc`.
    fn cpu_us(&self) -> Option<f64> {
        let path = format!("/proc/{}/stat", self.process.id());
        let stat = fs::read_to_string(Path::new(&path)).ok()?;
        // The fields follow the name in parentheses. User and system time are 14 and 15, in hundredths of a second.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        let hundredths =
            fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
        Some(hundredths * 10_000.0)
    }
}

impl Drop for Dueq {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let begun = Instant::now();
        while matches!(self.process.try_wait(), Ok(None)) {
            if begun.elapsed() > START_STOP_TIMEOUT {
                let _ = self.process.kill();
                let _ = self.process.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}
