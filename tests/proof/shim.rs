//! Power loss, a clock that is set, an address to call from and leaks, for one server: the library of `shim.c`, loaded into it
//! before the C library.
//!
//! A power loss is SIGKILL, and then every file of the append-only log cut back to the length that
//! it had when its last successful fsync began, sometimes with a part of what came after: what a
//! disk may have kept of it. `aof-load-truncated` lets Redis start on a log that ends so.

use std::collections::HashMap;
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use rand::Rng;
use rand::rngs::StdRng;

use super::history::{Ms, now};
use crate::harness::{Launch, Redis, RedisOptions, temp_dir, text_of};

/// The shim of one server: what it has synced, and its clock.
pub struct Shim {
    synced: PathBuf,
    clock: PathBuf,
}

/// What a power loss took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cut {
    /// Bytes of the log that were written and not synced, kept or not.
    pub unsynced: u64,
    /// Bytes that are gone.
    pub lost: u64,
    /// Whatever was answered this many ms before the loss, or earlier, is on disk.
    pub window: Ms,
}

/// What the shim noted.
#[derive(Default)]
struct Notes {
    /// The length that is on disk, by inode.
    lengths: HashMap<u64, u64>,
    /// When the last successful fsync began.
    synced: Option<Ms>,
    /// When the last fsync began, if it has not ended.
    under_way: Option<Ms>,
    /// When the last fsync began, ended or not.
    begun: Option<Ms>,
}

impl Shim {
    /// A new one, its clock the machine's.
    ///
    /// # Panics
    /// Without a C compiler `cc`, which Rust links with anyway.
    pub fn new() -> Shim {
        let dir = temp_dir("shim");
        let shim = Shim { synced: dir.join("synced"), clock: dir.join("clock") };
        File::create(&shim.synced).expect("a file for the shim");
        fs::write(&shim.clock, [0; 16]).expect("a file for the shim");
        shim
    }

