//! What the routes' attributes cannot say of the document: bodies that may be left out, what a key is, by which codes each
//! operation refuses. And what they say in a form that generators of clients make little of.

use crate::http::problem::CODES;
use utoipa::openapi::{
    OpenApi, Ref, RefOr, Required, Response, Schema,
    path::{Operation, PathItem},
    schema::{AdditionalProperties, Object},
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
            // Only what is sent to dueq is closed to more fields.
            if object.additional_properties.as_deref()
                == Some(&AdditionalProperties::FreeForm(false))
            {
                object.properties.values_mut().for_each(tell_default);
            }
        }
    }
    let bearer = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some(
            "One of the server's API keys; a server on loopback may have none and want none",
        ))
        .build();
    components.add_security_scheme("bearer", SecurityScheme::Http(bearer));
}

fn operations_of(item: &mut PathItem) -> impl Iterator<Item = &mut Operation> {
    [&mut item.get, &mut item.post, &mut item.put, &mut item.patch, &mut item.delete]
        .into_iter()
        .flatten()
}

/// Adds the codes by which the operation refuses to its description, which is all that most generators keep of them.
fn describe(operation: &mut Operation) {
    let mut refusals = Vec::new();
    for (status, response) in &operation.responses.responses {
        if let RefOr::T(Response { description, .. }) = response {
            let codes: Vec<_> = codes_in(description).map(|code| format!("`{code}`")).collect();
            if !codes.is_empty() {
                refusals.push(format!("{status} {}", codes.join(", ")));
            }
        }
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

/// The codes that a description names, in its order, but those that any request may meet.
fn codes_in(description: &str) -> impl Iterator<Item = &str> {
    let known = |word: &&str| CODES.iter().any(|codes| codes.own.contains(word));
    description.split('`').skip(1).step_by(2).filter(known)
}

/// Lists the known codes where a program looks for them.
fn name_codes(problem: &mut Object) {
    let Some(RefOr::T(Schema::Object(code))) = problem.properties.get_mut("code") else { return };
    let description = code.description.get_or_insert_default();
    *description += " Known ones:";
    for (i, of_status) in CODES.iter().enumerate() {
        let codes: Vec<_> = of_status.all().map(|code| format!("`{code}`")).collect();
        let end = if i + 1 == CODES.len() { "." } else { ";" };
        *description += &format!(" {} {}{end}", of_status.status, codes.join(", "));
    }
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

/// Says in words what dueq takes a field of a request for that is left out. Told as `default`, generators make clients that
/// always send it, or make it a field that must be given.
fn tell_default(property: &mut RefOr<Schema>) {
    let (default, description) = match property {
        RefOr::T(Schema::Object(object)) => (object.default.take(), &mut object.description),
        RefOr::T(Schema::OneOf(choice)) => (choice.default.take(), &mut choice.description),
        _ => return,
    };
    if let Some(default) = default {
        let value =
            default.as_str().map_or_else(|| default.to_string(), |text| format!("`{text}`"));
        *description.get_or_insert_default() += &format!(" Default: {value}.");
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
