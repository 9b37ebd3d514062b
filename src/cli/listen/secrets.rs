//! The secrets of the receiver, and whether a call was signed with one of them.

use crate::cli::{
    client::{durations::now, table::clean},
    dev::secret_file,
};
use dueq_base::files;
use dueq_model::{
    PublicKey, SIGNATURE, Secret, SignedParts, SigningSecret, TopicName, derived, signing_keys,
};
use http::{HeaderMap, header};
use std::path::{Path, PathBuf};

/// How far a call's timestamp may be from now, s. Standard Webhooks says so; an older call may be a repetition by others.
const TOLERANCE_S: i64 = 300;

/// The secrets, and for whom others are derived of them.
pub struct Secrets {
    from: Source,
    /// The name of the API key that schedules callbacks.
    publisher: String,
}

/// Where the secrets come from.
enum Source {
    /// From the arguments.
    Given(Keys),
    /// From the file of `dueq dev`, which may be started later. It is read for each call.
    Kept(PathBuf),
}

/// What signatures are verified with.
#[derive(Clone, Default)]
struct Keys {
    secrets: Vec<SigningSecret>,
    public: Vec<PublicKey>,
}

/// What is known of a call's signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Signature {
    /// It was made with one of the secrets.
    Valid,
    /// There is no secret to check it with.
    Unchecked,
    /// It is missing or wrong, for this reason.
    Wrong(String),
}

impl Secrets {
    /// Errors: a secret is invalid, or the file cannot be used. The reason does not quote it.
    pub fn new(given: &[Secret], publisher: String, data_dir: &Path) -> Result<Self, String> {
        if given.is_empty() {
            let secrets = Self { from: Source::Kept(secret_file(data_dir)), publisher };
            return secrets.all().map(|_| secrets);
        }
        let mut keys = Keys::default();
        for text in given.iter().map(Secret::reveal) {
            if text.starts_with("whpk_") {
                let key = PublicKey::parse(text);
                keys.public
                    .push(key.ok_or("--secret: a public key is whpk_ and 32 bytes in base64")?);
            } else {
                let secret = SigningSecret::parse(text);
                keys.secrets.push(secret.map_err(|error| format!("--secret: {error}"))?);
            }
        }
        Ok(Self { from: Source::Given(keys), publisher })
    }

    /// The secrets as they are now.
    fn all(&self) -> Result<Keys, String> {
        match &self.from {
            Source::Given(keys) => Ok(keys.clone()),
            Source::Kept(path) if !path.exists() => Ok(Keys::default()),
            Source::Kept(path) => {
                let secret = files::secret(path).map_err(|error| error.to_string())?;
                let secret = SigningSecret::parse(&secret)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                Ok(Keys { secrets: vec![secret], ..Keys::default() })
            }
        }
    }

    /// What is checked, for the first line.
    pub fn about(&self) -> String {
        match &self.from {
            Source::Given(_) => "verifying signatures with --secret".to_owned(),
            Source::Kept(path) => {
                let path = clean(&path.display().to_string());
                let Keys { secrets, .. } = self.all().unwrap_or_default();
                match derived(&secrets, &TopicName::callbacks(), &self.publisher).first() {
                    None => format!("verifying signatures once `dueq dev` has made {path}"),
                    Some(secret) => {
                        format!("verifying signatures with {path} (callbacks: {})", secret.reveal())
                    }
                }
            }
        }
    }

    /// Checks the signature of a call.
    pub fn check(&self, headers: &HeaderMap, payload: &[u8]) -> Signature {
        let Keys { mut secrets, mut public } = match self.all() {
            Ok(Keys { secrets, public }) if secrets.is_empty() && public.is_empty() => {
                return Signature::Unchecked;
            }
            Ok(keys) => keys,
            Err(reason) => return Signature::Wrong(reason),
        };
        let topic = headers.get("dueq-topic").and_then(|topic| topic.to_str().ok());
        if let Some(topic) = topic.and_then(|topic| TopicName::parse(topic).ok()) {
            // The URL that was called, as far as a receiver without TLS sees it.
            let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
            let origin = format!("http://{}", host.unwrap_or_default());
            let pairs = signing_keys(&secrets, &topic, &self.publisher, &origin);
            public.extend(pairs.iter().filter_map(|pair| PublicKey::parse(&pair.public())));
            secrets.extend(derived(&secrets, &topic, &self.publisher));
        }
        match checked(headers, payload, &Keys { secrets, public }) {
            Ok(()) => Signature::Valid,
            Err(reason) => Signature::Wrong(reason),
        }
    }
}

