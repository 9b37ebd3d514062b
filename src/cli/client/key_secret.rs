//! `dueq keys secret`: what receivers check signatures with.

use super::{
    Out, Run,
    api::{Client, path},
    failure::Failure,
    warn,
};
use clap::Args;

/// Arguments of `dueq keys secret`.
#[derive(Args, Clone, Debug)]
pub struct KeySecret {
    /// The pushed topic. By default _callbacks, whose secrets are those of this API key.
    #[arg(default_value = "_callbacks")]
    topic: String,
}

impl Run for KeySecret {
    async fn run(&self, client: &Client, out: &mut Out<'_>) -> Result<(), Failure> {
        let answer = client.get(&path(&["topics", &self.topic, "push", "secret"])).await?;
        let object = answer.object()?;
        let secrets: Vec<String> = object.get("secrets").unwrap_or_default();
        if secrets.is_empty() {
            warn("the server has no --signing-secret");
        } else if object.get("in_use") == Some(false) {
            warn("the topic has push.secrets, which sign in place of these");
        }
        out.show(&answer, |_| secrets.iter().map(|secret| format!("{secret}\n")).collect())
    }
}
