//! Turns of API keys: lists, searches and bulk operations make many calls, one after another, and those of one key do not hold up
//! those of another. A key has no more calls under way than each other key has requests. So one search of a key
//! gets every second call, however many searches another key has begun, and waits for none of them; while no other key asks for
//! anything, a key is not held up at all.

use parking_lot::Mutex;
use std::{collections::HashMap, sync::Arc};
use tokio::sync::oneshot;

/// The keys that have requests under way.
#[derive(Clone, Default)]
pub(crate) struct Turns(Arc<Mutex<Keys>>);

#[derive(Default)]
struct Keys {
    shares: HashMap<String, Share>,
    /// Calls that wait, oldest first.
    waiting: Vec<(String, oneshot::Sender<Turn>)>,
}

/// What a key has under way.
#[derive(Default)]
struct Share {
    requests: usize,
    calls: usize,
}

/// A request that makes calls in turns, until this is dropped.
pub struct Round {
    turns: Turns,
    key: String,
}

/// A call under way, until this is dropped.
pub(crate) struct Turn {
    turns: Turns,
    key: String,
}

impl Turns {
    /// A request of this key begins.
    pub fn begin(&self, key: &str) -> Round {
        self.0.lock().shares.entry(key.to_owned()).or_default().requests += 1;
        self.go_on();
        Round { turns: self.clone(), key: key.to_owned() }
    }

    /// Begins the calls that may.
    fn go_on(&self) {
        loop {
            let next = self.0.lock().next();
            let Some((key, sender)) = next else { return };
            // A request that is gone gives it back.
            let _ = sender.send(Turn { turns: self.clone(), key });
        }
    }
}

impl Keys {
    /// The call that begins next, if one may.
    fn next(&mut self) -> Option<(String, oneshot::Sender<Turn>)> {
        self.waiting.retain(|(_, sender)| !sender.is_closed());
        let may = |(key, _): &(String, _)| {
            let calls = self.shares.get(key).map_or(0, |share| share.calls);
            self.shares.iter().all(|(other, share)| other == key || calls < share.requests.max(1))
        };
        let at = self.waiting.iter().position(may)?;
        let (key, sender) = self.waiting.remove(at);
        self.shares.entry(key.clone()).or_default().calls += 1;
        Some((key, sender))
    }

    fn end(&mut self, key: &str, end: impl FnOnce(&mut Share)) {
        if let Some(share) = self.shares.get_mut(key) {
            end(share);
            if share.requests == 0 && share.calls == 0 {
                self.shares.remove(key);
            }
        }
    }
}

impl Round {
    /// Waits for a turn for one call, or for calls to several partitions at once.
    pub(crate) async fn turn(&self) -> Option<Turn> {
        let (sender, turn) = oneshot::channel();
        self.turns.0.lock().waiting.push((self.key.clone(), sender));
        self.turns.go_on();
        turn.await.ok()
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        self.turns.0.lock().end(&self.key, |share| share.requests -= 1);
        self.turns.go_on();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.0.lock().end(&self.key, |share| share.calls -= 1);
        self.turns.go_on();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn a_key_has_no_more_calls_under_way_than_another_has_requests() {
        let turns = Turns::default();
        let busy: Vec<_> = (0..50).map(|_| turns.begin("busy")).collect();
        let now = |round: &Round| round.turn().now_or_never().flatten();
        let alone: Vec<_> = busy.iter().map(now).collect();
        assert!(alone.iter().all(Option::is_some));
        let one = turns.begin("one");
        // It waits for none of them.
        drop(now(&one).unwrap());
        drop(alone);
        let held = now(&busy[0]).unwrap();
        let mut next = Box::pin(busy[1].turn());
        assert!((&mut next).now_or_never().is_none() && now(&busy[2]).is_none());
        let two = turns.begin("one");
        let next = next.now_or_never().flatten().unwrap();
        assert!(now(&busy[2]).is_none());
        let mut last = Box::pin(busy[3].turn());
        assert!((&mut last).now_or_never().is_none());
        drop((one, two));
        assert!(last.now_or_never().flatten().is_some());
        drop((busy, held, next));
        let keys = turns.0.lock();
        assert_eq!((keys.shares.len(), keys.waiting.len()), (0, 0));
    }
}
