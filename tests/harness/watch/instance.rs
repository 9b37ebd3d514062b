//! What an instance uses, and how it ends.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::harness::is_fault;
use crate::harness::process::text_of;

/// A connection that its client has closed for so long is not noticed any more.
const UNNOTICED: Duration = Duration::from_secs(5);

/// An instance may use so much more once it has worked: pools, buffers, what an allocator keeps.
const GROWN_KIB: usize = 96 * 1024;
/// Connections to Redis and to receivers, and the like.
const GROWN_FILES: usize = 100;

/// What an instance has to let go of at the end is gone after so long.
const SETTLES: Duration = Duration::from_secs(3);

/// An instance that runs, or ran.
pub struct Instance {
    pid: u32,
    dir: PathBuf,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// Somebody ended it, as far as anybody knows.
    ended: Option<How>,
    first: Option<Use>,
    last: Option<Use>,
    peak: Use,
    /// Since when connections have been closed by their clients alone, by inode.
    left: HashMap<u64, Instant>,
    /// Most of them at a time that had been so for too long.
    unnoticed: usize,
}

/// How an instance ended.
#[derive(Clone, Copy, PartialEq)]
enum How {
    Killed,
    /// With the run.
    AtTheEnd,
    ByItself(i32),
}

/// What it uses at a moment.
#[derive(Clone, Copy, Default)]
struct Use {
    kib: usize,
    /// Descriptors that are no connections of clients.
    own: usize,
    clients: usize,
}

impl Instance {
    pub(super) fn new(pid: u32, dir: &Path) -> Instance {
        Instance { pid, dir: dir.to_owned(), seen: Mutex::default() }
    }

    /// It was stopped for a while: nothing that it left undone meanwhile counts.
    pub fn stopped(&self) {
        self.lock().left.clear();
    }

    /// It was told to end, or killed.
    pub fn killed(&self) {
        self.lock().ended.get_or_insert(How::Killed);
    }

    /// The run is over, and with it this instance, which lives if it has no exit code yet.
    pub fn over(&self, code: Option<i32>) {
        // Connections of clients that have just left are closed one by one.
        let end = Instant::now() + SETTLES;
        while code.is_none() {
            Instance::look(&[self]);
            let seen = self.lock();
            let (Some(first), Some(last)) = (seen.first, seen.last) else { break };
            if grown(first, last).is_none() || Instant::now() >= end {
                break;
            }
            drop(seen);
            std::thread::sleep(Duration::from_millis(50));
        }
        let how = code.map_or(How::AtTheEnd, How::ByItself);
        self.lock().ended.get_or_insert(how);
    }

    /// Looks at what these use now. The kernel's table of connections, which costs more than the rest, is read for all of
    /// them, before and after: a connection may come or go between two looks.
    pub(super) fn look(instances: &[&Instance]) {
        let running = instances.iter().filter(|instance| instance.lock().ended.is_none());
        let running: Vec<&&Instance> = running.collect();
        if running.is_empty() {
            return;
        }
        let mut sockets = sockets();
        let files: Vec<_> = running.iter().map(|instance| instance.files()).collect();
        sockets.extend(self::sockets());
        for (instance, files) in running.iter().zip(files) {
            if let Some((files, inodes)) = files {
                instance.note(files, &inodes, &sockets);
            }
        }
    }

