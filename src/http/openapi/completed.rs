//! What the routes' attributes cannot say of the document: bodies that may be left out, what a key is, what each code of
//! an operation means. And what they say in a form that generators of clients make little of.

use crate::http::{
    describe::in_one_line,
    problem::{Code, Scope},
};
use utoipa::openapi::{
    ContentBuilder, OpenApi, Ref, RefOr, Required, ResponseBuilder, Schema,
    path::Operation,
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

/// Names the operation as its function is called, in camelCase. Joins its codes to one response for each status, and names
/// them in its description, which is all that most generators keep of them.
fn describe(operation: &mut Operation, has_body: bool) {
    operation.operation_id = operation.operation_id.as_deref().map(in_camel_case);
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

/// `publish_message` as `publishMessage`.
fn in_camel_case(name: &str) -> String {
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
