//! A message that a command names, and `dueq delete`.

use super::{api::path, by_ids, context::Context, failure::Failure};
use clap::Args;

/// Arguments that name a message, by its id or by its key.
#[derive(Args)]
pub struct MessageRef {
    /// The message's id.
    #[arg(required_unless_present = "key")]
    id: Option<String>,
    /// Topic of --key, instead of an id.
    #[arg(long, requires = "key", conflicts_with = "id")]
    topic: Option<String>,
    /// Key of the message in --topic, instead of an id.
    #[arg(long, requires = "topic", conflicts_with = "id")]
    key: Option<String>,
}

impl MessageRef {
    /// The path of the message.
    pub fn path(&self) -> String {
        match (&self.id, &self.topic, &self.key) {
            (None, Some(topic), Some(key)) => path(&["topics", topic, "keys", key]),
            (id, ..) => path(&["messages", id.as_deref().unwrap_or_default()]),
        }
    }
}

/// Arguments of `dueq delete`.
#[derive(Args)]
pub struct Delete {
    /// Ids of messages; `-` reads ids from standard input, one per line.
    #[arg(value_name = "ID", required_unless_present = "key")]
    ids: Vec<String>,
    /// Topic of --key, instead of an id.
    #[arg(long, requires = "key", conflicts_with = "ids")]
    topic: Option<String>,
    /// Key of the message in --topic, instead of an id.
    #[arg(long, requires = "topic", conflicts_with = "ids")]
    key: Option<String>,
    /// Delete the message even while it is leased; the consumer's ack then finds nothing.
    #[arg(long)]
    force: bool,
}

impl Delete {
    pub async fn run(&self, cx: &mut Context<'_>) -> Result<(), Failure> {
        let (path, name) = match (&self.ids[..], &self.topic, &self.key) {
            ([], Some(topic), Some(key)) => (path(&["topics", topic, "keys", key]), key),
            ([id], ..) if id != "-" => (path(&["messages", id]), id),
            _ if self.force => {
                return Err(Failure::Usage("--force deletes one message at a time".to_owned()));
            }
            (ids, ..) => {
                let ids = by_ids::read(ids)?;
                return by_ids::change(cx, "delete", "deleted", &ids).await;
            }
        };
        let query = if self.force { "?force=true" } else { "" };
        let answer = cx.client.delete(&format!("{path}{query}")).await?;
        cx.done(&answer, &format!("deleted {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{NO_CONTENT, asked, asked_in_turn, ok};

    #[tokio::test]
    async fn a_message_is_found_by_id_or_by_key() {
        let sent = asked(&["get", "1-2"], &ok(r#"{"id":"1-2"}"#)).await;
        assert_eq!((sent.lines(), &*sent.shown), (("GET /messages/1-2", ""), "id  1-2\n"));
        let sent = asked(&["get", "--topic", "a", "--key", "order/42"], &ok("{}")).await;
        assert_eq!(sent.lines(), ("GET /topics/a/keys/order%2F42", ""));
    }

    #[tokio::test]
    async fn a_message_is_deleted_by_id_or_by_key_and_by_force() {
        let sent = asked(&["delete", "1-2", "--force"], NO_CONTENT).await;
        assert_eq!(sent.lines(), ("DELETE /messages/1-2?force=true", ""));
        assert_eq!(sent.shown, "deleted 1-2\n");
        let sent = asked(&["delete", "--topic", "a", "--key", "k"], NO_CONTENT).await;
        assert_eq!(sent.lines(), ("DELETE /topics/a/keys/k", ""));
    }

    #[tokio::test]
    async fn topics_are_followed_to_the_last_page() {
        let pages = [
            ok(r#"{"items":[{"name":"a","counts":{"ready":1}}],"next_cursor":"x=y"}"#),
            ok(r#"{"items":[{"name":"b"}]}"#),
        ];
        let sent = asked_in_turn(&["topics", "--prefix", "o r"], &pages).await;
        let asked_for: Vec<&str> = sent.iter().map(|sent| &*sent.head).collect();
        let second = "GET /topics?limit=1000&prefix=o+r&cursor=x%3Dy";
        assert_eq!(asked_for, ["GET /topics?limit=1000&prefix=o+r", second]);
        let shown: Vec<&str> = sent[1].shown.lines().collect();
        assert!(shown.len() == 3 && shown[1].starts_with("a ") && shown[2].starts_with("b "));
    }
}
