//! What a power loss, or a kill in the middle of a write, may leave at the end of Redis's append-only file: a script's
//! writes, which are between MULTI and EXEC, without their end.
//!
//! Redis before 8.x, and Valkey before its pull request 4342, drops only the command that is cut off when it loads such a
//! file. The MULTI stays and swallows what is written next, and at the *next* start half a script is applied. So the tail
//! is cut back to where the script began before a server opens the file. `redis-check-aof --fix` would do that too, but
//! also throw away everything after damage in the middle, which is for a person to decide.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
};

/// Cuts back the log that a server which did not end properly left in this data directory. Returns how many bytes that
/// took.
pub(super) fn mend(dir: &Path) -> io::Result<u64> {
    let Some(path) = last_part(dir)? else { return Ok(0) };
    let length = path.metadata()?.len();
    let whole = match whole_length(BufReader::with_capacity(1 << 20, File::open(&path)?)) {
        Ok(whole) => whole,
        // Not what a torn tail looks like: the server says what is wrong.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Ok(0),
        Err(error) => return Err(error),
    };
    if whole < length {
        let file = OpenOptions::new().write(true).open(&path)?;
        file.set_len(whole)?;
        file.sync_all()?;
    }
    Ok(length - whole)
}

/// The part of the log that is written to: the last one that the manifest names. Before Redis 7 there is one file.
fn last_part(dir: &Path) -> io::Result<Option<PathBuf>> {
    let parts = dir.join("appendonlydir");
    let manifest = match fs::read_to_string(parts.join("appendonly.aof.manifest")) {
        Ok(manifest) => manifest,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Some(dir.join("appendonly.aof")).filter(|path| path.exists()));
        }
        Err(error) => return Err(error),
    };
    // `file appendonly.aof.3.incr.aof seq 3 type i`; from Redis 8.2 on offsets follow.
    let written =
        |line: &&str| line.split(' ').skip_while(|word| *word != "type").nth(1) == Some("i");
    let last = manifest.lines().rfind(written);
    let name = last.and_then(|line| line.split(' ').nth(1));
    Ok(name.map(|name| parts.join(name)).filter(|path| path.exists()))
}

/// Up to where the log holds whole commands, and none of a transaction that has no end.
fn whole_length(mut log: impl BufRead) -> io::Result<u64> {
    let (mut at, mut begun) = (0, None);
    loop {
        match command(&mut log) {
            Ok((length, name)) => {
                match name {
                    Name::Multi => begun = begun.or(Some(at)),
                    Name::Exec => begun = None,
                    Name::Other => {}
                }
                at += length;
            }
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Ok(begun.unwrap_or(at));
            }
            Err(error) => return Err(error),
        }
    }
}

enum Name {
    Multi,
    Exec,
    Other,
}

