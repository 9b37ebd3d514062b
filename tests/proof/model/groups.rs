//! The lines of groups in the model: a message joins the end of its group's, and becomes one of the few at its front once
//! those before it have left. None goes back.

use super::world::World;

impl World {
    /// A message that has come to live joins its group, if it has one.
    pub fn join(&mut self, n: usize) {
        let m = &self.messages[n];
        let (topic, Some(group)) = (m.topic, m.group.clone()) else { return };
        self.order += 1;
        let order = self.order;
        let m = &mut self.messages[n];
        (m.order, m.blocked) = (order, true);
        self.let_go(topic, &group);
    }

    /// A message lives no more.
    pub fn leave(&mut self, n: usize) {
        let m = &mut self.messages[n];
        let was_blocked = std::mem::take(&mut m.blocked);
        let (topic, Some(group)) = (m.topic, m.group.clone()) else { return };
        if !was_blocked {
            self.stirred[topic] |= self.settling;
            self.let_go(topic, &group);
        }
    }

    /// More messages of each group of a topic may be at the front by now.
    pub fn let_more_go(&mut self, topic: usize) {
        let groups: Vec<String> = self.of(topic).filter_map(|(_, m)| m.group.clone()).collect();
        for group in groups {
            self.let_go(topic, &group);
        }
    }

    /// As many as may come to the front.
    fn let_go(&mut self, topic: usize, group: &str) {
        let Some(config) = self.topics[topic].as_ref().map(|topic| &topic.config) else { return };
        let most = usize::try_from(config.group_concurrency).unwrap_or(usize::MAX);
        let live = self.of(topic).filter(|(_, m)| m.lives() && m.group.as_deref() == Some(group));
        let (mut line, front): (Vec<_>, Vec<_>) = live.partition(|(_, m)| m.blocked);
        line.sort_by_key(|(_, m)| m.order);
        let free = most.saturating_sub(front.len());
        let go: Vec<usize> = line.into_iter().take(free).map(|(n, _)| n).collect();
        go.iter().for_each(|n| self.messages[*n].blocked = false);
    }
}
