//! `dueq healthcheck`: asks a server whether it is ready, for container health checks in images that have no curl.

use super::{context::Context, failure::Failure};
use std::time::Duration;
use tokio::time::timeout;

/// Time-out of the whole exchange.
const TIMEOUT: Duration = Duration::from_secs(5);

pub async fn run(cx: &mut Context<'_>) -> Result<(), Failure> {
    let late = |_| {
        let (server, limit) = (cx.client.server(), TIMEOUT.as_secs());
        Failure::Unreachable(format!("{server}: no answer within {limit} s"))
    };
    let answer = timeout(TIMEOUT, cx.client.get("/readyz")).await.map_err(late)??;
    cx.done(&answer, "ready")
}

#[cfg(test)]
mod tests {
    use super::super::testing::{answer, asked, ok, tried};

    #[tokio::test]
    async fn a_ready_server_is_healthy() {
        let sent = asked(&["healthcheck"], ok("{}")).await;
        assert_eq!((sent.lines(), &*sent.shown), (("GET /readyz", ""), "ready\n"));
    }

    #[tokio::test]
    async fn a_server_that_is_not_ready_says_why() {
        let body = r#"{"detail":"loading","code":"not_ready"}"#;
        let unready = answer("503 Service Unavailable", body);
        let (outcome, _) = tried(&["healthcheck"], &[unready]).await;
        assert_eq!(outcome.unwrap_err().message(), "loading (503 not_ready)");
    }
}
