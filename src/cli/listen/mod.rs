//! `dueq listen`: a receiver of callbacks for developers. It verifies their signatures as a receiver of one's own should,
//! prints each call, and answers as its options say, so that one can watch retries and dead letters.

mod answers;
mod json;
mod secrets;
mod server;
mod show;

use super::signals;
use answers::Answers;
use dueq_http::server::listen;
use dueq_model::Secret;
use secrets::Secrets;
use server::Receiver;
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
};
use tokio_util::sync::CancellationToken;

/// Arguments of `dueq listen`.
#[derive(clap::Args)]
pub struct Args {
    /// Port to listen on, on 127.0.0.1, or address and port; port 0 picks a free one.
    #[arg(value_name = "PORT|ADDR:PORT", default_value = "9123", value_parser = address)]
    address: SocketAddr,
    /// Secret that signs the calls, or that the server derives it of, as whsec_…, or a public key, as whpk_…, repeatable. By
    /// default the secret of `dueq dev` in --data-dir.
    #[arg(
        long = "secret",
        env = "DUEQ_SIGNING_SECRET",
        value_name = "SECRET",
        value_delimiter = ',',
        hide_env_values = true
    )]
    secrets: Vec<Secret>,
    /// Name of the API key that schedules the callbacks, if it has one.
    #[arg(long, value_name = "NAME", default_value = "", hide_default_value = true)]
    for_key: String,
    /// Data directory of the `dueq dev` whose secret is taken.
    #[arg(long, env = "DUEQ_DATA_DIR", value_name = "DIR", default_value = "./dueq-data")]
    data_dir: PathBuf,
    #[command(flatten)]
    answers: answers::AnswerArgs,
}

/// Parses a port, or an address and a port.
fn address(text: &str) -> Result<SocketAddr, &'static str> {
    let text = text.strip_prefix("localhost:").unwrap_or(text);
    let at_port = || text.parse().map(|port| (Ipv4Addr::LOCALHOST, port).into());
    text.parse().or_else(|_| at_port()).map_err(
        |_| "expected a port such as 9123, or an address and a port such as 127.0.0.1:9123",
    )
}

/// Receives calls until SIGTERM or Ctrl-C. Exit code 2 if it cannot begin.
pub async fn run(args: Args) -> ExitCode {
    match receive(args).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => super::fail(&reason),
    }
}

/// Errors: why it cannot begin.
async fn receive(args: Args) -> Result<(), String> {
    let Args { address, secrets, for_key, data_dir, answers } = args;
    let secrets = Secrets::new(&secrets, for_key, &data_dir)?;
    let answers = Answers::new(answers)?;
    let bound = listen(address).and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (bound, listener) = bound.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "cannot listen on {address}: another program does; name another port, such as `dueq listen {}`",
            address.port().checked_add(1).unwrap_or(9123)
        ),
        _ => format!("cannot listen on {address}: {error}"),
    })?;
    let stop = signals::stop().map_err(|error| error.to_string())?;
    let checks = secrets.about();
    let receiver = Arc::new(Receiver { secrets, answers, stopping: CancellationToken::new() });
    receiver.say(&format!("listening on http://{bound}, {checks}; Ctrl-C stops\n"));
    server::serve(listener, receiver, stop).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_port_or_has_one() {
        for (text, is) in [
            ("9123", "127.0.0.1:9123"),
            ("0", "127.0.0.1:0"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("[::1]:9123", "[::1]:9123"),
            ("localhost:9123", "127.0.0.1:9123"),
        ] {
            assert_eq!(address(text).unwrap().to_string(), is);
        }
        for bad in
            ["", "65536", "-1", "127.0.0.1", "localhost", "http://127.0.0.1:9123", "a:1", ":9123"]
        {
            assert!(address(bad).is_err(), "{bad}");
        }
    }
}
