//! What a message says of where dueq sends it, and what holds of every request that dueq sends: its URL, its method, its
//! time, its headers. Pushed topics say the same of all their messages.

use super::{
    AppState,
    fields::Fields,
    problem::{FieldError, Problem},
};
use crate::model::{
    CallMethod, CallUrl, Callback, InvalidSecret, MASK, MAX_CALL_TIMEOUT_MS, MAX_HEADERS,
    MIN_CALL_TIMEOUT_MS, Millis, SigningSecret, is_own_header,
};
use axum::http::HeaderName;
use serde::Serialize;
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Characters of the name of a secret header, at most.
const MAX_NAME: usize = 128;

/// Where dueq sends a message, in place of its topic's URL.
#[derive(ToSchema)]
#[schema(example = json!({"url": "https://example.com/hooks/orders"}))]
#[serde(deny_unknown_fields)]
#[allow(dead_code, reason = "describes the field; it is read field by field")]
pub struct CallbackRequest {
    /// An absolute http or https URL without user and password, of a host that dueq may call.
    #[schema(format = "uri", max_length = 2048)]
    url: String,
    /// The method; the topic's otherwise.
    method: Option<CallMethod>,
    /// How long the call may take, ms; the topic's otherwise.
    #[schema(minimum = 100, maximum = 1_800_000)]
    timeout_ms: Option<i64>,
    /// Headers of the message whose values are never read back, beside `authorization` and `cookie`, at most 32.
    #[schema(max_items = 32)]
    secret_headers: Option<Vec<String>>,
    /// What the call is signed with in place of the topic's secrets, per Standard Webhooks: `whsec_` and 24 to 64 bytes in
    /// base64. Where a callback is put in place of another one, `***` keeps the secret that is stored.
    secret: Option<String>,
}

/// Where dueq sends a message, in place of its topic's URL.
#[derive(Serialize, ToSchema)]
#[schema(as = Callback)]
pub struct CallbackView<'a> {
    /// The URL, as it was given.
    url: &'a str,
    /// The method; the topic's where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    method: Option<CallMethod>,
    /// How long the call may take, ms; the topic's where absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    timeout_ms: Option<i64>,
    /// Headers of the message that show as `***`, beside `authorization` and `cookie`; absent: no others.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    #[schema(value_type = Vec<String>, required = false)]
    secret_headers: &'a [String],
    /// `***` where it has a signing secret of its own.
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

/// Reads the callback of this name.
pub(super) fn read_callback(fields: &mut Fields<'_>, name: &str) -> Option<Callback> {
    fields.object(name, |fields| read_call(fields, SigningSecret::parse)).flatten()
}

/// Reads the callback of this name that is put in place of another one, whose secret `***` keeps.
pub(super) fn read_new_callback(fields: &mut Fields<'_>, name: &str) -> Option<Callback> {
    let secret = |text: &str| match text {
        MASK => Ok(SigningSecret::kept()),
        text => SigningSecret::parse(text),
    };
    fields.object(name, |fields| read_call(fields, secret)).flatten()
}

/// Reads the fields of a callback, its secret by `parse`.
pub(super) fn read_call(
    fields: &mut Fields<'_>,
    parse: impl Fn(&str) -> Result<SigningSecret, InvalidSecret>,
) -> Option<Callback> {
    let (method, timeout_ms) = (read_method(fields), read_timeout(fields));
    let secret_headers = read_secret_headers(fields);
    let secret = match fields.string("secret", 0..=usize::MAX).map(|text| parse(&text)) {
        Some(Err(error)) => {
            fields.refuse("secret", error.to_string());
            None
        }
        secret => secret.transpose().ok().flatten(),
    };
    let url = read_url(fields);
    let url = fields.required("url", url)?;
    Some(Callback { url, method, timeout_ms, secret_headers, secret })
}

