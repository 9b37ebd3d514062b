//! What files hold that the configuration names, as it is read at the start and whenever they change.

use super::RunError;
use crate::config::Config;
use dueq_base::{
    files::{self, FileError},
    metrics::Certificates,
    tls::{self, TlsError},
};
use dueq_model::{MAX_SECRETS, Secret, SigningSecret};
use rustls::ServerConfig;
use std::{fmt::Display, sync::Arc};

/// The warning at the start with `--shared-signing`.
pub const SHARED_SIGNING: &str = "--shared-signing: one secret signs the calls of all topics and API keys, so a key that may \
    publish callbacks can have any body signed for the receivers of others; the next version no longer does that";

/// The secrets that sign callbacks. Errors: too many secrets, or an invalid one; the message does not quote it.
pub fn signing_secrets(config: &Config) -> Result<Arc<[SigningSecret]>, RunError> {
    let wrong = |place: &str, reason: &dyn Display| RunError::from(format!("{place}: {reason}"));
    let parse = |place: &str, given: &mut dyn Iterator<Item = &str>| {
        let parsed: Result<Arc<[SigningSecret]>, _> = given.map(SigningSecret::parse).collect();
        match parsed.map_err(|error| wrong(place, &error))? {
            secrets if secrets.len() > MAX_SECRETS => {
                Err(wrong(place, &format_args!("at most {MAX_SECRETS} are allowed")))
            }
            secrets => Ok(secrets),
        }
    };
    let Some(path) = &config.callbacks.signing_secret_file else {
        return parse(
            "--signing-secret",
            &mut config.callbacks.signing_secrets.iter().map(Secret::reveal),
        );
    };
    let read = files::secret_text(path, |text| {
        let lines = text.lines().map(str::trim);
        let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).peekable();
        match lines.peek() {
            None => Err(FileError::Empty(path.clone()).into()),
            Some(_) => parse(&path.display().to_string(), &mut lines),
        }
    });
    read.map_err(|error: RunError| match error.is::<FileError>() {
        true => wrong("--signing-secret-file", &error),
        false => error,
    })
}

/// The TLS configuration of the listener, if it has a certificate, which is noted as in use.
pub fn listener_tls(
    config: &Config,
    certificates: &Certificates,
) -> Result<Option<Arc<ServerConfig>>, TlsError> {
    let Some(identity) = config.http.identity() else { return Ok(None) };
    let (tls, expiry) = tls::listener(&identity, config.http.tls_client_ca.as_deref())?;
    certificates.uses(Some(expiry));
    Ok(Some(Arc::new(tls)))
}
