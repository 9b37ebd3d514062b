//! The dashboard's sources: foreign text never becomes markup or code, and it uses only documented operations.

use super::{files, root};

/// What turns a string into elements or into code. The page's policy stops most of it in the browser; nothing should get that far.
const FORBIDDEN: [&str; 17] = [
    "innerHTML",
    "outerHTML",
    "dangerouslySetInnerHTML",
    "insertAdjacentHTML",
    "createContextualFragment",
    "setHTMLUnsafe",
    "parseFromString",
    "DOMParser",
    "srcdoc",
    "document.write",
    "eval(",
    "Function(",
    "importScripts",
    "javascript:",
    "trustedTypes",
    "setTimeout(\"",
    "setInterval(\"",
];

#[test]
fn no_text_becomes_markup_or_code_in_the_dashboard() {
    let mut wrong = Vec::new();
    for (path, text) in files("src/ui/src", "tsx").into_iter().chain(files("src/ui/src", "ts")) {
        for (at, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            let found = FORBIDDEN.iter().filter(|word| code.contains(**word));
            wrong.extend(found.map(|word| format!("{path}:{}: {word}", at + 1)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_dashboard_uses_only_documented_operations() {
    let document = std::fs::read_to_string(root().join("openapi/openapi.json")).unwrap();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let mut documented = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            if let Some(id) = operation["operationId"].as_str() {
                documented.push(format!("{id}: \"{} {path}\",", method.to_uppercase()));
            }
        }
    }
    let source = std::fs::read_to_string(root().join("src/ui/src/operations.ts")).unwrap();
    let used: Vec<_> = source.lines().map(str::trim).filter(|line| line.contains(": \"")).collect();
    assert!(used.len() > 30, "the list is read: {used:?}");
    for line in used {
        assert!(documented.iter().any(|known| known == line), "{line} is not documented");
    }
}
