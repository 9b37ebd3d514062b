//! SQS's protocol by the clients that people have: boto3, celery's transport, dramatiq's broker, the AWS SDK for JavaScript and sqs-consumer.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::docs::pages::{python, root};
use crate::harness::*;

/// How long the scenarios may take on a machine that does other things as well.
const TIME: Duration = Duration::from_secs(240);
/// A key with all that may be in one and that a signature's header uses, too.
const KEY: &str = "dq_/a+b=/20261126/key:of~this=";
const NARROW: &str = "dq_narrow-key-of-the-scenarios-of-sqs";

/// An instance with two keys.
async fn served() -> Dueq {
    let file = temp_dir("sqs").join("keys");
    let hex = |key: &str| {
        let digest = ring::digest::digest(&ring::digest::SHA256, key.as_bytes());
        digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let (all, narrow) = (hex(KEY), hex(NARROW));
    let lines = format!("all sha256:{all} admin\nnarrow sha256:{narrow} publish:narrow-*\n");
    std::fs::write(&file, lines).unwrap();
    Dueq::on(&shared().await.redis).args(["--api-key-file", file.to_str().unwrap()]).start().await
}

/// Runs a client's scenarios to their end.
async fn passes(command: &mut Command, name: &str) {
    let said = temp_dir(name).join("said");
    let out = std::fs::File::create(&said).unwrap();
    command.stdin(Stdio::null()).stdout(out.try_clone().unwrap()).stderr(out);
    let status = Process::start(command).wait(TIME).await;
    assert!(status.success(), "{}", text_of(&said));
}

/// The scenarios by boto3, and by one that speaks the query protocol.
async fn passes_by_boto3(is_old: bool) {
    let dueq = served().await;
    let mut scenarios = Command::new(python());
    scenarios.arg(root().join("tests/sqs/scenarios.py")).args([&dueq.url(), KEY, NARROW]);
    scenarios.env("PYTHONDONTWRITEBYTECODE", "1");
    if is_old {
        scenarios.env("PYTHONPATH", python().ancestors().nth(2).unwrap().join("old"));
    }
    passes(&mut scenarios, "sqs-boto3").await;
}

#[tokio::test]
#[ignore = "needs clients of SQS: make test-all"]
async fn boto3_celery_and_dramatiq_work_as_with_sqs() {
    passes_by_boto3(false).await;
}

#[tokio::test]
#[ignore = "needs clients of SQS: make test-all"]
async fn a_boto3_from_before_the_json_protocol_works_as_with_sqs() {
    passes_by_boto3(true).await;
}

#[tokio::test]
#[ignore = "needs clients of SQS: make test-all"]
async fn the_sdk_for_javascript_and_sqs_consumer_work_as_with_sqs() {
    let folder = root().join("tests/sqs/node");
    // Beside the build, so that it is installed once.
    let installed = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sqs-node");
    std::fs::create_dir_all(&installed).unwrap();
    for name in ["package.json", "package-lock.json", "scenarios.mjs"] {
        std::fs::copy(folder.join(name), installed.join(name)).unwrap();
    }
    let mut install = Command::new("npm");
    install.args(["install", "--no-audit", "--no-fund", "--loglevel=error"]);
    match install.current_dir(&installed).output() {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr))
        }
        Err(error) => {
            eprintln!(
                "SKIPPED: there is no npm here ({error}), so nothing is known of JavaScript's SDK"
            );
            return;
        }
    }
    let dueq = served().await;
    let mut scenarios = Command::new("node");
    scenarios.arg(installed.join("scenarios.mjs")).args([&dueq.url(), KEY]);
    passes(&mut scenarios, "sqs-node").await;
}
