//! The OpenAPI document, held against every answer that a [`Client`](super::Client) gets: its status is documented for the
//! operation, and its body has the shape that the document gives it.

use std::sync::OnceLock;

use serde_json::Value;

use super::Answer;
use super::client::text;

/// The document.
pub struct Document(pub Value);

impl Document {
    /// The committed one, which a test compares with the one that is served.
    pub fn committed() -> &'static Document {
        static COMMITTED: OnceLock<Document> = OnceLock::new();
        COMMITTED.get_or_init(|| {
            let text = include_str!("../../openapi/openapi.json");
            Document(serde_json::from_str(text).expect("a document"))
        })
    }

    /// Every operation: method, path, and what the document says of it.
    pub fn operations(&self) -> impl Iterator<Item = (&str, &str, &Value)> {
        let paths = self.0["paths"].as_object().into_iter().flatten();
        paths.flat_map(|(path, item)| {
            let methods = item.as_object().into_iter().flatten();
            methods.map(move |(method, operation)| (method.as_str(), path.as_str(), operation))
        })
    }

    /// An operation by its id.
    pub fn operation(&self, id: &str) -> &Value {
        let found = self.operations().find(|(_, _, operation)| operation["operationId"] == id);
        found.unwrap_or_else(|| panic!("no {id}")).2
    }

    /// What a `$ref` stands for.
    pub fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(reference) => {
                let found = self.0.pointer(reference.trim_start_matches('#'));
                self.resolve(found.unwrap_or_else(|| panic!("no {reference}")))
            }
            None => schema,
        }
    }

    /// The schema of a request's body.
    pub fn request(&self, id: &str) -> &Value {
        let body = &self.operation(id)["requestBody"]["content"]["application/json"]["schema"];
        self.resolve(body["oneOf"].get(0).unwrap_or(body)) // the other choice is null
    }

    /// The operation of a request such as `GET /topics/a?limit=1`, a path without parameters before one with them.
    fn operation_of(&self, request: &str) -> Option<&Value> {
        let (method, path) = request.split_once(' ')?;
        let path: Vec<&str> = path.split('?').next()?.split('/').collect();
        let is_path = |template: &str| {
            let mut parts = template.split('/').zip(&path);
            template.split('/').count() == path.len()
                && parts.all(|(part, given)| {
                    part == *given || part.starts_with('{') && !given.is_empty()
                })
        };
        let method = method.to_ascii_lowercase();
        let found = self.operations().filter(|(of, path, _)| *of == method && is_path(path));
        found
            .min_by_key(|(_, path, _)| path.matches('{').count())
            .map(|(_, _, operation)| operation)
    }

    /// Demands that an answer is one that the document describes, if it describes what was asked.
    pub fn holds(&self, answer: &Answer) {
        // A 304 is for who asks for it by a header that the document does not have.
        let Some(operation) = self.operation_of(&answer.request).filter(|_| answer.status != 304)
        else {
            return;
        };
        let id = text(operation, "operationId");
        let response = self.resolve(&operation["responses"][answer.status.to_string()]);
        assert!(!response.is_null(), "the document knows no such answer of {id}: {answer}");
        if answer.body.is_empty() {
            let mut kinds = response["content"].as_object().into_iter().flatten();
            let is_json = kinds.any(|(kind, _)| kind.ends_with("json"));
            assert!(!is_json, "{id} without a body: {answer}");
            return;
        }
        let kind = answer.header("content-type").split(';').next().unwrap_or_default().to_owned();
        if kind.ends_with("json") {
            let schema = &response["content"][&kind]["schema"];
            assert!(!schema.is_null(), "{id} {}: {kind} is not documented", answer.status);
            self.fits(&answer.json(), schema, &format!("{id} {}", answer.status));
        }
    }

    /// The part of JSON Schema that the document uses, strict about what it does not name.
    fn fits(&self, value: &Value, schema: &Value, at: &str) {
        let schema = self.resolve(schema);
        if let Some(choices) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
            let choice = choices.iter().find(|choice| self.could_be(value, self.resolve(choice)));
            let choice = choice.unwrap_or_else(|| panic!("{at}: {value} fits none of {choices:?}"));
            return self.fits(value, choice, at);
        }
        assert!(self.type_fits(value, schema), "{at}: {value} is no {schema}");
        if let Some(allowed) = schema["enum"].as_array() {
            assert!(allowed.contains(value), "{at}: {value} is none of {allowed:?}");
        }
        for name in schema["required"].as_array().into_iter().flatten() {
            let name = name.as_str().unwrap();
            assert!(value.get(name).is_some(), "{at}: no {name} in {value}");
        }
        for (name, inner) in value.as_object().into_iter().flatten() {
            let at = format!("{at}.{name}");
            match (schema["properties"].get(name), schema.get("additionalProperties")) {
                (Some(schema), _) => self.fits(inner, schema, &at),
                (None, Some(schema)) if schema.is_object() => self.fits(inner, schema, &at),
                (None, _) => {
                    assert!(
                        schema.get("properties").is_none(),
                        "{at} is not documented: run `make openapi` after a change"
                    );
                }
            }
        }
        for inner in value.as_array().into_iter().flatten() {
            self.fits(inner, &schema["items"], &format!("{at}[]"));
        }
    }

    /// Whether this is the choice that is meant: by its type, and an object by what it must have and
    /// by the words that its fields may say, such as its `kind`.
    fn could_be(&self, value: &Value, choice: &Value) -> bool {
        let says = |(name, schema): (&String, &Value)| {
            let words = self.resolve(schema)["enum"].as_array();
            value.get(name).zip(words).is_none_or(|(word, words)| words.contains(word))
        };
        self.type_fits(value, choice)
            && choice["required"]
                .as_array()
                .into_iter()
                .flatten()
                .all(|name| value.get(name.as_str().unwrap()).is_some())
            && choice["properties"].as_object().into_iter().flatten().all(says)
    }

    fn type_fits(&self, value: &Value, schema: &Value) -> bool {
        let is = |kind: &str| match kind {
            "null" => value.is_null(),
            "boolean" => value.is_boolean(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            other => panic!("what is {other}?"),
        };
        match &schema["type"] {
            Value::Null => true,
            Value::String(kind) => is(kind),
            Value::Array(kinds) => kinds.iter().any(|kind| is(kind.as_str().unwrap())),
            other => panic!("what is {other}?"),
        }
    }
}
