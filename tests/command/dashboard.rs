//! The dashboard at `/ui` in a real browser: the scenarios of `tests/ui`, in parts that run side by side. And what holds its
//! bundle against its sources.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::docs::pages::{python, root};
use crate::harness::*;

/// How long a part may take on a machine that does other things as well.
const TIME: Duration = Duration::from_secs(600);

/// Runs a part of the scenarios. Each has servers and a browser of its own.
async fn scenarios(part: &str) {
    let dir = temp_dir("dashboard");
    let said = dir.join("said");
    let out = std::fs::File::create(&said).unwrap();
    let mut command = Command::new(python());
    command
        .arg(root().join("tests/ui/run.py"))
        .arg(binary())
        .args(["--part", part])
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .stdin(Stdio::null())
        .stdout(out.try_clone().unwrap())
        .stderr(out);
    let status = Process::start(&mut command).wait(TIME).await;
    assert!(status.success(), "{}", text_of(&said));
}

#[tokio::test]
#[ignore = "needs a browser: make test-all"]
async fn the_dashboard_passes_its_scenarios_in_a_browser_part_1() {
    scenarios("1/3").await;
}

#[tokio::test]
#[ignore = "needs a browser: make test-all"]
async fn the_dashboard_passes_its_scenarios_in_a_browser_part_2() {
    scenarios("2/3").await;
}

#[tokio::test]
#[ignore = "needs a browser: make test-all"]
async fn the_dashboard_passes_its_scenarios_in_a_browser_part_3() {
    scenarios("3/3").await;
}

fn ui() -> PathBuf {
    root().join("src/ui")
}

/// Runs the command in `dir`; what it says unless it succeeds.
fn done(dir: &Path, program: &str, args: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(args).current_dir(dir).output();
    let output = output.map_err(|error| error.to_string())?;
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(said()) }
}

/// Where there is no Node, what was committed is believed.
#[test]
fn what_is_served_was_built_from_the_sources_beside_it() {
    if done(&ui(), "npm", &["--version"]).is_err() {
        return;
    }
    let dir = temp_dir("dashboard-build");
    for name in ["src", "build.mjs", "package.json", "package-lock.json", "tsconfig.json"] {
        let from = ui().join(name);
        done(&dir, "cp", &["-r", from.to_str().unwrap(), "."]).unwrap();
    }
    done(&dir, "npm", &["ci", "--no-audit", "--no-fund"]).unwrap();
    done(&dir, "npm", &["run", "check"]).unwrap();
    done(&dir, "npm", &["run", "build"]).unwrap();
    let mut sizes = 0;
    for name in ["ui.js", "ui.css", "icon.svg", "licenses.txt"] {
        let built = std::fs::read(dir.join("dist").join(name)).unwrap();
        let committed = std::fs::read(ui().join("dist").join(name)).unwrap();
        assert!(
            built == committed,
            "src/ui/dist/{name} is old: run `npm ci && npm run build` in src/ui"
        );
        sizes += built.len();
    }
    assert!(sizes <= 150_000, "the dashboard has {sizes} bytes");
}
