//! How calls prove who is calling, as requests say and answers show it. Secrets are never shown.

use crate::prelude::*;
use dueq_model::{Auth, AuthKind, CallUrl, MASK, Secret, Unknown};

/// Characters of a part, at most.
const MAX_CHARS: usize = 2_048;

request! {
    /// How calls prove who is calling. `basic`: by HTTP Basic, with `username` and `password`. `oauth2`: by a token that dueq
    /// fetches at `token_url` with the client's id and secret (client credentials, RFC 6749, 4.4), and keeps till shortly before its end.
    #[example = json!({"kind": "oauth2", "token_url": "https://login.example.com/token", "client_id": "dueq", "client_secret": "…"})]
    pub struct AuthRequest {
        /// The kind. The other fields belong to this kind.
        pub kind: AuthKind,
        /// `basic`: the user's name, without a colon.
        pub username: Option<Text<0, MAX_CHARS>>,
        /// `basic`: the password. It reads `***`, and `***` keeps the stored one.
        pub password: Option<Text<0, MAX_CHARS>>,
        /// `oauth2`: where tokens are fetched: an absolute http or https URL on a host that dueq may call.
        pub token_url: Option<CallUrl>,
        /// `oauth2`: the client's id.
        pub client_id: Option<Text<1, MAX_CHARS>>,
        /// `oauth2`: the client's secret. It reads `***`, and `***` keeps the stored one.
        pub client_secret: Option<Text<1, MAX_CHARS>>,
        /// `oauth2`: what the token is to be good for, as the server names it. Default: the server decides.
        pub scope: Option<Text<1, MAX_CHARS>>,
        /// `oauth2`: whom the token is for, where the server asks for it.
        pub audience: Option<Text<1, MAX_CHARS>>,
    }
    check(fields) {
        // An unknown kind has no known fields.
        if let Some(kind) = kind {
            for (name, is_given, of, required) in [
                ("username", given(&username), AuthKind::Basic, true),
                ("password", given(&password), AuthKind::Basic, true),
                ("token_url", given(&token_url), AuthKind::Oauth2, true),
                ("client_id", given(&client_id), AuthKind::Oauth2, true),
                ("client_secret", given(&client_secret), AuthKind::Oauth2, true),
                ("scope", given(&scope), AuthKind::Oauth2, false),
                ("audience", given(&audience), AuthKind::Oauth2, false),
            ] {
                if is_given && of != kind {
                    fields.refuse(name, "does not belong to this kind");
                } else if !is_given && of == kind && required {
                    fields.refuse(name, "is required");
                }
            }
        }
        let has = |text: Option<&str>, bad: fn(char) -> bool| text.is_some_and(|text| text.contains(bad));
        let [name, secret] = [&username, &password].map(|it| it.as_ref().and_then(|it| it.as_deref()));
        if has(name, |c| c == ':' || c.is_control()) {
            fields.refuse("username", "must not contain colons or control characters");
        }
        if has(secret, char::is_control) {
            fields.refuse("password", "must not contain control characters");
        }
    }
}

impl From<AuthRequest> for Option<Auth> {
    fn from(request: AuthRequest) -> Self {
        let [scope, audience] =
            [request.scope, request.audience].map(|it| it.map(Text::into_string));
        Some(Auth {
            kind: request.kind,
            name: match request.username {
                Some(name) => name.into_string(),
                None => request.client_id?.into_string(),
            },
            secret: Secret::from(match request.password {
                Some(password) => password.into_string(),
                None => request.client_secret?.into_string(),
            }),
            token_url: request.token_url,
            scope,
            audience,
            unknown: Unknown::new(),
        })
    }
}

answer! {
    /// How calls prove who is calling.
    #[name = "Auth"]
    pub struct AuthView<'a> {
        /// The kind.
        kind: AuthKind,
        /// `basic`: the user's name.
        username: Option<&'a str>,
        /// `basic`: `***`.
        password: Option<&'static str>,
        /// `oauth2`: where tokens are fetched.
        token_url: Option<&'a str>,
        /// `oauth2`: the client's id.
        client_id: Option<&'a str>,
        /// `oauth2`: `***`.
        client_secret: Option<&'static str>,
        /// `oauth2`: what the token is to be good for. Absent: the server decides.
        scope: Option<&'a str>,
        /// `oauth2`: whom the token is for. Absent: the server decides.
        audience: Option<&'a str>,
    }
}

impl<'a> From<&'a Auth> for AuthView<'a> {
    fn from(Auth { kind, name, token_url, scope, audience, .. }: &'a Auth) -> Self {
        let only = |of| (*kind == of).then_some(());
        let (basic, oauth2) = (only(AuthKind::Basic), only(AuthKind::Oauth2));
        Self {
            kind: *kind,
            username: basic.map(|()| name.as_str()),
            password: basic.map(|()| MASK),
            token_url: token_url.as_ref().map(CallUrl::as_str),
            client_id: oauth2.map(|()| name.as_str()),
            client_secret: oauth2.map(|()| MASK),
            scope: scope.as_deref(),
            audience: audience.as_deref(),
        }
    }
}
