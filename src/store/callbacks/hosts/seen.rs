//! How this instance's calls to each host went in the last hour, minute by minute.

use super::report::{CallCounts, CallEnd, HostReport, Places};
use crate::history::Lateness;
use dueq_model::{MAX_HOST_CHARS, Millis, TopicName};
use std::{
    cmp::Reverse,
    collections::{HashMap, VecDeque},
};

/// Hosts that are remembered. A publisher can name any number of them.
const MAX_SEEN: usize = 2_000;
/// Minutes that are remembered.
const HOUR: i64 = 60;
/// Minutes of the shorter span.
const SHORT: i64 = 5;
/// Characters of an error that are kept.
const MAX_ERROR_CHARS: usize = 200;

struct Minute {
    number: i64,
    counts: CallCounts,
    took: Lateness,
}

#[derive(Default)]
struct Host {
    /// Oldest first.
    minutes: VecDeque<Minute>,
    failures: i64,
    last_error: Option<String>,
    last_error_at: Option<Millis>,
    last_success_at: Option<Millis>,
    /// The minute of its last call.
    called: i64,
}

impl Host {
    fn report(&self, (topic, host): (&TopicName, &str), minute: i64) -> HostReport {
        let mut report = HostReport {
            topic: topic.to_string(),
            failures: self.failures,
            last_error: self.last_error.clone(),
            last_error_at: self.last_error_at,
            last_success_at: self.last_success_at,
            ..HostReport::of(host)
        };
        for Minute { number, counts, took } in &self.minutes {
            if (minute - HOUR..=minute).contains(number) {
                report.hour.add(*counts);
            }
            if (minute - SHORT..=minute).contains(number) {
                report.short.add(*counts);
                report.took.merge(took);
            }
        }
        report
    }
}

/// What this instance has seen of hosts.
#[derive(Default)]
pub(super) struct Seen {
    hosts: HashMap<(TopicName, String), Host>,
    places: HashMap<TopicName, HashMap<String, Places>>,
}

impl Seen {
    pub fn note_call(&mut self, topic: &TopicName, host: &str, end: CallEnd<'_>, now: Millis) {
        if host.is_empty() || host.len() > MAX_HOST_CHARS {
            return;
        }
        let minute = minute_of(now);
        let key = (topic.clone(), host.to_owned());
        if !self.hosts.contains_key(&key) {
            self.make_room(minute);
        }
        let host = self.hosts.entry(key).or_default();
        host.called = minute;
        match end.error {
            None => (host.failures, host.last_success_at) = (0, Some(now)),
            Some(error) => {
                host.failures += 1;
                host.last_error = Some(error.chars().take(MAX_ERROR_CHARS).collect());
                host.last_error_at = Some(now);
            }
        }
        if host.minutes.back().is_none_or(|last| last.number != minute) {
            host.minutes.retain(|old| (minute - HOUR..=minute).contains(&old.number));
            let (counts, took) = (CallCounts::default(), Lateness::default());
            host.minutes.push_back(Minute { number: minute, counts, took });
        }
        if let Some(last) = host.minutes.back_mut() {
            last.counts.add(end.counts);
            last.took.observe(end.took_ms);
        }
    }

    pub fn note_places(&mut self, topic: &TopicName, places: HashMap<String, Places>) {
        if places.is_empty() {
            self.places.remove(topic);
        } else {
            self.places.insert(topic.clone(), places);
        }
    }

    /// What is known of the hosts that were called in the last hour or have messages, those with the most calls first.
    pub fn report(&self, now: Millis, most: usize) -> Vec<HostReport> {
        let minute = minute_of(now);
        let called = self.hosts.iter().filter(|(_, host)| host.called >= minute - HOUR);
        let reports = called.map(|((topic, name), host)| {
            let key = (topic, name.as_str());
            (key, host.report(key, minute))
        });
        let mut reports: HashMap<(&TopicName, &str), HostReport> = reports.collect();
        for (topic, places) in &self.places {
            for (name, places) in places {
                let new = || Host::default().report((topic, name), minute);
                let report = reports.entry((topic, name)).or_insert_with(new);
                report.in_flight += places.in_flight;
                report.waiting += places.waiting;
            }
        }
        let mut reports: Vec<_> = reports.into_values().collect();
        reports.sort_by_key(|report| Reverse(report.calls()));
        reports.truncate(most);
        reports
    }

    /// Forgets hosts that were not called for the longest time, where there are too many.
    fn make_room(&mut self, minute: i64) {
        if self.hosts.len() < MAX_SEEN {
            return;
        }
        self.hosts.retain(|_, host| host.called >= minute - HOUR);
        let excess = (self.hosts.len() + MAX_SEEN / 4).saturating_sub(MAX_SEEN);
        if excess > 0 {
            let by_call = self.hosts.iter().map(|(name, host)| (host.last_call(), name.clone()));
            let mut by_call: Vec<_> = by_call.collect();
            by_call.sort_unstable();
            for (_, name) in by_call.into_iter().take(excess) {
                self.hosts.remove(&name);
            }
        }
    }
}

