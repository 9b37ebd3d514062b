//! One server process: its arguments, its start, its end, and when it is ready; and how a server that a killed dueq left behind
//! is recognised and ended.

use super::{Fsync, StartError, files::DataDir, process, program::Program};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom},
    os::unix::ffi::OsStrExt as _,
    path::Path,
    process::Stdio,
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::UnixStream,
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

/// How long a server gets to end by itself after SIGTERM: it writes and syncs the rest of its log meanwhile.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Between two looks at a socket that does not answer yet, or a process that is still there.
const POLL: Duration = Duration::from_millis(2);

/// The server's command line, the program apart. Every setting that matters is here: no file of the system is read.
pub(super) fn arguments(
    program: &Program,
    dir: &DataDir,
    socket: &Path,
    fsync: Fsync,
    maxmemory: u64,
) -> Vec<OsString> {
    // Each look into a packed list goes through all of it. Skip lists from the first entry on are a third cheaper for the moves of
    // short queues, and hash tables soon are for a few hundred short bodies.
    let [zsets, hashes] = match program.version.has_listpacks() {
        true => ["--zset-max-listpack-entries", "--hash-max-listpack-entries"],
        false => ["--zset-max-ziplist-entries", "--hash-max-ziplist-entries"],
    };
    let appendfsync = match fsync {
        Fsync::Everysec => "everysec",
        Fsync::Always => "always",
    };
    let path = |path: &Path| path.as_os_str().to_owned();
    let mut arguments: Vec<OsString> = Vec::new();
    let mut set = |name: &str, value: OsString| arguments.extend([name.into(), value]);
    set("--dir", path(dir.path()));
    set("--port", "0".into());
    set("--unixsocket", path(socket));
    set("--unixsocketperm", "700".into());
    set("--daemonize", "no".into());
    set("--pidfile", path(&dir.pid_file()));
    set("--logfile", path(&dir.log_file()));
    set("--loglevel", "notice".into());
    // Keeps the arguments readable in /proc, by which `is_ours` knows the server.
    set("--set-proc-title", "no".into());
    set("--appendonly", "yes".into());
    set("--appendfsync", appendfsync.into());
    set("--aof-load-truncated", "yes".into());
    if !program.version.has_listpacks() {
        // One file is all of its log: with a snapshot at its beginning a torn end could not be cut off (`torn`).
        set("--aof-use-rdb-preamble", "no".into());
    }
    // A busy queue writes its log many times over while little is left in it: rewriting it sooner, or packing it, would
    // take a core from those who wait.
    set("--auto-aof-rewrite-min-size", "256mb".into());
    set("--rdbcompression", "no".into());
    set("--save", "".into());
    set("--maxmemory", maxmemory.to_string().into());
    set("--maxmemory-policy", "noeviction".into());
    set(zsets, "0".into());
    set(hashes, "32".into());
    arguments
}

/// Spawns the server through `dueq exec-child`, which ties its life to this thread's.
pub(super) fn spawn(program: &Program, arguments: &[OsString], log: &Path) -> io::Result<Child> {
    let output = OpenOptions::new().create(true).append(true).open(log)?;
    // On Linux by the link to what runs, so that a dueq that was replaced on disk still finds itself.
    let itself =
        if cfg!(target_os = "linux") { "/proc/self/exe".into() } else { std::env::current_exe()? };
    let mut command = Command::new(itself);
    command.arg0("dueq");
    command
        .args(["exec-child", "--parent"])
        .arg(std::process::id().to_string())
        .arg("--")
        .arg(&program.path);
    command.args(arguments);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.as_bytes().starts_with(b"DUEQ_")) {
        command.env_remove(name);
    }
    // A group of its own: Ctrl-C is for dueq, which needs the server until it has drained.
    command.process_group(0).stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
    command.spawn()
}

