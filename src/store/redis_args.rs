//! Which Redis to use and how to get in: the flags that every command shares that connects to one. All connections are
//! made by the client that is built here.

use super::backend::ConnectError;
use crate::{
    config::Secret,
    files,
    tls::{self, Certified, Expiry, Identity},
};
use clap::Args;
use deadpool_redis::redis::{
    Client, ClientTlsConfig, ConnectionAddr, ConnectionInfo, TlsCertificates,
};
use std::path::PathBuf;

/// Which Redis to use, and how to get in.
#[derive(Args, Clone, Debug, Default)]
#[group(skip)]
pub struct RedisArgs {
    /// Redis to use instead of a private one, such as redis://127.0.0.1:6379/, rediss://user@redis.example:6379/ (TLS) or
    /// redis+unix:///run/redis.sock.
    #[arg(
        long,
        env = "DUEQ_REDIS_URL",
        value_name = "URL",
        hide_env_values = true,
        group = "redis"
    )]
    pub redis_url: Option<Secret>,
    /// File with the URL of the Redis to use.
    #[arg(long, env = "DUEQ_REDIS_URL_FILE", value_name = "PATH", group = "redis")]
    pub redis_url_file: Option<PathBuf>,
    /// File with the password for Redis, for a URL without one.
    #[arg(long, env = "DUEQ_REDIS_PASSWORD_FILE", value_name = "PATH", requires = "redis")]
    pub redis_password_file: Option<PathBuf>,
    /// File (PEM) with the certificate authorities to trust for rediss://, instead of the system's.
    #[arg(long, env = "DUEQ_REDIS_CA", value_name = "PATH", requires = "redis")]
    pub redis_ca: Option<PathBuf>,
    /// File (PEM) with the client certificate for rediss://.
    #[arg(long, env = "DUEQ_REDIS_CERT", value_name = "PATH", requires_all = ["redis", "redis_key"])]
    pub redis_cert: Option<PathBuf>,
    /// File (PEM) with the private key of --redis-cert.
    #[arg(long, env = "DUEQ_REDIS_KEY", value_name = "PATH", requires = "redis_cert")]
    pub redis_key: Option<PathBuf>,
    /// Accept a URL that ends in #insecure.
    #[arg(skip)]
    pub insecure: bool,
}

impl RedisArgs {
    /// The Redis at this URL.
    pub fn at(url: String) -> Self {
        Self { redis_url: Some(url.into()), ..Self::default() }
    }

    /// Whether a Redis is named at all.
    pub fn are_given(&self) -> bool {
        self.redis_url.is_some() || self.redis_url_file.is_some()
    }

    /// The files that have to be read again when they change.
    pub fn files(&self) -> Vec<PathBuf> {
        let Self { redis_url_file, redis_password_file, redis_ca, redis_cert, redis_key, .. } =
            self;
        let all = [redis_url_file, redis_password_file, redis_ca, redis_cert, redis_key];
        all.into_iter().flatten().cloned().collect()
    }

    /// Reads the files. Returns a client, which is not connected, and when its certificate ends, if it has one.
    ///
    /// Errors: [`ConnectError`] for an invalid URL, files that cannot be used, and flags that contradict each other.
    pub(super) fn client(&self) -> Result<(Client, Option<Expiry>), ConnectError> {
        let mut info = self.info()?;
        if let Some(path) = &self.redis_password_file {
            if info.redis_settings().password().is_some() {
                return Err(ConnectError::TwoPasswords);
            }
            let settings = info.redis_settings().clone().set_password(files::secret(path)?);
            info = info.set_redis_settings(settings);
        }
        let ConnectionAddr::TcpTls { insecure, .. } = info.addr() else {
            if self.redis_ca.is_some() || self.redis_cert.is_some() {
                return Err(ConnectError::NotTls);
            }
            return Ok((Client::open(info).map_err(ConnectError::Url)?, None));
        };
        if *insecure && !self.insecure {
            return Err(ConnectError::Insecure);
        }
        let (certificates, expiry) = self.certificates()?;
        let client = Client::build_with_tls(info, certificates).map_err(ConnectError::Url)?;
        Ok((client, expiry))
    }

    fn info(&self) -> Result<ConnectionInfo, ConnectError> {
        let url = match (&self.redis_url, &self.redis_url_file) {
            (Some(url), _) => url.reveal().to_owned(),
            (None, Some(path)) => files::secret(path)?,
            (None, None) => String::new(),
        };
        url.parse().map_err(ConnectError::Url)
    }

    /// What TLS needs of the files, and when the client certificate ends, if there is one.
    fn certificates(&self) -> Result<(TlsCertificates, Option<Expiry>), ConnectError> {
        let root_cert = self.redis_ca.as_deref().map(tls::authorities).transpose()?;
        let root_cert = root_cert.map(|(_, pem)| pem);
        let (Some(cert), Some(key)) = (self.redis_cert.clone(), self.redis_key.clone()) else {
            return Ok((TlsCertificates { client_tls: None, root_cert }, None));
        };
        let Certified { expiry, pem: [client_cert, client_key], .. } =
            Identity { cert, key }.read("the client certificate for Redis")?;
        let client_tls = Some(ClientTlsConfig { client_cert, client_key });
        Ok((TlsCertificates { client_tls, root_cert }, Some(expiry)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(args: &RedisArgs) -> String {
        args.client().map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        let args = |url: &str| RedisArgs::at(url.to_owned());
        assert!(args("rediss://user:sesame@localhost").client().is_ok());
        assert!(refused(&args("rediss://localhost/#insecure")).contains("--insecure"));
        let insecure = RedisArgs { insecure: true, ..args("rediss://localhost/#insecure") };
        assert!(insecure.client().is_ok());
        assert!(refused(&args("rediss://localhost/#other")).contains("#insecure"));
        let ca = Some(PathBuf::from("/nowhere/ca.pem"));
        let plain = RedisArgs { redis_ca: ca.clone(), ..args("redis://localhost") };
        assert!(refused(&plain).contains("rediss://"));
        let missing = RedisArgs { redis_ca: ca, ..args("rediss://localhost") };
        assert!(refused(&missing).contains("/nowhere/ca.pem"));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("password");
        std::fs::write(&path, "sesame\n").unwrap();
        let file = Some(path.clone());
        let both = RedisArgs { redis_password_file: file.clone(), ..args("redis://u:p@localhost") };
        assert!(refused(&both).contains("--redis-password-file"));
        let one = RedisArgs { redis_password_file: file, ..args("redis://u@localhost") };
        let (client, _) = one.client().unwrap();
        let settings = client.get_connection_info().redis_settings().clone();
        assert_eq!((settings.username(), settings.password()), (Some("u"), Some("sesame")));
        std::fs::write(&path, "redis://localhost:1/2\n").unwrap();
        let file = RedisArgs { redis_url_file: Some(path), ..RedisArgs::default() };
        assert_eq!(
            file.client().unwrap().0.get_connection_info().addr().to_string(),
            "localhost:1"
        );
    }
}
