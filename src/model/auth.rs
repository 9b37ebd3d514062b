//! How a call proves who is calling: by a user's name and password, or by a token of OAuth 2.0 client credentials (RFC 6749,
//! 4.4).

use super::{CallUrl, MASK, MaskError, Secret, Unknown};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde::{Deserialize, Serialize};
use std::hash::{Hash, Hasher};
use url::form_urlencoded::{Serializer, byte_serialize};

/// A kind of [`Auth`]: `basic`, a user name and a password; `oauth2`, a token of client credentials.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum AuthKind {
    /// HTTP Basic.
    Basic,
    /// OAuth 2.0 client credentials.
    Oauth2,
}

/// How a call proves who is calling. The secret is never shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Auth {
    /// The kind.
    pub kind: AuthKind,
    /// The user's name or the client's id.
    pub name: String,
    /// The password or the client's secret.
    pub secret: Secret,
    /// Where tokens are fetched, for `oauth2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_url: Option<CallUrl>,
    /// What tokens are to be good for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// Whom tokens are for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// What a later version says of it.
    #[serde(flatten)]
    pub unknown: Unknown,
}

/// By all that tokens are fetched with.
impl Hash for Auth {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { name, secret, token_url, scope, audience, .. } = self;
        let token_url = token_url.as_ref().map(CallUrl::as_str);
        (name, secret.reveal(), token_url, scope, audience).hash(state);
    }
}

impl Auth {
    /// The secret as requests and answers call it.
    pub fn secret_name(&self) -> &'static str {
        match self.kind {
            AuthKind::Basic => "password",
            AuthKind::Oauth2 => "client_secret",
        }
    }

    /// Is the secret the mask, which stands for the stored one?
    pub fn is_kept(&self) -> bool {
        self.secret.reveal() == MASK
    }

    /// Puts the `stored` secret in place of the mask. It is kept for the same receiver, which it is not if this is
    /// `elsewhere`, and the same origin of the token URL.
    pub fn keep(&mut self, stored: Option<&Self>, elsewhere: bool) -> Result<(), MaskError> {
        if !self.is_kept() {
            return Ok(());
        }
        let name = format!("auth.{}", self.secret_name());
        let origin = |auth: &Self| auth.token_url.as_ref().and_then(CallUrl::origin);
        match stored.filter(|stored| stored.kind == self.kind) {
            None => Err(MaskError::Nothing(name)),
            Some(stored) if elsewhere || origin(stored) != origin(self) => {
                Err(MaskError::Elsewhere(name))
            }
            Some(stored) => {
                self.secret.clone_from(&stored.secret);
                Ok(())
            }
        }
    }

    /// The value of the header `authorization` that has name and secret. Those of a client are encoded first (RFC 6749, 2.3.1).
    pub fn basic(&self) -> String {
        let [name, secret] = [self.name.as_str(), self.secret.reveal()];
        let pair = match self.kind {
            AuthKind::Basic => format!("{name}:{secret}"),
            AuthKind::Oauth2 => {
                let encoded = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                format!("{}:{}", encoded(name), encoded(secret))
            }
        };
        format!("Basic {}", STANDARD.encode(pair))
    }

    /// The form that asks for a token.
    pub fn grant(&self) -> String {
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "client_credentials");
        for (name, value) in [("scope", &self.scope), ("audience", &self.audience)] {
            if let Some(value) = value {
                form.append_pair(name, value);
            }
        }
        form.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn auth(kind: &str, secret: &str, token_url: &str) -> Auth {
        let (name, scope) = ("a:b", "r w");
        let auth = serde_json::json!({"kind": kind, "name": name, "secret": secret, "token_url": token_url, "scope": scope});
        serde_json::from_value(auth).unwrap()
    }

    #[test]
    fn a_client_is_encoded_before_it_is_joined_with_its_secret() {
        let client = auth("oauth2", "s%é+", "http://a/");
        // printf '%s' 'a%3Ab:s%25%C3%A9%2B' | base64
        assert_eq!(client.basic(), "Basic YSUzQWI6cyUyNSVDMyVBOSUyQg==");
        assert_eq!(client.grant(), "grant_type=client_credentials&scope=r+w");
        assert_eq!(auth("basic", "s%", "http://a/").basic(), "Basic YTpiOnMl");
        assert!(!format!("{client:?}").contains("s%"));
    }

    #[test]
    fn a_secret_is_kept_for_the_same_kind_and_places() {
        let stored = auth("oauth2", "s", "http://a/token");
        let put = |kind: &str, url: &str, elsewhere| {
            let mut put = auth(kind, MASK, url);
            put.keep(Some(&stored), elsewhere).map(|()| put.secret.reveal().to_owned())
        };
        let elsewhere = Err(MaskError::Elsewhere("auth.client_secret".to_owned()));
        assert_eq!(put("oauth2", "http://a/new", false), Ok("s".to_owned()));
        assert_eq!(put("oauth2", "http://a/new", true), elsewhere);
        assert_eq!(put("oauth2", "http://b/token", false), elsewhere);
        let nothing = Err(MaskError::Nothing("auth.password".to_owned()));
        assert_eq!(put("basic", "http://a/token", false), nothing);
    }
}
