//! A call of a tool: its arguments become a request, and the answer what an agent can read.

use super::{
    answer,
    params::{Fields, Param, fields},
    tools::Tool,
};
use crate::cli::client::{
    api::{Client, segment},
    durations::now,
};
use dueq_model::parse_instant;
use form_urlencoded::Serializer;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};

/// How long a publish is remembered after its message is due, in milliseconds: a day.
const REMEMBERED_MS: i64 = 86_400_000;
/// The longest that the server remembers one, in milliseconds.
const MAX_REMEMBERED_MS: i64 = 315_360_000_000;
/// Requests of one call. A search looks at up to 10,000 messages per request and may find none among them.
const MAX_REQUESTS: usize = 20;

/// Calls the tool. Returns the text of its answer, JSON.
///
/// Errors: why it did not do what was asked, in words.
pub async fn call(client: &Client, tool: &Tool, arguments: &Fields) -> Result<String, String> {
    let fields = fields(tool.params, arguments)?;
    let given =
        |name: &str| fields.iter().find(|(param, _)| param.name == name).map(|(_, value)| value);
    if !tool.one_of.is_empty() && tool.one_of.iter().all(|name| given(name).is_none()) {
        return Err(format!("required: {}", tool.one_of.join(" or ")));
    }
    let has_all = |route: &&&str| names(route).all(|name| given(name).is_some());
    let route = tool.routes.iter().find(has_all).ok_or("required: id, or topic and key")?;
    let (method, pattern) = route.split_once(' ').unwrap_or_default();
    let text = |name: &str| given(name).and_then(Value::as_str).unwrap_or_default();
    let path = names(route).fold(pattern.to_owned(), |path, name| {
        path.replace(&format!("{{{name}}}"), &segment(text(name)))
    });
    let mut others =
        fields.iter().filter(|(param, _)| !names(route).any(|name| name == param.name));
    // A DELETE has no place for them.
    if method == "DELETE"
        && let Some((param, _)) = others.next()
    {
        return Err(format!("{}: not together with topic and key", param.name));
    }
    let mut answer = if method == "GET" {
        let query = others.map(|(param, value)| (param.field, plain(value)));
        look(client, &path, query.collect()).await?
    } else {
        let mut body = json!({});
        for (param, value) in others.filter(|(param, _)| !param.field.is_empty()) {
            let pointer = param.field.split('.');
            *pointer.fold(&mut body, |object, name| &mut object[name]) = value.clone();
        }
        if matches!(tool.name, "schedule_callback" | "publish_message") {
            once(&mut body, tool, &fields);
        }
        let body = (method != "DELETE").then(|| body.to_string());
        send(client, method, &path, body).await?
    };
    answer::add_words(tool.name, &mut answer);
    if let Some(dry_run) = given("dry_run") {
        answer["dry_run"] = dry_run.clone();
    }
    Ok(answer::text(answer))
}

/// The names in the braces of a path.
fn names(route: &str) -> impl Iterator<Item = &str> {
    route.split('{').skip(1).filter_map(|rest| rest.split('}').next())
}

/// A value as a query or a sentence has it.
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Sends a GET, and again with the next cursor where a page is empty.
async fn look(
    client: &Client,
    path: &str,
    mut query: Vec<(&str, String)>,
) -> Result<Value, String> {
    let (mut scanned, mut left) = (0_u64, MAX_REQUESTS);
    loop {
        let url = Serializer::for_suffix(format!("{path}?"), path.len() + 1)
            .extend_pairs(&query)
            .finish();
        let mut answer = send(client, "GET", url.trim_end_matches('?'), None).await?;
        scanned = scanned.saturating_add(answer["scanned"].as_u64().unwrap_or_default());
        left -= 1;
        let is_empty = answer["items"].as_array().is_some_and(Vec::is_empty);
        match answer["next_cursor"].as_str() {
            Some(next) if is_empty && left > 0 => {
                query.retain(|(name, _)| *name != "cursor");
                query.push(("cursor", next.to_owned()));
            }
            _ => {
                if answer.get("scanned").is_some() {
                    answer["scanned"] = scanned.into();
                }
                return Ok(answer);
            }
        }
    }
}

async fn send(
    client: &Client,
    method: &str,
    path: &str,
    body: Option<String>,
) -> Result<Value, String> {
    let answer =
        client.send(method, path, body, None, 0).await.map_err(|failure| failure.message())?;
    if answer.body.is_empty() {
        return Ok(json!({"done": true}));
    }
    let object = answer::read(&String::from_utf8_lossy(&answer.body)).ok().filter(Value::is_object);
    object.ok_or_else(|| "the answer is not a JSON object; is this a dueq server?".to_owned())
}

/// Makes a publish safe to repeat. A message with a `key` is the only one with it while it is there; the others are remembered
/// beyond the due time that they were given.
fn once(body: &mut Value, tool: &Tool, fields: &[(Param, Value)]) {
    let (own, others): (Vec<_>, Vec<_>) =
        fields.iter().partition(|(param, _)| param.name == "once_key");
    // Not of the arguments as they came: an agent that repeats itself may add a null.
    let others: Vec<_> = others.iter().map(|(param, value)| (param.name, value)).collect();
    let hash = || hex::encode(digest(&SHA256, json!([tool.name, others]).to_string().as_bytes()));
    let name = own.first().and_then(|(_, name)| name.as_str());
    let name = name.map_or_else(|| format!("mcp-{}", hash()), str::to_owned);
    if body.get("key").is_some() {
        body["idempotency_key"] = name.into();
        return;
    }
    let at = body["deliver_at"].as_str().and_then(|at| parse_instant(at).ok());
    let delay = body["delay_ms"].as_i64().unwrap_or_default();
    let wait = at.map_or(delay, |at| (at - now()).max(0));
    let remembered = wait.saturating_add(REMEMBERED_MS).min(MAX_REMEMBERED_MS);
    body["once"] = json!({"key": name, "for_ms": remembered});
}
