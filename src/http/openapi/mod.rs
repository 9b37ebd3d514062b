//! The OpenAPI document: made from the routes, served at `/openapi.json`, committed as `openapi/openapi.json`; and the
//! same for tools that know OpenAPI 3.0 only.

pub(crate) mod answer;
pub(crate) mod describe;
mod v3_0;

use crate::{
    access::Need,
    input::ListedState,
    problem::{Code, ProblemBody, Scope},
};
use describe::{formatted, in_one_line};
use serde::Serialize;
use utoipa::{
    OpenApi, PartialSchema, ToSchema,
    openapi::{
        self, Components, ContentBuilder, Info, KnownFormat, Object, ObjectBuilder, OneOfBuilder,
        OpenApiVersion, PathItem, Ref, RefOr, Required, ResponseBuilder, Schema, Server, Tag, Type,
        path::{Operation, PathsMap},
        schema::{AdditionalProperties, SchemaType},
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};

/// Schemas that no type of the program has.
macro_rules! schemas {
    ($($(#[doc = $about:expr])* $Name:ident: $schema:expr;)*) => {$(
        $(#[doc = $about])*
        pub struct $Name;

        impl PartialSchema for $Name {
            fn schema() -> RefOr<Schema> {
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
            server has API keys, every request needs one, except `/healthz`, `/readyz` and `POST /session`; `x-dueq-scope` says which \
            scope a key needs for an operation.",
        license(name = "MIT OR Apache-2.0", identifier = "MIT OR Apache-2.0"),
    ),
    servers((url = "/", description = "This server")),
    tags(
        (name = "messages", description = "Publish, inspect, change and delete messages"),
        (name = "leases", description = "Consume messages: lease, then acknowledge, give back or extend"),
        (name = "callbacks", description = "Have URLs called later"),
        (name = "topics", description = "Configure and inspect topics, and act on all their messages"),
        (name = "schedules", description = "Publish repeatedly, by a cron expression or at a fixed interval"),
        (name = "service", description = "Health, metrics, this document, and sessions of dueq's own pages"),
    ),
    components(schemas(ProblemBody, ListedState)),
    security((), ("bearer" = [])),
)]
pub(crate) struct Document;

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
pub(crate) fn to_text(
    document: &openapi::OpenApi,
    version: Version,
) -> Result<String, serde_json::Error> {
    let mut text = match version {
        Version::V3_1 => serde_json::to_string_pretty(&InOrder::from(document))?,
        Version::V3_0 => {
            serde_json::to_string_pretty(&v3_0::rendered(serde_json::to_value(document)?))?
        }
    };
    text.push('\n');
    Ok(text)
}

/// The document with the methods of each path in order of use, for the page at `/docs`.
#[derive(Serialize)]
struct InOrder<'a> {
    openapi: &'a OpenApiVersion,
    info: &'a Info,
    servers: &'a Option<Vec<Server>>,
    paths: PathsMap<&'a str, Methods<'a>>,
    components: &'a Option<Components>,
    security: &'a Option<Vec<SecurityRequirement>>,
    tags: &'a Option<Vec<Tag>>,
}

#[derive(Serialize)]
struct Methods<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    post: Option<&'a Operation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    put: Option<&'a Operation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    get: Option<&'a Operation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<&'a Operation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delete: Option<&'a Operation>,
}

impl<'a> From<&'a openapi::OpenApi> for InOrder<'a> {
    fn from(document: &'a openapi::OpenApi) -> Self {
        let openapi::OpenApi { openapi, info, servers, paths, components, security, tags, .. } =
            document;
        let methods = |item: &'a PathItem| Methods {
            post: item.post.as_ref(),
            put: item.put.as_ref(),
            get: item.get.as_ref(),
            patch: item.patch.as_ref(),
            delete: item.delete.as_ref(),
        };
        let paths = paths.paths.iter().map(|(path, item)| (path.as_str(), methods(item)));
        Self { openapi, info, servers, paths: paths.collect(), components, security, tags }
    }
}

/// Completes the document that was made of the routes by what their attributes cannot say: bodies that may be left out or
/// null, what a key is, what each code of an operation means. And by what they say in a form that generators of clients make
/// little of.
pub(crate) fn complete(document: &mut openapi::OpenApi) {
    for path in ["/topics/{topic}/lease", "/topics/{topic}/redrive", "/topics/{topic}/run"] {
        let operation = document.paths.paths.get_mut(path).and_then(|path| path.post.as_mut());
        let body = operation.and_then(|operation| operation.request_body.as_mut());
        if let Some(RefOr::T(body)) = body {
            body.required = Some(Required::False);
            for content in body.content.values_mut() {
                if let RefOr::T(content) = content {
                    content.schema = content.schema.take().map(or_null);
                }
            }
        }
    }
    for item in document.paths.paths.values_mut() {
        for (operation, has_body) in [
            (&mut item.get, false),
            (&mut item.post, true),
            (&mut item.put, true),
            (&mut item.patch, true),
            (&mut item.delete, false),
        ] {
            operation.iter_mut().for_each(|operation| describe(operation, has_body));
        }
    }
    let components = document.components.get_or_insert_default();
    for (name, schema) in &mut components.schemas {
        if let RefOr::T(Schema::Object(object)) = schema {
            if name == "Problem" {
                name_codes(object);
            }
            unwrap_lines(&mut object.description);
            for property in object.properties.values_mut() {
                if let RefOr::T(Schema::Object(object)) = property {
                    unwrap_lines(&mut object.description);
                }
            }
        }
    }
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "One of the server's API keys. A server on loopback may have none and need none",
        ))
        .build();
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
}

