//! SQS's query protocol, which AWS CLI 1 and the SDKs from before 2024 speak: a form or a query string comes, XML goes. It is
//! put around the JSON protocol: a request becomes one of JSON before it reaches the guard, and the answer becomes XML as it
//! is written. So access, limits, metrics and the audit log are those of the actions, whichever protocol names them.
//!
//! The names of parameters and elements are those of AWS's service model of 2012-11-05.

use super::{
    JSON, TARGET,
    content::is_illegal,
    fault::{QUERY_ERROR, REQUEST_ID},
};
use crate::{
    AppState,
    problem::{Code, Problem},
    request::extract::{Payload, is_text},
    server::activity::Activity,
};
use axum::{
    body::Body,
    extract::{FromRequest, Request},
    http::{HeaderValue, Method, Response, StatusCode, header},
};
use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::{Map, Value};
use std::{borrow::Cow, collections::BTreeMap, mem::take, sync::Arc};

const FORM: &str = "application/x-www-form-urlencoded";
const NAMESPACE: &str = "http://queue.amazonaws.com/doc/2012-11-05/";
/// Parameters that are read, at most; no request needs half as many.
const MAX_PARAMETERS: usize = 1_000;
/// Parts of a parameter's name, at most.
const MAX_PARTS: usize = 8;
/// Letters of an action, at most.
const MAX_ACTION: usize = 64;
/// Fields that are numbers in JSON.
const NUMBERS: [&str; 6] = [
    "DelaySeconds",
    "MaxNumberOfMessages",
    "MaxNumberOfMessagesPerSecond",
    "MaxResults",
    "VisibilityTimeout",
    "WaitTimeSeconds",
];
const IN_REQUESTS: usize = 11;
/// Lists and maps: their field in JSON, the parameter or element of each item, where `{}` is the action, and the name of a map's
/// keys; empty for lists. Requests have the first [`IN_REQUESTS`].
const SHAPES: [(&str, &str, &str); 16] = [
    ("Attributes", "Attribute", "Name"),
    ("MessageAttributes", "MessageAttribute", "Name"),
    ("MessageSystemAttributes", "MessageSystemAttribute", "Name"),
    ("Tags", "Tag", "Key"),
    ("AttributeNames", "AttributeName", ""),
    ("MessageAttributeNames", "MessageAttributeName", ""),
    ("MessageSystemAttributeNames", "MessageSystemAttributeName", ""),
    ("TagKeys", "TagKey", ""),
    ("AWSAccountIds", "AWSAccountId", ""),
    ("Actions", "ActionName", ""),
    ("Entries", "{}RequestEntry", ""),
    ("Successful", "{}ResultEntry", ""),
    ("Results", "{}ResultEntry", ""),
    ("Failed", "BatchResultErrorEntry", ""),
    ("Messages", "Message", ""),
    ("QueueUrls", "QueueUrl", ""),
];

/// Is this a request in the query protocol, at a place where SDKs send it? Where there are no keys (`is_open`), a GET without a
/// signature in its header only reads: a foreign page can have any browser send one.
pub fn has(request: &Request, is_open: bool) -> bool {
    let (uri, headers) = (request.uri(), request.headers());
    // Other requests cost no more than this.
    if !is_place(uri.path()) {
        return false;
    }
    let is_form = || {
        let of_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        of_type.is_some_and(|it| it.starts_with(FORM))
    };
    let action = find(uri.query().unwrap_or_default(), "Action");
    let changes = !action
        .as_ref()
        .is_none_or(|action| action.starts_with("Get") || action.starts_with("List"));
    match *request.method() {
        Method::POST => !headers.contains_key(TARGET) && (is_form() || action.is_some()),
        Method::GET => {
            (action.is_some() || uri.path().starts_with("/sqs/"))
                && !headers.contains_key(header::ACCEPT_LANGUAGE)
                && !(is_open && changes && !headers.contains_key(header::AUTHORIZATION))
        }
        _ => false,
    }
}

/// The parameters of a query or a form that are read.
fn parameters(text: &[u8]) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    form_urlencoded::parse(text).take(MAX_PARAMETERS)
}

/// One of them.
fn find<'a>(query: &'a str, wanted: &str) -> Option<Cow<'a, str>> {
    parameters(query.as_bytes()).find(|(name, _)| name == wanted).map(|(_, value)| value)
}

/// `/`, `/sqs` and below, or a queue of an account, `/{account}/{queue}`.
fn is_place(path: &str) -> bool {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    match (parts.next(), parts.next(), parts.next()) {
        (None, ..) | (Some("sqs"), ..) => true,
        (Some(account), Some(_), None) => account.bytes().all(|byte| byte.is_ascii_digit()),
        _ => false,
    }
}

