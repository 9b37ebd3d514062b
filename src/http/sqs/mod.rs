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
use parts::Fields;
pub use queues::SqsWaits;

use super::{
    ANSWER_BYTES, ANSWER_HEADERS, AppState,
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
    http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, Uri, header},
    response::IntoResponse,
    routing::post,
};
use dueq_model::TopicName;
use dueq_store::Topic;
use fault::{Fault, Kind};
use serde::{Serialize, de::DeserializeOwned};
use std::sync::Arc;

/// What comes of an action.
type Answer = Result<Response<Body>, Fault>;

/// The media type of requests and answers.
const JSON: HeaderValue = HeaderValue::from_static("application/x-amz-json-1.0");
/// The header that names an action.
pub(super) const TARGET: &str = "x-amz-target";
const TRACE_ID: HeaderName = HeaderName::from_static("x-amzn-trace-id");

/// Declares the actions: what each needs of the key, and what carries it out.
macro_rules! actions {
    ($($name:literal $need:expr => $run:path $(: $how:ident)?;)*) => {
        /// Actions, the names of their operations in metrics and logs, and what each needs of the key.
        const ACTIONS: &[(&str, &str, Need)] = &[$(($name, concat!("sqs", $name), $need),)*];

        /// Runs the action.
        async fn dispatch(call: &Call<'_>, payload: Payload) -> Answer {
            let name = action(&payload.headers).unwrap_or_default();
            match name {
                $($name if call.path.is_none() || !ELSEWHERE.contains(&name) => {
                    actions!(@run $run, call, payload $($how)?)
                })*
                name => Kind::InvalidAction
                    .refuse(format!("The action {name} is not valid for this endpoint.")),
            }
        }
    };
    // Each in a box of its own, so that none takes the room of the largest.
    (@run $run:path, $call:ident, $payload:ident) => {
        Box::pin($run($call, read(&$payload)?)).await
    };
    // A long poll would hold the body's memory.
    (@run $run:path, $call:ident, $payload:ident without_body) => {{
        let request = read(&$payload)?;
        drop($payload);
        Box::pin($run($call, request)).await
    }};
    (@run $run:path, $call:ident, $payload:ident of_queue) => {{
        let fields: Fields = read(&$payload)?;
        let queue = $call.fresh($call.named(fields.queue_url.as_deref())?).await?;
        Box::pin($run($call, queue, fields)).await
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
    "GetQueueAttributes" Need::Body(Verb::Read) => attributes::get_queue_attributes: of_queue;
    "ListDeadLetterSourceQueues" Need::Body(Verb::Read) => queues::list_sources: of_queue;
    "ListQueueTags" Need::Body(Verb::Read) => tags::list_queue_tags: of_queue;
    "CreateQueue" Need::Body(Verb::Configure) => queues::create_queue;
    "SetQueueAttributes" Need::Body(Verb::Configure) => queues::set_queue_attributes: of_queue;
    "TagQueue" Need::Body(Verb::Configure) => tags::tag_queue: of_queue;
    "UntagQueue" Need::Body(Verb::Configure) => tags::untag_queue: of_queue;
    "AddPermission" Need::Body(Verb::Configure) => permissions::add_permission: of_queue;
    "RemovePermission" Need::Body(Verb::Configure) => permissions::remove_permission: of_queue;
    "DeleteQueue" Need::Body(Verb::Configure) => queues::delete_queue: of_queue;
    "PurgeQueue" Need::Body(Verb::Operate) => queues::purge_queue: of_queue;
    "StartMessageMoveTask" Need::Body(Verb::Operate) => moves::start_move;
    "CancelMessageMoveTask" Need::Body(Verb::Operate) => moves::cancel_move;
    "ListMessageMoveTasks" Need::Body(Verb::Read) => moves::list_moves;
}

/// Actions that are not about the queue at whose URL they are asked for.
const ELSEWHERE: [&str; 2] = ["CreateQueue", "ListQueues"];

/// Where SQS's requests go. These routes are no part of the OpenAPI document: the protocol has a model of its own.
pub(super) const ROUTES: [&str; 4] = ["/sqs", "/sqs/", "/sqs/{queue}", "/sqs/{account}/{queue}"];

/// The routes.
pub(super) fn routes() -> Router<AppState> {
    let routes = Router::new().route("/", post(serve_elsewhere));
    ROUTES.into_iter().fold(routes, |routes, path| routes.route(path, post(serve)))
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
    /// The host that the client has asked.
    host: Option<String>,
    /// The region that it has signed for.
    region: Option<String>,
    /// That of AWS X-Ray, which messages without one of their own are sent with.
    trace_header: Option<String>,
    activity: Option<Arc<Activity>>,
    /// Bytes of the body, which no message in it exceeds.
    bytes: usize,
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

pub(super) async fn serve(
    State(state): State<AppState>,
    uri: Uri,
    caller: Caller,
    trace: Trace,
    payload: Payload,
) -> Response<Body> {
    let text = |name: HeaderName| payload.headers.get(name)?.to_str().ok();
    let of_type = text(header::CONTENT_TYPE);
    let signed = payload.headers.get(header::AUTHORIZATION);
    let signed = signed.and_then(|value| credential(value.as_bytes()));
    let path = Some(uri.path().trim_end_matches('/')).filter(|path| !["", "/sqs"].contains(path));
    let path = path.map(str::to_owned);
    // It holds the head's memory, and with it the body's.
    drop(uri);
    let call = Call {
        state: &state,
        caller,
        trace,
        path,
        host: text(header::HOST).map(str::to_owned),
        region: signed.map(|(_, region)| region.to_owned()),
        trace_header: text(TRACE_ID).map(str::to_owned),
        activity: payload.activity.clone(),
        bytes: payload.bytes.len(),
    };
    let answer = match of_type {
        Some(it) if it.starts_with("application/x-amz-json-1.") => dispatch(&call, payload).await,
        _ => Kind::Serialization
            .refuse("the request must be sent as content-type: application/x-amz-json-1.0"),
    };
    answer.unwrap_or_else(Fault::into_response)
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
fn answer(value: &impl Serialize) -> Answer {
    let mut body = Vec::with_capacity(ANSWER_BYTES);
    serde_json::to_writer(&mut body, value).map_err(|_| dueq_model::error::Error::Internal)?;
    let mut response = Response::new(Body::from(body));
    response.headers_mut().reserve(ANSWER_HEADERS);
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    Ok(response)
}

/// One that says nothing.
fn done() -> Answer {
    answer(&serde_json::json!({}))
}

impl Call<'_> {
    /// The name of the queue that the path or the body names, if the caller may do to it what the action does.
    fn named(&self, url: Option<&str>) -> Result<TopicName, Fault> {
        let url = url.or(self.path.as_deref()).filter(|url| !url.is_empty());
        let url = url.ok_or_else(|| Fault::missing("QueueUrl"))?;
        let name = queue_name(url.trim_end_matches('/').rsplit('/').next().unwrap_or_default())?;
        self.caller.check_topic(&name)?;
        Ok(name)
    }

    /// That queue as this instance knows it. Where that is out of date, the store refuses what is done with it, and reads it again.
    async fn queue(&self, url: Option<&str>) -> Result<Queue, Fault> {
        let name = self.named(url)?;
        let topic = self.state.store.known_topic(&name).await?.ok_or_else(Fault::no_queue)?;
        Ok(Queue { name, topic })
    }

    /// The queue as Redis has it now, for what other instances may have changed.
    async fn fresh(&self, name: TopicName) -> Result<Queue, Fault> {
        let topic = self.state.store.fresh_topic(&name).await?.ok_or_else(Fault::no_queue)?;
        Ok(Queue { name, topic })
    }

    /// Of the server as the client knows it: by its public URL, or what `Host` says.
    fn url(&self, name: &TopicName) -> String {
        let (state, host) = (self.state, self.host.as_deref().unwrap_or("localhost"));
        let scheme = if state.access.is_https() { "https" } else { "http" };
        let base = match state.public_url.origin() {
            "" => format!("{scheme}://{host}"),
            _ => state.public_url.url(),
        };
        format!("{base}/sqs/{}/{name}", state.sqs_account)
    }

    fn arn(&self, name: &TopicName) -> String {
        let region = self.region.as_deref().unwrap_or("us-east-1");
        format!("arn:aws:sqs:{region}:{}:{name}", self.state.sqs_account)
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
