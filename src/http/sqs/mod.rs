//! SQS's protocols: boto3, the AWS SDKs and what is built on them work with `endpoint_url` set to `<base>/sqs`. All here is about
//! JSON; [`query`] translates the older protocol. A queue is a topic. What a client asks for is done by the same operations of
//! the store that dueq's own routes use; this module reads SQS's requests and writes its answers and errors. `src/guide/sqs.md`
//! says what maps to what.
//!
//! The access key ID is the API key. The signature is not checked, since dueq knows keys by their hashes alone. Each action
//! needs a verb on the queue, as dueq's own operations do.

mod attributes;
mod content;
mod fault;
mod moves;
mod parts;
mod permissions;
pub(crate) mod query;
mod queues;
mod receive;
mod send;
mod settle;
mod tags;

pub(super) use fault::finish;
pub use queues::SqsWaits;

use super::{
    AppState,
    access::{Caller, Need, Verb},
    guard::{Operation, trace::Trace},
    request::extract::Payload,
    server::activity::Activity,
};
use axum::{
    Router,
    body::Body,
    extract::{MatchedPath, Request, State},
    handler::Handler,
    http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header},
    response::IntoResponse,
    routing::post,
};
use dueq_model::TopicName;
use dueq_store::Topic;
use fault::{Fault, Kind};
use serde::{Serialize, de::DeserializeOwned};
use std::sync::Arc;

/// The media type of requests and answers.
const JSON: HeaderValue = HeaderValue::from_static("application/x-amz-json-1.0");
/// The header that names an action.
pub(super) const TARGET: &str = "x-amz-target";

/// Declares the actions: what each needs of the key, and what carries it out.
macro_rules! actions {
    ($($name:literal $need:expr => $run:path $(: $alone:ident)?;)*) => {
        /// Actions, the names of their operations in metrics and logs, and what each needs of the key.
        const ACTIONS: &[(&str, &str, Need)] = &[$(($name, concat!("sqs", $name), $need),)*];

        /// Runs the action.
        async fn dispatch(call: &Call<'_>, payload: Payload) -> Result<Response<Body>, Fault> {
            let name = action(&payload.headers).unwrap_or_default();
            match name {
                $($name if call.path.is_none() || !ELSEWHERE.contains(&name) => {
                    $run(call, actions!(@read payload $($alone)?)).await
                })*
                name => {
                    let message = format!("The action {name} is not valid for this endpoint.");
                    Err(Fault::new(Kind::InvalidAction, message))
                }
            }
        }
    };
    (@read $payload:ident) => { read(&$payload)? };
    // A long poll would hold the body's memory.
    (@read $payload:ident without_body) => {{
        let request = read(&$payload)?;
        drop($payload);
        request
    }};
}

actions! {
    "SendMessage" Need::Body(Verb::Publish) => send::send_message;
    "SendMessageBatch" Need::Body(Verb::Publish) => send::send_message_batch;
    "ReceiveMessage" Need::Body(Verb::Consume) => receive::receive_message: without_body;
    "DeleteMessage" Need::Body(Verb::Consume) => settle::delete_message;
    "DeleteMessageBatch" Need::Body(Verb::Consume) => settle::delete_message_batch;
    "ChangeMessageVisibility" Need::Body(Verb::Consume) => settle::change_visibility;
    "ChangeMessageVisibilityBatch" Need::Body(Verb::Consume) => settle::change_visibility_batch;
    // A key that may do anything to a queue may know its URL.
    "GetQueueUrl" Need::Key => queues::get_queue_url;
    "ListQueues" Need::Some(Verb::Read) => queues::list_queues;
    "GetQueueAttributes" Need::Body(Verb::Read) => attributes::get_queue_attributes;
    "ListDeadLetterSourceQueues" Need::Body(Verb::Read) => queues::list_sources;
    "ListQueueTags" Need::Body(Verb::Read) => tags::list_queue_tags;
    "CreateQueue" Need::Body(Verb::Configure) => queues::create_queue;
    "SetQueueAttributes" Need::Body(Verb::Configure) => queues::set_queue_attributes;
    "TagQueue" Need::Body(Verb::Configure) => tags::tag_queue;
    "UntagQueue" Need::Body(Verb::Configure) => tags::untag_queue;
    "AddPermission" Need::Body(Verb::Configure) => permissions::add_permission;
    "RemovePermission" Need::Body(Verb::Configure) => permissions::remove_permission;
    "DeleteQueue" Need::Body(Verb::Configure) => queues::delete_queue;
    "PurgeQueue" Need::Body(Verb::Operate) => queues::purge_queue;
    "StartMessageMoveTask" Need::Body(Verb::Operate) => moves::start_move;
    "CancelMessageMoveTask" Need::Body(Verb::Operate) => moves::cancel_move;
    "ListMessageMoveTasks" Need::Body(Verb::Read) => moves::list_moves;
}