/// The schema, or null.
fn or_null(schema: RefOr<Schema>) -> RefOr<Schema> {
    OneOfBuilder::new().item(schema).item(ObjectBuilder::new().schema_type(Type::Null)).into()
}

/// Names the operation as its function is called, in camelCase. Joins its codes to one response for each status, and names
/// them in its description, which is all that most generators keep of them.
fn describe(operation: &mut Operation, has_body: bool) {
    operation.operation_id = operation.operation_id.as_deref().map(in_camel_case);
    let need = operation.operation_id.as_deref().map_or(Need::Admin, Need::of);
    if let Some(scope) = need.scope() {
        let extension = openapi::extensions::Extensions::builder().add(SCOPE, scope).build();
        operation.extensions = Some(extension);
    }
    let responses = &mut operation.responses.responses;
    let is_answered = |code: &&Code| match code.scope() {
        Scope::Any => true,
        Scope::Body => has_body,
        Scope::Own => responses.remove(&code.key()).is_some(),
    };
    let codes: Vec<Code> = Code::ALL.iter().filter(is_answered).copied().collect();
    let mut refusals = Vec::new();
    for of_status in codes.chunk_by(|a, b| a.status() == b.status()) {
        let status = of_status[0].status().as_str().to_owned();
        let own: Vec<_> =
            of_status.iter().copied().filter(|code| code.scope() == Scope::Own).collect();
        if !own.is_empty() {
            refusals.push(format!("{status} {}", words(&own)));
        }
        let alike = of_status.chunk_by(|a, b| a.meaning() == b.meaning());
        let meanings = alike.map(|codes| format!("{}: {}", words(codes), codes[0].meaning()));
        let description = meanings.collect::<Vec<_>>().join("; ");
        let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
        let response = ResponseBuilder::new()
            .description(description)
            .content("application/problem+json", content);
        responses.insert(status, response.build().into());
    }
    unwrap_lines(&mut operation.description);
    let refused = format!("Refused by `code`: {}.", refusals.join("; "));
    for paragraph in need.sentence().into_iter().chain((!refusals.is_empty()).then_some(refused)) {
        let description = operation.description.get_or_insert_default();
        let end = if description.is_empty() { "" } else { "\n\n" };
        *description += &format!("{end}{paragraph}");
    }
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(parameter) = parameter {
            unwrap_lines(&mut parameter.description);
        }
    }
}

/// The extension that says which scope an operation needs, for programs.
const SCOPE: &str = "x-dueq-scope";

/// `publish_message` as `publishMessage`.
pub(crate) fn in_camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |all, word| {
        let (initial, rest) = word.split_at(1);
        all + &initial.to_uppercase() + rest
    })
}

/// The codes as a text has them.
fn words(codes: &[Code]) -> String {
    codes.iter().map(|code| format!("`{}`", code.word())).collect::<Vec<_>>().join(", ")
}

/// Lists the known codes where a program looks for them.
fn name_codes(problem: &mut Object) {
    let Some(RefOr::T(Schema::Object(code))) = problem.properties.get_mut("code") else { return };
    let description = code.description.get_or_insert_default();
    *description += " Known ones:";
    let by_status = Code::ALL.chunk_by(|a, b| a.status() == b.status());
    let known = by_status.map(|codes| format!(" {} {}", codes[0].status().as_str(), words(codes)));
    *description += &(known.collect::<Vec<_>>().join(";") + ".");
}

fn unwrap_lines(text: &mut Option<String>) {
    if let Some(text) = text {
        *text = in_one_line(text.lines());
    }
}
