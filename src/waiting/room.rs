//! One topic's room: its seats, and the task that asks for them.

use super::WaitingRooms;
use crate::{
    model::{Millis, TopicName},
    store::{Grants, LeaseOutcome, Want},
};
use std::{collections::VecDeque, sync::Arc, time::Duration};
use tokio::sync::{Notify, oneshot};

/// Seats that are asked for at once: one message must not cost a question for each of thousands who wait.
const ASK: usize = 64;
/// Should a wake-up ever be lost, this is how long it goes unnoticed.
const FALLBACK: Duration = Duration::from_secs(30);
/// While Redis is away, it is asked this often.
const RETRY: Duration = Duration::from_millis(250);

/// A consumer that waits.
pub(super) struct Seat {
    pub number: u64,
    pub want: Want,
    /// Redis is being asked for it right now.
    pub asked: bool,
    pub grants: oneshot::Sender<Grants>,
}

/// The consumers that wait for one topic, oldest first.
#[derive(Default)]
pub(super) struct Room {
    pub seats: VecDeque<Seat>,
    pub bell: Arc<Notify>,
}

impl Room {
    /// The task must come and close a room that nobody sits in.
    pub fn ring_if_empty(&self) {
        if self.seats.is_empty() {
            self.bell.notify_one();
        }
    }
}

impl WaitingRooms {
    /// Serves a room until nobody sits there.
    pub(super) async fn serve(self, topic: TopicName, bell: Arc<Notify>) {
        loop {
            let Some(asked) = self.next_to_ask(&topic) else { return };
            let wants: Vec<_> = asked.iter().map(|(_, want)| *want).collect();
            let sleep = match self.inner.store.lease_waiting(&topic, &wants).await {
                Ok(outcomes) => match self.hand_out(&topic, &asked, outcomes) {
                    Next::Ask => continue,
                    Next::SleepUntil(next) => next,
                },
                Err(error) => {
                    self.give_up(&topic, &asked);
                    tracing::debug!(%topic, %error, "waiting consumers cannot be served now");
                    tokio::select! {
                        () = tokio::time::sleep(RETRY) => {}
                        () = self.closed() => {}
                    }
                    continue;
                }
            };
            self.sleep(&topic, &bell, sleep).await;
        }
    }

    /// The oldest seats, marked as asked; `None` when the room was empty and is closed now.
    fn next_to_ask(&self, topic: &TopicName) -> Option<Vec<(u64, Want)>> {
        let mut rooms = self.lock();
        let room = rooms.get_mut(topic)?;
        if room.seats.is_empty() {
            rooms.remove(topic);
            return None;
        }
        let asked = room.seats.iter_mut().take(ASK).map(|seat| {
            seat.asked = true;
            (seat.number, seat.want)
        });
        Some(asked.collect())
    }

    /// Gives each seat what was granted for it. What was granted for a seat that is empty by now goes back by itself.
    fn hand_out(
        &self,
        topic: &TopicName,
        asked: &[(u64, Want)],
        outcomes: Vec<LeaseOutcome>,
    ) -> Next {
        let mut next_at = None;
        let (mut unmet, mut more) = (false, false);
        let mut rooms = self.lock();
        let Some(room) = rooms.get_mut(topic) else { return Next::Ask };
        let mut gone = Vec::new();
        for ((number, _), outcome) in asked.iter().zip(outcomes) {
            next_at = outcome.next_at.or(next_at);
            more |= outcome.more;
            let at = room.seats.iter().position(|seat| seat.number == *number);
            if outcome.grants.messages().is_empty() {
                unmet = true;
                if let Some(at) = at {
                    room.seats[at].asked = false;
                }
            } else if let Some(seat) = at.and_then(|at| room.seats.remove(at)) {
                gone.extend(seat.grants.send(outcome.grants).err());
            } else {
                gone.push(outcome.grants);
            }
        }
        let all_met = room.seats.is_empty() || !unmet;
        drop(rooms);
        // Returned messages are for whoever still sits here: their nack rings the bell.
        drop(gone);
        if all_met || more { Next::Ask } else { Next::SleepUntil(next_at) }
    }

    fn give_up(&self, topic: &TopicName, asked: &[(u64, Want)]) {
        if let Some(room) = self.lock().get_mut(topic) {
            for seat in room.seats.iter_mut().filter(|s| asked.iter().any(|(n, _)| *n == s.number))
            {
                seat.asked = false;
            }
        }
    }

    /// Sleeps until `next` on Redis's clock, the bell, or the fallback finds that a wake-up was lost.
    async fn sleep(&self, topic: &TopicName, bell: &Notify, next: Option<Millis>) {
        loop {
            let until = next.map(|next| (next - self.inner.store.now()).max(1) as u64);
            let until = until.map_or(FALLBACK, Duration::from_millis);
            tokio::select! {
                () = bell.notified() => return,
                () = self.closed() => return,
                () = tokio::time::sleep(until.min(FALLBACK)) => {}
            }
            if until <= FALLBACK && next.is_some() {
                return;
            }
            match self.inner.store.has_news(topic, next).await {
                Ok(false) => {}
                Ok(true) | Err(_) => return,
            }
        }
    }
}

/// What a room's task does next.
enum Next {
    /// There may be more for those who still sit there.
    Ask,
    /// Nothing before this instant, as far as Redis knows.
    SleepUntil(Option<Millis>),
}
