//! `dueq pause` and `resume`.

use super::{
    Out, Run,
    api::{Client, path},
    failure::Failure,
    table::clean,
};
use clap::Args;

/// Arguments of `dueq pause`.
#[derive(Args, Clone, Debug)]
pub struct Pause {
    /// The topic's name.
    topic: String,
}

impl Run for Pause {
    async fn run(&self, client: &Client, out: &mut Out<'_>) -> Result<(), Failure> {
        set_paused(client, out, &self.topic, "pause").await
    }
}

/// Arguments of `dueq resume`.
#[derive(Args, Clone, Debug)]
pub struct Resume {
    /// The topic's name.
    topic: String,
}

impl Run for Resume {
    async fn run(&self, client: &Client, out: &mut Out<'_>) -> Result<(), Failure> {
        set_paused(client, out, &self.topic, "resume").await
    }
}

async fn set_paused(
    client: &Client,
    out: &mut Out<'_>,
    topic: &str,
    verb: &str,
) -> Result<(), Failure> {
    let answer = client.post(&path(&["topics", topic, verb]), &serde_json::json!({})).await?;
    out.show(&answer, |after| {
        let state = if after.get("paused") == Some(true) { "paused" } else { "not paused" };
        format!("{} is {state}\n", clean(topic))
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::{asked, ok};

    #[tokio::test]
    async fn pause_and_resume_show_the_new_state() {
        let sent = asked(&["pause", "a"], &ok(r#"{"paused":true}"#)).await;
        assert_eq!((sent.lines(), &*sent.shown), (("POST /topics/a/pause", "{}"), "a is paused\n"));
        let sent = asked(&["resume", "a"], &ok(r#"{"paused":false}"#)).await;
        assert_eq!(
            (sent.lines(), &*sent.shown),
            (("POST /topics/a/resume", "{}"), "a is not paused\n")
        );
    }
}
