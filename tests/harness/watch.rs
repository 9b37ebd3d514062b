//! Watches the processes that a run starts, for what no answer shows: how long scripts held Redis, an instance that
//! panicked or ended, descriptors and memory that only grow.
//!
//! Whatever is started within [`watched`] is looked at by a thread beside the run; what is started in a task of its own is
//! not. Outside of it nothing is watched.

mod cpu;
mod instance;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub use cpu::{NOTED_MICROS, Script, Server};
pub use instance::{Instance, memory_kib};

tokio::task_local! { static WATCH: Arc<Watch>; }

/// How often Redis is asked for slow scripts. What else its thread waited for in so short a time is little.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// How often instances are looked at, in looks at Redis.
const INSTANCES_EVERY: u64 = 25;

/// The processes of one run.
#[derive(Default)]
struct Watch {
    servers: Mutex<Vec<Arc<Server>>>,
    instances: Mutex<Vec<Arc<Instance>>>,
    over: AtomicBool,
}

/// What was seen.
#[derive(Debug, Default)]
pub struct Sights {
    /// Scripts that were slow enough to be noted, longest first.
    pub scripts: Vec<Script>,
    /// What is wrong with the instances: `the promise: what`.
    pub found: Vec<String>,
    /// What they used, in a line each.
    pub used: Vec<String>,
}

/// Runs this, and watches what it starts.
pub async fn watched<T>(run: impl Future<Output = T>) -> (T, Sights) {
    let watch = Arc::<Watch>::default();
    let looking = watch.clone();
    let thread = std::thread::spawn(move || look_on(&looking));
    let ending = End(watch.clone());
    let result = WATCH.scope(watch.clone(), run).await;
    drop(ending);
    thread.join().expect("the watch");
    (result, watch.sights())
}

/// A Redis was started: looked at from now on, if there is a watch.
pub(super) fn server(pid: u32, url: &str) -> Option<Arc<Server>> {
    let watch = WATCH.try_with(Arc::clone).ok()?;
    let server = Arc::new(Server::new(pid, url));
    watch.servers.lock().unwrap().push(server.clone());
    Some(server)
}

/// An instance was started, which logs into this directory.
pub(super) fn instance(pid: u32, dir: &std::path::Path) -> Option<Arc<Instance>> {
    let watch = WATCH.try_with(Arc::clone).ok()?;
    let instance = Arc::new(Instance::new(pid, dir));
    watch.instances.lock().unwrap().push(instance.clone());
    Some(instance)
}

/// Ends the thread however the run ends.
struct End(Arc<Watch>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
        if std::thread::panicking() {
            eprintln!("--- until then: {:?}", self.0.sights());
        }
    }
}

fn look_on(watch: &Watch) {
    for turn in 0_u64.. {
        if watch.over.load(Ordering::Relaxed) {
            return;
        }
        let servers = watch.servers.lock().unwrap().clone();
        servers.iter().for_each(|server| server.look());
        if turn.is_multiple_of(INSTANCES_EVERY) {
            let instances = watch.instances.lock().unwrap().clone();
            Instance::look(&instances.iter().map(Arc::as_ref).collect::<Vec<_>>());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

impl Watch {
    fn sights(&self) -> Sights {
        let mut sights = Sights::default();
        for server in self.servers.lock().unwrap().iter() {
            sights.scripts.extend(server.scripts());
        }
        sights.scripts.sort_by_key(|script| std::cmp::Reverse(script.micros));
        for instance in self.instances.lock().unwrap().iter() {
            sights.found.extend(instance.found());
            sights.used.extend(instance.used());
        }
        sights
    }
}