/// Reads one command, or a line of annotation; its length in bytes.
fn command(log: &mut impl BufRead) -> io::Result<(u64, Name)> {
    let (mut length, arguments) = match head(log, b'*')? {
        (length, Some(arguments)) => (length, arguments),
        (length, None) => return Ok((length, Name::Other)),
    };
    let mut name = Name::Other;
    for index in 0..arguments {
        let (line, Some(size)) = head(log, b'$')? else { return Err(invalid()) };
        let mut first = Vec::new();
        if index == 0 && size < 8 {
            log.take(size).read_to_end(&mut first)?;
        }
        let left = size + 2 - first.len() as u64;
        let skipped = io::copy(&mut log.take(left), &mut io::sink())?;
        if skipped < left {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if first.eq_ignore_ascii_case(b"multi") {
            name = Name::Multi;
        } else if first.eq_ignore_ascii_case(b"exec") {
            name = Name::Exec;
        }
        length += line + size + 2;
    }
    Ok((length, name))
}

/// Reads a line: its length, and the number behind this mark; none for an annotation (`#TS:…`).
fn head(log: &mut impl BufRead, mark: u8) -> io::Result<(u64, Option<u64>)> {
    let mut line = Vec::new();
    log.take(64).read_until(b'\n', &mut line)?;
    let length = line.len() as u64;
    let Some(text) = line.strip_suffix(b"\r\n") else {
        // Longer than any such line, or cut off.
        return Err(if length < 64 { io::ErrorKind::UnexpectedEof.into() } else { invalid() });
    };
    match text.split_first() {
        Some((b'#', _)) if mark == b'*' => Ok((length, None)),
        Some((first, number)) if *first == mark => {
            let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
            number.map(|number| (length, Some(number))).ok_or_else(invalid)
        }
        _ => Err(invalid()),
    }
}

fn invalid() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: &str = "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$4\r\nb\r\nc\r\n";
    const MULTI: &str = "*1\r\n$5\r\nMULTI\r\n";
    const EXEC: &str = "*1\r\n$4\r\nEXEC\r\n";

    fn whole(log: &str) -> io::Result<u64> {
        whole_length(log.as_bytes())
    }

    #[test]
    fn a_log_that_ends_with_a_command_is_whole() {
        for log in ["", SET, &format!("{SET}#TS:1795282707\r\n{MULTI}{SET}{SET}{EXEC}{SET}")] {
            assert_eq!(whole(log).unwrap(), log.len() as u64, "{log:?}");
        }
    }

    #[test]
    fn wherever_a_script_is_cut_off_nothing_of_it_is_left() {
        let before = format!("{SET}{MULTI}{SET}{EXEC}");
        let script = format!("{MULTI}{SET}{SET}{EXEC}");
        for kept in 0..script.len() {
            let log = before.clone() + &script[..kept];
            assert_eq!(whole(&log).unwrap(), before.len() as u64, "{kept} bytes of it are left");
        }
        for kept in 0..SET.len() {
            assert_eq!(whole(&(before.clone() + &SET[..kept])).unwrap(), before.len() as u64);
        }
    }

    #[test]
    fn damage_in_the_middle_is_not_taken_for_a_torn_tail() {
        for damaged in ["*3\r\n$3\r\nSET\r\nxx", "?3\r\n", "*x\r\n", "*1\r\n#TS:1\r\n"] {
            let error = whole(&format!("{SET}{damaged}{SET}")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{damaged:?}");
        }
    }

    #[test]
    fn only_the_part_that_is_written_to_is_cut() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(mend(dir.path()).unwrap(), 0, "no log at all");
        let single = dir.path().join("appendonly.aof");
        fs::write(&single, format!("{SET}{MULTI}{SET}")).unwrap();
        assert_eq!(mend(dir.path()).unwrap(), (MULTI.len() + SET.len()) as u64);
        assert_eq!(fs::read_to_string(&single).unwrap(), SET);
        let parts = dir.path().join("appendonlydir");
        fs::create_dir(&parts).unwrap();
        let manifest = "file appendonly.aof.2.base.rdb seq 2 type b\nfile appendonly.aof.4.incr.aof seq 4 type i\n\
                        file appendonly.aof.5.incr.aof seq 5 type i startoffset 1117\n";
        fs::write(parts.join("appendonly.aof.manifest"), manifest).unwrap();
        for part in ["4", "5"] {
            let torn = format!("{SET}{MULTI}{SET}");
            fs::write(parts.join(format!("appendonly.aof.{part}.incr.aof")), torn).unwrap();
        }
        assert_eq!(mend(dir.path()).unwrap(), (MULTI.len() + SET.len()) as u64);
        assert_eq!(mend(dir.path()).unwrap(), 0, "it is mended");
        let untouched = fs::read_to_string(parts.join("appendonly.aof.4.incr.aof")).unwrap();
        assert_eq!(untouched, format!("{SET}{MULTI}{SET}"));
        let mended = fs::read_to_string(parts.join("appendonly.aof.5.incr.aof")).unwrap();
        assert_eq!(mended, SET);
    }
}
