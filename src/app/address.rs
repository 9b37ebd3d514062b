//! The address at which dueq serves: in the log, and in a file for whoever waits for it.

use super::RunError;
use crate::config::Config;
use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::Path,
};
use tokio::net::TcpListener;

/// Logs the bound address, and writes it to the address file.
pub(super) fn announce(config: &Config, listener: &TcpListener) -> Result<(), RunError> {
    let bound = listener.local_addr().map_err(|error| RunError::Listen(config.listen, error))?;
    let scheme = if config.tls_cert.is_some() { "https" } else { "http" };
    tracing::info!("serving {scheme}://{bound}");
    if let Some(path) = &config.addr_file {
        write_atomically(path, &bound.to_string())
            .map_err(|source| RunError::AddrFile { path: path.clone(), source })?;
    }
    Ok(())
}

/// Writes a file atomically: a process that waits for it never sees half of it. A symbolic link at `path`, or at the
/// partial file's path, is replaced; its target is not touched.
fn write_atomically(path: &Path, text: &str) -> io::Result<()> {
    let mut partial = path.to_owned().into_os_string();
    partial.push(".partial");
    match fs::remove_file(&partial) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = File::create_new(&partial)?;
    file.write_all(text.as_bytes())?;
    fs::rename(&partial, path)
}
