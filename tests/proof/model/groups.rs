//! The lines of groups in the model: a message joins the end of its group's, and becomes one of the few at its front once
//! those before it have left. None goes back. Where a group has a rate, a message that comes to the front falls due no sooner
//! than that allows.

use super::world::{Place, World};

impl World {
    /// A message that has come to live joins its group, if it has one.
    pub fn join(&mut self, n: usize) {
        let m = &self.messages[n];
        let (topic, Some(group)) = (m.topic, m.group.clone()) else { return };
        self.order += 1;
        let order = self.order;
        let m = &mut self.messages[n];
        (m.order, m.blocked) = (order, true);
        self.let_go(topic, &group, Some(n));
    }

    /// A message lives no more.
    pub fn leave(&mut self, n: usize) {
        let m = &mut self.messages[n];
        let was_blocked = std::mem::take(&mut m.blocked);
        let (topic, Some(group)) = (m.topic, m.group.clone()) else { return };
        if !was_blocked {
            self.stirred[topic] |= self.settling;
            self.let_go(topic, &group, None);
        }
    }

    /// More messages of each group of a topic may be at the front by now.
    pub fn let_more_go(&mut self, topic: usize) {
        let groups: Vec<String> = self.of(topic).filter_map(|(_, m)| m.group.clone()).collect();
        for group in groups {
            self.let_go(topic, &group, None);
        }
    }

    /// As many as may come to the front. One of them may have only just `joined` the line.
    fn let_go(&mut self, topic: usize, group: &str, joined: Option<usize>) {
        let Some(config) = self.topics[topic].as_ref().map(|topic| topic.config.clone()) else {
            return;
        };
        let most = usize::try_from(config.group_concurrency).unwrap_or(usize::MAX);
        let live = self.of(topic).filter(|(_, m)| m.lives() && m.group.as_deref() == Some(group));
        let (mut line, front): (Vec<_>, Vec<_>) = live.partition(|(_, m)| m.blocked);
        line.sort_by_key(|(_, m)| m.order);
        let free = most.saturating_sub(front.len());
        let at_front = front.len() + 1..;
        let go: Vec<usize> = line.into_iter().take(free).map(|(n, _)| n).collect();
        for (n, at_front) in go.into_iter().zip(at_front) {
            let m = &mut self.messages[n];
            m.blocked = false;
            let Place::Waiting { due } = m.place else { continue };
            let (Some(interval), false) = (
                config.group_interval(),
                m.over(&config, due).is_some_and(|over| over <= self.now),
            ) else {
                continue;
            };
            // Of those that stood in line, as many as may be are at the front.
            let places = if joined == Some(n) { at_front } else { most };
            let places = i64::try_from(places).unwrap_or(i64::MAX);
            let turn = self.turn(topic, group, due, interval, config.group_burst, places);
            let m = &mut self.messages[n];
            m.place = Place::Waiting { due: turn };
            // Its time to live has begun.
            if turn > due && joined != Some(n) && m.ttl.is_none() {
                m.began = m.began.or(Some(due));
            }
        }
    }

    /// When a message of a group falls due that is due then by itself, and takes a turn at the group's rate.
    fn turn(
        &mut self,
        topic: usize,
        group: &str,
        due: i64,
        interval: i64,
        burst: i64,
        places: i64,
    ) -> i64 {
        let now = self.now * 1000;
        let end = self.rates.entry((topic, group.to_owned())).or_insert(now);
        // Whoever is at the front holds a place and no more, however far away it was due.
        *end = (*end).clamp(now, now + (burst + places) * interval);
        let turn = *end - (burst - 1) * interval;
        let due = if turn > now { due.max((turn + 999).div_euclid(1000)) } else { due };
        *end = (*end).max(due * 1000) + interval;
        due
    }
}
