//! The document as OpenAPI 3.0 has it, for the generators that read nothing later. It is made from the 3.1 document, and
//! says the same: what the document uses of JSON Schema 2020-12 is put in 3.0's words.

use serde_json::{Map, Value, json};

/// The version that the rendering names.
const VERSION: &str = "3.0.3";

/// The 3.0 rendering of a 3.1 document.
pub(super) fn rendered(mut document: Value) -> Value {
    document["openapi"] = json!(VERSION);
    if let Some(license) = document["info"]["license"].as_object_mut() {
        license.remove("identifier"); // its name is the same
    }
    render(&mut document);
    document
}

/// Renders all schemas in `value`, at any depth; examples are left alone.
fn render(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            let inner = fields.iter_mut().filter(|(name, _)| *name != "example");
            inner.for_each(|(_, inner)| render(inner));
            render_schema(fields);
        }
        Value::Array(items) => items.iter_mut().for_each(render),
        _ => {}
    }
}

fn render_schema(schema: &mut Map<String, Value>) {
    // Null is one of two types, or of two choices. The other choice goes into `allOf`, next to which 3.0 allows other
    // fields.
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|kind| kind != "null");
        let kind = types.pop();
        schema.insert("type".to_owned(), json!(kind));
        schema.insert("nullable".to_owned(), json!(true));
    }
    if let Some(Value::Array(choices)) = schema.get_mut("oneOf") {
        choices.retain(|choice| choice["type"] != "null");
        let choice = choices.pop();
        schema.remove("oneOf");
        schema.insert("allOf".to_owned(), json!([choice]));
        schema.insert("nullable".to_owned(), json!(true));
    }
    if schema.remove("contentEncoding").is_some_and(|encoding| encoding == "base64") {
        schema.insert("format".to_owned(), json!("byte"));
    }
    // Names of a JSON object are strings anyway.
    schema.remove("propertyNames");
    // Nothing next to a `$ref` counts in 3.0: it is put around it.
    if schema.len() > 1
        && let Some(reference) = schema.remove("$ref")
    {
        schema.insert("allOf".to_owned(), json!([{"$ref": reference}]));
    }
}

#[cfg(test)]
mod tests;
