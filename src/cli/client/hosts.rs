//! `dueq hosts`: the hosts that callbacks go to, and how they do.

use super::{
    api::path,
    context::Context,
    durations::exact,
    failure::Failure,
    object::Object,
    table::{clean, list},
    view::{numbered, shortened},
};
use clap::{Args, Subcommand};

/// Arguments of `dueq hosts`.
#[derive(Args)]
pub struct Hosts {
    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Subcommand)]
enum Action {
    /// List the hosts.
    List,
    /// Pause a host: no call to it begins, in any topic.
    Pause(Host),
    /// Resume a paused host.
    Resume(Host),
}

#[derive(Args)]
struct Host {
    /// The host as listed, such as example.com:443.
    host: String,
}

impl Hosts {
    pub async fn run(self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let (Host { host }, verb, state) = match self.action {
            None | Some(Action::List) => return cx.list("/callbacks/hosts", &[], table).await,
            Some(Action::Pause(host)) => (host, "pause", "paused"),
            Some(Action::Resume(host)) => (host, "resume", "not paused"),
        };
        let answer = cx.client.act(&path(&["callbacks", "hosts", &host, verb])).await?;
        cx.done(&answer, &format!("{host} is {state}"))
    }
}

fn table(hosts: &[Object]) -> String {
    let row = |host: &Object| {
        let outcomes = numbered(&host.object("outcomes"), |name, count| format!("{count} {name}"));
        vec![
            host.text("host"),
            if host.get("paused") == Some(true) { "paused" } else { "" }.to_owned(),
            host.number("in_flight").to_string(),
            host.number("waiting").to_string(),
            outcomes,
            host.get("p99_ms").map(exact).unwrap_or_default(),
            shortened(&clean(&host.text("last_error"))),
        ]
    };
    let head = ["host", "", "in flight", "waiting", "last 5 min", "p99", "last error"];
    let right = ["in flight", "waiting", "p99"];
    list("hosts", &head, &right, hosts, row)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{asked, ok, unparsed};

    #[tokio::test]
    async fn hosts_are_a_table() {
        let page = ok(
            r#"{"items":[{"host":"a:443","paused":true,"in_flight":2,"waiting":30,"p99_ms":1500,
                "outcomes":{"delivered":7,"failed":1,"dead":0},"last_error":"answered 503"},{"host":"b:80"}]}"#,
        );
        let sent = asked(&["hosts"], &page).await;
        assert_eq!(sent.lines(), ("GET /callbacks/hosts?limit=1000", ""));
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = sent.shown.lines().map(words).collect();
        assert_eq!(
            lines,
            [
                "HOST IN FLIGHT WAITING LAST 5 MIN P99 LAST ERROR",
                "a:443 paused 2 30 7 delivered, 1 failed 1s 500ms answered 503",
                "b:80 0 0",
            ]
        );
    }

    #[tokio::test]
    async fn a_host_is_paused_and_resumed() {
        let answer = ok(r#"{"host":"[::1]:80","paused":true}"#);
        let sent = asked(&["hosts", "pause", "[::1]:80"], &answer).await;
        assert_eq!(sent.lines(), ("POST /callbacks/hosts/%5B%3A%3A1%5D%3A80/pause", "{}"));
        assert_eq!(sent.shown, "[::1]:80 is paused\n");
        let sent = asked(&["hosts", "resume", "a"], &answer).await;
        assert_eq!(
            (&*sent.head, &*sent.shown),
            ("POST /callbacks/hosts/a/resume", "a is not paused\n")
        );
        assert!(unparsed(&["hosts", "pause"]) && unparsed(&["hosts", "stop", "a"]));
    }
}
