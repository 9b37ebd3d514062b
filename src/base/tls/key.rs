//! The private key of a certificate, and in words why it cannot be used.

use super::{Identity, TlsError};
use memchr::memmem;
use rustls::pki_types::{
    PrivateKeyDer,
    pem::{self, PemObject as _},
};
use std::path::Path;

/// The key in the text of the file at this path.
///
/// Errors: there is none, it is damaged, or it is encrypted.
pub(super) fn parse(text: &[u8], path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let bad = |reason: String| TlsError::Bad { path: path.to_owned(), reason };
    // The older form says so in a header, which is no base64.
    let is_encrypted = memmem::find(text, b"ENCRYPTED").is_some();
    PrivateKeyDer::from_pem_slice(text).map_err(|error| match error {
        pem::Error::NoItemsFound => TlsError::NoKey(path.to_owned()),
        _ if is_encrypted => bad("it is encrypted".to_owned()),
        error => bad(error.to_string()),
    })
}

/// Why the key of a certificate was refused.
pub(super) fn refusal(error: &rustls::Error, Identity { cert, key }: &Identity) -> TlsError {
    let (cert, key) = (cert.clone(), key.clone());
    match error {
        rustls::Error::InconsistentKeys(_) => TlsError::Mismatch { cert, key },
        error => {
            let reason = format!("{error}; an RSA key needs 2048 bits");
            TlsError::Bad { path: key, reason }
        }
    }
}
