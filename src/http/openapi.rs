//! The OpenAPI document: made from the routes, served at `/openapi.json`, committed as `openapi/openapi.json`; and the
//! same for tools that know OpenAPI 3.0 only.

mod completed;
mod v3_0;

pub(super) use completed::complete;

use super::{describe::formatted, input::ListedState, problem::ProblemBody};
use utoipa::{
    OpenApi, PartialSchema, ToSchema,
    openapi::{
        self, KnownFormat, ObjectBuilder, Type,
        schema::{AdditionalProperties, SchemaType},
    },
};

/// Schemas that no type of the program has.
macro_rules! schemas {
    ($($(#[doc = $about:expr])* $Name:ident: $schema:expr;)*) => {$(
        $(#[doc = $about])*
        pub struct $Name;

        impl PartialSchema for $Name {
            fn schema() -> openapi::RefOr<openapi::Schema> {
                $schema.into()
            }
        }

        impl ToSchema for $Name {
            fn name() -> std::borrow::Cow<'static, str> {
                stringify!($Name).into()
            }
        }
    )*};
}

schemas! {
    /// Any JSON value, null included.
    AnyJson: ObjectBuilder::new().schema_type(SchemaType::AnyValue).description(Some("Any JSON value"));
    /// A body of bytes.
    Octets: formatted(KnownFormat::Binary).description(Some("Bytes of any media type"));
    /// The document itself.
    OpenapiDocument: ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(AdditionalProperties::FreeForm(true)))
        .description(Some("An OpenAPI document as a JSON object"));
}

/// What the routes are added to.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "dueq",
        description = "A delay queue: publish a message now, lease it when it is due, acknowledge it when \
            done.\n\nDurations are integers in milliseconds and end in `_ms`. Instants are RFC 3339 in UTC with \
            milliseconds and end in `_at`; all time is the Redis server's. Every error is `application/problem+json` \
            with a stable `code`. Answers may gain fields and enum values; clients must tolerate them.\n\nIf the \
            server has API keys, every request needs one, except `/healthz` and `/readyz`.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    servers((url = "/", description = "This server")),
    tags(
        (name = "messages", description = "Publish, inspect, change and delete messages"),
        (name = "leases", description = "Consume messages: lease, then acknowledge, give back or extend"),
        (name = "callbacks", description = "Have URLs called later"),
        (name = "topics", description = "Configure and inspect topics, and act on all their messages"),
        (name = "schedules", description = "Publish repeatedly, by a cron expression or at a fixed interval"),
        (name = "service", description = "Health, metrics and this document"),
    ),
    components(schemas(ProblemBody, ListedState)),
    security((), ("bearer" = [])),
)]
pub(super) struct Document;

/// A version of OpenAPI that the document is written in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Version {
    /// 3.1: the document.
    #[default]
    #[value(name = "3.1")]
    V3_1,
    /// 3.0: the same, for what reads nothing later.
    #[value(name = "3.0")]
    V3_0,
}

/// The document as it is served, written and compared.
///
/// Errors: where it cannot be written as JSON, which would be a defect.
pub(super) fn to_text(
    document: &openapi::OpenApi,
    version: Version,
) -> Result<String, serde_json::Error> {
    let mut text = match version {
        Version::V3_1 => serde_json::to_string_pretty(document)?,
        Version::V3_0 => {
            serde_json::to_string_pretty(&v3_0::rendered(serde_json::to_value(document)?))?
        }
    };
    text.push('\n');
    Ok(text)
}
