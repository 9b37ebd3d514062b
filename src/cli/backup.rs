//! `dueq backup`: a copy of the data of the private Redis, while it is served or not. Each is a data directory by itself.

use super::{client::durations::now, fail, progress::Progress};
use crate::embedded::Snapshot;
use clap::Args as ClapArgs;
use dueq_base::files::random_name;
use dueq_model::format_instant;
use std::{
    fs, io,
    path::{Path, PathBuf},
    process::ExitCode,
};

/// What the names of backups begin with.
const NAME: &str = "dueq-";
/// What follows it: an instant, with zeros for its digits.
const INSTANT: &str = "0000-00-00T00-00-00-000Z";

/// Arguments of `dueq backup`.
#[derive(ClapArgs)]
pub struct Args {
    /// Directory for backups. Each becomes a directory in it, named by the time.
    dir: PathBuf,
    /// Directory of the private Redis.
    #[arg(long, env = "DUEQ_DATA_DIR", value_name = "DIR", default_value = "./dueq-data")]
    data_dir: PathBuf,
    /// How many backups to keep in the directory: older ones are deleted. All by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    keep: Option<u32>,
}

/// Exit code 0: the backup is complete; 2: there is none.
pub fn run(args: &Args) -> ExitCode {
    match backup(args) {
        Ok((path, bytes, deleted)) => {
            let gone = if deleted > 0 { format!("; deleted {deleted}") } else { String::new() };
            println!("{} ({} MiB){gone}", path.display(), bytes.div_ceil(1 << 20));
            ExitCode::SUCCESS
        }
        Err(error) => fail(&error),
    }
}

/// Errors: why there is no backup.
fn backup(args: &Args) -> Result<(PathBuf, u64, usize), String> {
    let Args { dir, data_dir, keep } = args;
    let snapshot = Snapshot::of(data_dir).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => format!(
            "there are no data of a private Redis in {}: pass --data-dir DIR; a Redis of your own has its own backups, and dueq dump works with any",
            data_dir.display()
        ),
        _ => failed_at(data_dir, error),
    })?;
    let bytes = snapshot.bytes();
    fs::create_dir_all(dir).map_err(|error| failed_at(dir, error))?;
    // Names that sort by time, without what some file systems do not take.
    let name = format_instant(now()).replace([':', '.'], "-");
    let path = dir.join(format!("{NAME}{name}"));
    let random = random_name().map_err(|error| failed_at(dir, error))?;
    let partial = dir.join(format!("partial-{NAME}{name}-{random}"));
    let failed = |error| failed_at(&path, error);
    let mut progress = Progress::new("copied KiB", Some(bytes.div_ceil(1024)));
    let copied = snapshot.copy_to(&partial, |bytes| progress.add(bytes.div_ceil(1024)));
    if let Err(error) = copied.and_then(|()| fs::rename(&partial, &path)) {
        let _ = fs::remove_dir_all(&partial);
        return Err(failed(error));
    }
    let deleted = match keep {
        Some(keep) => delete_old(dir, &path, *keep as usize).map_err(failed)?,
        None => 0,
    };
    Ok((path, bytes, deleted))
}

fn failed_at(path: &Path, error: io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Deletes the oldest backups, until so many are left with the newest. Returns how many that were.
fn delete_old(dir: &Path, newest: &Path, keep: usize) -> io::Result<usize> {
    let mut backups = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let path = entry.path();
        if is_backup(&entry.file_name().to_string_lossy())
            && entry.file_type()?.is_dir()
            && path != newest
        {
            backups.push(path);
        }
    }
    backups.sort();
    let old = (backups.len() + 1).saturating_sub(keep);
    backups[..old].iter().try_for_each(fs::remove_dir_all)?;
    Ok(old)
}

/// Is this the name of a backup? Other directories may begin alike, such as the data's own.
fn is_backup(name: &str) -> bool {
    let plain = |c: char| if c.is_ascii_digit() { '0' } else { c };
    name.strip_prefix(NAME).is_some_and(|rest| rest.chars().map(plain).eq(INSTANT.chars()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_backups_are_deleted_and_never_the_newest() {
        let temp = tempfile::tempdir().unwrap();
        let name = |at: &str| temp.path().join(format!("dueq-2026-11-26T03-00-0{at}-123Z"));
        let others = ["dueq-data", "dueq-0", "dueq-2026-11-26T03-00-00-123Z.old", "dueq-dev"];
        others.iter().for_each(|other| fs::create_dir(temp.path().join(other)).unwrap());
        [0, 1, 2, 3].iter().for_each(|at| fs::create_dir(name(&at.to_string())).unwrap());
        // The clock went back before the newest.
        assert_eq!(delete_old(temp.path(), &name("0"), 2).unwrap(), 2);
        assert!(name("0").exists() && !name("1").exists() && !name("2").exists());
        assert!(name("3").exists() && others.iter().all(|it| temp.path().join(it).exists()));
        assert_eq!(delete_old(temp.path(), &name("0"), 5).unwrap(), 0);
    }
}
