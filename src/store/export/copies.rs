//! What copies say that are loaded under names with a prefix: they name the copies of topics in place of the topics, so that they
//! neither publish nor move anything into those, and they call nothing when a message ends.

use super::ExportError;
use dueq_model::{Body, Completion, TopicName, TopicSettings};
use std::borrow::BorrowMut;

/// What the names of copies begin with.
pub(super) struct Prefix<'a>(pub &'a str);

impl Prefix<'_> {
    /// The name of the copy of a topic. Errors: it is too long, or no name.
    pub(super) fn name(&self, name: &TopicName) -> Result<TopicName, ExportError> {
        let prefix = self.0;
        TopicName::parse(&format!("{prefix}{name}"))
            .map_err(|error| ExportError::Other(format!("--into {prefix}: {error}")))
    }

    /// Renames what a topic names. Returns whether a URL to be called was left out.
    ///
    /// Errors: those of [`Self::name`].
    pub(super) fn settings(&self, settings: &mut TopicSettings) -> Result<bool, ExportError> {
        let TopicSettings { dead_topic, on_done, on_dead, .. } = settings;
        *dead_topic = dead_topic.as_ref().map(|it| self.name(it)).transpose()?;
        self.ends([on_done, on_dead])
    }

    /// Renames what a message names. Returns whether a URL to be called at its end was left out.
    ///
    /// Errors: those of [`Self::name`].
    pub(super) fn body(&self, body: &mut Body) -> Result<bool, ExportError> {
        if let Some(origin) = &mut body.origin {
            origin.topic = self.name(&origin.topic)?;
        }
        let before = body.own.iter_mut().flat_map(|own| [&mut own.on_done, &mut own.on_dead]);
        self.ends([&mut body.on_done, &mut body.on_dead].into_iter().chain(before))
    }

    fn ends<'e, C: BorrowMut<Completion> + 'e>(
        &self,
        ends: impl IntoIterator<Item = &'e mut Option<C>>,
    ) -> Result<bool, ExportError> {
        let mut is_silenced = false;
        for end in ends {
            let Some(completion) = end else { continue };
            let Completion { url, topic, .. } = completion.borrow_mut();
            if url.is_some() {
                (*end, is_silenced) = (None, true);
            } else if let Some(topic) = topic {
                *topic = self.name(topic)?;
            }
        }
        Ok(is_silenced)
    }
}
