//! The HTTP API. This layer knows the contract and nothing of the queue's inside. Every route is listed once, here.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod access;
mod args;
pub mod as_code;
mod callbacks;
mod direct;
#[cfg(test)]
#[path = "../../tests/fuzz/http/mod.rs"]
mod fuzz;
mod guard;
mod input;
mod leases;
mod messages;
pub mod openapi;
mod pages;
mod prelude;
mod problem;
mod request;
mod schedules;
pub mod server;
mod service;
mod sqs;
mod topics;

pub use args::HttpArgs;
pub use direct::Api;
use dueq_base::{metrics::Metrics, traces::Traces};
use dueq_longpoll::LongPolls;
use dueq_model::{AddressGuard, SigningSecret};
use dueq_store::Store;
pub use guard::public_url::PublicUrl;
pub use leases::lease::call_body;
pub use messages::completion::report;
pub use server::{
    budget::Budget, connections::max_connections, handshake::Handshakes, proxies::TrustedProxies,
};
pub use sqs::SqsWaits;

use access::{Access, Need};
use axum::{
    Router,
    body::Body,
    http::{HeaderValue, Method, Response, header},
    middleware,
};
use bytes::Bytes;
use guard::{Operation, Operations, RequestIds, glances::Glances};
use openapi::answer::Written;
use std::{
    ops::Deref,
    sync::{Arc, OnceLock},
};
use tokio::sync::watch;
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

/// The state that handlers share. Cheap to clone.
#[derive(Clone)]
pub struct AppState(Arc<Inner>);

/// The parts of [`AppState`]: what the server brings, to which it dereferences, and what only routes need.
pub struct Inner {
    settings: Settings,
    searches: messages::search::Searches,
    waits: messages::wait::Waits,
    checks: service::Checks,
    glances: Glances,
    request_ids: RequestIds,
    operations: Operations,
    /// The OpenAPI document in each version, as text that is made once it is asked for.
    documents: [OnceLock<Result<Bytes, serde_json::Error>>; 2],
}

/// What routes work with.
pub struct Settings {
    /// Decides which requests pass.
    pub access: Access,
    /// Decides where callbacks may go.
    pub addresses: Arc<AddressGuard>,
    /// Where messages are stored.
    pub store: Store,
    /// Where consumers wait for messages.
    pub polls: LongPolls,
    /// Where requests are counted.
    pub metrics: Arc<Metrics>,
    /// True once the server stops.
    pub stopping: watch::Receiver<bool>,
    /// The largest body, bytes.
    pub max_body_bytes: usize,
    /// The limit on all heads, bodies and responses in flight.
    pub budget: Arc<Budget>,
    /// The URL under which clients know the server.
    pub public_url: PublicUrl,
    /// The dashboard shows no payloads.
    pub hide_payloads: bool,
    /// The account in the URLs and ARNs of SQS's queues.
    pub sqs_account: String,
    /// Which of them wait, if they do as with AWS.
    pub sqs_waits: Option<SqsWaits>,
    /// The proxies that are trusted to say where requests come from.
    pub proxies: Arc<TrustedProxies>,
    /// Where requests are traced, if they are.
    pub traces: Option<Traces>,
    /// The server's signing secrets.
    pub signing: watch::Receiver<Arc<[SigningSecret]>>,
    /// Key pairs that are derived of them sign calls.
    pub signs_by_keys: bool,
    /// The names of the client certificates of callbacks.
    pub client_certs: Vec<String>,
}

impl Deref for AppState {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl Deref for Inner {
    type Target = Settings;

