//! Each word of 3.1 becomes one of 3.0, and the document has no other.

use super::*;
use crate::openapi::Version;

fn schema(schema: Value) -> Value {
    let document = json!({"openapi": "3.1.0", "components": {"schemas": {"A": schema}}});
    rendered(document)["components"]["schemas"]["A"].clone()
}

#[test]
fn null_becomes_nullable() {
    for (of_3_1, of_3_0) in [
        (
            json!({"type": ["integer", "null"], "minimum": 1}),
            json!({"type": "integer", "nullable": true, "minimum": 1}),
        ),
        (
            json!({"oneOf": [{"$ref": "#/x"}, {"type": "null"}], "description": "d"}),
            json!({"allOf": [{"$ref": "#/x"}], "nullable": true, "description": "d"}),
        ),
        (json!({"type": "string"}), json!({"type": "string"})),
    ] {
        assert_eq!(schema(of_3_1), of_3_0);
    }
}

#[test]
fn words_of_3_1_become_those_of_3_0() {
    for (of_3_1, of_3_0) in [
        (
            json!({"type": "string", "contentEncoding": "base64"}),
            json!({"type": "string", "format": "byte"}),
        ),
        (
            json!({"type": "object", "additionalProperties": {"type": ["string", "null"]},
                "propertyNames": {"type": "string"}}),
            json!({"type": "object",
                "additionalProperties": {"type": "string", "nullable": true}}),
        ),
    ] {
        assert_eq!(schema(of_3_1), of_3_0);
    }
}

#[test]
fn what_stands_beside_a_reference_counts() {
    let beside = json!({"$ref": "#/x", "description": "d", "default": 1});
    let around = json!({"allOf": [{"$ref": "#/x"}], "description": "d", "default": 1});
    assert_eq!(schema(json!({"properties": {"p": beside}})), json!({"properties": {"p": around}}));
    assert_eq!(schema(json!({"items": {"$ref": "#/x"}})), json!({"items": {"$ref": "#/x"}}));
}

#[test]
fn examples_and_fields_of_the_same_names_are_left_alone() {
    let kept = json!({
        "type": "object",
        "properties": {"type": {"type": "string"}, "const": {"type": "integer"}},
        "example": {"type": ["a", "null"], "const": 1, "ttl_ms": null},
    });
    assert_eq!(schema(kept.clone()), kept);
}

/// Every word that a schema of dueq's document may use, so that a new one of 3.1 does not slip through.
#[test]
fn the_rendering_of_the_document_has_only_words_of_3_0() {
    fn check(schema: &Value, at: &str) {
        const WORDS: [&str; 23] = [
            "$ref",
            "type",
            "nullable",
            "format",
            "description",
            "example",
            "default",
            "enum",
            "minimum",
            "maximum",
            "minLength",
            "maxLength",
            "pattern",
            "minItems",
            "maxItems",
            "uniqueItems",
            "items",
            "properties",
            "required",
            "additionalProperties",
            "allOf",
            "anyOf",
            "oneOf",
        ];
        for (word, inner) in schema.as_object().unwrap() {
            assert!(WORDS.contains(&word.as_str()), "{at}: {word}");
            match word.as_str() {
                "type" => assert!(inner.is_string(), "{at}: {inner}"),
                "$ref" => assert_eq!(schema.as_object().unwrap().len(), 1, "{at}"),
                "properties" => {
                    for (name, inner) in inner.as_object().unwrap() {
                        check(inner, &format!("{at}.{name}"));
                    }
                }
                "items" | "additionalProperties" if inner.is_object() => check(inner, at),
                "allOf" | "anyOf" | "oneOf" => {
                    inner.as_array().unwrap().iter().for_each(|inner| check(inner, at));
                }
                _ => {}
            }
        }
    }
    fn check_all(value: &Value, at: &str) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, inner)| match name.as_str() {
                "schema" => check(inner, at),
                "schemas" => inner.as_object().unwrap().iter().for_each(|(n, s)| check(s, n)),
                "example" | "examples" => {}
                _ => check_all(inner, &format!("{at}/{name}")),
            }),
            Value::Array(items) => items.iter().for_each(|item| check_all(item, at)),
            _ => {}
        }
    }
    let document = |version| -> Value {
        serde_json::from_str(&crate::document(version, "").unwrap()).unwrap()
    };
    let of_3_0 = document(Version::V3_0);
    assert_eq!(of_3_0["openapi"], VERSION);
    check_all(&of_3_0, "");
    assert_eq!(of_3_0, rendered(document(Version::V3_1)), "nothing is left out of either");
}
