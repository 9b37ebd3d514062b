//! `dueq schedules` on a real server.

use serde_json::json;

use crate::client::{answer, done, failed};
use crate::harness::*;

#[tokio::test]
async fn a_schedule_is_put_shown_triggered_paused_resumed_and_deleted() {
    let name = &topic("client-schedule");
    let put = [
        "schedules",
        "put",
        name,
        r#"{"a": 1}"#,
        "--cron",
        "0 9 * * MON-FRI",
        "--timezone",
        "Europe/Berlin",
        "--topic",
        name,
        "--priority",
        "7",
        "--header",
        "x=y",
    ];
    let shown = done(&put).await;
    for part in ["0 9 * * MON-FRI", "Europe/Berlin", r#"{"a": 1}"#, "x: y", " (in "] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    // But for how long ago it was made.
    let lines = |text: &str| {
        text.lines().filter(|line| !line.contains(" ago)")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(lines(&done(&["schedules", "get", name]).await), lines(&shown));
    let listed = done(&["schedules"]).await;
    assert!(
        listed.lines().any(|line| line.starts_with(&**name) && line.contains("MON-FRI")),
        "{listed}"
    );
    let triggered = done(&["schedules", "trigger", name]).await;
    let leased = answer(&["lease", name, "--wait", "5s"]).await;
    let message = &leased["messages"][0];
    assert_eq!(triggered, format!("{name} published {}\n", text(message, "id")));
    assert_eq!((&message["payload"], &message["priority"]), (&json!({"a": 1}), &json!(7)));
    assert_eq!(done(&["schedules", "pause", name]).await, format!("{name} is paused\n"));
    assert!(done(&["schedules", "resume", name]).await.contains("ticks next "));
    assert_eq!(done(&["schedules", "delete", name]).await, format!("deleted {name}\n"));
    let told = failed(1, &["schedules", "get", name]).await;
    assert!(told.ends_with("(404 schedule_not_found)\n"), "{told}");
}

#[tokio::test]
async fn a_schedule_that_cannot_be_is_refused_by_the_server_and_wrong_usage_here() {
    let name = &topic("client-schedule");
    let told =
        failed(1, &["schedules", "put", name, "1", "--cron", "0 0 30 2 *", "--topic", "t"]).await;
    assert!(told.contains("cron: never comes"), "{told}");
    let told =
        failed(1, &["schedules", "put", name, "1", "--cron", "0 24 * * *", "--topic", "t"]).await;
    assert!(told.contains("cron: the hour `24` is not valid: it takes 0-23"), "{told}");
    for words in [
        &["schedules", "put", name, "1", "--topic", "t"][..],
        &["schedules", "put", name, "1", "--every", "1s"],
        &["schedules", "put", name, "--every", "1s", "--topic", "t"],
        &["schedules", "put", name, "1", "--every", "1s", "--cron", "* * * * *", "--topic", "t"],
        &["schedules", "put", name, "1", "--every", "1s", "--topic", "t", "--method", "PUT"],
        &["schedules", "put", name, "1", "--every", "1s", "--topic", "t", "--timezone", "UTC"],
        &["schedules", "get"],
    ] {
        failed(2, words).await;
    }
}
