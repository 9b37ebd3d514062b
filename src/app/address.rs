//! The address at which dueq serves: in the log, and in a file for whoever waits for it.

use super::RunError;
use crate::config::Config;
use dueq_base::files::write_atomically;
use std::net::SocketAddr;
use tokio::net::TcpListener;

/// Logs the bound address, writes it to the address file, and returns it.
pub(super) fn announce(config: &Config, listener: &TcpListener) -> Result<SocketAddr, RunError> {
    let bound =
        listener.local_addr().map_err(|error| RunError::Listen(config.http.listen, error))?;
    let scheme = if config.http.tls_cert.is_some() { "https" } else { "http" };
    tracing::info!("serving {scheme}://{bound}");
    if let Some(path) = &config.addr_file {
        write_atomically(path, &bound.to_string())
            .map_err(|source| RunError::AddrFile { path: path.clone(), source })?;
    }
    Ok(bound)
}
