//! beanstalkd with its binlog on, and its load: as many connections as dueq gets, each sending its next command as soon
//! as the last one is answered, on as many threads as `dueq bench` has.

use crate::{CONNECTIONS, SECONDS, harness::*};
use std::{
    io,
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    task::JoinSet,
};

const PAYLOAD: [u8; 200] = [b'x'; 200];

/// A server that runs.
pub struct Beanstalkd {
    _process: Process,
    port: u16,
}

impl Beanstalkd {
    /// Starts it; `None` where there is none.
    pub async fn start() -> Option<Self> {
        Command::new("beanstalkd").arg("-v").stdout(Stdio::null()).status().ok()?;
        let (port, directory) = (free_port(), temp_dir("beanstalkd"));
        let mut command = Command::new("beanstalkd");
        command.args(["-l", "127.0.0.1", "-p", &port.to_string(), "-b"]).arg(directory);
        let process = Process::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
        eventually("beanstalkd listens", || async {
            TcpStream::connect(("127.0.0.1", port)).await.ok()
        })
        .await;
        Some(Self { _process: process, port })
    }

    /// Jobs put a second.
    pub async fn put(&self) -> f64 {
        self.drive(false).await
    }

    /// Jobs reserved and deleted a second, until the time is over or the queue is empty.
    pub async fn reserve_and_delete(&self) -> f64 {
        self.drive(true).await
    }

    async fn drive(&self, consume: bool) -> f64 {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let (threads, port) = (cores.div_ceil(2), self.port);
        let mut running = Vec::new();
        for _ in 0..threads {
            let connections = CONNECTIONS / threads;
            let run = move || thread(port, connections, consume);
            running.push(tokio::task::spawn_blocking(run));
        }
        let mut rate = 0.0;
        for thread in running {
            rate += thread.await.expect("a thread of the load");
        }
        rate
    }
}

/// One thread's jobs a second.
fn thread(port: u16, connections: usize, consume: bool) -> f64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut tasks = JoinSet::new();
        for _ in 0..connections {
            let stream = TcpStream::connect(("127.0.0.1", port)).await.expect("a connection");
            stream.set_nodelay(true).unwrap();
            tasks.spawn(async move { connection(stream, consume).await.expect("an answer") });
        }
        let (mut jobs, mut elapsed) = (0, Duration::ZERO);
        for (done, took) in tasks.join_all().await {
            jobs += done;
            elapsed = elapsed.max(took);
        }
        jobs as f64 / elapsed.as_secs_f64()
    })
}

/// Jobs that were handled, and the time until the last of them.
async fn connection(stream: TcpStream, consume: bool) -> io::Result<(u64, Duration)> {
    let mut put = b"put 0 0 3600 200\r\n".to_vec();
    put.extend(PAYLOAD);
    put.extend(b"\r\n");
    let mut stream = BufReader::new(stream);
    let (mut line, mut body) = (String::new(), [0; PAYLOAD.len() + 2]);
    let (mut jobs, mut elapsed) = (0, Duration::ZERO);
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(SECONDS) {
        if consume {
            ask(&mut stream, b"reserve-with-timeout 0\r\n", &mut line).await?;
            if line.starts_with("TIMED_OUT") {
                break;
            }
            let id = line.split(' ').nth(1).ok_or(io::ErrorKind::InvalidData)?;
            let delete = format!("delete {id}\r\n");
            stream.read_exact(&mut body).await?;
            ask(&mut stream, delete.as_bytes(), &mut line).await?;
            assert_eq!(line, "DELETED\r\n");
        } else {
            ask(&mut stream, &put, &mut line).await?;
            assert!(line.starts_with("INSERTED "), "{line}");
        }
        jobs += 1;
        elapsed = start.elapsed();
    }
    Ok((jobs, elapsed))
}

async fn ask(
    stream: &mut BufReader<TcpStream>,
    command: &[u8],
    line: &mut String,
) -> io::Result<()> {
    line.clear();
    stream.get_mut().write_all(command).await?;
    stream.read_line(line).await.map(drop)
}
