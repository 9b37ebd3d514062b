//! Parameters of the tools: their JSON Schema, and how an argument becomes a field of a request.

use crate::cli::client::durations::parse;
use serde_json::{Map, Value, json};

/// A JSON object.
pub type Fields = Map<String, Value>;

/// Types, as JSON Schema. The server checks what is not checked here.
pub const TEXT: &str = r#"{"type": "string", "minLength": 1}"#;
pub const INSTANT: &str = r#"{"type": "string", "format": "date-time"}"#;
pub const PAIRS: &str = r#"{"type": "object", "additionalProperties": {"type": "string"}}"#;
pub const ANY: &str = "{}";

/// A parameter.
#[derive(Clone, Copy)]
pub struct Param {
    pub name: &'static str,
    schema: &'static str,
    about: &'static str,
    /// Where it goes in the request; `a.b` is a field of an object. A field that ends in `_ms` takes a duration such as `10m`.
    /// Empty: nowhere.
    pub field: &'static str,
    is_required: bool,
}

/// A parameter that may be given; its field has its name.
pub const fn may(name: &'static str, schema: &'static str, about: &'static str) -> Param {
    Param { name, schema, about, field: name, is_required: false }
}

/// A parameter that must be given.
pub const fn must(name: &'static str, schema: &'static str, about: &'static str) -> Param {
    Param { is_required: true, ..may(name, schema, about) }
}

impl Param {
    pub const fn field(self, field: &'static str) -> Self {
        Self { field, ..self }
    }

    fn schema(&self) -> Value {
        let mut schema: Value = serde_json::from_str(self.schema).unwrap_or_default();
        schema["description"] = self.about.into();
        schema
    }

    /// The argument as the request has it.
    ///
    /// Errors: what it must be.
    fn read(&self, value: &Value) -> Result<Value, String> {
        let (schema, text) = (self.schema(), value.as_str().unwrap_or_default());
        if self.field.ends_with("_ms") {
            return parse(text).map(Value::from);
        }
        if schema["type"] == "string" && text.is_empty() {
            return Err("expected a text that is not empty".to_owned());
        }
        match schema["maximum"].as_u64() {
            Some(most) if value.as_u64().is_none_or(|number| number > most) => {
                Err(format!("expected a whole number of at most {most}"))
            }
            _ => Ok(value.clone()),
        }
    }
}

/// The schema of the arguments. It is closed, so that a wrong name is an error and not a default.
pub fn schema(params: &[Param]) -> Value {
    let properties = params.iter().map(|param| (param.name.to_owned(), param.schema()));
    let properties: Fields = properties.collect();
    let required: Vec<_> = params.iter().filter(|it| it.is_required).map(|it| it.name).collect();
    json!({"type": "object", "properties": properties, "required": required, "additionalProperties": false})
}

/// The fields of the request with their parameters, defaults included. A null is an argument that is not given, unless it may be
/// any JSON.
///
/// Errors: an argument is unknown, missing or of another type.
pub fn fields(params: &[Param], arguments: &Fields) -> Result<Vec<(Param, Value)>, String> {
    let known: Vec<_> = params.iter().map(|param| param.name).collect();
    if let Some(other) = arguments.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("{other}: unknown argument; known are {}", known.join(", ")));
    }
    let mut fields = Vec::new();
    for param in params {
        match arguments.get(param.name).filter(|value| !value.is_null() || param.schema == ANY) {
            Some(value) => {
                let read = param.read(value).map_err(|reason| format!("{}: {reason}", param.name));
                fields.push((*param, read?));
            }
            None if param.is_required => return Err(format!("{}: required", param.name)),
            None => fields.extend(param.schema().get("default").map(|it| (*param, it.clone()))),
        }
    }
    Ok(fields)
}
