//! When a certificate ends. rustls tells it only of one that it refuses, so it is asked about the end of time.

use super::TlsError;
use chrono::{DateTime, SecondsFormat};
use rustls::{
    CertificateError,
    Error::InvalidCertificate,
    RootCertStore,
    client::verify_server_cert_signed_by_trust_anchor,
    crypto::ring,
    pki_types::{CertificateDer, UnixTime},
    server::ParsedCertificate,
};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// A certificate in use, and when it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// What it is to dueq, as words in a sentence.
    pub what: &'static str,
    /// The file.
    pub path: PathBuf,
    /// The last second that it is valid in.
    pub not_after: UnixTime,
}

impl Expiry {
    /// How long it is still valid; `None` if it has expired.
    pub fn left(&self, now: UnixTime) -> Option<Duration> {
        self.not_after.as_secs().checked_sub(now.as_secs()).map(Duration::from_secs)
    }
}

/// When a certificate ends that is valid now.
///
/// Errors: it has expired or is not yet valid.
pub(super) fn not_after(
    certificate: &CertificateDer<'_>,
    path: &Path,
) -> Result<UnixTime, TlsError> {
    let parsed = ParsedCertificate::try_from(certificate)?;
    let algorithms = ring::default_provider().signature_verification_algorithms.all;
    let roots = RootCertStore::empty();
    // A verification against no authority looks at the times first.
    let verify =
        |now| verify_server_cert_signed_by_trust_anchor(&parsed, &roots, &[], now, algorithms);
    let path = path.to_owned();
    match verify(UnixTime::now()) {
        Err(InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            return Err(TlsError::Expired { path, at: instant(not_after) });
        }
        Err(InvalidCertificate(CertificateError::NotValidYetContext { not_before, .. })) => {
            return Err(TlsError::NotYetValid { path, at: instant(not_before) });
        }
        _ => {}
    }
    match verify(UnixTime::since_unix_epoch(Duration::MAX)) {
        Err(InvalidCertificate(CertificateError::ExpiredContext { not_after, .. })) => {
            Ok(not_after)
        }
        _ => Err(TlsError::Bad { path, reason: "its end cannot be read".to_owned() }),
    }
}

/// What to do about a server's certificate that is an authority's.
pub(super) const AUTHORITY_ADVICE: &str = "make the server's with -addext basicConstraints=critical,CA:FALSE, or have an authority sign it";

/// Warns of a server's certificate that is an authority's (CA:TRUE).
pub(super) fn warn_of_authority(certificate: &CertificateDer<'_>, what: &str, path: &Path) {
    let Ok(parsed) = ParsedCertificate::try_from(certificate) else { return };
    let algorithms = ring::default_provider().signature_verification_algorithms.all;
    let (roots, now) = (RootCertStore::empty(), UnixTime::now());
    let verified = verify_server_cert_signed_by_trust_anchor(&parsed, &roots, &[], now, algorithms);
    if verified.is_err_and(|error| is_of_authority(&error)) {
        let path = path.display();
        tracing::warn!(
            "{what} in {path} is an authority's, which dueq and other clients refuse: {AUTHORITY_ADVICE}"
        );
    }
}

/// Was a certificate refused for being an authority's? The error that says so is of a crate inside of rustls.
pub(super) fn is_of_authority(error: &rustls::Error) -> bool {
    error.to_string().contains("CaUsedAsEndEntity")
}

/// As RFC 3339.
pub fn instant(time: UnixTime) -> String {
    let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    let instant = DateTime::from_timestamp(seconds, 0);
    instant.map_or_else(String::new, |at| at.to_rfc3339_opts(SecondsFormat::Secs, true))
}