/// Reads `secret_headers`.
pub(super) fn read_secret_headers(fields: &mut Fields<'_>) -> Vec<String> {
    let read = |name: &str| match HeaderName::from_bytes(name.as_bytes()) {
        Ok(_) if name.len() <= MAX_NAME => Ok(name.to_owned()),
        _ => Err(format!("must be an HTTP header name of at most {MAX_NAME} characters")),
    };
    fields.strings("secret_headers", 0..=MAX_HEADERS, read).unwrap_or_default()
}

/// Reads `url`.
pub(super) fn read_url(fields: &mut Fields<'_>) -> Option<CallUrl> {
    match CallUrl::parse(&fields.string("url", 0..=usize::MAX)?) {
        Ok(url) => Some(url),
        Err(error) => {
            fields.refuse("url", error.to_string());
            None
        }
    }
}

/// Reads `method`.
pub(super) fn read_method(fields: &mut Fields<'_>) -> Option<CallMethod> {
    fields.choice("method", &CallMethod::ALL)
}

/// Reads `timeout_ms`.
pub(super) fn read_timeout(fields: &mut Fields<'_>) -> Option<Millis> {
    let range = MIN_CALL_TIMEOUT_MS..=MAX_CALL_TIMEOUT_MS;
    fields.integer("timeout_ms", range).map(|timeout| timeout as Millis)
}

/// Refuses, among the `headers` of what is called, those that are not the user's to set.
pub(super) fn refuse_own_headers(fields: &mut Fields<'_>, headers: &BTreeMap<String, String>) {
    for name in headers.keys() {
        if is_own_header(name) {
            fields.refuse(&format!("headers.{name}"), "is set by dueq itself on what it calls");
        }
    }
}

impl AppState {
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
        Err(Problem::invalid(errors).named("callback_address_refused", error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::{super::values::tests::read, *};

    #[test]
    fn a_callback_is_read_with_its_parts_and_refused_by_name() {
        let text = r#"{"url":"http://example.com/","method":"PUT","timeout_ms":100}"#;
        let (callback, errors) = read(text, |fields| read_callback(fields, "v"));
        let url = CallUrl::parse("http://example.com/").unwrap();
        let (method, timeout_ms) = (Some(CallMethod::Put), Some(100));
        assert_eq!(
            (callback, errors),
            (Some(Callback { method, timeout_ms, ..Callback::to(url) }), vec![])
        );
        for (text, field) in [
            ("1", "v"),
            ("{}", "v.url"),
            (r#"{"url":7}"#, "v.url"),
            (r#"{"url":"ftp://example.com/"}"#, "v.url"),
            (r#"{"url":"http://example.com/","method":"get"}"#, "v.method"),
            (r#"{"url":"http://example.com/","timeout_ms":99}"#, "v.timeout_ms"),
            (r#"{"url":"http://example.com/","headers":{}}"#, "v.headers"),
            (r#"{"url":"http://example.com/","secret_headers":"x"}"#, "v.secret_headers"),
            (r#"{"url":"http://example.com/","secret_headers":["a b"]}"#, "v.secret_headers[0]"),
            (r#"{"url":"http://example.com/","secret":"***"}"#, "v.secret"),
            (r#"{"url":"http://example.com/","secret":7}"#, "v.secret"),
        ] {
            let (_, errors) = read(text, |fields| read_callback(fields, "v"));
            let named: Vec<_> = errors.iter().map(|(field, _)| field.as_str()).collect();
            assert_eq!(named, [field], "{text}");
        }
    }

    #[test]
    fn headers_of_the_request_itself_are_not_the_users() {
        for (name, refused) in [
            ("Host", true),
            ("CONTENT-type", true),
            ("Proxy-Anything", true),
            ("webhook-id", true),
            ("Dueq-Attempt", true),
            ("transfer-encoding", true),
            ("x-host", false),
            ("webhooks", false),
            ("authorization", false),
            ("user-agent", false),
        ] {
            let headers = BTreeMap::from([(name.to_owned(), String::new())]);
            let mut fields = Fields::none();
            refuse_own_headers(&mut fields, &headers);
            assert_eq!(fields.finish().is_err(), refused, "{name}");
        }
    }
}
