//! How the help is laid out: commands and options under headings, and with `-h` only those that matter first. Clap has
//! headings for options only, so the commands are listed here.

use anstyle::{AnsiColor, Style};
use clap::Command;

/// The commands by what they are for.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Server", &["serve", "dev", "listen", "doctor", "healthcheck", "keys"]),
    (
        "Messages",
        &[
            "publish", "callback", "lease", "ack", "nack", "get", "update", "delete", "messages",
            "search", "tail",
        ],
    ),
    (
        "Topics, schedules, hosts",
        &[
            "topics",
            "topic",
            "groups",
            "pause",
            "resume",
            "run",
            "purge",
            "schedules",
            "apply",
            "hosts",
            "top",
        ],
    ),
    ("Failures", &["dead", "redrive"]),
    ("Data", &["backup", "dump", "load", "audit", "migrate"]),
    ("Tools", &["mcp", "bench", "openapi", "completions"]),
];
/// Those that `-h` shows.
const FIRST: [&str; 10] = [
    "dev",
    "listen",
    "serve",
    "publish",
    "callback",
    "topics",
    "search",
    "redrive",
    "schedules",
    "doctor",
];
/// The options of a server that `-h` shows, and those that only one command has.
const FIRST_OPTIONS: [&str; 12] = [
    "json",
    "no_open",
    "listen",
    "api_key_file",
    "tls_cert",
    "tls_key",
    "public_url",
    "callback_allow",
    "signing_secret_file",
    "redis_url",
    "data_dir",
    "fsync",
];
const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}{after-help}\n";
const HEADING: Style = Style::new().bold().underline();
const NAME: Style = AnsiColor::Cyan.on_default();

/// The command with its help laid out.
pub fn arranged(dueq: Command) -> Command {
    let all = GROUPS.iter().map(|(title, names)| section(&dueq, title, names)).collect::<String>();
    let options = format!(
        "{HEADING}Options:{HEADING:#}\n  -h, --help     Print help: -h the ten commands to begin with, --help all\n  \
        -V, --version  Print version\n\ndueq COMMAND -h shows the options of a command that matter first, dueq COMMAND --help all."
    );
    let first = section(&dueq, "Commands to begin with", &FIRST);
    let dueq = dueq.help_template(TEMPLATE);
    let dueq = dueq.after_help(format!("{first}{options}"));
    let dueq = dueq.after_long_help(format!("{all}{options}"));
    let hides_rest = |server: Command| {
        server.mut_args(|arg| {
            let is_first = FIRST_OPTIONS.contains(&arg.get_id().as_str());
            arg.hide_short_help(!is_first)
        })
    };
    ["serve", "dev", "doctor"]
        .into_iter()
        .fold(dueq, |dueq, name| dueq.mut_subcommand(name, hides_rest))
}

/// A heading, and a line for each command: its name, and the first clause of what it does.
fn section(dueq: &Command, title: &str, names: &[&str]) -> String {
    let line = |name: &&str| {
        let about = dueq.find_subcommand(name).and_then(Command::get_about);
        let about = about.map(ToString::to_string).unwrap_or_default();
        let clause = about.split([':', ';']).next().unwrap_or_default().trim_end_matches('.');
        format!("  {NAME}{name:<12}{NAME:#} {clause}\n")
    };
    let lines: String = names.iter().map(line).collect();
    format!("{HEADING}{title}:{HEADING:#}\n{lines}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory as _;

    #[test]
    fn every_command_is_listed_once_and_the_first_options_are_there() {
        let dueq = Cli::command();
        let shown = dueq.get_subcommands().filter(|it| !it.is_hide_set()).map(Command::get_name);
        let (mut shown, mut listed): (Vec<_>, Vec<_>) =
            (shown.collect(), GROUPS.iter().flat_map(|(_, names)| *names).copied().collect());
        shown.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, shown);
        assert!(FIRST.iter().all(|name| listed.contains(name)));
        let servers = ["serve", "dev", "doctor"].map(|name| dueq.find_subcommand(name).unwrap());
        let known = |id: &&str| {
            servers.iter().any(|server| server.get_arguments().any(|arg| arg.get_id() == id))
        };
        assert!(FIRST_OPTIONS.iter().all(known));
    }
}
