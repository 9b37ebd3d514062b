//! Topics that come into being by their first message, and which API key they count for.

use super::{
    super::{
        batch::Confirm,
        reply::{Fields, word},
        scripts,
        types::Maker,
    },
    Registry, Topic,
};
use deadpool_redis::redis::Value;
use dueq_model::{TopicName, TopicNumber, error::Error};
use std::sync::Arc;

impl Registry {
    /// The topic of this name. If there is none, it is created, and counts for this key or, if it is created for the deaths of
    /// another topic, which has this number, for the key that created that.
    pub async fn find_or_create(
        &self,
        name: &TopicName,
        maker: Option<&Maker>,
        died_in: Option<TopicNumber>,
    ) -> Result<Arc<Topic>, Error> {
        if let Some(topic) = self.known(|known| known.by_name.get(name).map(Topic::used)) {
            return Ok(topic);
        }
        let epochs = self.lanes.shared.registry_epochs();
        let create = self.changing_call(&scripts::PUT_TOPIC);
        let create = create.arg((name.as_str(), TopicNumber::MOST, "", 0, 0));
        // dueq's own topics are nobody's.
        let by = Maker::to_script(maker.filter(|_| !name.is_callbacks()));
        let died_in = died_in.map(|number| number.0.to_string()).unwrap_or_default();
        let create = create.arg(by).arg(died_in);
        let (answer, confirmed) = self.lanes.change(create, Confirm::Attempt).await?;
        refused(&answer, maker)?;
        let mut fields = Fields::of(answer)?;
        let created = fields.int()? == 1;
        let topic = self.remember(name, fields.value()?, epochs)?;
        if created {
            self.open_partitions(&topic).await?;
            // Consumers may wait for a topic before it exists.
            self.lanes.wake(name, None);
            confirmed.wait().await?;
        }
        Ok(topic)
    }
}

/// Errors: why no topic was made.
pub(super) fn refused(answer: &Value, maker: Option<&Maker>) -> Result<(), Error> {
    match word(answer) {
        Some("FULL") => Err(Error::TopicsExhausted),
        Some("QUOTA") => Err(Error::TooManyTopics(maker.map_or(0, |maker| maker.topics))),
        _ => Ok(()),
    }
}
