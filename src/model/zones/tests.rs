//! Which database is used, which time zones it has, and when it is called old.

use super::*;
use crate::parse_instant;

fn at(text: &str) -> Millis {
    parse_instant(text).unwrap()
}

/// A directory with these files.
fn directory(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    directory
}

/// A zone as a file of a database: its offset (h) from each instant (s since 1970) on, and for ever after the last.
pub fn zone_file(changes: &[(i64, i8)]) -> Vec<u8> {
    let mut file = Vec::new();
    for changes in [&[][..], changes] {
        file.extend(b"TZif2");
        file.extend([0; 15]);
        let count = changes.len() as u32;
        for count in [0, 0, 0, count, count.max(1), 4] {
            file.extend(count.to_be_bytes());
        }
        changes.iter().for_each(|(at, _)| file.extend(at.to_be_bytes()));
        file.extend(0..count as u8);
        for (_, hours) in if changes.is_empty() { &[(0, 0)][..] } else { changes } {
            file.extend((i32::from(*hours) * 3_600).to_be_bytes());
            file.extend([0, 0]);
        }
        file.extend(b"XYZ\0");
    }
    let last = changes.last().map_or(0, |(_, hours)| *hours);
    file.extend(format!("\n<XYZ>{}\n", -last).as_bytes());
    file
}

fn fixed(hours: i8) -> Vec<u8> {
    zone_file(&[(-1, hours)])
}

#[test]
fn a_directory_is_used_as_it_is_named_and_says_its_version() {
    let files = [("Mars/Olympus", fixed(5)), ("Europe/Berlin", fixed(7))];
    let files = files.each_ref().map(|(name, bytes)| (*name, &bytes[..]));
    for (version_file, text, version) in [
        ("tzdata.zi", "# version 2031c\nR A\n", "2031c"),
        ("tzdata.zi", "# version 2031ab-dirty\n", "2031ab"),
        ("+VERSION", "2031d\n", "2031d"),
        ("tzdata.zi", "# something else\n", "unknown"),
        ("nothing", "2031d", "unknown"),
    ] {
        let directory = directory(&[&files[..], &[(version_file, text.as_bytes())]].concat());
        let zones = Zones::open(Some(directory.path())).unwrap();
        let path = directory.path().display().to_string();
        assert_eq!(zones.named(), (version.to_owned(), path), "{text}");
        let hours = |name: &str| {
            let zone = zones.get(name).unwrap();
            (
                zone.to_offset(jiff::Timestamp::UNIX_EPOCH).seconds() / 3_600,
                zone.iana_name().unwrap().to_owned(),
            )
        };
        assert_eq!(hours("mars/OLYMPUS"), (5, "Mars/Olympus".to_owned()));
        assert_eq!(hours("europe/berlin"), (7, "Europe/Berlin".to_owned()));
        // A name that it does not have.
        assert_eq!(hours("us/pacific"), (-8, "US/Pacific".to_owned()));
    }
}

#[test]
fn what_has_no_time_zones_is_refused() {
    let empty = directory(&[("a", b"b")]);
    assert!(Zones::open(Some(empty.path())).is_err());
    assert!(Zones::open(Some(&empty.path().join("missing"))).is_err());
    assert!(Zones::open(Some(&empty.path().join("a"))).is_err());
}

#[test]
fn a_version_that_has_changed_is_read_again() {
    let zone = fixed(1);
    let directory = directory(&[("A/B", &zone), ("tzdata.zi", b"# version 2031c\n")]);
    let zones = Zones::open(Some(directory.path())).unwrap();
    assert!(zones.renewed().is_none());
    fs::write(directory.path().join("A/B"), fixed(2)).unwrap();
    fs::write(directory.path().join("tzdata.zi"), "# version 2031d\n").unwrap();
    let renewed = zones.renewed().unwrap();
    assert_eq!(renewed.version(), "2031d");
    let offset = renewed.get("A/B").unwrap().to_offset(jiff::Timestamp::UNIX_EPOCH);
    assert_eq!(offset.seconds(), 7_200);
    assert!(renewed.renewed().is_none());
}

#[test]
fn names_that_lead_elsewhere_are_no_time_zones() {
    for bad in [
        "",
        "Berlin",
        "Europe",
        "Europe/",
        "/Europe/Berlin",
        "../zoneinfo/Europe/Berlin",
        "tzdata.zi",
        "posix/Europe/Berlin",
        "right/Europe/Berlin",
        "Etc/Unknown",
        "Europe/Berlin ",
        "é",
    ] {
        assert_eq!(Zones::open(None).unwrap().get(bad), Err(InvalidTimezone), "{bad}");
    }
    for good in ["utc", "UTC", "Etc/UTC", "Europe/Berlin", "EUROPE/berlin", "Asia/Calcutta"] {
        assert!(Zones::bundled().get(good).is_ok(), "{good}");
    }
}

#[test]
fn a_database_is_warned_of_above_a_year_of_age() {
    let zone = fixed(1);
    let warning = |version: &str, now: &str| {
        let directory = directory(&[("A/B", &zone), ("version", version.as_bytes())]);
        Zones::open(Some(directory.path())).unwrap().warning(at(now))
    };
    assert!(warning("2025b", "2026-02-20T00:00:00Z").is_none());
    assert!(warning("2025b", "2026-03-20T00:00:00Z").unwrap().contains("2025b"));
    assert!(warning("2025b", "2035-03-20T00:00:00Z").unwrap().contains("more than a year old"));
    assert!(warning("2025z", "2026-12-20T00:00:00Z").is_none());
    assert!(warning("nightly", "2026-12-20T00:00:00Z").unwrap().contains("not known"));
}
