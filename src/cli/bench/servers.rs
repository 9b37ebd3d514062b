//! The servers that the bench drives: one that runs already, or children of
//! its own, each a whole `dueq serve` with an embedded Redis and a directory
//! that goes away with it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

use super::client::Connection;
use super::{Args, Failure, Fallible};
use crate::store::lab::Lab;

/// No secret: "signed by dueq bench for itself".
const SIGNING_SECRET: &str = "whsec_c2lnbmVkIGJ5IGR1ZXEgYmVuY2ggZm9yIGl0c2VsZg==";

/// How a self-started server reaches Redis (`--store-mode`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mode {
    /// Group commit: dueq as it is.
    Group,
    /// One script call a request through the pool.
    Direct,
    /// The same HTTP and JSON work without the Redis call.
    Ceiling,
}

impl Mode {
    /// The flag's value and the table's column.
    pub fn name(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Direct => "direct",
            Self::Ceiling => "ceiling",
        }
    }
}

/// A server under test. One that the bench started is stopped, and its
/// directory removed, when this is dropped.
#[derive(Debug)]
pub struct Server {
    /// `host:port`, for connecting and as the Host header.
    pub address: String,
    /// Where its Redis answers, if that is known.
    redis_url: Option<String>,
    child: Option<(Child, Directory)>,
}

impl Server {
    /// The server named by `--server`.
    ///
    /// # Errors
    /// When the URL is no `http://host[:port]`.
    pub fn foreign(url: &str, redis_url: Option<String>) -> Fallible<Self> {
        let rest = url.strip_prefix("http://").ok_or("--server wants http://host:port")?;
        let address = rest.trim_end_matches('/');
        if address.is_empty() || address.contains('/') {
            return Err("--server wants http://host:port without a path".into());
        }
        let address = match address.rsplit_once(':') {
            Some((_, port)) if port.parse::<u16>().is_ok() => address.to_owned(),
            _ => format!("{address}:80"),
        };
        Ok(Self { address, redis_url, child: None })
    }

    /// Starts `dueq serve` in `mode` with `--fsync fsync` and waits until it
    /// is ready.
    ///
    /// # Errors
    /// When it is not ready within 20 s, with what it wrote last.
    pub async fn start(args: &Args, mode: Mode, fsync: &str) -> Fallible<Self> {
        Self::launch(args, mode, fsync, None).await
    }

    /// Starts another instance on the Redis of this one; this one must be
    /// dropped last.
    ///
    /// # Errors
    /// When it is not ready within 20 s, or this one's Redis is not known.
    pub async fn beside(&self, args: &Args) -> Fallible<Self> {
        let url = self.redis_url.as_deref().ok_or("the server's Redis is not known")?;
        Self::launch(args, Mode::Group, "everysec", Some(url)).await
    }

