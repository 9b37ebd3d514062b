//! What a message says of where dueq sends it.

use super::{
    AppState,
    input::{CallTimeoutMs, List, SecretHeader, request},
    problem::{Code, FieldError, Problem},
};
use crate::{
    error::Error,
    model::{Body, CallMethod, CallUrl, Callback, MASK, MAX_HEADERS, SigningSecret},
};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

/// Names of headers whose values are never read back.
pub(super) type SecretHeaders = List<SecretHeader, 0, MAX_HEADERS>;

request! {
    /// Where dueq sends a message instead of its topic's URL.
    #[example = json!({"url": "https://example.com/hooks/orders"})]
    pub struct CallbackRequest {
        /// An absolute http or https URL without user and password, on a host that dueq may call.
        pub url: CallUrl,
        /// The HTTP method. Default: the topic's, or POST.
        pub method: Option<CallMethod>,
        /// How long the call may take, ms. Default: the topic's, or 15000.
        pub timeout_ms: Option<CallTimeoutMs>,
        /// Further headers of the message whose values are never shown, besides `authorization` and `cookie`. At most
        /// 32.
        pub secret_headers: Option<SecretHeaders>,
        /// Signing secret per Standard Webhooks, in place of the topic's or the server's: `whsec_` and 24 to 64 bytes
        /// in base64. It is never shown. When a callback replaces another, `***` keeps the stored secret.
        pub secret: Option<SigningSecret>,
    }
}

impl From<CallbackRequest> for Callback {
    fn from(request: CallbackRequest) -> Self {
        Self {
            url: request.url,
            method: request.method,
            timeout_ms: request.timeout_ms.map(CallTimeoutMs::millis),
            secret_headers: names_of(request.secret_headers),
            secret: request.secret,
        }
    }
}

/// The names as text.
pub(super) fn names_of(headers: Option<SecretHeaders>) -> Vec<String> {
    headers.into_iter().flat_map(|names| names.0).map(|name| name.0).collect()
}

/// Where dueq sends a message instead of its topic's URL.
#[derive(Serialize, ToSchema)]
#[schema(as = Callback)]
pub struct CallbackView<'a> {
    /// The URL.
    url: &'a str,
    /// The HTTP method. Absent: the topic's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    method: Option<CallMethod>,
    /// How long the call may take, ms. Absent: the topic's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    timeout_ms: Option<i64>,
    /// Further headers of the message that read `***`, besides `authorization` and `cookie`. Absent: no others.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    #[schema(value_type = Vec<String>, required = false)]
    secret_headers: &'a [String],
    /// `***` if it has its own signing secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = String, required = false)]
    secret: Option<&'static str>,
}

impl<'a> From<&'a Callback> for CallbackView<'a> {
    fn from(callback: &'a Callback) -> Self {
        let Callback { url, method, timeout_ms, secret_headers, secret } = callback;
        Self {
            url: url.as_str(),
            method: *method,
            timeout_ms: *timeout_ms,
            secret_headers,
            secret: secret.as_ref().map(|_| MASK),
        }
    }
}

impl AppState {
    /// May a new message's callback, which stands at `place`, be taken? `***` keeps nothing there.
    ///
    /// Errors: 422 `invalid_input`, `callback_address_refused`.
    pub(super) fn check_new_callback(
        &self,
        body: &Body,
        place: impl Fn() -> String,
    ) -> Result<(), Problem> {
        let Some(callback) = &body.callback else { return Ok(()) };
        let field = |name: &str| match place() {
            place if place.is_empty() => name.to_owned(),
            place => format!("{place}.{name}"),
        };
        if callback.secret.as_ref().is_some_and(SigningSecret::is_kept) {
            return Err(Error::NothingMasked(field("secret")).into());
        }
        self.check_url(Some(&callback.url), || field("url"))
    }

    /// May this URL be called, as far as it can be told without asking for its name? `field` is where it stands.
    ///
    /// Errors: 422 `callback_address_refused`.
    pub(super) fn check_url(
        &self,
        url: Option<&CallUrl>,
        field: impl FnOnce() -> String,
    ) -> Result<(), Problem> {
        let Some(Err(error)) = url.map(|url| self.addresses.check_url(url)) else { return Ok(()) };
        let errors = vec![FieldError { field: field(), reason: error.to_string().into() }];
        Err(Problem::invalid(errors).named(Code::CallbackAddressRefused, error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::input::Fields, *};
    use bytes::Bytes;

    fn read(text: &'static str) -> Result<Callback, Vec<String>> {
        let body = Bytes::from_static(text.as_bytes());
        let read = Fields::of_json(&body).and_then(Fields::read::<CallbackRequest>);
        let named = |problem: Problem| problem.body("").errors.into_iter().map(|e| e.field);
        read.map(Callback::from).map_err(|problem| named(problem).collect())
    }

    #[test]
    fn a_callback_is_read_with_its_parts_and_refused_by_name() {
        let callback = read(r#"{"url":"http://example.com/","method":"PUT","timeout_ms":100}"#);
        let url = CallUrl::parse("http://example.com/").unwrap();
        let (method, timeout_ms) = (Some(CallMethod::Put), Some(100));
        assert_eq!(callback, Ok(Callback { method, timeout_ms, ..Callback::to(url) }));
        for (text, field) in [
            ("1", ""),
            ("{}", "url"),
            (r#"{"url":7}"#, "url"),
            (r#"{"url":"ftp://example.com/"}"#, "url"),
            (r#"{"url":"http://example.com/","method":"get"}"#, "method"),
            (r#"{"url":"http://example.com/","timeout_ms":99}"#, "timeout_ms"),
            (r#"{"url":"http://example.com/","headers":{}}"#, "headers"),
            (r#"{"url":"http://example.com/","secret_headers":"x"}"#, "secret_headers"),
            (r#"{"url":"http://example.com/","secret_headers":["a b"]}"#, "secret_headers[0]"),
            (r#"{"url":"http://example.com/","secret":7}"#, "secret"),
        ] {
            assert_eq!(read(text), Err(vec![field.to_owned()]), "{text}");
        }
    }
}