impl Host {
    fn last_call(&self) -> Option<Millis> {
        self.last_error_at.max(self.last_success_at)
    }
}

fn minute_of(now: Millis) -> i64 {
    now.div_euclid(60_000)
}

#[cfg(test)]
mod tests {
    use super::{super::report::as_json, *};

    const NOW: Millis = 1_800_000_000_000;

    fn ok(took_ms: Millis) -> CallEnd<'static> {
        let counts = CallCounts { delivered: 1, ..CallCounts::default() };
        CallEnd { counts, took_ms, error: None }
    }

    fn failed(error: &str) -> CallEnd<'_> {
        let counts = CallCounts { failed: 1, ..CallCounts::default() };
        CallEnd { counts, took_ms: 5, error: Some(error) }
    }

    fn counts(delivered: i64, failed: i64) -> CallCounts {
        CallCounts { delivered, failed, dead: 0 }
    }

    #[test]
    fn calls_count_for_five_minutes_and_for_an_hour() {
        let mut seen = Seen::default();
        seen.note_call(&TopicName::callbacks(), "a:80", ok(100), NOW);
        seen.note_call(&TopicName::callbacks(), "a:80", failed("timeout"), NOW + 10 * 60_000);
        seen.note_call(
            &TopicName::callbacks(),
            "a:80",
            failed("answered 500"),
            NOW + 10 * 60_000 + 1,
        );
        let at = |minutes: i64| seen.report(NOW + minutes * 60_000, 9);
        let report = &at(10)[0];
        assert_eq!((report.short, report.hour), (counts(0, 2), counts(1, 2)));
        assert_eq!((report.failures, report.last_error.as_deref()), (2, Some("answered 500")));
        assert_eq!(report.last_success_at, Some(NOW));
        assert_eq!(report.quantile(0.99), Some(5));
        assert_eq!((at(65)[0].short, at(65)[0].hour), (counts(0, 0), counts(0, 2)));
        assert!(at(71).is_empty());
    }

    #[test]
    fn what_instances_saw_adds_up_and_failures_end_with_a_success_anywhere() {
        let (mut one, mut other) = (Seen::default(), Seen::default());
        one.note_call(&TopicName::callbacks(), "a:80", failed("timeout"), NOW);
        other.note_call(&TopicName::callbacks(), "a:80", ok(70), NOW + 1);
        let places = HashMap::from([("a:80".to_owned(), Places { in_flight: 2, waiting: 3 })]);
        one.note_places(&TopicName::callbacks(), places.clone());
        other.note_places(&TopicName::callbacks(), places);
        let read = |seen: &Seen, now| {
            let json = as_json(&seen.report(now, 9), 10_000);
            serde_json::from_str::<Vec<HostReport>>(&json).unwrap().remove(0)
        };
        let mut sum = HostReport::of("a:80");
        sum.add(read(&one, NOW));
        assert_eq!(sum.failures, 1);
        sum.add(read(&other, NOW + 1));
        assert_eq!((sum.in_flight, sum.waiting, sum.failures), (4, 6, 0));
        assert_eq!((sum.hour, sum.quantile(1.0)), (counts(1, 1), Some(70)));
        assert_eq!((sum.last_error.as_deref(), sum.last_error_at), (Some("timeout"), Some(NOW)));
        one.note_call(&TopicName::callbacks(), "a:80", failed("no route"), NOW + 2);
        sum.add(read(&one, NOW + 2));
        assert_eq!((sum.failures, sum.last_error.as_deref()), (2, Some("no route")));
    }

    #[test]
    fn hosts_are_bounded_and_those_stay_that_are_called() {
        let mut seen = Seen::default();
        for n in 0..3 * MAX_SEEN as i64 {
            seen.note_call(
                &TopicName::callbacks(),
                &format!("h{n}:80"),
                failed("timeout"),
                NOW + n,
            );
            seen.note_call(&TopicName::callbacks(), "busy:80", ok(1), NOW + n);
        }
        assert!(seen.hosts.len() <= MAX_SEEN);
        let report = seen.report(NOW + 3 * MAX_SEEN as i64, 10);
        assert_eq!((report.len(), report[0].host.as_str()), (10, "busy:80"));
        assert_eq!(report[0].hour.delivered, 3 * MAX_SEEN as i64);
        seen.note_call(&TopicName::callbacks(), &"x".repeat(MAX_HOST_CHARS + 1), ok(1), NOW);
        assert!(seen.hosts.keys().all(|(_, name)| name.len() <= MAX_HOST_CHARS));
    }
}
