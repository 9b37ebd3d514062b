//! The part of the budget that counts heads of requests while they arrive, and as long as their requests are answered.

use super::budget::{Budget, Hold};
use std::sync::{Arc, atomic::Ordering};

/// Heads of strangers may use this part of it, and nothing of the reserve: whoever has no key keeps nobody out.
const HEADS_DIVISOR: usize = 8;

/// The share of a request's head, whose client may be a stranger.
pub(super) struct HeadHold(Hold, usize);

impl HeadHold {
    /// Of 0 bytes.
    pub fn new(budget: &Arc<Budget>) -> Self {
        Self(budget.hold(), 0)
    }

    /// Grows the hold to `bytes`; for a client that `is_known` even beyond the budget. Returns whether there was room.
    pub fn grow_to(&mut self, bytes: usize, is_known: bool) -> bool {
        let budget = self.0.budget.clone();
        let more = bytes.saturating_sub(self.0.bytes);
        if !is_known {
            let heads = budget.heads.fetch_add(more, Ordering::Relaxed) + more;
            self.1 += more;
            let used = budget.used.load(Ordering::Relaxed) + more;
            if heads > budget.total / HEADS_DIVISOR || used > budget.largest() {
                return false;
            }
        }
        self.0.force_to(bytes);
        true
    }
}

impl Drop for HeadHold {
    fn drop(&mut self) {
        self.0.budget.heads.fetch_sub(self.1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn counted(bytes: &AtomicUsize) -> usize {
        bytes.load(Ordering::Relaxed)
    }

    #[test]
    fn heads_of_strangers_use_an_eighth_and_nothing_of_the_reserve() {
        let budget = Budget::new(8 << 20);
        let head = || HeadHold::new(&budget);
        let mut first = head();
        assert!(first.grow_to(1 << 10, false) && first.grow_to(1 << 20, false));
        assert!(!head().grow_to(1, false) && head().grow_to(1 << 10, true));
        assert_eq!((counted(&budget.used), counted(&budget.heads)), (1 << 20, 1 << 20));
        drop(first);
        let mut large = budget.hold();
        large.grow_to(7 << 20).unwrap();
        assert!(!head().grow_to(1, false));
        drop(large);
        assert_eq!((counted(&budget.used), counted(&budget.heads)), (0, 0));
    }
}
