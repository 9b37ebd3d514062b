//! The examples of the guide's page on SDKs: each is taken from there and run as it stands.

use std::path::Path;

use serde_json::json;

use crate::harness::*;
use crate::program::Program;

/// The name of the language as a fence has it, and of the file that its example goes into.
fn file_of(language: &str) -> (&'static str, &'static str) {
    match language {
        "python" => ("python", "example.py"),
        "typescript" => ("ts", "example.ts"),
        "go" => ("go", "main.go"),
        "java" => ("java", "Example.java"),
        other => panic!("no language {other}"),
    }
}

/// The example of this language: the first block of its kind.
pub fn example(page: &str, fence: &str) -> String {
    let opening = format!("```{fence}\n");
    let block = page.split(&opening).nth(1).unwrap_or_else(|| panic!("no block of {fence}"));
    block.split("```").next().expect("its end").to_owned()
}

/// It handles what it published itself, and what somebody else publishes.
pub async fn runs(language: &str) {
    let redis = Redis::start().await;
    let dueq = Dueq::on(&redis).start().await;
    let client = dueq.client();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("src/guide/sdks.md")).expect("the page");
    let (fence, name) = file_of(language);
    let code = example(&page, fence);
    let file = temp_dir("example").join(name);
    std::fs::write(&file, &code).expect("a file");
    let words = ["example", file.to_str().expect("its path")];
    let mut program = Program::start(language, &dueq.url(), &words);
    let shows = |program: &Program, number| program.lines().iter().any(|l| l.contains(number));
    program.until("its own message handled", |program| shows(program, "42")).await;
    client.published("orders", json!({"payload": {"order": 4711}})).await;
    program.until("another's message handled", |program| shows(program, "4711")).await;
    eventually("both are acked", || async {
        (client.total("orders", "acked").await == 2).then_some(())
    })
    .await;
    let own = std::fs::read_to_string(root.join("openapi/sdks").join(language).join("README.md"))
        .expect("the README of the package");
    assert!(own.contains(&code), "the package's README shows the same example");
}
