//! What the machine itself adds to every answer: other tests may have its processors, and bounds on time are about dueq.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::harness::Client;
use crate::proof::history::Ms;

/// An answer that asks no Redis takes less, ms, unless the machine is busy.
const USUAL: Ms = 100;
/// More is not put down to the machine, ms: an instance that hangs answers this late, too.
const MOST: Ms = 1_000;

/// Asks an instance for what needs no Redis, over and over, until it is dropped.
pub struct Pulse(Arc<AtomicI64>);

impl Pulse {
    pub fn start(client: Client) -> Pulse {
        let slowest = Arc::new(AtomicI64::new(0));
        let of_task = slowest.clone();
        tokio::spawn(async move {
            while Arc::strong_count(&of_task) > 1 {
                let asked = Instant::now();
                sleep(Duration::from_millis(20)).await;
                let _ = client.try_send("GET", "/healthz", &[], None).await;
                of_task.fetch_max(asked.elapsed().as_millis() as Ms - 20, Relaxed);
            }
        });
        Pulse(slowest)
    }

    /// By how much the slowest answer so far was later than usual, ms, within reason.
    pub fn late(&self) -> Ms {
        (self.0.load(Relaxed) - USUAL).clamp(0, MOST)
    }
}
