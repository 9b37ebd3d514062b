//! Sessions of dueq's own pages. A key that a page was given once becomes a cookie: the key's hash and when the session
//! ends, sealed with a secret that all instances share. So any instance takes it, a script cannot read it, and it ends with
//! the key. It counts only with the header `dueq-ui: 1`, which a foreign page cannot send, and only from this origin.

use super::{hosts::SEC_FETCH_SITE, key_file::Digest};
use crate::pages::ui;
use axum::http::{HeaderMap, HeaderValue, header};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use dueq_model::Millis;
use dueq_store::Store;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};

/// How long a session lasts: 12 h, in ms.
const LENGTH_MS: Millis = 12 * 3_600_000;
/// What the sealed bytes are, in this form.
const KIND: &[u8] = b"dueq session 1";
const FACTS: usize = 8 + size_of::<Digest>();
const TAG: usize = 16;

/// Where pages are reached: by https or not, and below which path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub is_https: bool,
    /// Empty, or `/` and a path without a slash at its end.
    base: String,
    /// What browsers call this server behind a proxy; empty without one.
    origin: String,
}

impl Place {
    /// By https or not, below this path, at this origin besides that of `Host`.
    pub fn new(is_https: bool, base: &str, origin: &str) -> Self {
        Self { is_https, base: base.trim_end_matches('/').to_owned(), origin: origin.to_owned() }
    }

    /// The name of the cookie, whose beginning makes browsers keep others from setting it (RFC 6265bis, 4.1.3).
    fn cookie_name(&self) -> &'static str {
        match (self.is_https, self.base.is_empty()) {
            (false, _) => "dueq_session",
            (true, true) => "__Host-dueq_session",
            (true, false) => "__Secure-dueq_session",
        }
    }

    /// The header that gives a page this session, or takes it away (the empty one).
    pub fn set_cookie(&self, session: &str) -> Option<HeaderValue> {
        let (name, base) = (self.cookie_name(), &self.base);
        let path = if base.is_empty() { "/" } else { base };
        let secure = if self.is_https { "; Secure" } else { "" };
        let age = if session.is_empty() { 0 } else { LENGTH_MS / 1000 };
        let cookie = format!(
            "{name}={session}; Path={path}; Max-Age={age}; HttpOnly; SameSite=Strict{secure}"
        );
        HeaderValue::try_from(cookie).ok()
    }

    /// The session that a request of a page has, if it has one. Several are none.
    pub fn session_in<'a>(&self, headers: &'a HeaderMap) -> Option<&'a str> {
        if headers.get(&ui::HEADER).is_none_or(|value| value != "1") {
            return None;
        }
        // Other programs of the host may set whatever they like.
        let cookies = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes);
        let pairs = cookies.flat_map(|cookies| cookies.split(|byte| *byte == b';'));
        let pairs = pairs.filter_map(|pair| str::from_utf8(pair.trim_ascii()).ok());
        let name = self.cookie_name();
        let mut values = pairs.filter_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        values.next().filter(|_| values.next().is_none())
    }

    /// Does the request come from a page of this server, or from no page at all?
    pub fn is_home_of(&self, headers: &HeaderMap) -> bool {
        let host = headers.get(header::HOST).map(HeaderValue::as_bytes);
        let is_ours = |origin: &HeaderValue| {
            let origin = origin.as_bytes();
            let web = origin.strip_prefix(b"https://").or_else(|| origin.strip_prefix(b"http://"));
            let is_host =
                web.zip(host).is_some_and(|(origin, host)| origin.eq_ignore_ascii_case(host));
            is_host || origin.eq_ignore_ascii_case(self.origin.as_bytes())
        };
        headers.get_all(header::ORIGIN).iter().all(is_ours)
            && headers.get_all(&SEC_FETCH_SITE).iter().all(|site| site == "same-origin")
    }
}

/// Seals and opens sessions.
pub struct Seal(LessSafeKey);

impl Seal {
    /// With this secret.
    pub fn new(secret: &[u8; 32]) -> Option<Self> {
        UnboundKey::new(&AES_256_GCM, secret).ok().map(LessSafeKey::new).map(Self)
    }

    /// With the secret for this purpose; `None` before Redis was met.
    pub fn of(store: &Store, purpose: &str) -> Option<Self> {
        Self::new(&store.secret(purpose)?)
    }

    /// Encrypts what is of this kind. `None` without randomness.
    pub fn hide(&self, kind: &[u8], facts: &[u8]) -> Option<Vec<u8>> {
        let mut nonce = [0; NONCE_LEN];
        getrandom::fill(&mut nonce).ok()?;
        let mut hidden = facts.to_vec();
        let unique = Nonce::assume_unique_for_key(nonce);
        self.0.seal_in_place_append_tag(unique, Aad::from(kind), &mut hidden).ok()?;
        Some([&nonce[..], &hidden].concat())
    }

    /// What was hidden as of this kind; `None` for anything else.
    pub fn show(&self, kind: &[u8], hidden: &[u8]) -> Option<Vec<u8>> {
        let (nonce, hidden) = hidden.split_first_chunk::<NONCE_LEN>()?;
        let (nonce, mut hidden) = (Nonce::assume_unique_for_key(*nonce), hidden.to_vec());
        self.0.open_in_place(nonce, Aad::from(kind), &mut hidden).ok().map(|facts| facts.to_vec())
    }

    /// A session of the key with this hash, which begins now. `None` without randomness.
    pub fn seal(&self, digest: &Digest, now: Millis) -> Option<String> {
        let facts = [&now.saturating_add(LENGTH_MS).to_be_bytes()[..], digest].concat();
        Some(URL_SAFE_NO_PAD.encode(self.hide(KIND, &facts)?))
    }

