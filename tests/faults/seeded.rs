//! The seeded bugs that `make prove` hunts: their patches find their places in the scripts of today,
//! and the probes that meet them are clean without them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};

use crate::proof::bugs::hunt::{control, hunt_all, table};
use crate::proof::bugs::{Bug, all, patches};
use crate::proof::scenarios;

#[test]
fn every_patch_of_a_script_finds_its_place_once() {
    let scripts = patches::scripts();
    assert!(scripts.len() > 30, "{} scripts were read", scripts.len());
    let wrong: Vec<String> =
        all().iter().flat_map(|bug| patches::misplaced(bug, &scripts)).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn there_are_many_bugs_and_each_has_a_name_of_its_own() {
    let bugs = all();
    let names: BTreeSet<&str> = bugs.iter().map(|bug| bug.name).collect();
    assert!(bugs.len() >= 26 && names.len() == bugs.len(), "{names:?}");
    assert!(bugs.iter().all(|bug| !bug.breaks.is_empty() && !bug.does.is_empty()));
}

/// A bug for each scenario that has no test of its own.
fn one_for_each_probe() -> Vec<Bug> {
    let probes = all().into_iter().filter(|bug| scenarios::find(bug.scenario.name).is_none());
    let each = probes.map(|bug| (bug.scenario.name, bug));
    each.collect::<BTreeMap<_, _>>().into_values().collect()
}

/// Probes measure time while other tests take it from them: one that was late or could not go on, and nothing worse, is run
/// again by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_bug_every_probe_is_clean() {
    let run = |bug: Bug| async move { (control(&bug).await, bug) };
    let runs = stream::iter(one_for_each_probe()).map(run).buffer_unordered(4);
    let wrong = runs.filter(|(found, _)| std::future::ready(!found.is_empty()));
    for (mut found, bug) in wrong.collect::<Vec<_>>().await {
        let late = ["I12", "I18", "the scenario failed"];
        if found.iter().all(|found| late.iter().any(|late| found.starts_with(late))) {
            eprintln!("{}: {found:?}", bug.name);
            found = control(&bug).await;
        }
        assert!(found.is_empty(), "{}: {found:#?}", bug.name);
    }
}

/// Run by hand, on a build with seeded bugs: `DUEQ_SEEDED_BINARY=… cargo test --test faults -- --ignored every_seeded_bug`;
/// `DUEQ_HUNT=part of a name` hunts some of them only.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a build with seeded bugs; `make prove` does it"]
async fn every_seeded_bug_is_caught_by_name() {
    let part = std::env::var("DUEQ_HUNT").unwrap_or_default();
    let hunts = hunt_all(&part, Duration::from_secs(120), 2).await;
    eprintln!("{}", table(&hunts));
    assert!(hunts.iter().all(|hunted| hunted.caught_by.is_some()));
}