    fn deref(&self) -> &Settings {
        &self.settings
    }
}

/// The routes in order of use, which is the order of the document and its page; the document says what their attributes say.
fn routes_and_document() -> (Router<AppState>, utoipa::openapi::OpenApi) {
    let routes = OpenApiRouter::with_openapi(openapi::Document::openapi())
        .routes(routes!(messages::publish::publish_message, messages::search::list_messages))
        .routes(routes!(messages::publish::publish_raw))
        .routes(routes!(messages::publish::publish_batch))
        .routes(routes!(callbacks::schedule_callback))
        .routes(routes!(messages::get_message, messages::update_message, messages::delete_message))
        .routes(routes!(messages::get_message_payload))
        .routes(routes!(messages::redrive_message))
        .routes(routes!(
            messages::get_message_by_key,
            messages::update_message_by_key,
            messages::delete_message_by_key
        ))
        .routes(routes!(leases::lease::lease_messages))
        .routes(routes!(leases::hold::ack_message))
        .routes(routes!(leases::hold::nack_message))
        .routes(routes!(leases::hold::extend_lease))
        .routes(routes!(leases::lease::lease_from_topics))
        .routes(routes!(leases::hold::ack_batch))
        .routes(routes!(leases::hold::nack_batch))
        .routes(routes!(leases::hold::extend_batch))
        .routes(routes!(messages::by_ids::redrive_batch))
        .routes(routes!(messages::by_ids::delete_batch))
        .routes(routes!(messages::by_ids::run_batch))
        .routes(routes!(topics::list_topics))
        .routes(routes!(
            topics::get_topic,
            topics::config::put_topic,
            topics::config::update_topic,
            topics::delete_topic
        ))
        .routes(routes!(topics::actions::pause_topic))
        .routes(routes!(topics::actions::resume_topic))
        .routes(routes!(topics::bulk::purge_topic))
        .routes(routes!(topics::bulk::redrive_topic))
        .routes(routes!(topics::bulk::run_topic))
        .routes(routes!(messages::search::list_dead_reasons))
        .routes(routes!(topics::actions::forecast_topic))
        .routes(routes!(topics::history::get_topic_history))
        .routes(routes!(topics::groups::list_groups))
        .routes(routes!(
            topics::groups::get_group,
            topics::groups::put_group,
            topics::groups::delete_group
        ))
        .routes(routes!(topics::groups::pause_group))
        .routes(routes!(topics::groups::resume_group))
        .routes(routes!(topics::push_secret::get_push_secret))
        .routes(routes!(topics::push_secret::get_callback_public_key))
        .routes(routes!(callbacks::hosts::list_callback_hosts))
        .routes(routes!(callbacks::hosts::pause_callback_host))
        .routes(routes!(callbacks::hosts::resume_callback_host))
        .routes(routes!(schedules::list_schedules))
        .routes(routes!(schedules::preview_schedule))
        .routes(routes!(
            schedules::get_schedule,
            schedules::put_schedule,
            schedules::delete_schedule
        ))
        .routes(routes!(schedules::pause_schedule))
        .routes(routes!(schedules::resume_schedule))
        .routes(routes!(schedules::trigger_schedule))
        .routes(routes!(
            access::log_in::create_session,
            access::log_in::get_session,
            access::log_in::delete_session
        ))
        .routes(routes!(service::list_instances))
        .routes(routes!(access::list::list_keys))
        .routes(routes!(service::get_health))
        .routes(routes!(service::get_readiness))
        .routes(routes!(service::get_metrics))
        .routes(routes!(service::get_openapi))
        .routes(routes!(service::get_openapi_3_0));
    routes.split_for_parts()
}

/// Returns the OpenAPI document of all routes as text, in this version of OpenAPI, of a server below this base path.
///
/// Errors: if it cannot be serialized, which would be a defect.
pub fn document(version: openapi::Version, base: &str) -> Result<String, serde_json::Error> {
    let (_, mut document) = routes_and_document();
    openapi::complete(&mut document);
    if !base.is_empty() {
        document.servers.iter_mut().flatten().for_each(|server| base.clone_into(&mut server.url));
    }
    openapi::to_text(&document, version)
}

/// Builds the API of all routes and what is around them.
pub fn api(mut settings: Settings) -> Api {
    let (routes, document) = routes_and_document();
    // A body that could never fit the budget is refused as too large.
    settings.max_body_bytes = settings.max_body_bytes.min(settings.budget.largest());
    let state = AppState(Arc::new(Inner {
        settings,
        searches: Default::default(),
        waits: Default::default(),
        checks: Default::default(),
        glances: Glances::default(),
        request_ids: RequestIds::new(),
        operations: operations(&document),
        documents: Default::default(),
    }));
    let router = routes
        .merge(pages::docs::routes())
        .merge(pages::guide::routes())
        .merge(pages::ui::routes())
        .merge(sqs::routes())
        .fallback(sqs::serve_elsewhere)
        .layer(CatchPanicLayer::new())
        .layer(middleware::from_fn_with_state(state.clone(), guard::layer))
        .with_state(state.clone());
    Api::new(state, router)
}

/// Collects the document's operations by path and method. Their names and paths are leaked, once per start.
fn operations(document: &utoipa::openapi::OpenApi) -> Operations {
    let mut operations = Operations::new();
    for (path, item) in &document.paths.paths {
        let path: &str = Box::leak(path.clone().into_boxed_str());
        let methods = [
            (Method::GET, &item.get),
            (Method::POST, &item.post),
            (Method::PUT, &item.put),
            (Method::PATCH, &item.patch),
            (Method::DELETE, &item.delete),
        ];
        for (method, operation) in methods {
            if let Some(name) = operation.as_ref().and_then(|op| op.operation_id.as_deref()) {
                let name = openapi::in_camel_case(name);
                let need = Need::of(&name);
                let operation = Operation { need, name: Box::leak(name.into_boxed_str()), path };
                operations.entry(path).or_default().insert(method, operation);
            }
        }
    }
    operations
}

/// Room for most answers, in bytes, and for their headers, so that neither grows step by step.
const ANSWER_BYTES: usize = 512;
const ANSWER_HEADERS: usize = 12;

/// Returns the value as JSON that ends in a newline, as a terminal wants it.
fn json_line(value: &impl Written) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = Vec::with_capacity(ANSWER_BYTES);
    value.write(&mut line)?;
    line.push(b'\n');
    Ok(line)
}

/// Returns a JSON response. A value that cannot be serialized is a defect: the guard answers 500.
fn json(value: &impl Written) -> Response<Body> {
    match json_line(value) {
        Ok(body) => {
            let mut response = Response::new(Body::from(body));
            response.headers_mut().reserve(ANSWER_HEADERS);
            let json = HeaderValue::from_static("application/json");
            response.headers_mut().insert(header::CONTENT_TYPE, json);
            response
        }
        Err(error) => {
            tracing::error!(%error, "a response could not be serialized");
            let mut response = Response::new(Body::empty());
            *response.status_mut() = axum::http::StatusCode::INTERNAL_SERVER_ERROR;
            response
        }
    }
}
