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

/// Cargo reads the manifest of every member of the workspace, and the guide the READMEs of the SDKs.
#[test]
fn the_image_is_built_of_all_that_the_build_reads() {
    let read = |file: &str| std::fs::read_to_string(root().join(file)).unwrap();
    let manifest = read("Cargo.toml");
    let members = manifest.split("\nmembers = [").nth(1).unwrap().split(']').next().unwrap();
    let members = members.split(", ");
    let members = members.map(|member| member.trim_matches('"'));
    let (dockerfile, ignored) = (read("docker/Dockerfile"), read("docker/Dockerfile.dockerignore"));
    for path in members.chain(["openapi/sdks/*/README.md", "migrations-lua"]) {
        let above = |known: &str| path == known || path.starts_with(&format!("{known}/"));
        let mut copied = dockerfile.lines().filter_map(|line| line.strip_prefix("COPY "));
        let mut kept = ignored.lines().filter_map(|line| line.strip_prefix('!'));
        let is_copied = copied.any(|words| words.split(' ').next().is_some_and(above));
        assert!(is_copied && kept.any(above), "{path} is not there");
    }
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
        docker/debian/dueq.service docker/k8s/dueq.yaml docker/helm/templates/deployment.yaml \
        docker/helm/templates/_helpers.tpl";
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

/// Four tarballs have a checksum each; without one of them there is no formula.
#[test]
fn the_formula_names_the_checksums_of_a_release() {
    let sums = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("SHA256SUMS");
    let formula = |targets: &[&str]| {
        let line = |(number, target): (usize, &&str)| {
            format!("{number:064}  dueq-1.2.3-{target}.tar.gz\n")
        };
        let lines: String = targets.iter().enumerate().map(line).collect();
        std::fs::write(&sums, lines + "abc  dueq_1.2.3-1_amd64.deb\n").unwrap();
        let mut command = Command::new(root().join("docker/homebrew/formula.sh"));
        command.args(["1.2.3", "https://git.example/dueq"]).arg(&sums).output().unwrap()
    };
    let targets = [
        "aarch64-apple-darwin",
        "x86_64-apple-darwin",
        "aarch64-unknown-linux-musl",
        "x86_64-unknown-linux-musl",
    ];
    let made = formula(&targets);
    assert!(made.status.success(), "{made:?}");
    let text = String::from_utf8(made.stdout).unwrap();
    let workflow = std::fs::read_to_string(root().join(".github/workflows/release.yml")).unwrap();
    for (number, target) in targets.iter().enumerate() {
        let url = "https://git.example/dueq/releases/download/v1.2.3/dueq-1.2.3-";
        let lines = format!("url \"{url}{target}.tar.gz\"\n      sha256 \"{number:064}\"\n");
        assert!(text.contains(&lines), "{lines} in {text}");
        assert!(workflow.contains(&format!("target: {target}\n")), "{target} is built");
    }
    let lacking = formula(&targets[1..]);
    assert!(String::from_utf8_lossy(&lacking.stderr).contains("aarch64-apple-darwin"));
    assert!(!lacking.status.success() && lacking.stdout.is_empty());
}
