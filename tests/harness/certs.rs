//! Certificates for tests: authorities, and what they sign, in files of a directory of their own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use rustls::{ClientConfig, RootCertStore, crypto::ring};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;

use super::process::temp_dir;

/// A certificate authority.
pub struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: PathBuf,
}

/// A certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The file of the certificate.
    pub cert: PathBuf,
    /// The file of the key.
    pub key: PathBuf,
}

impl Authority {
    /// One that nobody else is.
    pub fn new() -> Authority {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let name = format!("authority {}", NEXT.fetch_add(1, Ordering::Relaxed));
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = temp_dir("certificates");
        std::fs::write(dir.join("ca.pem"), issuer.pem()).unwrap();
        Authority { issuer, dir }
    }

    /// The file of its own certificate.
    pub fn ca(&self) -> PathBuf {
        self.dir.join("ca.pem")
    }

    /// Its own certificate and key in place of these, as `openssl req -x509` makes one that serves.
    pub fn serve_itself(&self, identity: &Identity) {
        replace(&identity.cert, &self.issuer.pem());
        replace(&identity.key, &self.issuer.key().serialize_pem());
    }

    /// Signs a certificate for these names, valid for long, in files that begin with `file`.
    pub fn sign(&self, file: &str, names: &[&str]) -> Identity {
        self.sign_for_years(file, names, 2020, 4000)
    }

    /// The same with other years.
    pub fn sign_for_years(&self, file: &str, names: &[&str], from: i32, to: i32) -> Identity {
        let mut params = of_names(names);
        (params.not_before, params.not_after) =
            (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        self.sign_as(file, params)
    }

    /// The same, valid for this long from now on.
    pub fn sign_for(&self, file: &str, names: &[&str], time: Duration) -> Identity {
        let mut params = of_names(names);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(1970, 1, 1) + now + time;
        self.sign_as(file, params)
    }

    fn sign_as(&self, file: &str, params: CertificateParams) -> Identity {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let cert = self.dir.join(format!("{file}.pem"));
        let identity = Identity { cert, key: self.dir.join(format!("{file}-key.pem")) };
        replace(&identity.cert, &certificate.pem());
        replace(&identity.key, &key.serialize_pem());
        identity
    }

    /// What a client that trusts this authority, and has this certificate if any, connects with.
    pub fn client(&self, identity: Option<&Identity>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.ca()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        Arc::new(match identity {
            None => config.with_no_client_auth(),
            Some(Identity { cert, key }) => config
                .with_client_auth_cert(
                    vec![CertificateDer::from_pem_file(cert).unwrap()],
                    PrivateKeyDer::from_pem_file(key).unwrap(),
                )
                .unwrap(),
        })
    }
}

fn of_names(names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).unwrap()
}

/// Writes a file as tools do that replace it at once, for its owner alone.
pub fn replace(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    let new = path.with_extension("new");
    std::fs::write(&new, text).unwrap();
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o600)).unwrap();
    std::fs::rename(&new, path).unwrap();
}

/// The address of a listener on loopback whose connections are continued by TLS to the one for localhost at `addr`.
pub async fn tunnel(config: Arc<ClientConfig>, addr: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let here = listener.local_addr().unwrap();
    let connector = TlsConnector::from(config);
    tokio::spawn(async move {
        while let Ok((mut plain, _)) = listener.accept().await {
            let (connector, addr) = (connector.clone(), addr.clone());
            tokio::spawn(async move {
                let stream = TcpStream::connect(addr).await?;
                let mut tls = connector.connect("localhost".try_into().unwrap(), stream).await?;
                tokio::io::copy_bidirectional(&mut plain, &mut tls).await
            });
        }
    });
    here
}
