//! The document as it is served, printed and committed, in each version of OpenAPI; and what generators of clients need to
//! find in it.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::*;

#[tokio::test]
async fn the_openapi_documents_are_the_committed_ones() {
    let client = client().await;
    for (name, arguments) in [
        ("openapi.json", &[][..]),
        ("openapi.json", &["--openapi-version", "3.1"]),
        ("openapi-3.0.json", &["--openapi-version", "3.0"]),
    ] {
        let committed = Path::new(env!("CARGO_MANIFEST_DIR")).join("openapi").join(name);
        let committed = std::fs::read_to_string(committed).expect("`make openapi` writes it");
        let printed = Command::new(binary()).arg("openapi").args(arguments).output().unwrap();
        assert!(printed.status.success());
        let printed = String::from_utf8(printed.stdout).unwrap();
        assert!(printed == committed, "`make openapi` was forgotten: {name}");
        let answer = client.get_path(&format!("/{name}")).await.expect(200);
        assert_eq!(answer.header("content-type"), "application/json");
        assert!(answer.body == committed.as_bytes(), "another {name} is served");
    }
}

#[tokio::test]
async fn the_3_0_document_has_the_same_operations_and_schemas() {
    let client = client().await;
    let document = client.get_path("/openapi.json").await.expect(200).json();
    let of_3_0 = client.get_path("/openapi-3.0.json").await.expect(200).json();
    assert_eq!(text(&of_3_0, "openapi"), "3.0.3");
    let names = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let schemas = |document: &Value| names(&document["components"]["schemas"]);
    assert_eq!(schemas(&document), schemas(&of_3_0));
    assert_eq!(names(&document["paths"]), names(&of_3_0["paths"]));
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            let other = &of_3_0["paths"][path][method];
            assert_eq!(names(operation), names(other), "{method} {path}");
            assert_eq!(names(&operation["responses"]), names(&other["responses"]));
            for said in ["operationId", "summary", "description", "security", "tags"] {
                assert_eq!(operation.get(said), other.get(said), "{method} {path}");
            }
        }
    }
}

#[tokio::test]
async fn generators_find_what_they_name_things_by() {
    let document = client().await.get_path("/openapi.json").await.expect(200).json();
    for (path, item) in document["paths"].as_object().unwrap() {
        for (method, operation) in item.as_object().unwrap() {
            for said in ["operationId", "summary", "description"] {
                assert!(!text(operation, said).is_empty(), "{method} {path} has no {said}");
            }
            let mut names = HashSet::new();
            for parameter in operation["parameters"].as_array().into_iter().flatten() {
                let name = text(parameter, "name").to_lowercase().replace(['-', '_'], "");
                assert!(
                    names.insert(name),
                    "{method} {path}: names that most languages take for one"
                );
                assert!(!text(parameter, "description").is_empty(), "{method} {path}");
            }
        }
    }
    let codes =
        text(&document["components"]["schemas"]["Problem"]["properties"]["code"], "description");
    for code in ["lease_lost", "invalid_input", "redis_unavailable"] {
        assert!(codes.contains(&format!("`{code}`")), "{code}");
    }
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        assert!(!text(schema, "description").is_empty(), "{name}");
        for (field, property) in schema["properties"].as_object().into_iter().flatten() {
            assert!(!text(property, "description").is_empty(), "{name}.{field}");
            // A client sends what its caller says, and nothing that the caller left out.
            assert!(property.get("default").is_none(), "{name}.{field}");
            if field.ends_with("_ms") && property.get("items").is_none() {
                assert_eq!(property["format"], "int64", "{name}.{field}");
            }
        }
    }
}