    /// How many files it has open, and the inodes of those that are sockets, in order.
    fn files(&self) -> Option<(usize, Vec<u64>)> {
        let mut inodes: Vec<u64> = Vec::new();
        let mut files = 0;
        for file in std::fs::read_dir(format!("/proc/{}/fd", self.pid)).ok()?.flatten() {
            files += 1;
            let target = std::fs::read_link(file.path()).unwrap_or_default();
            let target = target.to_string_lossy();
            let inode = target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']'));
            inodes.extend(inode.and_then(|inode| inode.parse::<u64>().ok()));
        }
        inodes.sort_unstable();
        Some((files, inodes))
    }

    /// Notes what it uses: memory, descriptors, and the connections that clients have closed and the instance has not.
    fn note(&self, files: usize, inodes: &[u64], sockets: &[Socket]) {
        let mut seen = self.lock();
        if seen.ended.is_some() {
            return;
        }
        let Some(kib) = memory_kib(self.pid) else { return };
        let is_own = |socket: &&Socket| inodes.binary_search(&socket.inode).is_ok();
        let mut ours: Vec<&Socket> = sockets.iter().filter(is_own).collect();
        ours.sort_by_key(|socket| socket.inode);
        ours.dedup_by_key(|socket| socket.inode);
        let served = ours.iter().find(|socket| socket.state == LISTENS).map(|socket| socket.port);
        let clients = || ours.iter().filter(|one| Some(one.port) == served && one.state != LISTENS);
        let left: Vec<u64> =
            clients().filter(|one| one.state == LEFT).map(|one| one.inode).collect();
        let clients = clients().count();
        let now = Use { kib, own: files - clients, clients };
        seen.first.get_or_insert(now);
        seen.last = Some(now);
        seen.peak.kib = seen.peak.kib.max(now.kib);
        seen.peak.own = seen.peak.own.max(now.own);
        seen.peak.clients = seen.peak.clients.max(now.clients);
        seen.left.retain(|inode, _| left.contains(inode));
        for inode in left {
            seen.left.entry(inode).or_insert_with(Instant::now);
        }
        let unnoticed = seen.left.values().filter(|since| since.elapsed() > UNNOTICED).count();
        seen.unnoticed = seen.unnoticed.max(unnoticed);
    }

    /// What is wrong with it.
    pub(super) fn found(&self) -> Vec<String> {
        let (seen, log) = (self.lock(), self.log());
        let mut found = Vec::new();
        let faults: Vec<&str> = log.lines().filter(|line| is_fault(line)).collect();
        if let Some(first) = faults.first() {
            found.push(format!(
                "no panic, no broken script, no odd reply: {} in the log, the first: {first}",
                faults.len()
            ));
        }
        if let Some(How::ByItself(code)) = seen.ended {
            found.push(format!(
                "it goes on: an instance ended by itself with {code}: {}",
                tail(&log)
            ));
        }
        if seen.unnoticed > 0 {
            let n = seen.unnoticed;
            found.push(format!("no growth: {n} connections whose clients are long gone"));
        }
        if let (Some(How::AtTheEnd), Some(first), Some(last)) = (seen.ended, seen.first, seen.last)
        {
            found.extend(grown(first, last));
        }
        found
    }

    /// What it used, if that was ever seen.
    pub(super) fn used(&self) -> Option<String> {
        let seen = self.lock();
        let (first, last, peak) = (seen.first?, seen.last?, seen.peak);
        Some(format!(
            "memory {} → {} MiB (at most {}), descriptors {} → {} (at most {}), clients {} (at most {})",
            first.kib / 1024,
            last.kib / 1024,
            peak.kib / 1024,
            first.own,
            last.own,
            peak.own,
            last.clients,
            peak.clients,
        ))
    }

    fn log(&self) -> String {
        text_of(&self.dir.join("stdout")) + &text_of(&self.dir.join("stderr"))
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// What a process has in memory, in KiB.
pub fn memory_kib(pid: u32) -> Option<usize> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// What is wrong with what it used at the end, beside what it used at first.
fn grown(first: Use, last: Use) -> Option<String> {
    let (kib, own) = (last.kib.saturating_sub(first.kib), last.own.saturating_sub(first.own));
    let memory = (kib > GROWN_KIB).then(|| format!("{} MiB more memory at the end", kib / 1024));
    let files = (own > GROWN_FILES).then(|| format!("{own} more descriptors at the end"));
    memory.or(files).map(|what| format!("no growth: {what}"))
}

/// The kernel's table of connections, without those that no process has any more.
fn sockets() -> Vec<Socket> {
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    table.lines().filter_map(Socket::read).collect()
}

fn tail(log: &str) -> &str {
    log.lines().last().unwrap_or("no log")
}

/// A line of the kernel's table of connections.
struct Socket {
    port: u16,
    state: u8,
    inode: u64,
}

/// States of connections, as the kernel numbers them.
const GONE: u8 = 6;
const LEFT: u8 = 8;
const LISTENS: u8 = 10;

impl Socket {
    fn read(line: &str) -> Option<Socket> {
        let (_, fields) = line.split_once(": ")?;
        let state = u8::from_str_radix(fields.get(28..30)?, 16).ok()?;
        // Most are such, so they cost nothing more.
        if state == GONE {
            return None;
        }
        let port = u16::from_str_radix(fields.get(9..13)?, 16).ok()?;
        Some(Socket { port, state, inode: fields.split_ascii_whitespace().nth(8)?.parse().ok()? })
    }
}