/// Makes of a request in the query protocol one in JSON, and says its action. Only of a sender who is let in are the body and all
/// parameters read; the guard turns others away.
///
/// Errors: the body cannot be read.
pub async fn translate(state: &AppState, request: &mut Request) -> (String, Result<(), Problem>) {
    let query = request.uri().query().unwrap_or_default().to_owned();
    let signed = find(&query, "X-Amz-Credential");
    let signed = signed.map(|credential| format!("AWS4-HMAC-SHA256 Credential={credential}"));
    let headers = request.headers_mut();
    // A page's session is for the dashboard.
    headers.remove(header::COOKIE);
    if let Some(Ok(signed)) = signed.map(HeaderValue::try_from) {
        headers.entry(header::AUTHORIZATION).or_insert(signed);
    }
    let (mut payload, mut read) = (None, Ok(()));
    if let Some(caller) = state.access.known(request) {
        request.extensions().get::<Arc<Activity>>().inspect(|activity| activity.let_in());
        request.extensions_mut().insert(caller);
        let (parts, body) = take(request).into_parts();
        *request = Request::from_parts(parts.clone(), Body::empty());
        match Payload::from_request(Request::from_parts(parts, body), state).await {
            Ok(whole) if whole.aside(|| is_text(&whole.bytes)) && is_text(query.as_bytes()) => {
                payload = Some(whole)
            }
            Ok(_) => {
                let detail = "the decoded parameters are not valid UTF-8";
                read = Err(Problem::new(Code::MalformedBody, detail));
            }
            Err(problem) => read = Err(problem),
        }
    }
    let json = |form| {
        let mut all: Vec<_> = parameters(query.as_bytes()).chain(parameters(form)).collect();
        let named = all.iter().find(|(name, _)| name == "Action");
        let action = named.map(|(_, action)| action.to_string()).unwrap_or_default();
        let json = Node::of(&mut all).into_json(&action);
        (action, json.to_string())
    };
    let (mut action, json) = match &payload {
        Some(payload) => payload.aside(|| json(&payload.bytes)),
        None => (find(&query, "Action").unwrap_or_default().into_owned(), String::new()),
    };
    // It becomes a header, and the name of an element.
    if action.len() > MAX_ACTION || !action.bytes().all(|byte| byte.is_ascii_alphabetic()) {
        action.clear();
    }
    let headers = request.headers_mut();
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_TYPE, JSON);
    if let Ok(target) = HeaderValue::try_from(format!("AmazonSQS.{action}")) {
        headers.insert(TARGET, target);
    }
    *request.method_mut() = Method::POST;
    *request.body_mut() = Body::from(json);
    (action, read)
}

/// Parameters whose names begin alike: `Attribute.1.Name` and `Attribute.1.Value` are two parts of one part of `Attribute`.
#[derive(Default)]
struct Node<'a> {
    text: Option<String>,
    /// By number and name; the number is 0 where the name is none.
    parts: BTreeMap<(u32, &'a str), Self>,
}

impl<'a> Node<'a> {
    /// Of these parameters, whose values it takes.
    fn of(parameters: &'a mut [(Cow<'_, str>, Cow<'_, str>)]) -> Self {
        let mut root = Self::default();
        for (name, value) in parameters {
            let mut node = &mut root;
            // Some clients write lists as other services of AWS's have them.
            let parts = name.split('.').filter(|part| !["member", "entry"].contains(part));
            for part in parts.take(MAX_PARTS) {
                node = node.parts.entry((part.parse().unwrap_or(0), part)).or_default();
            }
            node.text = Some(take(value).into_owned());
        }
        root
    }

    /// The items of a list, in order. A list without numbers is its only item, and an empty text is an empty list.
    fn into_items(mut self) -> Vec<Self> {
        let numbered = self.parts.split_off(&(1, ""));
        match numbered.is_empty() {
            true if self.parts.is_empty() && self.text.as_deref() == Some("") => Vec::new(),
            true => vec![self],
            false => numbered.into_values().collect(),
        }
    }

    fn take(&mut self, name: &str) -> Option<Self> {
        let found = self.parts.keys().find(|(_, part)| part.eq_ignore_ascii_case(name)).copied();
        self.parts.remove(&found?)
    }

    fn into_text(self) -> String {
        self.text.unwrap_or_default()
    }

    /// What JSON has in its place.
    fn into_json(self, action: &str) -> Value {
        if self.parts.is_empty() && self.text.is_some() {
            return self.into_text().into();
        }
        let mut object = Map::new();
        for ((_, name), node) in self.parts {
            let is_item = |item: &str| match item.strip_prefix("{}") {
                Some(end) => name.strip_suffix(end) == Some(action),
                None => item == name,
            };
            let is_meant =
                |field: &str, item: &str| is_item(item) || field.eq_ignore_ascii_case(name);
            let mut shapes = SHAPES.into_iter().take(IN_REQUESTS);
            let shape = shapes.find(|(field, item, _)| is_meant(field, item));
            let (field, value) = match shape {
                Some((field, _, "")) => {
                    let items = node.into_items().into_iter();
                    (field, items.map(|item| item.into_json(action)).collect())
                }
                Some((field, _, key)) => {
                    let pair = |mut item: Self| {
                        let value = item.take("Value").unwrap_or_default();
                        (item.take(key).unwrap_or_default().into_text(), value.into_json(action))
                    };
                    (field, node.into_items().into_iter().map(pair).collect())
                }
                None => {
                    let value = node.into_json(action);
                    let text = value.as_str().filter(|_| NUMBERS.contains(&name));
                    let number = text.and_then(|text| text.parse::<i64>().ok());
                    (name, number.map_or(value, Value::from))
                }
            };
            object.insert(field.to_owned(), value);
        }
        object.into()
    }
}