/// Ends the child and waits until it is gone.
pub(super) async fn end(child: &mut Child) {
    // A child that was not waited for keeps its pid, so this cannot reach a stranger.
    if let Some(pid) = child.id() {
        signal(pid, Signal::TERM);
    }
    if timeout(END_TIMEOUT, child.wait()).await.is_err() {
        tracing::warn!("the embedded Redis does not end by itself; killing it");
        if let Err(error) = child.kill().await {
            tracing::error!(%error, "the embedded Redis could not be killed");
        }
    }
}

/// Returns once the server behind `socket` answers PING, however long it loads.
pub(super) async fn wait_ready(socket: &Path) {
    let start = Instant::now();
    let mut logged = start;
    loop {
        match ping(socket).await {
            Ok(answer) if answer.starts_with(b"+PONG") => return,
            Ok(_) if logged.elapsed() > Duration::from_secs(5) => {
                logged = Instant::now();
                tracing::info!(
                    elapsed_ms = elapsed_ms(start),
                    "the embedded Redis is loading its data"
                );
            }
            Ok(_) | Err(_) => {}
        }
        sleep(POLL).await;
    }
}

async fn ping(socket: &Path) -> io::Result<Vec<u8>> {
    let exchange = async {
        let mut stream = UnixStream::connect(socket).await?;
        stream.write_all(b"PING\r\n").await?;
        let mut answer = vec![0; 64];
        let length = stream.read(&mut answer).await?;
        answer.truncate(length);
        Ok(answer)
    };
    timeout(Duration::from_secs(1), exchange).await?
}

/// Ends a server that a killed dueq left: it holds the files that the next one opens.
pub(super) async fn end_leftover(dir: &DataDir) -> Result<(), StartError> {
    let socket = dir.socket_link();
    if let Ok(stream) =
        UnixStream::connect(fs::canonicalize(&socket).unwrap_or_else(|_| socket.clone())).await
    {
        let pid = stream.peer_cred().ok().and_then(|peer| u32::try_from(peer.pid()?).ok());
        match pid {
            Some(pid) if is_ours(pid, dir.path()) => end_process(pid, dir.path()).await,
            _ => {
                let (process, socket) = (process(pid), socket.display());
                return Err(StartError::Other(format!(
                    "a program that dueq did not start{process} listens on {socket}; stop it, or name another directory with --data-dir DIR"
                )));
            }
        }
    }
    match dir.written_pid() {
        Some(pid) if is_ours(pid, dir.path()) => end_process(pid, dir.path()).await,
        _ => {}
    }
    Ok(())
}

async fn end_process(pid: u32, dir: &Path) {
    tracing::info!(pid, "ending the Redis that an earlier dueq left in the data directory");
    for ending in [Signal::TERM, Signal::KILL] {
        signal(pid, ending);
        let start = Instant::now();
        while start.elapsed() < END_TIMEOUT {
            if !is_ours(pid, dir) {
                return;
            }
            sleep(POLL).await;
        }
    }
}

/// Whether the process is a server of this data directory: its arguments name it. One that has ended but was not
/// waited for has none.
fn is_ours(pid: u32, dir: &Path) -> bool {
    if cfg!(target_os = "linux") {
        return fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| names_dir(&line, dir));
    }
    // Other systems have no such file, but all have the command, which puts blanks between the arguments.
    let shown = std::process::Command::new("ps")
        .args(["-ww", "-o", "args=", "-p", &pid.to_string()])
        .output();
    let named = format!("--dir {} --", dir.display());
    shown.is_ok_and(|shown| String::from_utf8_lossy(&shown.stdout).contains(&named))
}

fn names_dir(command_line: &[u8], dir: &Path) -> bool {
    let arguments: Vec<&[u8]> = command_line.split(|&byte| byte == 0).collect();
    arguments.windows(2).any(|pair| pair[0] == b"--dir" && pair[1] == dir.as_os_str().as_bytes())
}

fn signal(pid: u32, signal: Signal) {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    if let Err(error) = kill_process(pid, signal) {
        tracing::debug!(?pid, %error, "signal not delivered");
    }
}

