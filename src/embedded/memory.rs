//! How much memory the embedded Redis may take: a full queue is to be an answer (503), not the end of a process that the
//! kernel chooses.

use std::{fs, path::Path};

/// The part of the machine's memory that is Redis's by default. The rest is for dueq, for the system's cache, and for what
/// Redis copies while it rewrites its log.
const SHARE: u64 = 2;

/// Bytes for Redis on this machine; `None` where that is unknown.
pub(super) fn share() -> Option<u64> {
    let machine = machine(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let limit = groups.lines().filter_map(|line| limit(line, Path::new("/sys/fs/cgroup"))).min();
    Some(limit.map_or(machine, |limit| limit.min(machine)) / SHARE)
}

/// What `/proc/meminfo` says.
fn machine(info: &str) -> Option<u64> {
    let kib = info.lines().find_map(|line| line.strip_prefix("MemTotal:"))?.trim();
    kib.strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The limit of the control group in a line of `/proc/self/cgroup`, or of one that it is in. Inside a container the path
/// may be one of outside, so that only its end, the mount itself, is there.
fn limit(line: &str, mount: &Path) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let (mount, file) = match controllers {
        "" => (mount.to_owned(), "memory.max"),
        old if old.split(',').any(|one| one == "memory") => {
            (mount.join("memory"), "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let path = Path::new(path.trim_start_matches('/'));
    let limits = path.ancestors().filter_map(|group| {
        fs::read_to_string(mount.join(group).join(file)).ok()?.trim().parse().ok()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_limit_on_the_way_counts() {
        let temp = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = temp.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("system.slice/memory.max", "1000\n");
        write("system.slice/dueq.service/memory.max", "max\n");
        write("memory/docker/memory.limit_in_bytes", "9223372036854771712\n");
        write("memory/memory.limit_in_bytes", "3000\n");
        for (line, bytes) in [
            ("0::/system.slice/dueq.service", Some(1000)),
            ("0::/elsewhere", None),
            ("4:memory:/docker/abc", Some(3000)),
            ("5:cpu,memory:/", Some(3000)),
            ("3:cpuset:/", None),
            ("", None),
        ] {
            assert_eq!(limit(line, temp.path()), bytes, "{line}");
        }
    }

    #[test]
    fn a_machine_says_what_it_has() {
        assert_eq!(machine("MemTotal:       24684092 kB\nMemFree: 1 kB\n"), Some(24_684_092 << 10));
        assert_eq!(machine("MemFree: 1 kB\n"), None);
    }
}
