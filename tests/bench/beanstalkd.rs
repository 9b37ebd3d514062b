//! beanstalkd with its binlog on, which it syncs every second, as dueq's Redis does.

use crate::{
    harness::*,
    load::{Answer, after, drive},
};
use std::{
    net::TcpStream,
    path::Path,
    process::{Command, Stdio},
    time::Instant,
};

/// What beanstalkd did.
pub struct Rates {
    /// Jobs put, and jobs reserved and deleted, a second.
    pub put: f64,
    pub reserve_delete: f64,
    /// Its CPU time, and the time that this took, in seconds: it has one thread, and where that is not busy, something else
    /// is the limit.
    pub busy: (f64, f64),
}

/// Measures it; `None` where there is none.
pub async fn rates() -> Option<Rates> {
    Command::new("beanstalkd").arg("-v").stdout(Stdio::null()).status().ok()?;
    let (port, directory) = (free_port(), temp_dir("beanstalkd"));
    let mut command = Command::new("beanstalkd");
    command.args(["-l", "127.0.0.1", "-p", &port.to_string(), "-f", "1000", "-b"]).arg(directory);
    let process = Process::start(command.stdout(Stdio::null()).stderr(Stdio::null()));
    let listens = || async { TcpStream::connect(("127.0.0.1", port)).ok() };
    eventually("beanstalkd listens", listens).await;
    let stat = format!("/proc/{}/stat", process.pid());
    let cpu_s = || cpu_hundredths(&text_of(Path::new(&stat))) as f64 / 100.0;
    let (before, begun) = (cpu_s(), Instant::now());
    let put = [b"put 0 0 3600 200\r\n", &[b'x'; 200][..], b"\r\n"].concat();
    let put = drive(port, &put, |answer, _| {
        if !answer.ends_with(b"\r\n") {
            return Answer::Incomplete;
        }
        assert!(answer.starts_with(b"INSERTED "), "{}", String::from_utf8_lossy(answer));
        Answer::Finished(1)
    });
    let reserve_delete = drive(port, b"reserve-with-timeout 0\r\n", |answer, next| match answer {
        b"DELETED\r\n" => Answer::Finished(1),
        b"TIMED_OUT\r\n" => Answer::Empty,
        // The end of a job.
        [b'R', .., b'x', b'\r', b'\n'] => {
            next.extend(format!("delete {}\r\n", after(answer, "RESERVED ")).bytes());
            Answer::Finished(0)
        }
        _ => Answer::Incomplete,
    });
    Some(Rates { put, reserve_delete, busy: (cpu_s() - before, begun.elapsed().as_secs_f64()) })
}
