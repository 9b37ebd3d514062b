//! Child processes that never outlive the tests.
//!
//! Drop ends a child, but statics are not dropped, and a test process can be killed: so each test
//! process keeps one `sh` that reads the ids of the living children from a pipe. The pipe closes
//! with the test process, whatever ended it; the shell then kills what is left and removes the
//! temporary directory.

use std::io::Write;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

const WATCHDOG: &str = r#"
live=' '
while read -r op pid; do
  case $op in
    +) live="$live$pid " ;;
    -) live="${live%% $pid *} ${live#* $pid }" ;;
  esac
done
for pid in $live; do kill -9 "$pid"; done 2>/dev/null
sleep 0.3
[ -n "$DUEQ_TEST_KEEP" ] || rm -rf "$1"
"#;

struct Watchdog {
    root: PathBuf,
    pipe: Mutex<ChildStdin>,
}

#[allow(clippy::zombie_processes)] // it ends after this process, which cannot wait for it
fn watchdog() -> &'static Watchdog {
    static WATCHDOG_OF_THIS_PROCESS: OnceLock<Watchdog> = OnceLock::new();
    WATCHDOG_OF_THIS_PROCESS.get_or_init(|| {
        let root = tempfile::Builder::new()
            .prefix("dueq-test-")
            .tempdir()
            .expect("a temporary directory")
            .keep();
        let mut shell = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(&root)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sh starts");
        let pipe = Mutex::new(shell.stdin.take().expect("its stdin"));
        Watchdog { root, pipe }
    })
}

impl Watchdog {
    fn tell(&self, op: char, pid: u32) {
        let mut pipe = self.pipe.lock().expect("the watchdog's pipe");
        writeln!(pipe, "{op} {pid}").expect("the watchdog listens");
    }
}

/// A fresh directory, removed when the test process ends (`DUEQ_TEST_KEEP=1` keeps it).
pub fn temp_dir(name: &str) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let n = NEXT.fetch_add(1, Ordering::Relaxed);
    let dir = watchdog().root.join(format!("{name}-{n}"));
    std::fs::create_dir_all(&dir).expect("a directory below the temporary one");
    dir
}

/// A named pipe at this path.
pub fn fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a named pipe");
}

/// A child process in a process group of its own, killed on drop.
pub struct Process {
    child: Child,
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts `command`. Its output should already be sent somewhere.
    pub fn start(command: &mut Command) -> Process {
        let watchdog = watchdog(); // before the child, so that it is there to be told
        let child =
            command.process_group(0).spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        watchdog.tell('+', child.id());
        Process { child, ended: None }
    }

    /// Its process id, which is its group's too.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.ended.is_none()
            && let Some(status) = self.child.try_wait().expect("waiting for a child")
        {
            self.ended = Some(status);
            watchdog().tell('-', self.child.id());
        }
        self.ended
    }

    /// Sends a signal to the process alone; nothing happens when it has ended.
    pub fn signal(&mut self, signal: Signal) {
        if self.ended().is_none() {
            kill_process(self.rustix_pid(), signal).expect("signalling a child");
        }
    }

    /// SIGSTOP, and waits until all of it stands still.
    pub fn stop(&mut self) {
        self.signal(Signal::STOP);
        let end = Instant::now() + Duration::from_secs(5);
        while self.ended().is_none() && Instant::now() < end && !stands_still(self.pid()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Sends a signal to its whole process group, as a terminal does on Ctrl-C.
    pub fn signal_group(&mut self, signal: Signal) {
        if self.ended().is_none() {
            kill_process_group(self.rustix_pid(), signal).expect("signalling a group");
        }
    }

    /// Waits for its end, at most `limit`, without blocking the runtime.
    ///
    /// # Panics
    /// When it goes on living.
    pub async fn wait(&mut self, limit: Duration) -> ExitStatus {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.ended() {
                return status;
            }
            assert!(Instant::now() < end, "process {} still lives after {limit:?}", self.pid());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// SIGTERM, and waits until it is gone, at most so long.
    pub fn term(&mut self, limit: Duration) {
        self.signal(Signal::TERM);
        let end = Instant::now() + limit;
        while self.ended().is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill9(&mut self) {
        if self.ended().is_none() {
            let _ = self.child.kill();
            let status = self.child.wait().expect("waiting for a killed child");
            self.ended = Some(status);
            watchdog().tell('-', self.child.id());
        }
    }

    fn rustix_pid(&self) -> Pid {
        Pid::from_raw(self.child.id() as i32).expect("a process id")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill9();
    }
}

/// Exit code, or 128 + the signal that ended it, as a shell says it.
pub fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Whether a process with this id lives (a zombie does not).
pub fn lives(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").starts_with(" Z"))
}

/// The CPU time in the text of a process's or thread's `stat`, user and system together, in hundredths of a second.
pub fn cpu_hundredths(stat: &str) -> u64 {
    // The fields follow the name in parentheses.
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

/// Whether every thread of this process is stopped.
fn stands_still(pid: u32) -> bool {
    let stopped = |stat: String| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T"));
    std::fs::read_dir(format!("/proc/{pid}/task")).is_ok_and(|mut tasks| {
        tasks.all(|task| {
            let stat = task.and_then(|task| std::fs::read_to_string(task.path().join("stat")));
            stat.is_ok_and(stopped)
        })
    })
}

/// The processes whose parent is `pid`.
pub fn children(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Ok(candidate) = entry.file_name().to_string_lossy().parse::<u32>() else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or("");
        if after_name.split_whitespace().nth(1) == Some(&pid.to_string()) {
            found.push(candidate);
        }
    }
    found
}

/// The text of a file, or nothing: for logs in messages of failure.
pub fn text_of(path: &Path) -> String {
    std::fs::read(path)
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}
