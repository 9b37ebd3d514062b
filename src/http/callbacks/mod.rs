//! Callbacks: where dueq sends a message in place of its topic's URL; and scheduleCallback, a message of dueq's own topic
//! `_callbacks`, for clients that only want a URL to be called later.

pub(crate) mod auth;
pub(crate) mod batch;
pub(crate) mod hosts;
pub(crate) mod retry;

use crate::{
    messages::{
        completion::EndFields,
        publish::{PublishedMessage, publish},
    },
    prelude::*,
};
use auth::{AuthRequest, AuthView};
use dueq_model::{
    Auth, Body, CallMethod, CallUrl, Callback, DEFAULT_CALL_TIMEOUT_MS, MASK, MAX_CERT_NAME,
    MAX_HEADERS, Millis, SigningSecret, TopicName, Unknown,
};
use dueq_store::NewMessage;
use retry::{RetryRequest, RetryView};

/// Names of headers whose values are never read back.
pub type SecretHeaders = List<SecretHeader, 0, MAX_HEADERS>;

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
        /// How long looking up the name, connecting and the TLS handshake may take together, ms, within `timeout_ms`.
        /// Default: the topic's, or 10000, of which 5000 without the handshake.
        pub connect_timeout_ms: Option<CallTimeoutMs>,
        /// Which failed calls are retried. It replaces the topic's `retry` as a whole; `{}` retries as without any.
        pub retry: Option<RetryRequest>,
        /// How the call proves who is calling, in place of the topic's `auth` and of a header `authorization`, which must not
        /// be given with it. When a callback replaces another, `***` keeps the stored secret.
        pub auth: Option<AuthRequest>,
        /// The name of the client certificate of the call, by https, as `--callback-client-cert` has it. Default: the topic's,
        /// if its URL has the same origin.
        pub client_cert: Option<Text<1, MAX_CERT_NAME>>,
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
            connect_timeout_ms: request.connect_timeout_ms.map(CallTimeoutMs::millis),
            retry: request.retry.and_then(Into::into),
            client_cert: request.client_cert.map(Text::into_string),
            auth: request.auth.and_then(Into::<Option<Auth>>::into).map(Box::new),
            secret_headers: request.secret_headers.map(Vec::from).unwrap_or_default(),
            secret: request.secret,
            unknown: Unknown::new(),
        }
    }
}

answer! {
    /// Where dueq sends a message instead of its topic's URL.
    #[name = "Callback"]
    pub struct CallbackView<'a> {
        /// The URL.
        url: &'a str,
        /// The HTTP method. Absent: the topic's.
        method: Option<CallMethod>,
        /// How long the call may take, ms. Absent: the topic's.
        timeout_ms: Option<i64>,
        /// How long looking up the name, connecting and the TLS handshake may take together, ms. Absent: the topic's.
        connect_timeout_ms: Option<i64>,
        /// Which failed calls are retried. Absent: the topic's.
        retry: Option<RetryView<'a>>,
        /// How the call proves who is calling. Absent: as the topic says.
        auth: Option<AuthView<'a>>,
        /// The name of the client certificate of the call. Absent: the topic's.
        client_cert: Option<&'a str>,
        /// Further headers of the message that read `***`, besides `authorization` and `cookie`. Absent: no others.
        secret_headers: Option<&'a Vec<String>>,
        /// `***` if it has its own signing secret.
        secret: Option<&'static str>,
    }
}

impl<'a> From<&'a Callback> for CallbackView<'a> {
    fn from(callback: &'a Callback) -> Self {
        let Callback { url, method, timeout_ms, connect_timeout_ms, retry, .. } = callback;
        let Callback { auth, secret_headers, secret, .. } = callback;
        Self {
            url: url.as_str(),
            method: *method,
            timeout_ms: *timeout_ms,
            connect_timeout_ms: *connect_timeout_ms,
            retry: retry.as_ref().map(RetryView::from),
            auth: auth.as_deref().map(AuthView::from),
            client_cert: callback.client_cert.as_deref(),
            secret_headers: Some(secret_headers).filter(|names| !names.is_empty()),
            secret: secret.as_ref().map(|_| MASK),
        }
    }
}

impl AppState {
    /// Checks a new message's callback at `place`, where `***` keeps nothing.
    ///
    /// Errors: 422 `invalid_input`, `callback_address_refused`.
    pub fn check_new_callback(
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
        if let Some(auth) = callback.auth.as_ref().filter(|auth| auth.is_kept()) {
            return Err(Error::NothingMasked(field(&format!("auth.{}", auth.secret_name()))).into());
        }
        self.check_callback(Some(callback), &place())
    }

    /// Checks whether the URLs of a callback at `place` may be called, without a look-up of their names.
    ///
    /// Errors: 422 `callback_address_refused`.
    pub fn check_callback(&self, callback: Option<&Callback>, place: &str) -> Result<(), Problem> {
        let Some(callback) = callback else { return Ok(()) };
        let field = |name: &str| match place {
            "" => name.to_owned(),
            place => format!("{place}.{name}"),
        };
        self.check_url(Some(&callback.url), || field("url"))?;
        let token_url = callback.auth.as_ref().and_then(|auth| auth.token_url.as_ref());
        self.check_url(token_url, || field("auth.token_url"))?;
        self.check_client_cert(callback.client_cert.as_deref(), || field("client_cert"))
    }

    /// Checks whether there is a client certificate of the name at `field`.
    pub fn check_client_cert(
        &self,
        name: Option<&str>,
        field: impl FnOnce() -> String,
    ) -> Result<(), Problem> {
        match name {
            Some(name) if !self.client_certs.iter().any(|known| known == name) => {
                let reason = "must be the name of a --callback-client-cert".into();
                Err(Problem::invalid(vec![FieldError { field: field(), reason }]))
            }
            _ => Ok(()),
        }
    }

