//! Topics into which a dump is loaded. The registry says so next to their configuration, from before their first message until
//! the last one is there: a load that was killed goes on by that, and nothing else touches what it has not finished.

use super::super::Store;
use crate::reply::CallError;
use dueq_model::{Durability, TopicName, TopicNumber, TopicSettings, error::Error};

impl Store {
    /// Makes a topic to be loaded, with this number if one is given. Where no replicas are that its answers could wait for,
    /// they wait for none, and `settings` say so afterwards. Returns false if there is one, or its number is another's.
    ///
    /// Errors: `TopicsExhausted`, `UpgradePending`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn create_loading(
        &self,
        name: &TopicName,
        number: Option<TopicNumber>,
        settings: &mut TopicSettings,
    ) -> Result<bool, Error> {
        if let Err(Error::DurabilityUnavailable) = self.check_replicas(name, settings, None).await {
            settings.durability = Durability::Memory;
        }
        self.adopt_for(settings, None).await?;
        Ok(self.registry.put(name, (None, number), settings, 0).await?.is_some())
    }

    /// Notes which dump is being loaded into the topic, or none.
    ///
    /// Errors: `TopicNotFound`, `RedisUnavailable`, `OutcomeUnknown`.
    pub async fn set_loading(&self, name: &TopicName, loading: Option<&str>) -> Result<(), Error> {
        let mut retry = self.stale_retry();
        while retry.next().await {
            let topic = self.registry.look_up(name).await?.ok_or(Error::TopicNotFound)?;
            if self.note(&topic, |it| it.loading = loading.map(str::to_owned)).await? {
                return Ok(());
            }
        }
        Err(CallError::Stale.into())
    }
}
