//! A disk that can be full: a small tmpfs, mounted in a mount namespace that a process of the tests
//! holds. It is gone with that process, whatever ends the tests, and no other process ever sees it
//! but through `/proc/<pid>/root`.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::harness::{Launch, Process, RedisOptions, eventually, temp_dir, text_of};

const HOLD: &str =
    r#"mount -t tmpfs -o "size=$2,mode=700" dueq-proof "$1" && echo ready && exec sleep 86400"#;

/// A disk, and who holds it.
pub struct Disk {
    holder: Process,
    /// The flags of `nsenter` alongside the process.
    namespaces: &'static [&'static str],
    dir: PathBuf,
}

impl Disk {
    /// Mounts one of so many MiB: as root, otherwise in a user namespace. Nothing, and says so, where
    /// the system allows neither.
    pub async fn mount(mib: u32) -> Option<Disk> {
        let ways: [(&[&str], &'static [&'static str]); 2] = [
            (&["--mount"], &["--mount"]),
            (
                &["--user", "--map-root-user", "--mount"],
                &["--user", "--preserve-credentials", "--mount"],
            ),
        ];
        let mut said = String::new();
        for (unshare, namespaces) in ways {
            let dir = temp_dir("disk");
            let log = temp_dir("mount").join("log");
            let out = File::create(&log).expect("a file for its output");
            let mut holder = Process::start(
                Command::new("unshare")
                    .args(unshare)
                    .args(["sh", "-c", HOLD, "sh"])
                    .arg(&dir)
                    .arg(format!("{mib}m"))
                    .stdin(Stdio::null())
                    .stdout(out.try_clone().expect("a second handle"))
                    .stderr(out),
            );
            let mounted = eventually("a mount, or a refusal", || {
                let ended = holder.ended().is_some();
                let ready = text_of(&log).contains("ready");
                async move { (ended || ready).then_some(ready) }
            })
            .await;
            if mounted {
                return Some(Disk { holder, namespaces, dir });
            }
            said += &text_of(&log);
        }
        eprintln!(
            "\n*** SKIPPED: the system lets nobody here mount a tmpfs, so no disk was filled: {said}***\n"
        );
        None
    }

    /// Its directory, as processes within see it.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Its directory, as everybody else sees it.
    pub fn seen(&self) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.pid()));
        root.join(self.dir.strip_prefix("/").expect("an absolute directory"))
    }

    fn enter(&self) -> Vec<String> {
        let target = ["nsenter".to_owned(), "--target".into(), self.holder.pid().to_string()];
        let flags = self.namespaces.iter().map(|flag| flag.to_string());
        target.into_iter().chain(flags).chain(["--".to_owned()]).collect()
    }

    /// A Redis that has its directory here.
    pub fn redis(&self, options: RedisOptions) -> RedisOptions {
        options.within(self.enter()).dir(&self.dir)
    }

    /// A dueq that sees it.
    pub fn dueq(&self, launch: Launch) -> Launch {
        launch.within(self.enter())
    }

    /// Leaves no byte free.
    pub fn fill(&self) {
        let filler = File::options().create(true).append(true).open(self.filler());
        let mut filler = filler.expect("a file to fill the disk with");
        for chunk in [1 << 16, 1 << 12, 1] {
            while filler.write_all(&vec![b'x'; chunk]).is_ok() {}
        }
    }

    /// Gives back what [`Disk::fill`] took.
    pub fn make_room(&self) {
        fs::remove_file(self.filler()).expect("removing what filled the disk");
    }

    fn filler(&self) -> PathBuf {
        self.seen().join("filler")
    }
}
