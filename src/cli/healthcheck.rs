//! `dueq healthcheck`: asks a server whether it is ready, for container health checks in images that have no curl.

use bytes::Bytes;
use clap::Args as ClapArgs;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Empty};
use hyper_util::rt::TokioIo;
use std::{process::ExitCode, time::Duration};
use tokio::{net::TcpStream, time::timeout};

/// Time-out of the whole exchange.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Arguments of `dueq healthcheck`.
#[derive(ClapArgs, Clone, Debug)]
pub struct Args {
    /// The server to use.
    #[arg(long, env = "DUEQ_SERVER", value_name = "URL", default_value = "http://127.0.0.1:8080")]
    server: String,
}

/// Exit code 0 when the server is ready; otherwise 1, and the reason on stderr.
pub async fn run(args: Args) -> ExitCode {
    let outcome = timeout(TIMEOUT, ask(&args.server)).await;
    match outcome.unwrap_or_else(|_| Err(format!("no answer within {} s", TIMEOUT.as_secs()))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("dueq: {} is not ready: {reason}", args.server);
            ExitCode::FAILURE
        }
    }
}

async fn ask(server: &str) -> Result<(), String> {
    let uri: Uri = format!("{}/readyz", server.trim_end_matches('/'))
        .parse()
        .map_err(|error| format!("{error}"))?;
    let (Some("http"), Some(host)) = (uri.scheme_str(), uri.host()) else {
        return Err("must be a URL such as http://127.0.0.1:8080".to_owned());
    };
    let address = format!("{host}:{}", uri.port_u16().unwrap_or(80));
    let stream = TcpStream::connect(&address).await.map_err(|error| error.to_string())?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|error| error.to_string())?;
    tokio::spawn(connection);
    let request = Request::get(uri.path())
        .header(header::HOST, address)
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let status = response.status();
    let body = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
    if status == StatusCode::OK { Ok(()) } else { Err(reason(status, &body)) }
}

/// The problem's detail, or the status if there is none.
fn reason(status: StatusCode, body: &[u8]) -> String {
    let problem: Option<serde_json::Value> = serde_json::from_slice(body).ok();
    let detail = problem
        .as_ref()
        .and_then(|problem| problem.get("detail"))
        .and_then(serde_json::Value::as_str);
    detail.map_or_else(|| format!("it answered {status}"), |detail| format!("{detail} ({status})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// Starts a server that answers one request with `answer`.
    async fn serving(answer: &'static str) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            let length = stream.read(&mut request).await.unwrap();
            assert!(request[..length].starts_with(b"GET /readyz HTTP/1.1\r\n"));
            stream.write_all(answer.as_bytes()).await.unwrap();
        });
        url
    }

    #[tokio::test]
    async fn a_ready_server_is_healthy() {
        let url = serving("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
        assert_eq!(ask(&url).await, Ok(()));
    }

    #[tokio::test]
    async fn a_server_that_is_not_ready_says_why() {
        let url = serving("HTTP/1.1 503 Service Unavailable\r\ncontent-length: 20\r\n\r\n{\"detail\":\"loading\"}").await;
        assert_eq!(ask(&url).await, Err("loading (503 Service Unavailable)".to_owned()));
    }

    #[tokio::test]
    async fn an_invalid_url_is_refused() {
        for server in ["https://127.0.0.1:1", "127.0.0.1:1", "", "http://"] {
            assert!(ask(server).await.is_err(), "{server}");
        }
    }
}
