//! Which program the embedded Redis is, and whether it is new enough. Asked before anything is written, so that a
//! machine without Redis gets its hint and no half-made data directory.

use super::StartError;
use std::{
    env,
    fmt::Display,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

const NOT_FOUND: &str = "no redis-server or valkey-server on PATH: install one (`apt install redis-server`), name one with \
    --redis-bin PATH, or use a running Redis with --redis-url URL";

/// A server program that dueq can work with.
#[derive(Debug)]
pub(super) struct Program {
    /// Absolute path.
    pub path: PathBuf,
    pub version: Version,
}

/// The major and minor version of Redis. Valkey was forked from 7.2, and has all of it in every version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Version(pub u32, pub u32);

impl Version {
    /// Reads `Redis server v=7.0.15 sha=…` and `Valkey server v=8.0.1 sha=…`.
    fn parse(text: &str) -> Option<Self> {
        if text.starts_with("Valkey") {
            return Some(Self(7, 2));
        }
        let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="))?;
        let mut numbers = version.split('.');
        Some(Self(numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }

    /// 6.2 is the first with ZMSCORE, which the scripts use.
    fn is_enough(self) -> bool {
        (self.0, self.1) >= (6, 2)
    }

    /// Redis 7.0 renamed ziplists to listpacks, with their settings.
    pub(super) fn has_listpacks(self) -> bool {
        self.0 >= 7
    }
}

impl Program {
    /// The program `named`, or the first server on `PATH`.
    pub(super) fn find(named: Option<&Path>) -> Result<Self, StartError> {
        let path = match named {
            Some(name) => on_path(name).ok_or_else(|| bad(name, &"there is no such program"))?,
            None => ["redis-server", "valkey-server"]
                .iter()
                .find_map(|name| on_path(Path::new(name)))
                .ok_or_else(|| StartError::Other(NOT_FOUND.to_owned()))?,
        };
        let version = ask(&path)?;
        Ok(Self { path, version })
    }
}

/// Looks a bare name up in `PATH`, as a shell does; a path with a slash is used as it is.
fn on_path(name: &Path) -> Option<PathBuf> {
    let runnable = |path: &PathBuf| {
        path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    let found = if name.components().count() > 1 || name.is_absolute() {
        Some(name.to_owned()).filter(runnable)
    } else {
        env::split_paths(&env::var_os("PATH")?).map(|dir| dir.join(name)).find(runnable)
    };
    std::path::absolute(found?).ok()
}

fn bad(program: &Path, reason: &dyn Display) -> StartError {
    let program = program.display();
    StartError::Other(format!(
        "{program} cannot be used as the embedded Redis: {reason}; name another with --redis-bin PATH"
    ))
}

fn ask(program: &Path) -> Result<Version, StartError> {
    let asked = Command::new(program).arg("--version").output();
    let output = asked.map_err(|error| bad(program, &error))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let none = || bad(program, &"`--version` names no Redis or Valkey");
    let version = Version::parse(&text).ok_or_else(none)?;
    if version.is_enough() {
        return Ok(version);
    }
    let version = text.split_whitespace().find_map(|word| word.strip_prefix("v="));
    let (program, version) = (program.display(), version.unwrap_or_default());
    Err(StartError::Other(format!(
        "{program} is Redis {version}, dueq needs 6.2 or newer (or any Valkey): install a newer one, name one with --redis-bin PATH, or use a running Redis with --redis-url URL"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redis(major: u32, minor: u32) -> Option<Version> {
        Some(Version(major, minor))
    }

    #[test]
    fn versions_are_read_as_the_servers_print_them() {
        let debian = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=ae4d7c971a948f0\n";
        assert_eq!(Version::parse(debian), redis(7, 0));
        assert_eq!(Version::parse("Redis server v=6.2.14 sha=0:0"), redis(6, 2));
        assert_eq!(Version::parse("Redis server v=255.255.255 sha=0:0"), redis(255, 255));
        assert_eq!(Version::parse("Redis server v=8.0-rc1 sha=0:0"), None);
        assert_eq!(Version::parse("Valkey server v=8.0.1 sha=0:0 malloc=libc"), redis(7, 2));
        assert_eq!(Version::parse("bash, version 5.2"), None);
        assert_eq!(Version::parse(""), None);
    }

    #[test]
    fn redis_before_6_2_is_refused_and_any_valkey_is_taken() {
        let enough = |text| Version::parse(text).is_some_and(Version::is_enough);
        assert!(!enough("Redis server v=5.0.14 sha=0:0"));
        assert!(!enough("Redis server v=6.0.16 sha=0:0"));
        assert!(enough("Redis server v=6.2.0 sha=0:0"));
        assert!(enough("Redis server v=10.0.0 sha=0:0"));
        assert!(enough("Valkey server v=7.2.5 sha=0:0"));
    }

    #[test]
    fn a_program_that_is_none_is_named_in_the_error() {
        let error = Program::find(Some(Path::new("/nowhere/redis-server"))).unwrap_err();
        assert!(error.to_string().starts_with("/nowhere/redis-server cannot be used"), "{error}");
        let error = Program::find(Some(Path::new("/bin/true"))).unwrap_err();
        assert!(error.to_string().contains("names no Redis or Valkey"), "{error}");
    }
}
