//! createSession, getSession, deleteSession: how dueq's own pages use an API key without keeping it.

use crate::prelude::*;
use crate::server::proxies::Peer;
use axum::http::{HeaderValue, header};

/// The longest API key.
const MAX_KEY: usize = 256;

request! {
    /// An API key to log in with.
    #[example = json!({"api_key": "dq_lZ5TiLOtWIvDKkhN-PbZAeAiIT1q9vdB35wHYMS0wOU"})]
    pub struct CreateSessionRequest {
        /// The key.
        pub api_key: Text<1, MAX_KEY>,
    }
}

answer! {
    /// Who sends the request, and what they may do.
    pub struct Session<'a> {
        /// The name of the API key; `anonymous` if the server has no keys.
        #[example = "billing"]
        name: &'a str,
        /// The scopes of the API key.
        #[example = json!(["publish:orders.*", "read:*"])]
        scopes: Vec<String>,
    }
}

/// 204 with this cookie.
fn answer_with_cookie(cookie: Option<HeaderValue>) -> Response {
    let cookie = cookie.map(|cookie| [(header::SET_COOKIE, cookie)]);
    (StatusCode::NO_CONTENT, cookie, ()).into_response()
}

/// Log in.
///
/// For dueq's own pages: sets the cookie `dueq_session`, with which the pages act as the API key for 12 hours, or until it
/// is revoked. The cookie counts only with the header `dueq-ui: 1`, in requests from this server's pages. Programs send
/// their key with every request instead. If the server has no keys, there is no cookie.
#[utoipa::path(
    post, path = "/session", tag = "service", security(()),
    request_body(content = CreateSessionRequest, description = "The API key"),
    responses((status = 204, description = "The session is created",
        headers(("Set-Cookie" = String, description = "The session")))),
)]
pub async fn create_session(
    State(state): State<AppState>,
    peer: Peer,
    JsonBody(request, payload): JsonBody<CreateSessionRequest>,
) -> Result<Response, Problem> {
    let key = request.api_key.into_string();
    let session = state.access.log_in(&state, &key, &payload.headers, peer)?;
    let (cookie, caller) = session.unzip();
    let mut response = answer_with_cookie(cookie);
    // For the audit log.
    caller.map(|caller| response.extensions_mut().insert(caller));
    Ok(response)
}

/// Get the session.
///
/// Says whose API key or session the request has, and what it may do.
#[utoipa::path(
    get, path = "/session", tag = "service",
    responses((status = 200, description = "The key's name and scopes", body = Session)),
)]
pub async fn get_session(caller: Caller, _: NoQuery) -> Result<Response, Problem> {
    Ok(json(&Session { name: caller.name(), scopes: caller.scopes() }))
}

/// Log out.
///
/// Takes the session's cookie away from the browser. The session itself lasts until its time is over or its key is revoked.
#[utoipa::path(
    delete, path = "/session", tag = "service",
    responses((status = 204, description = "The cookie is taken away",
        headers(("Set-Cookie" = String, description = "An empty session")))),
)]
pub async fn delete_session(
    State(state): State<AppState>,
    _: NoQuery,
) -> Result<Response, Problem> {
    let cookie = state.access.log_out();
    Ok(answer_with_cookie(cookie))
}
