//! The document as OpenAPI 3.0 has it, for the generators that read nothing later. It is made from the 3.1 document, and
//! says the same: only what JSON Schema 2020-12 brought into 3.1 is put in 3.0's words.

use serde_json::{Map, Value, json};

/// The version that the rendering names.
const VERSION: &str = "3.0.3";

/// What of a schema is a schema itself.
const INNER: [&str; 3] = ["items", ADDITIONAL, "not"];
const ADDITIONAL: &str = "additionalProperties";
/// What of a schema holds schemas in an array.
const CHOICES: [&str; 3] = ["allOf", "anyOf", "oneOf"];

/// The 3.0 rendering of a 3.1 document.
pub(super) fn rendered(mut document: Value) -> Value {
    document["openapi"] = json!(VERSION);
    if let Some(info) = document["info"].as_object_mut() {
        info.remove("summary");
        if let Some(license) = info.get_mut("license").and_then(Value::as_object_mut) {
            license.remove("identifier"); // its name is the same
        }
    }
    if let Some(paths) = document.get_mut("paths") {
        render_schemas_in(paths);
    }
    if let Some(components) = document.get_mut("components").and_then(Value::as_object_mut) {
        for (kind, named) in components {
            match named.as_object_mut() {
                Some(schemas) if kind == "schemas" => schemas.values_mut().for_each(render),
                _ => render_schemas_in(named),
            }
        }
    }
    document
}

/// Renders whatever stands under `schema`, at any depth; what is an example is left alone.
fn render_schemas_in(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields {
                match name.as_str() {
                    "schema" => render(inner),
                    "example" | "examples" => {}
                    _ => render_schemas_in(inner),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(render_schemas_in),
        _ => {}
    }
}

/// Renders one schema and all within it.
fn render(schema: &mut Value) {
    match schema {
        Value::Bool(true) => *schema = json!({}),
        Value::Bool(false) => *schema = json!({"not": {}}),
        Value::Object(fields) => render_fields(fields),
        _ => {}
    }
}

fn render_fields(schema: &mut Map<String, Value>) {
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(render);
    }
    for name in INNER {
        // `additionalProperties` may be true or false in 3.0 too.
        let inner = schema.get_mut(name);
        inner.filter(|inner| name != ADDITIONAL || inner.is_object()).into_iter().for_each(render);
    }
    for name in CHOICES {
        let choices = schema.get_mut(name).and_then(Value::as_array_mut);
        // Before they are rendered: what may be null is recognised by its 3.1 form.
        let nullable = choices.is_some_and(|choices| {
            let all = choices.len();
            choices.retain(|choice| choice["type"] != "null");
            choices.iter_mut().for_each(render);
            choices.len() < all
        });
        if nullable {
            schema.insert("nullable".to_owned(), json!(true));
            unwrap_only_choice(schema, name);
        }
    }
    render_type(schema);
    render_words(schema);
    wrap_reference(schema);
}

/// One choice that is left is no choice: it stands in `allOf`, where 3.0 lets other fields stand beside it.
fn unwrap_only_choice(schema: &mut Map<String, Value>, name: &str) {
    let only = schema.get(name).and_then(Value::as_array).is_some_and(|all| all.len() == 1);
    if only && let Some(choice) = schema.remove(name) {
        schema.insert("allOf".to_owned(), choice);
    }
}

/// `type` is one word in 3.0, and `nullable` says null.
fn render_type(schema: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = schema.get_mut("type") else { return };
    let mut types = std::mem::take(types);
    schema.remove("type");
    let all = types.len();
    types.retain(|kind| kind != "null");
    if types.len() < all {
        schema.insert("nullable".to_owned(), json!(true));
    }
    match types.len() {
        0 => drop(schema.insert("enum".to_owned(), json!([null]))),
        1 => drop(schema.insert("type".to_owned(), types.remove(0))),
        _ => {
            let choices = types.into_iter().map(|kind| json!({"type": kind})).collect();
            schema.insert("anyOf".to_owned(), Value::Array(choices));
        }
    }
}

/// Words that 3.0 has others for.
fn render_words(schema: &mut Map<String, Value>) {
    if let Some(value) = schema.remove("const") {
        schema.insert("enum".to_owned(), json!([value]));
    }
    if let Some(Value::Array(mut examples)) = schema.remove("examples")
        && !examples.is_empty()
    {
        schema.entry("example").or_insert_with(|| examples.remove(0));
    }
    for (exclusive, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        if let Some(value) = schema.remove(exclusive) {
            schema.insert(bound.to_owned(), value);
            schema.insert(exclusive.to_owned(), json!(true));
        }
    }
    let bytes = match (schema.remove("contentEncoding"), schema.remove("contentMediaType")) {
        (Some(encoding), _) => (encoding == "base64").then_some("byte"),
        (None, media_type) => media_type.map(|_| "binary"),
    };
    if let Some(format) = bytes {
        schema.insert("format".to_owned(), json!(format));
    }
    // Names of a JSON object are strings anyway.
    schema.remove("propertyNames");
}

/// Beside a `$ref` nothing counts in 3.0: what stands there is put around it.
fn wrap_reference(schema: &mut Map<String, Value>) {
    if schema.len() > 1
        && let Some(reference) = schema.remove("$ref")
    {
        schema.insert("allOf".to_owned(), json!([{"$ref": reference}]));
    }
}

#[cfg(test)]
mod tests;
