//! Whether a server answers, by HTTP or HTTPS.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;

use super::wire::Wire;

/// Whether the server at `addr` answers this path with 200.
pub async fn is_ok(addr: &str, tls: Option<&Arc<ClientConfig>>, path: &str) -> bool {
    if let Some(tls) = tls {
        return Wire::get_tls(addr, tls, path).await.is_ok_and(|answer| answer.status == 200);
    }
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(Duration::from_secs(2))
        .build()
        .expect("an HTTP client");
    match client.get(format!("http://{addr}{path}")).send().await {
        Ok(answer) => answer.status() == 200,
        Err(_) => false,
    }
}