    async fn launch(
        args: &Args,
        mode: Mode,
        fsync: &str,
        redis_url: Option<&str>,
    ) -> Fallible<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let directory = args.dir.clone().unwrap_or_else(std::env::temp_dir).join(format!(
            "dueq-bench-{}-{}",
            std::process::id(),
            NUMBER.fetch_add(1, Ordering::Relaxed)
        ));
        let directory = Directory::make(&directory)?;
        let program = match &args.dueq_bin {
            Some(path) => path.clone(),
            None => std::env::current_exe()?,
        };
        let address_file = directory.0.join("address");
        let log = directory.0.join("log");
        let data = directory.0.join("data");
        let mut command = Command::new(program);
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--fsync", fsync])
            .args(["--store-mode", mode.name()])
            // The load has no key: what is set for the user's own dueq is not for these.
            .env_remove("DUEQ_API_KEYS")
            .env_remove("DUEQ_API_KEY_FILE")
            // The bench is called back on loopback, with a signature as everybody is. By the environment: an older dueq that is
            // compared with does not know the flags.
            .env("DUEQ_CALLBACK_ALLOW", "127.0.0.0/8")
            .env("DUEQ_SIGNING_SECRET", SIGNING_SECRET)
            .arg("--addr-file")
            .arg(&address_file)
            .arg("--data-dir")
            .arg(&data)
            .args(redis_url.iter().flat_map(|url| ["--redis-url", url]))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log)?);
        let own = || format!("redis+unix://{}", data.join("redis.sock").display());
        let mut server = Self {
            address: String::new(),
            redis_url: Some(redis_url.map_or_else(own, str::to_owned)),
            child: Some((command.spawn()?, directory)),
        };
        let begun = Instant::now();
        loop {
            if let Some((child, _)) = &mut server.child
                && let Some(status) = child.try_wait()?
            {
                let said = fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("dueq serve ended ({status}): {}", tail(&said)).into());
            }
            if let Ok(address) = fs::read_to_string(&address_file) {
                server.address = address.trim().to_owned();
                if !server.address.is_empty() && server.ready().await {
                    return Ok(server);
                }
            }
            if begun.elapsed() > Duration::from_secs(20) {
                let said = fs::read_to_string(&log).unwrap_or_default();
                return Err(format!("dueq serve is not ready: {}", tail(&said)).into());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Whether readyz says 200.
    pub async fn ready(&self) -> bool {
        matches!(self.get("/readyz").await, Ok((200, _)))
    }

    /// One GET over a connection of its own: status and body.
    pub async fn get(&self, path: &str) -> Fallible<(u16, String)> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: {}\r\n\r\n", self.address);
        self.once(request.as_bytes()).await
    }

    /// One request over a connection of its own: status and body.
    pub async fn once(&self, request: &[u8]) -> Fallible<(u16, String)> {
        let mut connection = Connection::open(&self.address).await?;
        let answer = connection.send(request).await?;
        Ok((answer.status, String::from_utf8_lossy(answer.body).into_owned()))
    }

    /// Resident memory of a server that the bench started, without its Redis, KiB; None where the system does not tell it.
    pub fn resident_kib(&self) -> Option<u64> {
        let (child, _) = self.child.as_ref()?;
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix("kB")?.trim().parse().ok()
    }

    /// A connection to the server's Redis; None where it is not known.
    pub async fn redis(&self) -> Fallible<Option<Lab>> {
        match &self.redis_url {
            Some(url) => Ok(Some(Lab::connect(url).await?)),
            None => Ok(None),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let Some((child, _)) = &mut self.child else {
            return;
        };
        // Blocking here is right: nothing else of the bench runs meanwhile,
        // and the next measurement must not share the cores with a server
        // that is on its way out.
        let _ = kill_process(Pid::from_child(child), Signal::TERM);
        let begun = Instant::now();
        while matches!(child.try_wait(), Ok(None)) {
            if begun.elapsed() > Duration::from_secs(20) {
                let _ = child.kill();
                let _ = child.wait();
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// A directory that goes away with its value.
#[derive(Debug)]
struct Directory(PathBuf);

impl Directory {
    fn make(path: &Path) -> Fallible<Self> {
        fs::create_dir_all(path)?;
        Ok(Self(path.canonicalize()?))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The last lines of what a server wrote.
fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(5)..].join(" | ")
}

/// Lets this process, and the servers that it starts, hold `files` open files:
/// a thousand long polls are a thousand sockets on either side.
///
/// # Errors
/// When the hard limit is lower.
pub fn allow_open_files(files: u64) -> Fallible<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= files) {
        return Ok(());
    }
    let raised = Rlimit { current: Some(files), maximum: limit.maximum };
    setrlimit(Resource::Nofile, raised)
        .map_err(|error| Failure::from(format!("{files} open files are needed: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_url_becomes_an_address() {
        let address = |url| Server::foreign(url, None).map(|server| server.address.clone());
        assert_eq!(address("http://127.0.0.1:8080/").unwrap(), "127.0.0.1:8080");
        assert_eq!(address("http://queue").unwrap(), "queue:80");
        for url in ["https://queue", "queue:80", "http://queue/path", "http://"] {
            assert!(address(url).is_err(), "{url}");
        }
    }

    #[test]
    fn the_tail_is_what_was_written_last() {
        assert_eq!(tail("1\n2\n3\n4\n5\n6\n"), "2 | 3 | 4 | 5 | 6");
        assert_eq!(tail(""), "");
    }
}
