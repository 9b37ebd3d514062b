//! What the routes' attributes cannot say of the document: bodies that may be left out, what a key is, what each code of
//! an operation means. And what they say in a form that generators of clients make little of.

use crate::http::problem::Code;
use utoipa::openapi::{
    ContentBuilder, OpenApi, Ref, RefOr, Required, ResponseBuilder, Schema,
    path::{Operation, PathItem},
    schema::Object,
    security::{HttpAuthScheme, HttpBuilder, SecurityScheme},
};

/// Completes the document that was made of the routes.
pub(in crate::http) fn complete(document: &mut OpenApi) {
    for path in ["/topics/{topic}/lease", "/topics/{topic}/redrive"] {
        let operation = document.paths.paths.get_mut(path).and_then(|path| path.post.as_mut());
        let body = operation.and_then(|operation| operation.request_body.as_mut());
        if let Some(RefOr::T(body)) = body {
            body.required = Some(Required::False);
        }
    }
    for operation in document.paths.paths.values_mut().flat_map(operations_of) {
        describe(operation);
    }
    let components = document.components.get_or_insert_default();
    for (name, schema) in &mut components.schemas {
        if let RefOr::T(Schema::Object(object)) = schema {
            if name == "Problem" {
                name_codes(object);
            }
            unwrap_lines(&mut object.description);
            object.properties.values_mut().for_each(describe_property);
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

fn operations_of(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete]
        .into_iter()
        .flatten()
}

/// Joins the codes of the operation to one response for each status, and names them in its description, which is all that
/// most generators keep of them.
fn describe(operation: &mut Operation) {
    let responses = &mut operation.responses.responses;
    let named = |code: &&Code| responses.remove(&code.key()).is_some();
    let codes: Vec<Code> = Code::ALL.iter().filter(named).copied().collect();
    let mut refusals = Vec::new();
    for of_status in codes.chunk_by(|a, b| a.status() == b.status()) {
        let status = of_status[0].status().as_str().to_owned();
        let own: Vec<_> = of_status.iter().copied().filter(|code| !code.is_general()).collect();
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
    if !refusals.is_empty() {
        let description = operation.description.get_or_insert_default();
        let end = if description.is_empty() { "" } else { "\n\n" };
        *description += &format!("{end}Refused by `code`: {}.", refusals.join("; "));
    }
    for parameter in operation.parameters.iter_mut().flatten() {
        if let RefOr::T(parameter) = parameter {
            unwrap_lines(&mut parameter.description);
        }
    }
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

/// Puts the description of what may be null where other descriptions are: beside the choice, not in it.
fn describe_property(property: &mut RefOr<Schema>) {
    match property {
        RefOr::Ref(Ref { description, .. }) => *description = in_one_line(description),
        RefOr::T(Schema::OneOf(choice)) => {
            if let Some(RefOr::Ref(reference)) = choice.items.first_mut() {
                let inner = std::mem::take(&mut reference.description);
                choice.description.get_or_insert_with(|| in_one_line(&inner));
            }
        }
        RefOr::T(Schema::Object(object)) => unwrap_lines(&mut object.description),
        RefOr::T(Schema::Array(array)) => unwrap_lines(&mut array.description),
        RefOr::T(_) => {}
    }
}

fn unwrap_lines(text: &mut Option<String>) {
    if let Some(text) = text {
        *text = in_one_line(text);
    }
}

/// The text without the line ends of the source that it was written in; paragraphs stay.
fn in_one_line(text: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| paragraph.replace('\n', " "));
    paragraphs.collect::<Vec<_>>().join("\n\n")
}