/// The last thing that was logged from byte `from` on, without Redis's pid and time.
pub(super) fn last_line(log: &Path, from: u64) -> String {
    let mut text = Vec::new();
    let read = File::open(log).and_then(|mut file| {
        file.seek(SeekFrom::Start(from))?;
        file.read_to_end(&mut text)
    });
    if read.is_err() {
        return "it logged nothing".to_owned();
    }
    last_message(&String::from_utf8_lossy(&text))
}

/// Redis logs `1234:M 21 Nov 2026 07:01:02.345 # text`; what it says of its settings has no such head.
fn last_message(log: &str) -> String {
    let Some(line) = log.lines().map(str::trim).rfind(|line| !line.is_empty()) else {
        return "it logged nothing".to_owned();
    };
    let marks = [" # ", " * ", " - ", " . "];
    let head = |line: &str| line.split(':').next().is_some_and(|pid| pid.parse::<u32>().is_ok());
    let text = marks
        .iter()
        .find_map(|mark| line.split_once(mark))
        .filter(|_| head(line))
        .map_or(line, |(_, text)| text);
    text.trim_end_matches('.').to_owned()
}

pub(super) fn elapsed_ms(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::program::Version;
    use super::*;

    fn line(version: Version, fsync: Fsync) -> Vec<String> {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        let program = Program { path: "/usr/bin/redis-server".into(), version };
        let given = arguments(&program, &dir, Path::new("/s/redis.sock"), fsync, 1 << 30);
        given.into_iter().map(|argument| argument.into_string().unwrap()).collect()
    }

    fn has(line: &[String], name: &str, value: &str) -> bool {
        line.chunks(2).any(|pair| pair == [name, value])
    }

    #[test]
    fn the_settings_that_durability_rests_on_are_given() {
        let given = line(Version(7, 0), Fsync::Always);
        for (name, value) in [
            ("--port", "0"),
            ("--unixsocket", "/s/redis.sock"),
            ("--appendonly", "yes"),
            ("--appendfsync", "always"),
            ("--maxmemory", "1073741824"),
            ("--maxmemory-policy", "noeviction"),
            ("--save", ""),
            ("--daemonize", "no"),
        ] {
            assert!(has(&given, name, value), "{name} {value:?} is not in {given:?}");
        }
        assert!(has(&line(Version(7, 2), Fsync::Everysec), "--appendfsync", "everysec"));
    }

    #[test]
    fn packed_lists_are_kept_short_by_the_name_that_the_version_knows() {
        let old = line(Version(6, 2), Fsync::Everysec);
        assert!(has(&old, "--zset-max-ziplist-entries", "0"));
        assert!(has(&old, "--hash-max-ziplist-entries", "32"));
        for version in [Version(7, 0), Version(7, 2)] {
            let new = line(version, Fsync::Everysec);
            assert!(has(&new, "--zset-max-listpack-entries", "0"));
            assert!(has(&new, "--hash-max-listpack-entries", "32"));
        }
    }

    #[test]
    fn a_server_is_known_by_the_directory_in_its_arguments() {
        let command_line = b"/usr/bin/redis-server\0--dir\0/srv/data\0--port\x000\0";
        assert!(names_dir(command_line, Path::new("/srv/data")));
        assert!(!names_dir(command_line, Path::new("/srv/data2")));
        assert!(!names_dir(b"vim\0/srv/data\0", Path::new("/srv/data")));
        assert!(!names_dir(b"", Path::new("/srv/data")));
    }

    #[test]
    fn the_last_message_of_a_log_is_told_without_its_head() {
        let log = "81:C 21 Nov 2026 07:01:02.345 * starts - now\n81:M 21 Nov 2026 07:01:02.350 # Bad file format.\n\n";
        assert_eq!(last_message(log), "Bad file format");
        assert_eq!(
            last_message("*** FATAL ***\n>>> 'x 0'\nBad directive or wrong number of arguments\n"),
            "Bad directive or wrong number of arguments"
        );
        assert_eq!(last_message("\n"), "it logged nothing");
    }
}
