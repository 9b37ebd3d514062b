//! `dueq apply`: topics and schedules are as a file says, and what it says wrongly is told by line.

use std::fs;

use serde_json::json;

use crate::{harness::*, moving::dueq};

#[tokio::test]
async fn topics_and_schedules_are_as_a_file_says() {
    let redis = Redis::start().await;
    let there = Dueq::calling(&redis).start().await;
    let (client, url, dir) = (there.client(), there.url(), temp_dir("apply"));
    let file = dir.join("dueq.yaml");
    let apply = async |text: &str, more: &[&str]| {
        fs::write(&file, text).unwrap();
        let words = ["apply", "-f", file.to_str().unwrap(), "--server", &url];
        dueq(&[&words[..], more].concat()).await
    };
    let text = "\
topics:
  orders:
    max_attempts: 5
    backoff: {kind: exponential, base_ms: 500}
    dead_topic: orders-dead
  calls:
    push:
      url: http://127.0.0.1:9/
      secrets: [whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw]
      headers: {authorization: Bearer s}
schedules:
  nightly:
    cron: 0 3 * * *
    topic: orders
    message: {payload: {kind: report}, headers: {a: b}}
  ping:
    every_ms: 3600000
    callback: {url: 'http://127.0.0.1:9/', method: GET}
";
    let trial = apply(text, &["--dry-run"]).await;
    assert_eq!((trial.code, &*trial.stderr), (0, ""), "{trial:?}");
    assert!(
        trial.stdout.contains("+ topic orders\n    backoff.base_ms: 1000 → 500\n"),
        "{trial:?}"
    );
    client.topic("orders").await.expect(404);
    let first = apply(text, &[]).await;
    assert_eq!((first.code, &*first.stderr), (0, ""), "{first:?}");
    assert!(first.stdout.ends_with("created 4, changed 0, deleted 0; unchanged 0\n"), "{first:?}");
    let topic = client.topic("orders").await.expect(200).json();
    assert_eq!(
        (&topic["config"]["max_attempts"], &topic["config"]["dead_topic"]),
        (&json!(5), &json!("orders-dead"))
    );
    let again = apply(text, &[]).await;
    assert_eq!((again.code, &*again.stdout), (0, "nothing changes: 4 are as the file says\n"));
    assert_eq!(client.topic("orders").await.expect(200).json()["revision"], topic["revision"]);

    // Secrets that the file does not name stay, which is no change.
    let silent: String =
        text.split_inclusive('\n').filter(|line| !line.contains("secrets:")).collect();
    let kept = apply(&silent, &[]).await;
    assert_eq!((kept.code, &*kept.stdout), (0, "nothing changes: 4 are as the file says\n"));
    let calls = client.topic("calls").await.expect(200).json();
    assert_eq!(calls["config"]["push"]["secrets"], json!(["***"]));

    let changed =
        text.replace("max_attempts: 5", "max_attempts: 7").replace("kind: report", "kind: sums");
    let changed = apply(&changed, &[]).await;
    let told = "~ topic orders\n    max_attempts: 5 → 7\n~ schedule nightly\n    message.payload.kind: \"report\" → \"sums\"\n";
    assert!(changed.stdout.starts_with(told), "{changed:?}");

    // What the file does not name goes, unless there is something in it.
    client.published("full", json!({"payload": 1})).await;
    client.configure("empty", json!({})).await;
    let short = text.split("schedules:").next().unwrap();
    let trial = apply(short, &["--prune", "--dry-run"]).await;
    assert_eq!((trial.code, &*trial.stderr), (1, "dueq: one was not deleted\n"), "{trial:?}");
    assert!(
        trial.stdout.contains("- topic full\n    not deleted: it holds messages\n"),
        "{trial:?}"
    );
    assert!(trial.stdout.ends_with("deleted 3; unchanged 1\n"), "{trial:?}");
    let nothing = apply("# the command before failed\n", &["--prune"]).await;
    assert_eq!((nothing.code, &*nothing.stdout), (2, ""), "{nothing:?}");
    let pruned = apply(short, &["--prune"]).await;
    assert_eq!((pruned.code, &*pruned.stderr), (1, "dueq: one was not deleted\n"), "{pruned:?}");
    for line in [
        "- schedule nightly\n",
        "- schedule ping\n",
        "- topic empty\n",
        "- topic full\n    not deleted: ",
    ] {
        assert!(pruned.stdout.contains(line), "{pruned:?}");
    }
    client.topic("empty").await.expect(404);
    client.topic("full").await.expect(200);
    client.get_path("/schedules/ping").await.expect(404);

    for (bad, told) in [
        (text.replace("max_attempts", "max_attemps"), "line 3: topics.orders.max_attemps: "),
        (text.replace("calls:", "orders:"), "line 6: duplicated key in mapping"),
        (text.replace("  calls", " calls"), "line 6: "),
        (
            text.replace("nightly", "preview"),
            "line 12: schedules.preview: no schedule can be called",
        ),
        (
            text.replace("topics:", "queues:"),
            "line 1: queues is unknown: there are topics and schedules",
        ),
    ] {
        let refused = apply(&bad, &[]).await;
        assert_eq!((refused.code, &*refused.stdout), (2, ""), "{refused:?}");
        assert!(refused.stderr.contains(told), "{refused:?}, not {told}");
    }
}
