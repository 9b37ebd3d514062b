//! TLS towards anyone: servers are known by the system's root certificates.

use hyper_rustls::ConfigBuilderExt as _;
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use std::sync::Arc;

/// For a client that reaches whatever it is told to. A system without root certificates can still be reached by http.
///
/// Errors: TLS cannot be set up.
pub fn to_anyone() -> Result<ClientConfig, rustls::Error> {
    let config = || {
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
    };
    let config = match config()?.with_native_roots() {
        Ok(config) => config,
        Err(error) => {
            tracing::warn!(%error, "no root certificates: requests by https will fail");
            config()?.with_root_certificates(RootCertStore::empty())
        }
    };
    Ok(config.with_no_client_auth())
}
