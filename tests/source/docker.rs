//! The image, as far as it can be known without building it: apt says what the last stage installs on an empty system,
//! and the program that makes the file of certificates is run.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::root;

/// Where the image's system keeps the authorities, and dueq looks for them.
const CERTIFICATES: &str = "ca-certificates.crt";

/// The words of `apt-get install` in the last stage, without quotes.
fn installed() -> Vec<String> {
    let text = std::fs::read_to_string(root().join("docker/Dockerfile")).unwrap();
    let last_stage = text.rsplit("\nFROM ").next().unwrap();
    assert!(last_stage.starts_with("debian:bookworm-slim\n"), "another image: {last_stage}");
    let lines = last_stage.lines().filter(|line| !line.trim_start().starts_with('#'));
    let joined = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    let install = joined.split("apt-get install").nth(1).expect("apt-get install");
    let words = install.split("&&").next().unwrap().lines().next().unwrap();
    words.split_whitespace().map(|word| word.trim_matches('\'').to_owned()).collect()
}

/// apt-get on a system where nothing is installed, with these options before the words.
fn apt(options: &[String], words: &[&str]) -> Output {
    Command::new("apt-get")
        .args(["-o", "Dir::State::status=/dev/null", "-o", "Debug::NoLocking=1"])
        .args(options)
        .args(words)
        .output()
        .expect("apt-get")
}

/// The image's own lists of packages, fetched once, for a machine that has none or those of another release.
fn own_lists() -> Vec<String> {
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bookworm");
    std::fs::create_dir_all(dir.join("lists/partial")).unwrap();
    std::fs::create_dir_all(dir.join("archives/partial")).unwrap();
    // What is only simulated need not be signed: the machine may lack Debian's keys.
    let source = "deb [trusted=yes] http://deb.debian.org/debian bookworm main\n";
    std::fs::write(dir.join("sources.list"), source).unwrap();
    let set = |name: &str, path: &Path| ["-o".to_owned(), format!("{name}={}", path.display())];
    let options = [
        set("Dir::Etc::SourceList", &dir.join("sources.list")),
        set("Dir::Etc::SourceParts", Path::new("/dev/null")),
        set("Dir::State::Lists", &dir.join("lists")),
        set("Dir::Cache", &dir),
    ]
    .concat();
    if std::fs::read_dir(dir.join("lists")).unwrap().count() < 2 {
        let fetched = apt(&options, &["update"]);
        assert!(fetched.status.success(), "{fetched:?}");
    }
    options
}

#[test]
fn the_image_has_a_redis_of_its_own_and_what_https_needs() {
    let packages = installed();
    let mut words = vec!["install", "--simulate"];
    words.extend(packages.iter().map(String::as_str));
    let mut simulated = apt(&[], &words);
    if !simulated.status.success() {
        simulated = apt(&own_lists(), &words);
    }
    let said = String::from_utf8_lossy(&simulated.stdout);
    assert!(simulated.status.success(), "{simulated:?}");
    let has = |line: &str| said.lines().any(|said| said.starts_with(line));
    assert!(has("Inst redis-server (5:7.0."), "{said}");
    // It is set up, so its last step is run: that makes the file, with openssl.
    assert!(has("Conf ca-certificates ("), "no https without authorities:\n{said}");
    assert!(has("Inst openssl ("), "{said}");
}

/// The names of dueq's settings in a text.
fn settings(text: &str) -> BTreeSet<String> {
    let word = |c: char| !c.is_ascii_uppercase() && !c.is_ascii_digit() && c != '_';
    let names = text.split(word).filter(|name| name.starts_with("DUEQ_"));
    names.map(str::to_owned).collect()
}

#[test]
fn what_is_shipped_sets_only_what_serve_takes() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).unwrap();
    let known = settings(
        &[
            "src/config.rs",
            "src/http/args.rs",
            "src/loops/callbacks/args.rs",
            "src/store/args.rs",
            "src/store/redis/redis_args.rs",
            "src/embedded/args.rs",
        ]
        .map(read)
        .concat(),
    );
    let words = "docker/Dockerfile docker/compose.yaml docker/compose.cluster.yaml docker/debian/dueq.env \
        docker/debian/dueq.service docker/k8s/dueq.yaml";
    for file in words.split(' ') {
        let set = settings(&read(file));
        assert!(!set.is_empty() && set.is_subset(&known), "{file}: {set:?}");
    }
}

#[test]
fn what_sets_up_certificates_makes_the_file_that_dueq_reads() {
    let postinst = "/var/lib/dpkg/info/ca-certificates.postinst";
    let Ok(postinst) = std::fs::read_to_string(postinst) else {
        // A machine without the package cannot tell; the other test has said that the image has it.
        return;
    };
    assert!(postinst.contains("update-ca-certificates"), "{postinst}");
    let dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("certificates");
    let _ = std::fs::remove_dir_all(&dir);
    for part in ["etc", "none"] {
        std::fs::create_dir_all(dir.join(part)).unwrap();
    }
    let made = Command::new("update-ca-certificates")
        .args(["--certsdir", "/usr/share/ca-certificates", "--etccertsdir"])
        .arg(dir.join("etc"))
        .arg("--localcertsdir")
        .arg(dir.join("none"))
        .arg("--hooksdir")
        .arg(dir.join("none"))
        .output()
        .expect("update-ca-certificates");
    assert!(made.status.success(), "{made:?}");
    let file = std::fs::read_to_string(dir.join("etc").join(CERTIFICATES)).unwrap();
    assert!(file.matches("BEGIN CERTIFICATE").count() > 50, "{} bytes", file.len());
}

#[test]
fn the_memory_of_the_kubernetes_manifest_holds_all_connections_and_requests() {
    let text = std::fs::read_to_string(root().join("docker/k8s/dueq.yaml")).unwrap();
    let after = |name: &str| text.split(name).nth(1).unwrap().trim_start();
    let number = |text: &str| -> u64 {
        let digits: String = text.chars().filter(|c| c.is_ascii_digit()).collect();
        digits.parse().unwrap()
    };
    let connections = after("DUEQ_MAX_CONNECTIONS\n").lines().next().map(number).unwrap();
    let limit = after("limits:\n").lines().next().map(number).unwrap();
    // Of a connection 30 KiB, of all requests 256 MiB, and 64 MiB for dueq itself.
    assert!(connections * 30 / 1024 + 256 + 64 <= limit, "{connections} in {limit} MiB");
}
