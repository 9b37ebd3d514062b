//! The certificates that dueq presents. They end while it runs unless their files are renewed, so it is said before and
//! after: in the log, in `/readyz` and as a metric.

use crate::tls::{Expiry, instant};
use prometheus_client::{
    metrics::{family::Family, gauge::Gauge},
    registry::{Registry, Unit},
};
use rustls::pki_types::UnixTime;
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::sleep;

/// A certificate that is valid no longer than this is warned of.
const SOON: Duration = Duration::from_secs(7 * 24 * 3600);
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// How far a certificate is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    #[default]
    Good,
    Soon,
    Over,
}

/// The certificates in use. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Certificates {
    not_after: Family<[(&'static str, String); 1], Gauge>,
    known: Arc<Mutex<Known>>,
}

/// By what they are to dueq and their files, each with what the log has said of it.
type Known = BTreeMap<(&'static str, PathBuf), (Expiry, Stage)>;

impl Certificates {
    /// None yet; `registry` shows them.
    pub fn new(registry: &mut Registry) -> Self {
        let not_after = Family::default();
        let help = "When a certificate in use expires, s since 1970";
        registry.register_with_unit(
            "tls_certificate_not_after",
            help,
            Unit::Seconds,
            not_after.clone(),
        );
        Self { not_after, known: Arc::default() }
    }

    /// This one is in use from now on, instead of what was in its place.
    pub fn uses(&self, expiry: Option<Expiry>) {
        let Some(expiry) = expiry else { return };
        let file = expiry.path.display().to_string();
        let seconds = i64::try_from(expiry.not_after.as_secs()).unwrap_or(i64::MAX);
        self.not_after.get_or_create(&[("file", file)]).set(seconds);
        let mut known = self.lock();
        let key = (expiry.what, expiry.path.clone());
        if known.get(&key).is_none_or(|(present, _)| *present != expiry) {
            known.insert(key, (expiry, Stage::Good));
        }
    }

    /// Those that expire soon, or have expired, in words.
    pub fn warnings(&self) -> Vec<String> {
        let now = UnixTime::now();
        self.lock()
            .values()
            .filter_map(|(expiry, _)| warning(expiry, now))
            .map(|(_, text)| text)
            .collect()
    }

    /// Logs a warning of each that expires soon, and one once it has expired. Returns only if there are none.
    pub async fn watch(self) {
        while !self.lock().is_empty() {
            self.tell(UnixTime::now());
            sleep(LOOK_INTERVAL).await;
        }
    }

    /// Returns how many warnings there were.
    fn tell(&self, now: UnixTime) -> usize {
        let mut told = 0;
        for (expiry, said) in self.lock().values_mut() {
            let Some((stage, text)) = warning(expiry, now).filter(|(stage, _)| stage > said) else {
                continue;
            };
            (*said, told) = (stage, told + 1);
            tracing::warn!("{text} ({})", expiry.path.display());
        }
        told
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn warning(expiry: &Expiry, now: UnixTime) -> Option<(Stage, String)> {
    let (stage, word) = match expiry.left(now) {
        None => (Stage::Over, "expired"),
        Some(left) if left < SOON => (Stage::Soon, "expires"),
        Some(_) => return None,
    };
    Some((stage, format!("{} {word} at {}", expiry.what, instant(expiry.not_after))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn at(seconds: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }

    #[test]
    fn each_certificate_is_warned_of_once_before_and_once_after_its_end() {
        let mut registry = Registry::with_prefix("dueq");
        let certificates = Certificates::new(&mut registry);
        let uses = |what, file: &str, not_after| {
            let path = PathBuf::from(file);
            certificates.uses(Some(Expiry { what, path, not_after: at(not_after) }));
        };
        const END: u64 = 1_800_000_000;
        const WEEK: u64 = 7 * 24 * 3600;
        uses("one", "/a.pem", END);
        uses("other", "/b.pem", 2 * END);
        certificates.uses(None);
        for (now, told) in [
            (END - WEEK, 0),
            (END - WEEK + 1, 1),
            (END - WEEK + 2, 0),
            (END, 0),
            (END + 1, 1),
            (END + WEEK, 0),
        ] {
            assert_eq!(certificates.tell(at(now)), told, "{now}");
        }
        // The same one is no news; a new one is.
        uses("one", "/a.pem", END);
        assert_eq!(certificates.tell(at(END + 1)), 0);
        uses("one", "/a.pem", END + 10);
        assert_eq!(certificates.tell(at(END + 1)), 1);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let line = "dueq_tls_certificate_not_after_seconds{file=\"/a.pem\"} 1800000010";
        assert!(text.lines().any(|l| l == line), "{text}");
    }
}
