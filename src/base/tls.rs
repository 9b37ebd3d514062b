//! Certificates and keys from files, for the listener, for Redis and for the client commands, and in words why a TLS
//! connection failed. rustls with ring: TLS 1.2 and 1.3.

mod expiry;

use expiry::AUTHORITY_ADVICE;
pub use expiry::{Expiry, instant};

use crate::files::{self, Content, FileError};
use hyper_rustls::ConfigBuilderExt as _;
use memchr::memmem;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ConfigBuilder, InvalidMessage, RootCertStore,
    ServerConfig, WantsVerifier,
    client::WantsClientCert,
    crypto::{CryptoProvider, ring},
    pki_types::{
        CertificateDer, PrivateKeyDer,
        pem::{self, PemObject as _},
    },
    server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier},
};
use std::{
    error::Error,
    fmt, io, iter,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Certificates or keys that cannot be used. Each message is one line and names the file.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file holds no certificate.
    #[error("no certificate in {0}: expected PEM, -----BEGIN CERTIFICATE-----")]
    NoCertificate(PathBuf),
    /// A file holds no private key.
    #[error("no private key in {0}: expected PEM, -----BEGIN PRIVATE KEY-----, not encrypted")]
    NoKey(PathBuf),
    /// The content of a file is damaged, or of a kind that is not supported.
    #[error("{path} cannot be used: {reason}")]
    Bad {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The key belongs to another certificate.
    #[error("the key in {key} is not that of the certificate in {cert}")]
    Mismatch {
        /// The file of the certificate.
        cert: PathBuf,
        /// The file of the key.
        key: PathBuf,
    },
    /// The certificate has expired.
    #[error("the certificate in {path} expired at {at}")]
    Expired {
        /// The file.
        path: PathBuf,
        /// When, as RFC 3339.
        at: String,
    },
    /// The certificate is not yet valid.
    #[error("the certificate in {path} is not valid before {at}")]
    NotYetValid {
        /// The file.
        path: PathBuf,
        /// From when on it is, as RFC 3339.
        at: String,
    },
    /// TLS cannot be set up: a defect.
    #[error("TLS cannot be set up: {0}")]
    Setup(#[from] rustls::Error),
}

/// A certificate with its key, as they were read.
pub struct Certified {
    /// The certificate, followed by those of intermediate authorities.
    pub chain: Vec<CertificateDer<'static>>,
    /// Its private key.
    pub key: PrivateKeyDer<'static>,
    /// Until when the certificate is valid.
    pub expiry: Expiry,
    /// The files of the certificate and of the key, as PEM.
    pub pem: [Vec<u8>; 2],
}

/// A certificate with its key, in files.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate, followed by those of intermediate authorities, as PEM.
    pub cert: PathBuf,
    /// Its private key, as PEM.
    pub key: PathBuf,
}

impl Identity {
    /// Reads both files. `what` the certificate is to dueq, as words in a sentence.
    ///
    /// Errors: [`TlsError`], also if the certificate has expired, is not yet valid, or has another key.
    pub fn read(&self, what: &'static str) -> Result<Certified, TlsError> {
        let cert_pem = files::read(&self.cert)?;
        let chain = certificates(&self.cert, &cert_pem)?;
        let not_after = expiry::not_after(&chain[0], &self.cert)?;
        let content = Content::read(&self.key)?;
        let key = parse_key(&content.bytes, &self.key)?;
        let certified = rustls::sign::CertifiedKey::from_der(
            chain.clone(),
            key.clone_key(),
            &ring::default_provider(),
        );
        match certified {
            Ok(_) => {
                content.warn_if_public(&self.key);
                expiry::warn_of_authority(&chain[0], what, &self.cert);
                let expiry = Expiry { what, path: self.cert.clone(), not_after };
                Ok(Certified { chain, key, expiry, pem: [cert_pem, content.bytes] })
            }
            Err(error) => Err(refusal(&error, self)),
        }
    }
}

/// The key in the text of the file at this path.
///
/// Errors: there is none, it is damaged, or it is encrypted.
fn parse_key(text: &[u8], path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
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
fn refusal(error: &rustls::Error, Identity { cert, key }: &Identity) -> TlsError {
    let (cert, key) = (cert.clone(), key.clone());
    match error {
        rustls::Error::InconsistentKeys(_) => TlsError::Mismatch { cert, key },
        error => {
            let reason = format!("{error}; an RSA key needs 2048 bits");
            TlsError::Bad { path: key, reason }
        }
    }
}

/// The certificates in the file at this path, at least one. `pem` is what it holds.
fn certificates(path: &Path, pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let bad = |reason: String| TlsError::Bad { path: path.to_owned(), reason };
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let chain = read.map_err(|error| bad(error.to_string()))?;
    for certificate in &chain {
        ParsedCertificate::try_from(certificate).map_err(|error| bad(error.to_string()))?;
    }
    if chain.is_empty() { Err(TlsError::NoCertificate(path.to_owned())) } else { Ok(chain) }
}

/// The certificate authorities in a file, and what it holds, as PEM.
///
/// Errors: [`TlsError`] if there are none, or they cannot be read.
pub fn authorities(path: &Path) -> Result<(RootCertStore, Vec<u8>), TlsError> {
    let mut roots = RootCertStore::empty();
    let pem = files::read(path)?;
    for certificate in certificates(path, &pem)? {
        roots
            .add(certificate)
            .map_err(|error| TlsError::Bad { path: path.to_owned(), reason: error.to_string() })?;
    }
    Ok((roots, pem))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// The beginning of every client's configuration.
///
/// Errors: a defect.
pub fn client() -> Result<ConfigBuilder<ClientConfig, WantsVerifier>, rustls::Error> {
    ClientConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()
}

/// For a client that may be sent anywhere: servers are known by the system's root certificates. A system without any can
/// still reach others by http.
///
/// Errors: TLS cannot be set up.
pub fn to_anyone() -> Result<ClientConfig, rustls::Error> {
    Ok(any_server()?.with_no_client_auth())
}

/// The same with a client certificate. Also returns when the certificate ends.
///
/// Errors: [`TlsError`].
pub fn to_anyone_as(identity: &Identity) -> Result<(ClientConfig, Expiry), TlsError> {
    let Certified { chain, key, expiry, .. } =
        identity.read("a client certificate of callbacks")?;
    Ok((any_server()?.with_client_auth_cert(chain, key)?, expiry))
}

fn any_server() -> Result<ConfigBuilder<ClientConfig, WantsClientCert>, rustls::Error> {
    match client()?.with_native_roots() {
        Ok(config) => Ok(config),
        Err(error) => {
            tracing::warn!(%error, "no root certificates: requests by https will fail");
            Ok(client()?.with_root_certificates(RootCertStore::empty()))
        }
    }
}

/// The configuration of a listener: HTTP/1.1 under this certificate. With authorities in `client_ca`, every client must
/// have a certificate of one of them. Also returns when the certificate ends.
///
/// Errors: [`TlsError`].
pub fn listener(
    identity: &Identity,
    client_ca: Option<&Path>,
) -> Result<(ServerConfig, Expiry), TlsError> {
    let Certified { chain, key, expiry, .. } = identity.read("the server's certificate")?;
    let builder =
        ServerConfig::builder_with_provider(provider()).with_safe_default_protocol_versions()?;
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(authorities(path)?.0);
            let verifier =
                WebPkiClientVerifier::builder_with_provider(roots, provider()).build().map_err(
                    |error| TlsError::Bad { path: path.to_owned(), reason: error.to_string() },
                )?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    if client_ca.is_some() {
        // A session that is resumed asks for no certificate, which may have expired meanwhile.
        config.send_tls13_tickets = 0;
    } else {
        // Clients that come back spare both sides a full handshake, and the server keeps nothing for them.
        config.ticketer = ring::Ticketer::new()?;
    }
    Ok((config, expiry))
}

/// Why a TLS connection to a server failed, as far as there is advice.
#[derive(Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nobody who is trusted signed the server's certificate.
    UnknownAuthority,
    /// The server's certificate is for other names: the wanted one, and those it has.
    WrongName(String, Vec<String>),
    /// The server does not speak TLS.
    NoTls,
    /// The server wants a certificate of the client's.
    WantsCertificate,
    /// Another reason, in words.
    Other(String),
}

impl Trouble {
    /// Looks for a reason among the causes of an error.
    pub fn of(error: &(dyn Error + 'static)) -> Option<Self> {
        causes(error).find_map(|cause| cause.downcast_ref()).map(Self::of_tls)
    }

    fn of_tls(error: &rustls::Error) -> Self {
        use CertificateError as Certificate;
        match error {
            // Two authorities may have the same name.
            rustls::Error::InvalidCertificate(
                Certificate::UnknownIssuer | Certificate::BadSignature,
            ) => Self::UnknownAuthority,
            rustls::Error::InvalidCertificate(Certificate::NotValidForNameContext {
                expected,
                presented,
            }) => {
                let name = |text: &String| text.split('"').nth(1).unwrap_or(text).to_owned();
                Self::WrongName(
                    expected.to_str().into_owned(),
                    presented.iter().map(name).collect(),
                )
            }
            rustls::Error::InvalidCertificate(Certificate::ExpiredContext {
                not_after, ..
            }) => Self::Other(format!("its certificate expired at {}", instant(*not_after))),
            rustls::Error::InvalidCertificate(Certificate::NotValidYetContext {
                not_before,
                ..
            }) => {
                Self::Other(format!("its certificate is not valid before {}", instant(*not_before)))
            }
            rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => Self::NoTls,
            rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
                Self::WantsCertificate
            }
            error if expiry::is_of_authority(error) => {
                Self::Other(format!("its certificate is itself an authority's: {AUTHORITY_ADVICE}"))
            }
            error => Self::Other(error.to_string()),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownAuthority => {
                f.write_str("its certificate is not signed by a trusted authority")
            }
            Self::WrongName(wanted, names) if names.is_empty() => {
                write!(f, "its certificate is not for {wanted}: it names no host")
            }
            Self::WrongName(wanted, names) => {
                write!(f, "its certificate is not for {wanted} but for {}", names.join(", "))
            }
            Self::NoTls => f.write_str("it does not speak TLS"),
            Self::WantsCertificate => f.write_str("it wants a client certificate"),
            Self::Other(reason) => f.write_str(reason),
        }
    }
}

/// The error and its causes, outermost first. The source of an I/O error, or a shared one, skips the error inside.
pub fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    type Shared = Arc<dyn Error + Send + Sync>;
    iter::successors(Some(error), |&error| {
        if let Some(error) = error.downcast_ref::<Shared>() {
            return Some(&**error as &(dyn Error + 'static));
        }
        match error.downcast_ref::<io::Error>() {
            Some(error) => error.get_ref().map(|inner| inner as &(dyn Error + 'static)),
            None => error.source(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    /// A certificate for localhost and its key in files, valid from one year to another.
    fn identity(dir: &Path, name: &str, from: i32, to: i32) -> Identity {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        (params.not_before, params.not_after) =
            (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        let identity = Identity {
            cert: dir.join(format!("{name}.pem")),
            key: dir.join(format!("{name}-key.pem")),
        };
        std::fs::write(&identity.cert, params.self_signed(&key).unwrap().pem()).unwrap();
        std::fs::write(&identity.key, key.serialize_pem()).unwrap();
        identity
    }

    #[test]
    fn a_certificate_is_good_while_it_is_valid_and_with_its_own_key() {
        let dir = tempfile::tempdir().unwrap();
        let of = |name, from, to| identity(dir.path(), name, from, to);
        let good = of("good", 2020, 4000);
        let read = good.read("it").unwrap();
        assert_eq!(
            (read.chain.len(), instant(read.expiry.not_after)),
            (1, "4000-01-01T00:00:00Z".to_owned())
        );
        let told = |identity: &Identity| identity.read("it").map(|_| ()).unwrap_err().to_string();
        assert!(told(&of("old", 2020, 2021)).ends_with("old.pem expired at 2021-01-01T00:00:00Z"));
        let new = told(&of("new", 3000, 3001));
        assert!(new.ends_with("new.pem is not valid before 3000-01-01T00:00:00Z"), "{new}");
        let other = Identity { key: of("other", 2020, 4000).key, ..good.clone() };
        assert!(told(&other).contains("is not that of"), "{}", told(&other));
        let swapped = Identity { cert: good.key.clone(), key: good.cert.clone() };
        assert!(told(&swapped).starts_with("no certificate in"));
        assert!(
            told(&Identity { key: good.cert.clone(), ..good.clone() }).contains("no private key")
        );
        let bad = dir.path().join("bad.pem");
        for text in ["", "x", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            std::fs::write(&bad, text).unwrap();
            assert!(told(&Identity { cert: bad.clone(), ..good.clone() }).contains("bad.pem"));
            assert!(told(&Identity { key: bad.clone(), ..good.clone() }).contains("bad.pem"));
            assert!(authorities(&bad).is_err());
        }
        assert!(listener(&good, Some(&good.cert)).is_ok());
    }

    #[test]
    fn trouble_is_found_inside_of_other_errors() {
        let error = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
        let io = io::Error::new(io::ErrorKind::InvalidData, error.clone());
        assert_eq!(Trouble::of(&io), Some(Trouble::UnknownAuthority));
        let shared: Arc<dyn Error + Send + Sync> = Arc::new(io);
        assert_eq!(Trouble::of(&shared), Some(Trouble::UnknownAuthority));
        assert_eq!(Trouble::of(&io::Error::other("no")), None);
    }
}