/// Actions that are not about the queue at whose URL they are asked for.
const ELSEWHERE: [&str; 2] = ["CreateQueue", "ListQueues"];

/// The routes. They are no part of the OpenAPI document: the protocol has a model of its own.
pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/", post(serve_elsewhere))
        .route("/sqs", post(serve))
        .route("/sqs/", post(serve))
        .route("/sqs/{queue}", post(serve))
        .route("/sqs/{account}/{queue}", post(serve))
}

/// Is this a request of SQS's: by its path, or since it names an action and goes to `/` or `/{account}/{queue}`, where SDKs
/// send it that have only the host of their endpoint or AWS's URL of a queue? No other route may be meant.
pub(super) fn has(request: &Request) -> bool {
    let path = request.uri().path();
    let matched = request.extensions().get::<MatchedPath>().map(MatchedPath::as_str);
    let is_elsewhere = || match matched {
        Some(matched) => matched == "/",
        None => [0, 2].contains(&path.split('/').filter(|part| !part.is_empty()).count()),
    };
    path == "/sqs"
        || path.starts_with("/sqs/")
        || (*request.method() == Method::POST
            && action(request.headers()).is_some()
            && is_elsewhere())
}

/// Answers requests of SQS's that go elsewhere, and others as if there were no such route.
pub(super) async fn serve_elsewhere(
    State(state): State<AppState>,
    request: Request,
) -> Response<Body> {
    if has(&request) {
        return serve.call(request, state).await;
    }
    match request.uri().path() {
        "/" => (StatusCode::METHOD_NOT_ALLOWED, [(header::ALLOW, "GET,HEAD")]).into_response(),
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

/// The operation that a request of SQS's asks for, whatever its path.
pub(super) fn operation(headers: &HeaderMap) -> Operation {
    let found = action(headers).and_then(|name| ACTIONS.iter().find(|(known, ..)| *known == name));
    let (name, need) = found.map_or(("sqs", Need::Key), |(_, name, need)| (*name, *need));
    Operation { name, need, path: "" }
}

/// The action that the headers name.
fn action(headers: &HeaderMap) -> Option<&str> {
    headers.get(TARGET)?.to_str().ok()?.strip_prefix("AmazonSQS.")
}

/// The API key in the `Authorization` header of a signed request, and the region that the signature is for.
pub(super) fn credential(authorization: &[u8]) -> Option<(&str, &str)> {
    let rest = authorization.strip_prefix(b"AWS4-HMAC-SHA256 ")?;
    let rest = std::str::from_utf8(rest).ok()?;
    let scope = rest.split(',').find_map(|part| part.trim().strip_prefix("Credential="))?;
    // A key may have slashes in it.
    let mut parts = scope.rsplitn(5, '/').skip(2);
    let (region, _, key) = (parts.next()?, parts.next()?, parts.next()?);
    Some((key, region)).filter(|(key, _)| !key.is_empty())
}

/// A request of SQS's without its body.
struct Call<'a> {
    state: &'a AppState,
    caller: Caller,
    trace: Trace,
    /// The queue that the path names.
    path: Option<String>,
    /// The URL of the server as the client knows it, with `/sqs`.
    base: String,
    region: String,
    /// That of AWS X-Ray, which messages without one of their own are sent with.
    trace_header: Option<String>,
    activity: Option<Arc<Activity>>,
}

/// A queue that the caller may do to what the action does.
struct Queue {
    name: TopicName,
    topic: Arc<Topic>,
}

impl Queue {
    fn is_fifo(&self) -> bool {
        is_fifo(&self.name)
    }

    /// An attribute that is no setting of the topic.
    fn attribute(&self, name: &str) -> Option<&str> {
        self.topic.settings.sqs.as_ref()?.attributes.get(name).map(String::as_str)
    }

    /// The same, a number; 0 where there is none.
    fn number(&self, name: &str) -> i64 {
        self.attribute(name).and_then(|text| text.parse().ok()).unwrap_or(0)
    }
}

fn is_fifo(name: &TopicName) -> bool {
    name.as_str().ends_with(".fifo")
}

async fn serve(
    State(state): State<AppState>,
    uri: Uri,
    caller: Caller,
    trace: Trace,
    payload: Payload,
) -> Response<Body> {
    let headers = &payload.headers;
    let of_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let authorization = headers.get(header::AUTHORIZATION);
    let region = authorization.and_then(|value| Some(credential(value.as_bytes())?.1.to_owned()));
    let call = Call {
        base: base(&state, headers),
        state: &state,
        caller,
        trace,
        path: Some(uri.path().trim_end_matches('/'))
            .filter(|path| !["", "/sqs"].contains(path))
            .map(|path| path.to_owned()),
        region: region.unwrap_or_else(|| "us-east-1".to_owned()),
        trace_header: headers
            .get("x-amzn-trace-id")
            .and_then(|value| Some(value.to_str().ok()?.to_owned())),
        activity: payload.activity.clone(),
    };
    let answer = match of_type {
        Some(it) if it.starts_with("application/x-amz-json-1.") => dispatch(&call, payload).await,
        _ => {
            let message = "the request must be sent as content-type: application/x-amz-json-1.0";
            Err(Fault::new(Kind::Serialization, message))
        }
    };
    answer.unwrap_or_else(Fault::into_response)
}

/// The server's URL as the client knows it: the public one, or what `Host` says.
fn base(state: &AppState, headers: &HeaderMap) -> String {
    if !state.public_url.origin().is_empty() {
        return format!("{}/sqs", state.public_url.url());
    }
    let scheme = if state.access.is_https() { "https" } else { "http" };
    let host = headers.get(header::HOST).and_then(|value| value.to_str().ok());
    format!("{scheme}://{}/sqs", host.unwrap_or("localhost"))
}

/// Reads the body.
fn read<T: DeserializeOwned + Send>(payload: &Payload) -> Result<T, Fault> {
    payload.aside(|| serde_json::from_slice(&payload.bytes)).map_err(|error| {
        let (line, column) = (error.line(), error.column());
        let message = format!("The request does not fit the action: line {line}, column {column}");
        Fault::new(Kind::Serialization, message)
    })
}

/// A successful answer.
fn answer(value: &impl Serialize) -> Result<Response<Body>, Fault> {
    let body = serde_json::to_vec(value).map_err(|_| dueq_model::error::Error::Internal)?;
    Ok(([(header::CONTENT_TYPE, JSON)], body).into_response())
}

/// One that says nothing.
fn done() -> Result<Response<Body>, Fault> {
    answer(&serde_json::json!({}))
}

impl Call<'_> {
    /// The queue that the path or the body names.
    async fn queue(&self, url: Option<&str>) -> Result<Queue, Fault> {
        let url = url.or(self.path.as_deref()).filter(|url| !url.is_empty());
        let url = url.ok_or_else(|| Fault::missing("QueueUrl"))?;
        let name = url.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        self.known(&queue_name(name)?).await
    }

    /// The queue of this name, if the caller may do to it what the action does.
    async fn known(&self, name: &TopicName) -> Result<Queue, Fault> {
        self.caller.check_topic(name)?;
        let topic = self.state.store.known_topic(name).await?.ok_or_else(Fault::no_queue)?;
        Ok(Queue { name: name.clone(), topic })
    }

    fn url(&self, name: &TopicName) -> String {
        format!("{}/{}/{name}", self.base, self.state.sqs_account)
    }

    fn arn(&self, name: &TopicName) -> String {
        format!("arn:aws:sqs:{}:{}:{name}", self.region, self.state.sqs_account)
    }
}

/// A topic's name that users may publish to. No other queue exists.
fn queue_name(text: &str) -> Result<TopicName, Fault> {
    let name = TopicName::parse(text).ok().filter(|name| !name.is_reserved());
    name.ok_or_else(Fault::no_queue)
}

/// The queue that an ARN names, if it is one of a queue.
fn queue_of_arn(arn: &str) -> Option<TopicName> {
    match arn.split(':').collect::<Vec<_>>()[..] {
        ["arn", _, "sqs", _, _, queue] => queue_name(queue).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_access_key_is_what_the_credential_says_up_to_its_scope() {
        let of = |text: &'static str| credential(text.as_bytes());
        let signed = "AWS4-HMAC-SHA256 Credential=dq_a/b=/20261126/eu-west-1/sqs/aws4_request, SignedHeaders=host, Signature=0";
        assert_eq!(of(signed), Some(("dq_a/b=", "eu-west-1")));
        for wrong in [
            "",
            "Bearer k",
            "AWS4-HMAC-SHA256 Credential=k",
            "AWS4-HMAC-SHA256 Credential=/20261126/eu-west-1/sqs/aws4_request",
            "AWS4-HMAC-SHA256 Signature=0",
        ] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