    /// The environment of a process under this shim.
    fn env(&self) -> [(&'static str, &Path); 3] {
        [
            ("LD_PRELOAD", library()),
            ("DUEQ_SHIM_SYNCED", &self.synced),
            ("DUEQ_SHIM_CLOCK", &self.clock),
        ]
    }

    /// A Redis under this shim.
    pub fn redis(&self, options: RedisOptions) -> RedisOptions {
        self.env().iter().fold(options, |options, (name, path)| options.env(name, path))
    }

    /// A dueq under this shim.
    pub fn dueq(&self, launch: Launch) -> Launch {
        self.env().iter().fold(launch, |launch, (name, path)| launch.env(name, path))
    }

    /// A dueq whose connections come from this address.
    pub fn calling_from(source: Ipv4Addr, launch: Launch) -> Launch {
        launch.env("LD_PRELOAD", library()).env("DUEQ_SHIM_SOURCE", source.to_string())
    }

    /// A dueq that keeps something of every connection, where such a bug is on.
    pub fn leaking(bug: Option<&str>, launch: Launch) -> Launch {
        match bug {
            Some("memory kept") => launch.env("DUEQ_SHIM_LEAK", "65536"),
            Some("descriptor kept") => launch.env("DUEQ_SHIM_LEAK", "0"),
            _ => return launch,
        }
        .env("LD_PRELOAD", library())
    }

    /// By how many ms the server's clock is ahead of the machine's.
    pub fn clock(&self) -> Ms {
        let mut ahead = [0; 8];
        let file = File::open(&self.clock).expect("the shim's clock");
        file.read_exact_at(&mut ahead, 0).expect("eight bytes");
        Ms::from_ne_bytes(ahead)
    }

    /// Sets the server's clock so many ms ahead of the machine's; it knows at once. In place, because
    /// the server has mapped the file.
    pub fn set_clock(&self, ahead: Ms) {
        self.write(ahead, 0);
    }

    /// Makes the server's clock stand still at this instant, in ms since 1970.
    pub fn stand_at(&self, instant: Ms) {
        self.write(instant, 8);
    }

    fn write(&self, number: Ms, at: u64) {
        let file = File::options().write(true).open(&self.clock).expect("the shim's clock");
        file.write_all_at(&number.to_ne_bytes(), at).expect("the shim's clock");
    }

    /// SIGKILL, and a power loss with it. The caller restarts it.
    pub fn power_loss(&self, redis: &mut Redis, random: &mut StdRng) -> Cut {
        let before = now();
        redis.kill9();
        let notes = self.notes();
        let (mut unsynced, mut lost) = (0, 0);
        // What a machine finds on its disk when it starts is there for good.
        let mut on_disk = HashMap::new();
        for file in fs::read_dir(redis.dir().join("appendonlydir")).expect("a log").flatten() {
            let meta = file.metadata().expect("a file of the log");
            let synced = notes.lengths.get(&meta.ino()).copied().unwrap_or(0).min(meta.len());
            let tail = meta.len() - synced;
            let kept = if random.random_bool(0.5) { random.random_range(0..=tail) } else { 0 };
            let open = File::options().write(true).open(file.path()).expect("a file of the log");
            open.set_len(synced + kept).expect("cutting a file of the log");
            on_disk.insert(meta.ino(), synced + kept);
            (unsynced, lost) = (unsynced + tail, lost + tail - kept);
        }
        self.begin_anew(&on_disk, before);
        // An fsync is asked for and begins in another thread a moment later; what is answered
        // between the two is not written before that fsync has ended.
        let window = before - notes.synced.unwrap_or(0) + MOMENT;
        Cut { unsynced, lost, window }
    }

    /// SIGKILL alone. While an fsync is under way, `everysec` holds back what is to be written and
    /// answers all the same: gives back how many ms of answers may be gone, if any.
    pub fn kill(&self, redis: &mut Redis) -> Option<Ms> {
        let before = now();
        redis.kill9();
        let notes = self.notes();
        self.begin_anew(&notes.lengths, notes.synced.unwrap_or(0));
        let second = before / 1_000 * 1_000;
        // Each second's fsync is asked for once the second has begun: it may be about to begin.
        let about_to = notes.begun.is_some_and(|begun| begun < second).then_some(second);
        notes.under_way.or(about_to).map(|since| before - since + MOMENT)
    }

    /// Shortens the notes to what matters; nobody writes to them now.
    fn begin_anew(&self, lengths: &HashMap<u64, u64>, at: Ms) {
        let line = |(inode, length): (&u64, &u64)| format!("synced {inode} {length} {at}\n");
        let lines: String = lengths.iter().map(line).collect();
        fs::write(&self.synced, lines).expect("the notes");
    }

    fn notes(&self) -> Notes {
        let mut notes = Notes::default();
        for line in text_of(&self.synced).lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
            let number = |at| number(at).unwrap_or_else(|| panic!("the shim noted {line:?}"));
            match words[0] {
                "begun" => {
                    notes.begun = Some(number(2) as Ms);
                    notes.under_way = notes.begun;
                }
                "synced" => {
                    notes.lengths.insert(number(1), number(2));
                    notes.synced = Some(number(3) as Ms);
                    notes.under_way = None;
                }
                _ => panic!("the shim noted {line:?}"),
            }
        }
        notes
    }
}

/// What a busy machine may need to start a thread, and to kill a process.
const MOMENT: Ms = 250;

/// The library, built once per test process.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let dir = temp_dir("shim");
        let (source, library) = (dir.join("shim.c"), dir.join("shim.so"));
        fs::write(&source, include_str!("shim.c")).expect("a file for the shim's source");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .output()
            .unwrap_or_else(|error| {
                panic!("power loss and clock steps need a C compiler: cc: {error}")
            });
        let said = String::from_utf8_lossy(&built.stderr).into_owned();
        assert!(built.status.success(), "cc cannot build the shim: {said}");
        library
    })
}
