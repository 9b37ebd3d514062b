//! A Redis with instances on it, and the usual load of all kinds of clients.

use super::ground;
use crate::harness::{Client, Dueq, Launch, Redis};
use crate::proof::actor::Fleet;
use crate::proof::clients::Mix;
use crate::proof::history::{FaultKind, now};
use crate::proof::load::Load;
use crate::proof::record::Recorder;
use crate::proof::shim::Shim;
use crate::proof::stage::{Report, Setting};

/// Instances on one Redis.
pub struct Crew {
    /// Their Redis.
    pub redis: Redis,
    /// They themselves.
    pub instances: Vec<Dueq>,
    /// The same for clients that do not care which.
    pub fleet: Fleet,
    setting: Setting,
}

impl Crew {
    /// Starts so many instances on a Redis of their own.
    pub async fn start(setting: &Setting, instances: usize) -> Crew {
        let redis = ground::redis(setting).start().await;
        let mut crew =
            Crew { redis, instances: Vec::new(), fleet: Fleet::new([]), setting: setting.clone() };
        for _ in 0..instances {
            crew.instances.push(crew.launch().start().await);
        }
        crew.fleet = Fleet::new(crew.instances.iter().map(Dueq::client));
        crew
    }

    /// A further instance, which may call receivers on loopback addresses.
    pub fn launch(&self) -> Launch {
        Shim::leaking(self.setting.bug, Dueq::calling(&self.redis).bug(self.setting.bug))
    }

    /// A client of instance `index`.
    pub fn client(&self, index: usize) -> Client {
        self.instances[index].client()
    }

    /// SIGKILL for instance `index`; another one in its place.
    pub async fn replace(&mut self, index: usize) {
        self.instances[index].kill9();
        self.instances[index] = self.launch().start().await;
        self.fleet.replace(index, self.client(index));
    }

    /// The same as a fault of a recorded run.
    pub async fn kill(&mut self, index: usize, recorder: &Recorder) {
        let from = now();
        self.replace(index).await;
        recorder.fault(FaultKind::InstanceKilled(index), from);
    }

    /// The usual load on all instances; in a long run as much as there can be.
    pub fn load(&self, name: &'static str) -> Load {
        let mix = if self.setting.messages > 0 { Mix::bulk() } else { Mix::varied() };
        Load::begin(&self.fleet, name, mix, &self.setting)
    }

    /// Ends a load once it has published what it should, drains its topic, and checks its history.
    pub async fn finish(&self, mut load: Load) -> Report {
        load.published(self.setting.messages).await;
        load.finish(&self.redis.url()).await
    }
}
