//! Signatures per Standard Webhooks (<https://www.standardwebhooks.com>): those of the calls that dueq makes, and their check.

use super::{SigningSecret, TopicName};
use base64::{Engine, engine::general_purpose::STANDARD};
use ring::{
    hkdf, hmac,
    signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey},
};
use subtle::ConstantTimeEq;

/// The header with the signatures.
pub const SIGNATURE: &str = "webhook-signature";

/// The header that signs the topic: `v1,` with the base64 HMAC-SHA256 of `id:timestamp:topic` per secret. Standard Webhooks leaves
/// no place for it, and this is no text that a `webhook-signature` could be of.
pub const TOPIC_SIGNATURE: &str = "dueq-signature";

/// Keeps these secrets apart from whatever else may be derived from the same.
const SALT: &[u8] = b"dueq callbacks";

/// The secrets that sign calls of a topic, each derived from one of the server's by HKDF-SHA256; in `_callbacks` those of what the
/// API key of this name published. So what one topic or key has signed is of no use with the receivers of another.
pub fn derived(
    secrets: &[SigningSecret],
    topic: &TopicName,
    publisher: &str,
) -> Vec<SigningSecret> {
    let info = whose(topic, publisher);
    let derive = |secret: &SigningSecret| {
        let key = derive(secret, &info)?;
        SigningSecret::parse(&format!("whsec_{}", STANDARD.encode(key))).ok()
    };
    secrets.iter().filter_map(derive).collect()
}

/// Whose calls are signed: those of a topic, or of what an API key published.
fn whose<'a>(topic: &'a TopicName, publisher: &'a str) -> [&'a [u8]; 2] {
    match topic.is_callbacks() {
        true => [b"key:", publisher.as_bytes()],
        false => [b"topic:", topic.as_str().as_bytes()],
    }
}

fn derive(secret: &SigningSecret, info: &[&[u8]]) -> Option<[u8; 32]> {
    let mut key = [0; 32];
    let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, SALT).extract(&secret.key()?);
    extracted.expand(info, hkdf::HKDF_SHA256).ok()?.fill(&mut key).ok()?;
    Some(key)
}

/// A key pair of Ed25519 that signs calls.
pub struct SigningKey(Ed25519KeyPair);

impl SigningKey {
    /// The public key, as Standard Webhooks spells it: `whpk_` and 32 bytes in base64.
    pub fn public(&self) -> String {
        format!("whpk_{}", STANDARD.encode(self.0.public_key()))
    }
}

/// What verifies the signatures of a [`SigningKey`].
#[derive(Clone)]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    /// Parses [`SigningKey::public`].
    pub fn parse(text: &str) -> Option<Self> {
        STANDARD.decode(text.strip_prefix("whpk_")?).ok()?.try_into().map(Self).ok()
    }
}

/// The key pairs that sign calls of a topic to this origin, derived as [`derived`] secrets are. Receivers of another origin
/// do not take what they have signed.
pub fn signing_keys(
    secrets: &[SigningSecret],
    topic: &TopicName,
    publisher: &str,
    origin: &str,
) -> Vec<SigningKey> {
    // No origin has a space.
    let [kind, name] = whose(topic, publisher);
    let info = [b"ed25519:", origin.as_bytes(), b" ", kind, name];
    let pair = |secret: &SigningSecret| {
        Ed25519KeyPair::from_seed_unchecked(&derive(secret, &info)?).map(SigningKey).ok()
    };
    secrets.iter().filter_map(pair).collect()
}

/// Does a secret of the topic not sign this by itself, because several API keys share the topic?
pub fn is_shared(topic: &TopicName, publisher: &str) -> bool {
    topic.is_callbacks() && !publisher.is_empty()
}

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
        joined(secrets.iter().filter_map(|secret| self.tag(secret)))
    }

    /// Returns one `v1a,` with the base64 Ed25519 signature of the same per key, separated by spaces.
    pub fn sign_by(&self, keys: &[SigningKey]) -> String {
        signed_by(keys, &[self.id, b".", self.timestamp, b".", self.payload])
    }

    /// The same of the topic, for [`TOPIC_SIGNATURE`].
    pub fn sign_topic_by(&self, topic: &TopicName, keys: &[SigningKey]) -> String {
        signed_by(keys, &[self.id, b":", self.timestamp, b":", topic.as_str().as_bytes()])
    }

    /// The same as [`Self::sign`] of the topic, for [`TOPIC_SIGNATURE`].
    pub fn sign_topic(&self, topic: &TopicName, secrets: &[SigningSecret]) -> String {
        let signed = [self.id, b":", self.timestamp, b":", topic.as_str().as_bytes()];
        joined(secrets.iter().filter_map(|secret| tag(secret, &signed)))
    }

    /// Whether one of the space-separated `signatures` was made with one of the secrets.
    pub fn are_signed(&self, signatures: &str, secrets: &[SigningSecret]) -> bool {
        let given = signatures.split(' ').filter_map(|signature| signature.strip_prefix("v1,"));
        let given: Vec<Vec<u8>> = given.filter_map(|text| STANDARD.decode(text).ok()).collect();
        let tags = secrets.iter().filter_map(|secret| self.tag(secret));
        tags.into_iter().any(|tag| given.iter().any(|given| given.ct_eq(tag.as_ref()).into()))
    }

    /// Whether one of the space-separated `signatures` was made with the other half of one of the keys.
    pub fn are_signed_by(&self, signatures: &str, keys: &[PublicKey]) -> bool {
        let signed = [self.id, b".", self.timestamp, b".", self.payload].concat();
        let given = signatures.split(' ').filter_map(|signature| signature.strip_prefix("v1a,"));
        let mut given = given.filter_map(|text| STANDARD.decode(text).ok());
        given.any(|given| {
            keys.iter()
                .any(|key| UnparsedPublicKey::new(&ED25519, key.0).verify(&signed, &given).is_ok())
        })
    }

    fn tag(&self, secret: &SigningSecret) -> Option<hmac::Tag> {
        tag(secret, &[self.id, b".", self.timestamp, b".", self.payload])
    }
}

