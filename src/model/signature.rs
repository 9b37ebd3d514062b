//! Signatures per Standard Webhooks (<https://www.standardwebhooks.com>): those of the calls that dueq makes, and their check.

use super::SigningSecret;
use base64::{Engine, engine::general_purpose::STANDARD};
use ring::hmac;
use subtle::ConstantTimeEq;

/// The header with the signatures.
pub const SIGNATURE: &str = "webhook-signature";

/// The parts of a request that a signature covers.
#[derive(Clone, Copy, Debug)]
pub struct SignedParts<'a> {
    /// The header `webhook-id`.
    pub id: &'a [u8],
    /// The header `webhook-timestamp`: seconds since 1970.
    pub timestamp: &'a [u8],
    /// The body.
    pub payload: &'a [u8],
}

impl SignedParts<'_> {
    /// Returns one `v1,` with the base64 HMAC-SHA256 of `id.timestamp.payload` per secret, separated by spaces.
    pub fn sign(&self, secrets: &[SigningSecret]) -> String {
        let signatures = secrets.iter().filter_map(|secret| self.tag(secret));
        let signatures = signatures.map(|tag| format!("v1,{}", STANDARD.encode(tag)));
        signatures.collect::<Vec<_>>().join(" ")
    }

    /// Whether one of the space-separated `signatures` was made with one of the secrets.
    pub fn are_signed(&self, signatures: &str, secrets: &[SigningSecret]) -> bool {
        let given = signatures.split(' ').filter_map(|signature| signature.strip_prefix("v1,"));
        let given: Vec<Vec<u8>> = given.filter_map(|text| STANDARD.decode(text).ok()).collect();
        let tags = secrets.iter().filter_map(|secret| self.tag(secret));
        tags.into_iter().any(|tag| given.iter().any(|given| given.ct_eq(tag.as_ref()).into()))
    }

    fn tag(&self, secret: &SigningSecret) -> Option<hmac::Tag> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &secret.key()?);
        let mut signed = hmac::Context::with_key(&key);
        for part in [self.id, b".", self.timestamp, b".", self.payload] {
            signed.update(part);
        }
        Some(signed.sign())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_its_secret_and_of_every_part() {
        let secrets =
            ["MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="]
                .map(|key| SigningSecret::parse(&format!("whsec_{key}")).unwrap());
        let parts = SignedParts { id: b"msg_1", timestamp: b"1763700000", payload: b"{}" };
        let one = parts.sign(&secrets[..1]);
        assert!(parts.are_signed(&one, &secrets) && !parts.are_signed(&one, &secrets[1..]));
        let both = parts.sign(&secrets);
        assert!(both.starts_with(&one) && parts.are_signed(&both, &secrets[1..]));
        for other in [
            SignedParts { id: b"msg_2", ..parts },
            SignedParts { timestamp: b"1763700001", ..parts },
            SignedParts { payload: b"{ }", ..parts },
        ] {
            assert!(!other.are_signed(&both, &secrets), "{other:?}");
        }
        for bad in [
            "",
            "v1,",
            "v1,AAAA",
            &one[3..],
            &one.replace("v1,", "v1a,"),
            &one.replace("v1,", "v1, "),
        ] {
            assert!(!parts.are_signed(bad, &secrets), "{bad}");
        }
        assert!(!parts.are_signed(&one, &[]));
    }
}
