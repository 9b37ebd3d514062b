//! The OpenAPI document: made from the routes, served at `/openapi.json`, committed as `openapi/openapi.json`.

use super::{list_messages::ListedState, problem::ProblemBody};
use utoipa::{
    OpenApi, PartialSchema, ToSchema, openapi,
    openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
};

/// Any JSON value, null included.
pub struct AnyJson;

impl PartialSchema for AnyJson {
    fn schema() -> openapi::RefOr<openapi::Schema> {
        openapi::schema::ObjectBuilder::new()
            .schema_type(openapi::schema::SchemaType::AnyValue)
            .description(Some("Any JSON value"))
            .into()
    }
}

impl ToSchema for AnyJson {
    fn name() -> std::borrow::Cow<'static, str> {
        "AnyJson".into()
    }
}

/// A body of bytes.
pub struct Octets;

impl PartialSchema for Octets {
    fn schema() -> openapi::RefOr<openapi::Schema> {
        openapi::schema::ObjectBuilder::new()
            .schema_type(openapi::schema::Type::String)
            .format(Some(openapi::SchemaFormat::KnownFormat(openapi::KnownFormat::Binary)))
            .description(Some("Bytes of any media type"))
            .into()
    }
}

impl ToSchema for Octets {
    fn name() -> std::borrow::Cow<'static, str> {
        "Octets".into()
    }
}

/// What the routes are added to.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "dueq",
        description = "A delay queue: publish a message now, lease it when it is due, acknowledge it when done.\n\n\
            Durations are integers in milliseconds and end in `_ms`. Instants are RFC 3339 in UTC with milliseconds \
            and end in `_at`; all time is the Redis server's. Every error is `application/problem+json` with a \
            stable `code`. Answers may gain fields and enum values.\n\n\
            A server that was given API keys wants one of them with every request, `/healthz` and `/readyz` apart.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    servers((url = "/", description = "This server")),
    tags(
        (name = "messages", description = "Publishing, looking at, changing and deleting messages"),
        (name = "leases", description = "Consuming: lease, then acknowledge, give back or extend"),
        (name = "callbacks", description = "Having URLs called later"),
        (name = "topics", description = "Configuring topics, looking at them, and what is done with their messages as a whole"),
        (name = "schedules", description = "Publishing again and again: by cron expressions, or at even distances"),
        (name = "service", description = "Health, metrics and this document"),
    ),
    components(schemas(ProblemBody, ListedState)),
    security((), ("bearer" = [])),
)]
pub(super) struct Document;

/// Says what the routes' attributes cannot: bodies that may be left out, and what a key is.
pub(super) fn complete(document: &mut openapi::OpenApi) {
    for path in ["/topics/{topic}/lease", "/topics/{topic}/redrive"] {
        let operation = document.paths.paths.get_mut(path).and_then(|path| path.post.as_mut());
        let body = operation.and_then(|operation| operation.request_body.as_mut());
        if let Some(openapi::RefOr::T(body)) = body {
            body.required = Some(openapi::Required::False);
        }
    }
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "One of the server's API keys; a server on loopback may have none and want none",
        ))
        .build();
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
}

/// The document as it is served, written and compared.
pub fn to_text(document: &openapi::OpenApi) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string_pretty(document)?;
    text.push('\n');
    Ok(text)
}