fn tag(secret: &SigningSecret, parts: &[&[u8]]) -> Option<hmac::Tag> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, &secret.key()?);
    let mut signed = hmac::Context::with_key(&key);
    parts.iter().for_each(|part| signed.update(part));
    Some(signed.sign())
}

fn signed_by(keys: &[SigningKey], parts: &[&[u8]]) -> String {
    let signed = parts.concat();
    let sign = |key: &SigningKey| format!("v1a,{}", STANDARD.encode(key.0.sign(&signed)));
    keys.iter().map(sign).collect::<Vec<_>>().join(" ")
}

fn joined(tags: impl Iterator<Item = hmac::Tag>) -> String {
    tags.map(|tag| format!("v1,{}", STANDARD.encode(tag))).collect::<Vec<_>>().join(" ")
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

    #[test]
    fn a_derived_secret_is_that_of_its_topic_or_key_and_can_be_worked_out_elsewhere() {
        let secret = |text: &str| SigningSecret::parse(text).unwrap();
        let server = secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let other = secret("whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=");
        let of = |topic: &str, publisher: &str| {
            let topic = TopicName::parse(topic).unwrap();
            let derived = derived(&[server.clone(), other.clone()], &topic, publisher);
            derived.iter().map(|secret| secret.reveal().to_owned()).collect::<Vec<_>>()
        };
        let orders = of("orders", "");
        // openssl kdf -keylen 32 -kdfopt digest:SHA256 -kdfopt hexkey:31f290… -kdfopt salt:'dueq callbacks'
        //   -kdfopt info:topic:orders -binary HKDF | base64
        assert_eq!(orders[0], "whsec_Tr/Q5zpukhI2M3KzOAi2LQ+NbvdRm/+Z7YyVN4T9+wY=");
        assert_eq!(
            of("_callbacks", "billing")[0],
            "whsec_NlrI0I3PMGiecsIjNCIs5rAVH1Z2B0tU0x8kATuXeVY="
        );
        assert_eq!(of("orders", "billing"), orders, "a topic's is the same whoever publishes");
        let all = [orders, of("orders.eu", ""), of("_callbacks", ""), of("_callbacks", "orders")];
        let all: std::collections::BTreeSet<_> = all.into_iter().flatten().collect();
        assert_eq!(all.len(), 8);
    }

    #[test]
    fn a_key_pair_is_that_of_its_topic_and_origin_and_can_be_worked_out_elsewhere() {
        let server = [SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap()];
        let of = |topic: &str, publisher: &str, origin: &str| {
            let topic = TopicName::parse(topic).unwrap();
            signing_keys(&server, &topic, publisher, origin)
        };
        let keys = of("orders", "", "https://a.test");
        // The seed: openssl kdf … -kdfopt info:'ed25519:https://a.test topic:orders'; then openssl pkey -pubout, pkeyutl -sign -rawin
        assert_eq!(keys[0].public(), "whpk_XL9MzUGxc2s/gozEjuXB1blGuxvZRLLYCHL8skSJPaQ=");
        let parts = SignedParts { id: b"msg_1", timestamp: b"1763700000", payload: b"{}" };
        assert_eq!(
            parts.sign_by(&keys),
            "v1a,NlkuXO2v0fFGNf9nJ+WLerVrsJD/MOd31wd28H6XBkiDTh9/z+ADuVpRq6KqXIi4zQxAINKVgt272/ZxtD4mCA=="
        );
        let public = |text: &str| PublicKey::parse(text).into_iter().collect::<Vec<_>>();
        let (signatures, right) = (parts.sign_by(&keys), public(&keys[0].public()));
        assert!(parts.are_signed_by(&format!("v1,AAAA {signatures}"), &right));
        let wrong = public("whpk_11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=");
        assert!(!parts.are_signed_by(&signatures, &wrong) && !wrong.is_empty());
        assert!(!parts.are_signed_by(&signatures.replace("v1a,", "v1,"), &right));
        assert!(!SignedParts { payload: b"", ..parts }.are_signed_by(&signatures, &right));
        for bad in ["", "whpk_", "whpk_AAAA", &keys[0].public()[5..]] {
            assert!(public(bad).is_empty(), "{bad}");
        }
        let all = [
            keys,
            of("orders", "", "https://b.test"),
            of("orders.eu", "", "https://a.test"),
            of("_callbacks", "", "https://a.test"),
            of("_callbacks", "orders", "https://a.test"),
        ];
        let all: std::collections::BTreeSet<_> =
            all.iter().flatten().map(SigningKey::public).collect();
        assert_eq!(all.len(), 5);
    }

    #[test]
    fn the_topics_signature_is_of_the_topic_and_of_no_body() {
        let secrets = [SigningSecret::parse("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap()];
        let [orders, other] = ["orders", "order"].map(|name| TopicName::parse(name).unwrap());
        let parts = SignedParts { id: b"msg_1", timestamp: b"1763700000", payload: b"orders" };
        let signed = parts.sign_topic(&orders, &secrets);
        assert_ne!(parts.sign_topic(&other, &secrets), signed);
        assert!(signed.starts_with("v1,") && !parts.are_signed(&signed, &secrets));
    }
}