    /// Checks whether this URL at `field` may be called, without a look-up of its name.
    ///
    /// Errors: 422 `callback_address_refused`.
    pub fn check_url(
        &self,
        url: Option<&CallUrl>,
        field: impl FnOnce() -> String,
    ) -> Result<(), Problem> {
        let Some(Err(error)) = url.map(|url| self.addresses.check_url(url)) else { return Ok(()) };
        let errors = vec![FieldError { field: field(), reason: error.to_string().into() }];
        Err(Problem::invalid(errors).named(Code::CallbackAddressRefused))
    }
}

request! {
    /// A URL to call later, and what to send. At most one of `payload` and `payload_base64`; without either, the body
    /// is empty. At most one of `delay_ms` and `deliver_at`. The callback is a message in the topic `_callbacks`.
    #[example = json!({"url": "https://example.com/hooks/orders", "payload": {"order": 42}, "delay_ms": 1_800_000})]
    pub struct ScheduleCallbackRequest {
        pub call: Flat<CallbackRequest>,
        pub content: Flat<ContentFields>,
        pub key: Flat<KeyFields>,
        pub policy: Flat<PolicyFields>,
        pub publish: Flat<PublishFields>,
        pub ends: Flat<EndFields>,
    }
    check(fields) {
        check_policies(fields, key.as_ref(), publish.as_ref());
        if let Some(content) = &content {
            refuse_own_headers(fields, content.headers.as_ref(), "");
        }
    }
}

impl ScheduleCallbackRequest {
    /// The message that the callback becomes.
    pub fn into_message(self) -> NewMessage {
        let said = Callback::from(self.call.0);
        // In this topic the defaults are known, and a default that is said is the same request as one that is not.
        let plain = Callback {
            method: said.method.filter(|method| *method != CallMethod::default()),
            timeout_ms: said.timeout_ms.filter(|ms| *ms != DEFAULT_CALL_TIMEOUT_MS as Millis),
            ..said.clone()
        };
        let Self { content, key, policy, ends, .. } = self;
        let message = MessageFields { content, key, policy, ends: ends.0 };
        let mut message = new_message(message, Some(self.publish.0), Some(plain));
        message.body.callback = Some(said);
        message
    }
}

/// Have a URL called later.
///
/// Stores a message in dueq's own topic `_callbacks`. dueq sends it to `url` when it is due, and again after a failure.
/// Every message route works on its id. With `idempotency_key` the request is safe to repeat.
#[utoipa::path(
    post, path = "/callbacks", tag = "callbacks", params(IdempotencyKey),
    request_body(content = ScheduleCallbackRequest, description = "The callback"),
    responses(
        (status = 201, description = "The callback is stored", body = PublishedMessage,
            headers(("Location" = String, description = "Path of the message; its URL if the server has a public one"))),
        (status = 200, description = "An existing callback answers for the request", body = PublishedMessage,
            headers(("Location" = String, description = "Path of the message; its URL if the server has a public one"))),
        CallbackProblems, RedisProblems,
    ),
)]
pub async fn schedule_callback(
    State(state): State<AppState>,
    caller: Caller,
    trace: Trace,
    _: NoQuery,
    payload: Payload,
) -> Result<Response, Problem> {
    let request = payload.read::<ScheduleCallbackRequest>(take_idempotency_header)?;
    let mut message = request.into_message();
    message.body.publisher = Some(caller.owner().to_owned());
    state.check_new_callback(&message.body, String::new)?;
    state.check_completions(&message.body, String::new)?;
    publish(&state, &caller, &trace, TopicName::callbacks(), message).await
}

#[cfg(test)]
mod tests {
    use super::*;
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
            ("1", "(body)"),
            ("{}", "url"),
            (r#"{"url":7}"#, "url"),
            (r#"{"url":"ftp://example.com/"}"#, "url"),
            (r#"{"url":"http://example.com/","method":"get"}"#, "method"),
            (r#"{"url":"http://example.com/","timeout_ms":99}"#, "timeout_ms"),
            (r#"{"url":"http://example.com/","connect_timeout_ms":99}"#, "connect_timeout_ms"),
            (r#"{"url":"http://example.com/","retry":{"only":[]}}"#, "retry.only"),
            (r#"{"url":"http://example.com/","auth":{}}"#, "auth.kind"),
            (r#"{"url":"http://example.com/","headers":{}}"#, "headers"),
            (r#"{"url":"http://example.com/","secret_headers":"x"}"#, "secret_headers"),
            (r#"{"url":"http://example.com/","secret_headers":["a b"]}"#, "secret_headers[0]"),
            (r#"{"url":"http://example.com/","secret":7}"#, "secret"),
        ] {
            assert_eq!(read(text), Err(vec![field.to_owned()]), "{text}");
        }
    }

    fn of(text: &'static str) -> NewMessage {
        let body = Bytes::from_static(text.as_bytes());
        let request = Fields::of_json(&body).unwrap().read::<ScheduleCallbackRequest>();
        request.unwrap().into_message()
    }

    #[test]
    fn a_default_that_is_said_is_the_same_request() {
        let short = of(r#"{"url":"http://example.com/","idempotency_key":"k"}"#);
        let long = of(r#"{"url":"http://example.com/","method":"POST","timeout_ms":15000,
            "payload_base64":"","idempotency_key":"k"}"#);
        assert_eq!(short.options, long.options);
        assert_ne!(short.body.callback, long.body.callback, "each is shown as it was said");
        let other = of(r#"{"url":"http://example.com/","method":"PUT","idempotency_key":"k"}"#);
        assert_ne!(short.options, other.options);
    }
}
