//! `dueq dev`: a server to develop with. It is `dueq serve` with what a developer would have to set otherwise: callbacks may
//! reach this machine, and they are signed. It prints what to try first, and opens the dashboard.

use super::{client::table::quoted, serve};
use crate::{app::Started, config::Config};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use clap::builder::BoolishValueParser;
use dueq_base::files;
use dueq_model::{SigningSecret, TopicName, derived};
use ipnet::IpNet;
use rustix::process::geteuid;
use std::{
    env,
    fmt::Display,
    fs::DirBuilder,
    io::{self, IsTerminal as _, Write as _},
    net::{IpAddr, Ipv6Addr},
    os::unix::{
        fs::{DirBuilderExt as _, MetadataExt as _},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    thread,
};
use tokio::runtime::Handle;

/// The file in the data directory that keeps the signing secret. `dueq listen` reads it.
const SECRET_FILE: &str = "signing-secret";
/// The length of a signing secret that is made here.
const SECRET_BYTES: usize = 32;

/// Arguments of `dueq dev`.
#[derive(clap::Args)]
pub struct Args {
    /// Do not open the dashboard in a browser. Without a desktop, over SSH and in a pipe it is not opened anyway.
    #[arg(long, env = "DUEQ_NO_OPEN", value_parser = BoolishValueParser::new())]
    no_open: bool,
    #[command(flatten)]
    pub config: Config,
}

/// Runs the service until SIGTERM or Ctrl-C.
pub async fn run(Args { no_open, mut config }: Args, threads: &[Handle]) -> ExitCode {
    let loopback = [IpAddr::from([127, 0, 0, 0]), Ipv6Addr::LOCALHOST.into()];
    let networks = loopback.into_iter().zip([8, 128]);
    config
        .callbacks
        .callback_allow
        .extend(networks.filter_map(|(ip, bits)| IpNet::new(ip, bits).ok()));
    let is_given = !config.callbacks.signing_secrets.is_empty()
        || config.callbacks.signing_secret_file.is_some();
    let mut secret = None;
    if !is_given {
        match kept_secret(&config.embedded.data_dir) {
            Ok(kept) => secret = Some(kept),
            Err(error) => return super::fail(&error),
        }
        config.callbacks.signing_secret_file = Some(secret_file(&config.embedded.data_dir));
    }
    let welcome = Welcome {
        has_keys: config.http.has_keys(),
        secret_dir: secret.is_some().then(|| config.embedded.data_dir.clone()),
        secret,
    };
    let announced = move |started: &Started| {
        started.log();
        // That standard output is closed is no reason to end.
        let _ = anstream::stdout().write_all(welcome.text(started).as_bytes());
        if !no_open && has_browser() {
            open(&format!("{}/ui", started.url));
        }
    };
    serve::run(config, threads, announced).await
}

/// The file with the signing secret of the server whose data are in this directory.
pub(super) fn secret_file(data_dir: &Path) -> PathBuf {
    data_dir.join(SECRET_FILE)
}

/// Reads the signing secret of this data directory, or makes one. Only this user can read it. What the file holds is
/// checked at the start, as that of `--signing-secret-file` is.
///
/// Errors: why there is none.
fn kept_secret(data_dir: &Path) -> Result<String, String> {
    let path = secret_file(data_dir);
    let none =
        |why: &dyn Display| format!("cannot keep a signing secret in {}: {why}", path.display());
    let kept = || {
        DirBuilder::new().recursive(true).mode(0o700).create(data_dir)?;
        match path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(_) => return files::secret(&path).map_err(io::Error::other),
        }
        // In a directory of all users, another one could have prepared the file.
        if data_dir.metadata()?.uid() != geteuid().as_raw() {
            return Err(io::Error::other("the directory belongs to another user"));
        }
        let mut random = [0; SECRET_BYTES];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let secret = format!("whsec_{}", STANDARD.encode(random));
        files::write_atomically(&path, &format!("{secret}\n"))?;
        Ok(secret)
    };
    let secret = kept().map_err(|error| none(&error))?;
    SigningSecret::parse(&secret).map(|_| secret).map_err(|error| none(&error))
}

/// What is printed once the server is ready.
struct Welcome {
    has_keys: bool,
    /// The signing secret, unless it was given.
    secret: Option<String>,
    /// Where it is kept.
    secret_dir: Option<PathBuf>,
}

