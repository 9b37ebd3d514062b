//! The part of the budget that counts heads of requests while they arrive, and as long as their requests are answered. Where
//! there is no room for a stranger's, the strangers whose heads are oldest are closed to make some.

use super::{
    activity::Activity,
    budget::{Budget, Hold},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard, PoisonError, atomic::Ordering},
};

/// Heads of strangers may use this part of it, and nothing of the reserve: whoever has no key keeps nobody out.
const HEADS_DIVISOR: usize = 8;

/// The heads of strangers, oldest first: their bytes, and whose they are.
#[derive(Default)]
pub(crate) struct Heads {
    bytes: usize,
    next: u64,
    each: BTreeMap<u64, (usize, Arc<Activity>)>,
}

impl Heads {
    fn take(&mut self, number: u64) {
        self.bytes -= self.each.remove(&number).map_or(0, |(bytes, _)| bytes);
    }
}

/// The share of a request's head, whose client may be a stranger.
pub(crate) struct HeadHold(Hold, u64);

impl HeadHold {
    /// Of 0 bytes.
    pub fn new(budget: &Arc<Budget>) -> Self {
        let mut heads = lock(budget);
        heads.next += 1;
        Self(budget.hold(), heads.next)
    }

    /// Grows the hold to `bytes`; for a client that is known even beyond the budget. Returns whether there was room.
    pub fn grow_to(&mut self, bytes: usize, client: &Arc<Activity>) -> bool {
        if !client.is_known() && !self.make_room(bytes, client) {
            return false;
        }
        self.0.force_to(bytes);
        true
    }

    fn make_room(&self, bytes: usize, client: &Arc<Activity>) -> bool {
        let Self(Hold { budget, bytes: held }, number) = self;
        let mut heads = lock(budget);
        heads.take(*number);
        let mut used = budget.used.load(Ordering::Relaxed) + bytes.saturating_sub(*held);
        while heads.bytes + bytes > budget.total / HEADS_DIVISOR || used > budget.largest() {
            let Some((_, (bytes, other))) = heads.each.pop_first() else { return false };
            heads.bytes -= bytes;
            // Some have been let in since. What the others hold is free in a moment.
            if !other.is_known() {
                other.close();
                used = used.saturating_sub(bytes);
            }
        }
        heads.bytes += bytes;
        heads.each.insert(*number, (bytes, client.clone()));
        true
    }
}

impl Drop for HeadHold {
    fn drop(&mut self) {
        lock(&self.0.budget).take(self.1);
    }
}

fn lock(budget: &Budget) -> MutexGuard<'_, Heads> {
    budget.heads.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(budget: &Budget) -> (usize, usize) {
        (budget.used.load(Ordering::Relaxed), lock(budget).bytes)
    }

    #[test]
    fn heads_of_strangers_use_an_eighth_and_nothing_of_the_reserve_and_the_oldest_make_room() {
        let budget = Budget::new(8 << 20);
        let stranger = || Arc::new(Activity::new(Arc::default(), None));
        let known = stranger();
        known.let_in();
        let head = || HeadHold::new(&budget);
        let (mut first, mut second, its) = (head(), head(), stranger());
        assert!(first.grow_to(1 << 10, &its) && first.grow_to(1 << 19, &its));
        assert!(second.grow_to(1 << 19, &its) && head().grow_to(1 << 10, &known));
        assert_eq!(counted(&budget), (1 << 20, 1 << 20));
        let mut third = head();
        assert!(third.grow_to(1 << 18, &its), "the first makes room");
        assert_eq!(counted(&budget).1, (1 << 19) + (1 << 18));
        assert!(!head().grow_to((1 << 20) + 1, &its), "all of them would be too little");
        assert_eq!(counted(&budget).1, 0);
        drop((first, second, third));
        let mut large = budget.hold();
        large.grow_to(7 << 20).unwrap();
        assert!(!head().grow_to(1, &its), "what others hold is not given away");
        drop(large);
        // Who was let in since keeps its head, which then counts with all others.
        let (mut first, its) = (head(), stranger());
        assert!(first.grow_to(1 << 20, &its));
        its.let_in();
        assert!(head().grow_to(1 << 20, &stranger()));
        assert_eq!(counted(&budget), (1 << 20, 0));
        drop(first);
        assert_eq!(counted(&budget), (0, 0));
    }
}