fn checked(headers: &HeaderMap, payload: &[u8], keys: &Keys) -> Result<(), String> {
    let value = |name: &str| headers.get(name).ok_or_else(|| format!("there is no {name}"));
    let signatures = value(SIGNATURE)?.to_str().unwrap_or_default();
    let (id, timestamp) = (value("webhook-id")?, value("webhook-timestamp")?);
    let parts = SignedParts { id: id.as_bytes(), timestamp: timestamp.as_bytes(), payload };
    if !parts.are_signed(signatures, &keys.secrets)
        && !parts.are_signed_by(signatures, &keys.public)
    {
        return Err("it was made with another secret, or the call was changed".to_owned());
    }
    let seconds: Option<i64> = timestamp.to_str().ok().and_then(|text| text.parse().ok());
    let age = seconds.and_then(|seconds| (now() / 1_000).checked_sub(seconds));
    match age {
        Some(age) if age.abs() <= TOLERANCE_S => Ok(()),
        _ => Err(format!(
            "webhook-timestamp is more than {TOLERANCE_S} s away from this machine's clock"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn signed(at: i64, payload: &[u8]) -> HeaderMap {
        let timestamp = at.to_string();
        let parts = SignedParts { id: b"msg_1", timestamp: timestamp.as_bytes(), payload };
        let signature = parts.sign(&[SigningSecret::parse(SECRET).unwrap()]);
        let pairs =
            [("webhook-id", "msg_1"), ("webhook-timestamp", &timestamp), (SIGNATURE, &signature)];
        pairs
            .into_iter()
            .map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()))
            .collect()
    }

    fn is_wrong(signature: &Signature, reason: &str) -> bool {
        matches!(signature, Signature::Wrong(text) if text.contains(reason))
    }

    #[test]
    fn a_call_is_checked_as_standard_webhooks_says() {
        let given = [Secret::from(SECRET.to_owned())];
        let secrets = Secrets::new(&given, String::new(), Path::new("/none")).unwrap();
        let now = now() / 1_000;
        assert_eq!(secrets.check(&signed(now, b"{}"), b"{}"), Signature::Valid);
        assert!(is_wrong(&secrets.check(&signed(now, b"{}"), b"{ }"), "changed"));
        for away in [-310, 310, -now - 1, i64::MAX - now] {
            let signature = secrets.check(&signed(now + away, b"{}"), b"{}");
            assert!(is_wrong(&signature, "more than 300 s"), "{away}: {signature:?}");
        }
        for name in ["webhook-id", "webhook-timestamp", SIGNATURE] {
            let mut headers = signed(now, b"{}");
            headers.remove(name);
            assert!(is_wrong(&secrets.check(&headers, b"{}"), name));
        }
    }

    #[test]
    fn key_pairs_are_known_by_their_public_keys_or_by_what_they_are_derived_of() {
        let server = [SigningSecret::parse(SECRET).unwrap()];
        let topic = TopicName::parse("hooks").unwrap();
        let pairs = signing_keys(&server, &topic, "", "http://localhost:9123");
        let timestamp = (now() / 1_000).to_string();
        let parts = SignedParts { id: b"msg_1", timestamp: timestamp.as_bytes(), payload: b"{}" };
        let mut headers = signed(now() / 1_000, b"{}");
        headers.insert(SIGNATURE, parts.sign_by(&pairs).parse().unwrap());
        headers.insert("dueq-topic", "hooks".parse().unwrap());
        headers.insert(header::HOST, "localhost:9123".parse().unwrap());
        let check = |secret: &str, headers: &HeaderMap| {
            let given = [Secret::from(secret.to_owned())];
            Secrets::new(&given, String::new(), Path::new("/none")).unwrap().check(headers, b"{}")
        };
        assert_eq!(check(&pairs[0].public(), &headers), Signature::Valid);
        assert_eq!(check(SECRET, &headers), Signature::Valid);
        headers.insert(header::HOST, "127.0.0.1:9123".parse().unwrap());
        assert!(is_wrong(&check(SECRET, &headers), "another secret"));
        let other = "whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
        assert!(is_wrong(&check(other, &headers), "another secret"));
        let given = [Secret::from("whpk_AAAA".to_owned())];
        let error = Secrets::new(&given, String::new(), Path::new("/none")).err().unwrap();
        assert_eq!(error, "--secret: a public key is whpk_ and 32 bytes in base64");
    }

    #[test]
    fn the_secret_of_a_server_is_found_once_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let secrets = Secrets::new(&[], String::new(), dir.path()).unwrap();
        let headers = signed(now() / 1_000, b"{}");
        assert_eq!(secrets.check(&headers, b"{}"), Signature::Unchecked);
        assert!(secrets.about().contains("once `dueq dev` has made"));
        std::fs::write(secret_file(dir.path()), format!("{SECRET}\n")).unwrap();
        assert_eq!(secrets.check(&headers, b"{}"), Signature::Valid);
        std::fs::write(secret_file(dir.path()), "whsec_none\n").unwrap();
        let error = Secrets::new(&[], String::new(), dir.path()).err().unwrap();
        assert!(error.contains("signing-secret: must be") && !error.contains("none"), "{error}");
        let given = [Secret::from("whsec_none".to_owned())];
        let error = Secrets::new(&given, String::new(), dir.path()).err().unwrap();
        assert!(error.starts_with("--secret: must be") && !error.contains("none"), "{error}");
    }
}