impl Welcome {
    fn text(&self, started: &Started) -> String {
        let (url, bold) = (&started.url, anstyle::Style::new().bold());
        let version = env!("CARGO_PKG_VERSION");
        let mut text = format!("\n{bold}dueq {version} is ready.{bold:#}\n\n");
        let signed = self.secret.as_deref().and_then(signs_callbacks);
        let more = [
            ("guide", Some(format!("{url}/guide"))),
            ("secret", self.secret.clone()),
            ("signature", signed.map(|secret| format!("checked with {secret}"))),
        ];
        let more = more.into_iter().filter_map(|(name, value)| Some((name, value?)));
        text.extend(started.rows().into_iter().chain(more).map(serve::row));
        let listen = match &self.secret_dir {
            None => "dueq listen 9123 --secret \"$DUEQ_SIGNING_SECRET\"".to_owned(),
            Some(dir) if dir == Path::new("./dueq-data") => "dueq listen 9123".to_owned(),
            Some(dir) => {
                format!("dueq listen 9123 --data-dir {}", quoted(&dir.display().to_string()))
            }
        };
        let key = if self.has_keys { "-H \"Authorization: Bearer $DUEQ_API_KEY\" " } else { "" };
        text.push_str(&format!(
            "\nReceive callbacks in a second terminal, and schedule one in a third:\n\n  \
            {bold}{listen}{bold:#}\n  \
            {bold}curl {url}/callbacks {key}--json '{{\"url\": \"http://127.0.0.1:9123/hello\", \"payload\": {{\"order\": 42}}, \
            \"delay_ms\": 5000}}'{bold:#}\n\nCtrl-C stops dueq.\n\n"
        ));
        text
    }
}

/// What receivers of callbacks check signatures with, where no API key has a name.
fn signs_callbacks(server: &str) -> Option<String> {
    let server = [SigningSecret::parse(server).ok()?];
    let secrets = derived(&server, &TopicName::callbacks(), "");
    secrets.first().map(|secret| secret.reveal().to_owned())
}

/// Whether the user sits in front of this machine's desktop.
fn has_browser() -> bool {
    let is_set = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_remote = ["SSH_CONNECTION", "SSH_CLIENT", "SSH_TTY", "CI"].iter().any(is_set);
    let has_desktop =
        cfg!(target_os = "macos") || ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(is_set);
    io::stdout().is_terminal() && !is_remote && has_desktop
}

/// Opens the URL with the desktop's browser. The browser is no part of this job: Ctrl-C does not end it. That there is none
/// is no failure.
fn open(url: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(mut child) = command.process_group(0).spawn() {
        // Reaps it at its end.
        thread::spawn(move || child.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_secret_is_made_once_for_its_user_alone() {
        let temp = tempfile::tempdir().unwrap();
        let dir = temp.path().join("a/b");
        let secret = kept_secret(&dir).unwrap();
        assert!(SigningSecret::parse(&secret).is_ok());
        assert_eq!(kept_secret(&dir).unwrap(), secret);
        assert_eq!(dir.metadata().unwrap().mode() & 0o777, 0o700);
        assert_ne!(kept_secret(&temp.path().join("c")).unwrap(), secret);
        fs::write(secret_file(&dir), "whsec_short\n").unwrap();
        let error = kept_secret(&dir).unwrap_err().to_string();
        assert!(error.contains("signing-secret: must be whsec_"), "{error}");
        assert!(!error.contains("short"), "{error}");
        assert!(kept_secret(Path::new("/dev/null/x")).is_err());
    }

    #[test]
    fn the_commands_to_try_fit_how_the_server_was_started() {
        let welcome = |dir: &str, secret: Option<&str>, has_keys| {
            let secret = secret.map(str::to_owned);
            let secret_dir = secret.is_some().then(|| dir.into());
            let started = Started {
                url: "http://127.0.0.1:8080".to_owned(),
                data: dir.to_owned(),
                keys: "on",
                signing: "on (hmac)".to_owned(),
                callbacks: "to public addresses".to_owned(),
            };
            Welcome { has_keys, secret, secret_dir }.text(&started)
        };
        let text = welcome("./dueq-data", Some("whsec_x"), false);
        for part in ["http://127.0.0.1:8080/ui\n", "dueq listen 9123\u{1b}", "whsec_x\n"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("Bearer") && !text.contains("--data-dir"), "{text}");
        let text = welcome("/a b's", Some("whsec_x"), true);
        assert!(text.contains(r"--data-dir '/a b'\''s'") && text.contains("Bearer"), "{text}");
        let text = welcome("d", None, false);
        assert!(text.contains("--secret \"$DUEQ_SIGNING_SECRET\"") && !text.contains("whsec_"));
    }
}
