//! When a partition has something to grant, as far as this instance knows: what calls found, and what wake-ups said since.
//! It decides which partition of a topic is asked, and which first.

use dueq_model::Millis;
use std::time::Instant;

/// What is known of when a partition has something to grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    /// Nothing that the last call knew of is granted there before this instant (ms).
    head: Millis,
    /// Something may have come since the last call: the first of it at this time.
    news: Option<Instant>,
    /// Counts wake-ups: what was learnt by a call that a wake-up came after is not believed.
    pub wakes: u64,
    /// The last call failed.
    pub failed: bool,
}

impl Default for Outlook {
    fn default() -> Self {
        Self { head: Millis::MAX, news: Some(Instant::now()), wakes: 0, failed: false }
    }
}

impl Outlook {
    /// Nothing is granted there before this instant (ms): 0 if nobody knows.
    pub fn head(&self) -> Millis {
        if self.news.is_some() { 0 } else { self.head }
    }

    /// For how long (ms) something may have been there by now; less than 0 as long as nothing is.
    pub fn age(&self, now: Millis) -> Millis {
        let news = self.news.map(|news| news.elapsed().as_millis() as Millis);
        news.into_iter().fold(now.saturating_sub(self.head), Millis::max)
    }

    /// Something may have come, or nobody knows any more.
    pub fn wake(&mut self) {
        self.news.get_or_insert_with(Instant::now);
        self.wakes += 1;
    }

    /// A call failed: whatever is there is asked for again, but after what is known of others.
    pub fn put_off(&mut self) {
        *self = Self { wakes: self.wakes, failed: true, ..Self::default() };
    }

    /// A call that began after so many wake-ups found when there is something to grant next.
    pub fn learn(&mut self, wakes: u64, head: Millis) {
        let news = (self.wakes != wakes).then(Instant::now);
        (self.head, self.news, self.failed) = (head, news, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_is_not_forgotten_for_what_a_call_before_it_found() {
        let mut outlook = Outlook::default();
        assert_eq!(outlook.head(), 0);
        outlook.learn(0, 500);
        assert_eq!(outlook.head(), 500);
        outlook.wake();
        outlook.learn(0, 900);
        assert_eq!(outlook.head(), 0);
        outlook.learn(1, 900);
        assert_eq!(outlook.head(), 900);
    }

    #[test]
    fn the_oldest_comes_first_whether_it_is_known_or_was_told_of() {
        let (mut known, mut told) = (Outlook::default(), Outlook::default());
        let now = 1_000_000;
        known.learn(0, now + 1);
        told.learn(0, Millis::MAX);
        assert!(known.age(now) < 0 && told.age(now) < 0);
        told.wake();
        assert!(told.age(now) >= 0);
        known.learn(0, 1_000);
        assert_eq!(known.age(now), 999_000);
        assert!(told.age(now) < 999_000, "it was told of just now");
        known.wake();
        assert_eq!(known.age(now), 999_000, "what is known is still there");
    }

    #[test]
    fn what_failed_is_asked_again_after_the_others() {
        let mut outlook = Outlook::default();
        outlook.learn(0, 1_000);
        outlook.put_off();
        assert!(outlook.failed && outlook.head() == 0 && outlook.age(1_000_000) < 999_000);
        outlook.learn(0, 1_000);
        assert!(!outlook.failed);
    }
}
