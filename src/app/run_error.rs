//! Why `dueq serve` does not run. Each message is one line, for whoever starts it.

use crate::embedded::StartError;
use dueq_base::{files::FileError, tls::TlsError, traces::TracesError};
use dueq_http::access::AccessError;
use dueq_store::ConnectError;
use std::{io, net::SocketAddr, path::PathBuf};

/// The reason why the service could not start. Each message is one line.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The access settings are invalid: keys, hosts or the listen address.
    #[error(transparent)]
    Access(#[from] AccessError),
    /// The time zone database cannot be used.
    #[error("--tzdata-dir: {0}")]
    Tzdata(io::Error),
    /// The service cannot listen on the address.
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, io::Error),
    /// The embedded Redis does not start.
    #[error(transparent)]
    Embedded(#[from] StartError),
    /// The supervisor of the embedded Redis has ended: a defect. A restart of dueq recovers.
    #[error("the supervisor of the embedded Redis has ended")]
    Lost,
    /// Redis cannot be used.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The address file cannot be written.
    #[error("cannot write the address to {path}: {source}")]
    AddrFile {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A signing secret is invalid.
    #[error("{0}")]
    SigningSecret(String),
    /// The file of signing secrets cannot be used.
    #[error("--signing-secret-file: {0}")]
    SigningSecretFile(#[from] FileError),
    /// HTTPS callbacks cannot be made: a defect.
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
    /// A certificate or key of the listener cannot be used.
    #[error("HTTPS: {0}")]
    Https(#[from] TlsError),
    /// The exporter of traces cannot be set up.
    #[error(transparent)]
    Traces(#[from] TracesError),
    /// The OpenAPI document cannot be serialized: a defect.
    #[error("the OpenAPI document cannot be written: {0}")]
    Document(#[from] serde_json::Error),
}