/// Makes XML of an answer. Only as the client takes it, since that decides whether messages were received.
pub fn to_xml(response: Response<Body>, action: String) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    let text = |value: HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let Some(id) = parts.headers.get(REQUEST_ID).cloned().map(text) else {
        return Response::from_parts(parts, body);
    };
    let error = parts.headers.remove(QUERY_ERROR).map(text);
    parts.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/xml"));
    if error.is_some() && action.is_empty() && parts.status == StatusCode::BAD_REQUEST {
        parts.status = StatusCode::NOT_FOUND;
    }
    parts.headers.remove(header::CONTENT_LENGTH);
    let write = move |json: Bytes| Bytes::from(document(&json, &action, error.as_deref(), &id));
    let body = body.map_frame(move |frame| frame.map_data(&write));
    Response::from_parts(parts, Body::new(body))
}

/// The document of an answer. `error`: its code and type, with a semicolon between them.
fn document(json: &[u8], action: &str, error: Option<&str>, id: &str) -> String {
    let error = error.and_then(|error| error.split_once(';'));
    if let ("", Some(("InvalidAction", _))) = (action, error) {
        return "<UnknownOperationException/>\n".to_owned();
    }
    let answer: Value = serde_json::from_slice(json).unwrap_or_default();
    let id = Value::from(id);
    let mut xml = String::with_capacity(2 * json.len());
    xml.push_str("<?xml version=\"1.0\"?>\n");
    let name = error.map_or(action, |_| "Error");
    xml.push_str(&format!("<{name}Response xmlns=\"{NAMESPACE}\">"));
    match error {
        Some((code, blame)) => {
            let message = match code.ends_with(".NonExistentQueue") {
                true => "The specified queue does not exist for this wsdl version.".into(),
                false => answer["message"].clone(),
            };
            let says = [("Type", blame.into()), ("Code", code.into()), ("Message", message)];
            xml.push_str("<Error>");
            says.iter().for_each(|(name, value)| element(&mut xml, name, value, action));
            xml.push_str("<Detail/></Error>");
            element(&mut xml, "RequestId", &id, action);
        }
        None => {
            element(&mut xml, &format!("{action}Result"), &answer, action);
            xml.push_str("<ResponseMetadata>");
            element(&mut xml, "RequestId", &id, action);
            xml.push_str("</ResponseMetadata>");
        }
    }
    xml.push_str(&format!("</{name}Response>"));
    xml
}

/// Writes a value under this name.
fn element(xml: &mut String, name: &str, value: &Value, action: &str) {
    if value.as_object().is_some_and(Map::is_empty) {
        return xml.push_str(&format!("<{name}/>"));
    }
    xml.push_str(&format!("<{name}>"));
    match value {
        Value::String(text) => escape(xml, text),
        Value::Object(fields) => {
            for (field, value) in fields {
                let is_meant = |(known, ..): &(&str, &str, &str)| known.eq_ignore_ascii_case(field);
                let (_, item, key) = SHAPES.into_iter().find(is_meant).unwrap_or_default();
                let item = item.replace("{}", action);
                match value {
                    Value::Array(items) => {
                        items.iter().for_each(|value| element(xml, &item, value, action))
                    }
                    Value::Object(pairs) if !key.is_empty() => {
                        for (name, value) in pairs {
                            let pair = [(key, &Value::from(name.as_str())), ("Value", value)];
                            xml.push_str(&format!("<{item}>"));
                            pair.iter().for_each(|(name, it)| element(xml, name, it, action));
                            xml.push_str(&format!("</{item}>"));
                        }
                    }
                    value => element(xml, field, value, action),
                }
            }
        }
        value => xml.push_str(&value.to_string()),
    }
    xml.push_str(&format!("</{name}>"));
}

/// Writes a text. A return would be read as a new line, and what no document may have is replaced.
fn escape(xml: &mut String, text: &str) {
    for piece in
        text.split_inclusive(|c: char| matches!(c, '&' | '<' | '>' | '\r') || is_illegal(c))
    {
        let end = piece.chars().next_back().unwrap_or_default();
        let escaped = match end {
            '&' => "&amp;",
            '<' => "&lt;",
            '>' => "&gt;",
            '\r' => "&#xD;",
            end if is_illegal(end) => "\u{fffd}",
            _ => "",
        };
        let rest = if escaped.is_empty() { piece.len() } else { piece.len() - end.len_utf8() };
        xml.push_str(&piece[..rest]);
        xml.push_str(escaped);
    }
}
