//! How calls end, by the host that they are for. The publisher of a callback chooses its host, so only some hosts have a
//! label, and one that is not called any more gives its own back.

use super::calls::OUTCOMES;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// Hosts that get a label of their own; all others share `_other`.
const MAX_HOST_LABELS: usize = 50;
const OTHER: &str = "_other";
/// A host that was not called for so long gives its label to one that is called.
const IDLE: Duration = Duration::from_secs(600);

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct HostLabels {
    host: String,
    outcome: &'static str,
}

/// The calls of all hosts. Cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    ended: Family<HostLabels, Counter>,
    /// Those with a label, and when they were last called.
    named: Arc<Mutex<HashMap<String, Instant>>>,
}

impl Hosts {
    /// None yet; `registry` shows them.
    pub fn new(registry: &mut Registry) -> Self {
        let ended = Family::default();
        let help = "Calls by their host and how they ended";
        registry.register("callback_host_calls", help, ended.clone());
        Self { ended, named: Arc::default() }
    }

    /// Counts a call of `host` that ended like this at `now`.
    pub fn count(&self, host: &str, outcome: &'static str, now: Instant) {
        let host = self.label(host, now).to_owned();
        self.ended.get_or_create(&HostLabels { host, outcome }).inc();
    }

    fn label<'a>(&self, host: &'a str, now: Instant) -> &'a str {
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(called) = named.get_mut(host) {
            *called = now;
            return host;
        }
        if named.len() >= MAX_HOST_LABELS {
            let idle = named.extract_if(|_, called| now.duration_since(*called) > IDLE);
            idle.for_each(|(host, _)| self.forget(&host));
        }
        if named.len() >= MAX_HOST_LABELS {
            return OTHER;
        }
        // All outcomes at once: a rate needs the zero before the first call of a kind.
        for outcome in OUTCOMES {
            drop(self.ended.get_or_create(&HostLabels { host: host.to_owned(), outcome }));
        }
        named.insert(host.to_owned(), now);
        host
    }

    fn forget(&self, host: &str) {
        for outcome in OUTCOMES {
            self.ended.remove(&HostLabels { host: host.to_owned(), outcome });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    #[test]
    fn hosts_beyond_the_bound_share_one_label_until_others_are_called_no_more() {
        let mut registry = Registry::with_prefix("dueq");
        let (hosts, begin) = (Hosts::new(&mut registry), Instant::now());
        for host in 0..MAX_HOST_LABELS + 7 {
            hosts.count(&format!("h{host}:443"), "failed", begin);
        }
        let lines = || {
            let mut text = String::new();
            encode(&mut text, &registry).unwrap();
            let lines = text.lines().filter(|line| line.starts_with("dueq_callback_host"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let has = |line: &str| lines().iter().any(|l| l == line);
        let name = "dueq_callback_host_calls_total";
        assert!(has(&format!("{name}{{host=\"_other\",outcome=\"failed\"}} 7")));
        assert!(has(&format!("{name}{{host=\"h0:443\",outcome=\"failed\"}} 1")));
        assert!(has(&format!("{name}{{host=\"h0:443\",outcome=\"delivered\"}} 0")));
        assert_eq!(lines().len(), 3 * MAX_HOST_LABELS + 1);

        hosts.count("h1:443", "delivered", begin + IDLE);
        hosts.count("late:80", "dead", begin + IDLE + Duration::from_secs(1));
        assert!(has(&format!("{name}{{host=\"late:80\",outcome=\"dead\"}} 1")));
        assert!(has(&format!("{name}{{host=\"h1:443\",outcome=\"delivered\"}} 1")));
        assert!(!lines().iter().any(|line| line.contains("h0:443")), "{:#?}", lines());
        assert_eq!(lines().len(), 3 * 2 + 1);
    }
}