    /// The hash of the session's key, and whether it has ended; `None` for what was not sealed so.
    pub fn open(&self, session: &str, now: Millis) -> Option<(Digest, bool)> {
        let mut bytes = [0; NONCE_LEN + FACTS + TAG];
        let length = URL_SAFE_NO_PAD.decode_slice(session, &mut bytes).ok()?;
        let facts = self.show(KIND, &bytes[..length])?;
        let (ends_at, digest) = facts.split_first_chunk::<8>()?;
        Some((digest.try_into().ok()?, Millis::from_be_bytes(*ends_at) <= now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderName;

    const NOW: Millis = 1_800_000_000_000;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let mut headers = HeaderMap::new();
        for (name, value) in pairs.iter().map(pair) {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn a_session_opens_until_it_ends_and_with_its_secret_only() {
        let (seal, other) = (Seal::new(&[7; 32]).unwrap(), Seal::new(&[8; 32]).unwrap());
        let session = seal.seal(&[1; 32], NOW).unwrap();
        assert_eq!(session.len(), 91);
        assert_eq!(seal.open(&session, NOW), Some(([1; 32], false)));
        assert_eq!(seal.open(&session, NOW + LENGTH_MS - 1), Some(([1; 32], false)));
        assert_eq!(seal.open(&session, NOW + LENGTH_MS), Some(([1; 32], true)));
        assert_eq!(other.open(&session, NOW), None);
        assert_ne!(seal.seal(&[1; 32], NOW).unwrap(), session);
    }

    #[test]
    fn a_session_that_is_cut_or_changed_anywhere_is_none() {
        let seal = Seal::new(&[7; 32]).unwrap();
        let session = seal.seal(&[1; 32], NOW).unwrap();
        for at in 0..session.len() {
            let mut forged = session.clone().into_bytes();
            forged[at] = if forged[at] == b'A' { b'B' } else { b'A' };
            assert_eq!(seal.open(std::str::from_utf8(&forged).unwrap(), NOW), None, "{at}");
            assert_eq!(seal.open(&session[..at], NOW), None, "{at}");
        }
        for forged in ["", "x", &format!("{session}A"), &"A".repeat(500)] {
            assert_eq!(seal.open(forged, NOW), None);
        }
    }

    #[test]
    fn a_cookie_is_named_and_guarded_by_where_it_is_set() {
        for (place, cookie) in [
            (
                Place::new(false, "", ""),
                "dueq_session=x; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict",
            ),
            (
                Place::new(false, "/dueq/", ""),
                "dueq_session=x; Path=/dueq; Max-Age=43200; HttpOnly; SameSite=Strict",
            ),
            (
                Place::new(true, "/", ""),
                "__Host-dueq_session=x; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure",
            ),
            (
                Place::new(true, "/dueq", ""),
                "__Secure-dueq_session=x; Path=/dueq; Max-Age=43200; HttpOnly; SameSite=Strict; Secure",
            ),
        ] {
            assert_eq!(place.set_cookie("x").unwrap(), cookie);
        }
        assert!(
            Place::new(false, "", "")
                .set_cookie("")
                .unwrap()
                .to_str()
                .unwrap()
                .contains("Max-Age=0")
        );
    }

    #[test]
    fn a_session_counts_with_the_header_of_pages_and_alone() {
        let place = Place::new(false, "", "");
        let of = |pairs: &[(&'static str, &'static str)]| {
            place.session_in(&headers(pairs)).map(str::to_owned)
        };
        assert_eq!(
            of(&[("dueq-ui", "1"), ("cookie", "a=b; dueq_session=x;c=d")]),
            Some("x".to_owned())
        );
        let mut foreign = headers(&[("dueq-ui", "1")]);
        let cookies = HeaderValue::from_bytes(b"a=\xff\xfe; dueq_session=x").unwrap();
        foreign.insert(header::COOKIE, cookies);
        assert_eq!(place.session_in(&foreign), Some("x"), "beside what is no text");
        for none in [
            &[("cookie", "dueq_session=x")][..],
            &[("dueq-ui", "0"), ("cookie", "dueq_session=x")],
            &[("dueq-ui", "1"), ("cookie", "xdueq_session=x; dueq_session2=y")],
            &[("dueq-ui", "1"), ("cookie", "dueq_session=x; dueq_session=y")],
            &[("dueq-ui", "1"), ("cookie", "dueq_session=x"), ("cookie", "dueq_session=x")],
            &[("dueq-ui", "1")],
        ] {
            assert_eq!(of(none), None, "{none:?}");
        }
    }

    #[test]
    fn a_request_is_of_this_origin_or_of_no_page() {
        let of = |pairs: &[(&'static str, &'static str)]| {
            Place::new(false, "", "https://public.example").is_home_of(&headers(pairs))
        };
        for ours in [
            &[("host", "q.example")][..],
            &[("host", "upstream:80"), ("origin", "https://public.example")],
            &[("host", "q.example:8080"), ("origin", "http://q.example:8080")],
            &[
                ("host", "q.example"),
                ("origin", "https://Q.example"),
                ("sec-fetch-site", "same-origin"),
            ],
        ] {
            assert!(of(ours), "{ours:?}");
        }
        for foreign in [
            &[("host", "q.example"), ("origin", "https://evil.example")][..],
            &[("host", "q.example"), ("origin", "null")],
            &[("host", "q.example"), ("origin", "q.example")],
            &[("host", "q.example"), ("origin", "https://q.example:1")],
            &[("origin", "https://q.example")],
            &[("host", "q.example"), ("sec-fetch-site", "same-site")],
            &[("host", "q.example"), ("sec-fetch-site", "cross-site")],
            &[("host", "q.example"), ("sec-fetch-site", "none")],
        ] {
            assert!(!of(foreign), "{foreign:?}");
        }
    }
}
