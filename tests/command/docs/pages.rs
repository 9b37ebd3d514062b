//! The commands of the README and the guide are run as they stand, page by page.
//!
//! A page's `sh` blocks run in one shell, in their order, on a dueq of the page's own; a command that fails, or an HTTP
//! status of 400 and above, fails the test. What follows the language on the fence changes that: `background` runs until
//! the page's end (a server, a worker, a receiver), `no-run` is not run, `interrupt` is Ctrl-C for the last
//! receiver (`dueq listen`), once that was called. Every server may call this machine. A worker has its server restarted and
//! then replaced by a proxy's page, and must go on.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use futures_util::StreamExt;
use rustix::process::Signal;

use crate::harness::*;

/// What every page starts with. `make run` is dueq, and other targets of make are only looked up.
const PRELUDE: &str = r#"
set -euo pipefail
curl() {
  # A proxy that answers in the server's place.
  if [ -e outage ] && [[ $* = */lease* ]]; then echo '<h1>Try later</h1>'; return; fi
  command curl --fail-with-body --max-time 30 "$@"
}
make() {
  case $1 in
    run) shift; dueq serve ${*#ARGS=} ;;
    *) command make -C "$ROOT" --dry-run "$@" > /dev/null ;;
  esac
}
start() { serve >> server.log 2>&1 & SERVER=$!; ready; }
restart() {
  kill -- "-$SERVER"
  while kill -0 -- "-$SERVER"; do sleep 0.05; done 2> /dev/null
  start
}
works() { # works TOPIC LOG: the worker that writes this log goes on after a restart and an outage, and loses no ack
  restart
  worked "$1" "$2" 'after the restart'
  acked "$1"
  touch outage
  worked "$1" "$2" 'in the outage'
  until grep -q 'Try later' "$2"; do sleep 0.05; done
  rm outage
  acked "$1"
  if grep '^$' "$2"; then echo 'the worker printed an empty line' >&2; return 1; fi
}
worked() { # worked TOPIC LOG TEXT
  curl "$DUEQ_SERVER/topics/$1/messages" --json "{\"payload\": \"$3\"}"
  until grep -q "$3" "$2"; do sleep 0.05; done
}
acked() { until curl -s "$DUEQ_SERVER/topics/$1" | jq -e '.counts | .ready + .leased == 0'; do sleep 0.05; done; }
ready() { # by http or https
  until command curl -fs -o /dev/null "http://127.0.0.1:$PORT/readyz" \
    || command curl -fsk -o /dev/null "https://127.0.0.1:$PORT/readyz"; do sleep 0.05; done
}
interrupt() { # it ends well, and only then the port is free again
  until grep -q '^  attempt' "$LISTENED"; do sleep 0.05; done
  kill -INT -- "-$LISTENER"
  wait "$LISTENER"
}
listens() { until (exec 3<> "/dev/tcp/127.0.0.1/$1") 2> /dev/null; do sleep 0.05; done; }
set -m  # each background job has a process group of its own
trap 'for job in $(jobs -p); do kill -- "-$job"; done 2> /dev/null' EXIT
trap 'exit 1' TERM
trap 'echo "failed in $BLOCK: $BASH_COMMAND" >&2' ERR
"#;

/// A fenced block of code: where it stands, the words behind the fence, and its text.
struct Block {
    place: String,
    info: Vec<String>,
    text: String,
}

fn blocks(path: &Path, markdown: &str) -> Vec<Block> {
    let (mut found, mut open): (Vec<Block>, Option<Block>) = (Vec::new(), None);
    for (line, number) in markdown.lines().zip(1..) {
        match (line.trim_start().strip_prefix("```"), &mut open) {
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(info), None) => {
                let place = format!("{}:{number}", path.display());
                let info = info.split_whitespace().map(str::to_owned).collect();
                open = Some(Block { place, info, text: String::new() });
            }
            (None, Some(block)) => block.text = format!("{}{line}\n", block.text),
            (None, None) => {}
        }
    }
    found
}

/// The page as a script. The ports that pages use, 8080, 9123 and 6380, become free ones, and `/tmp` the directory `dir`.
fn script(blocks: &[Block], dir: &Path) -> String {
    let [port, receiver, redis] = [free_port(), free_port(), free_port()].map(|n| n.to_string());
    let own = |text: &str| {
        let text = text.replace("8080", &port).replace("9123", &receiver).replace("6380", &redis);
        text.replace("/tmp/", &format!("{}/", dir.display()))
    };
    let serves = |block: &Block| {
        ["make run", "dueq serve", "dueq dev"].iter().any(|command| block.text.contains(command))
    };
    let mut script = format!("{PRELUDE}\nexport PORT={port} DUEQ_LISTEN=127.0.0.1:{port}\n");
    let _ = writeln!(
        script,
        "export DUEQ_SERVER=http://127.0.0.1:{port} DUEQ_CALLBACK_ALLOW=127.0.0.0/8 BLOCK=start"
    );
    if !blocks.iter().any(|block| block.info.contains(&"background".to_owned()) && serves(block)) {
        script.push_str("serve() { dueq serve; }\nstart\n");
    }
    for (number, block) in blocks.iter().enumerate() {
        let info: Vec<&str> = block.info.iter().map(String::as_str).collect();
        let _ = writeln!(script, "BLOCK={}", block.place);
        match info[..] {
            ["sh"] => script.push_str(&own(&block.text)),
            ["sh", "background"] if serves(block) => {
                let _ = writeln!(script, "serve() {{\n{}}}\nstart", own(&block.text));
            }
            ["sh", "background"] => {
                let _ = writeln!(script, "(\n{}) > {number}.log 2>&1 &", own(&block.text));
                script.push_str("sleep 0.2\nkill -0 $!\n");
                if block.text.contains("dueq listen") {
                    let _ =
                        writeln!(script, "LISTENER=$! LISTENED={number}.log\nlistens {receiver}");
                }
                if block.text.contains("redis-server") {
                    let _ = writeln!(script, "listens {redis}");
                }
                let lease = block
                    .text
                    .split_once("/topics/")
                    .and_then(|(_, path)| path.split_once("/lease"));
                if let Some((topic, _)) = lease {
                    let _ = writeln!(script, "works {topic} {number}.log");
                }
            }
            ["sh", "interrupt"] => script.push_str("interrupt\n"),
            _ => {}
        }
    }
    script
}

/// Python with the checkers of `tests/setup.sh`.
pub fn python() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let path = root().join(target).join("checkers/bin/python");
    assert!(path.exists(), "no {}: `tests/setup.sh checkers` installs it", path.display());
    path
}

/// Runs a page's commands; what they printed if one of them failed.
async fn run(path: &Path) -> Result<(), String> {
    let blocks = blocks(path, &std::fs::read_to_string(root().join(path)).unwrap());
    run_blocks(path, &blocks).await
}

async fn run_blocks(path: &Path, blocks: &[Block]) -> Result<(), String> {
    if !blocks.iter().any(|block| block.info.first().is_some_and(|language| language == "sh")) {
        return Ok(());
    }
    let dir = temp_dir("page");
    std::os::unix::fs::symlink(binary(), dir.join("dueq")).unwrap();
    std::fs::write(dir.join("page.sh"), script(blocks, &dir)).unwrap();
    let mut command = Command::new("bash");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("DUEQ_") {
            command.env_remove(name);
        }
    }
    let programs = format!("{}:{}", dir.display(), std::env::var("PATH").unwrap());
    let log = std::fs::File::create(dir.join("log")).unwrap();
    command
        .arg("page.sh")
        .current_dir(&dir)
        .envs([("PATH", programs.as_ref()), ("ROOT", root().as_os_str())])
        // Of servers that start beside browsers and compilers, some Redis answers late.
        .env("DUEQ_REDIS_TIMEOUT_MS", "20000")
        .stdin(Stdio::null())
        .stdout(log.try_clone().unwrap())
        .stderr(log);
    let mut shell = Process::start(&mut command);
    let mut over = false;
    for _ in 0..1200 {
        over = shell.ended().is_some();
        if over {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    if !over {
        shell.signal(Signal::TERM);
    }
    let status = shell.wait(Duration::from_secs(10)).await;
    if over && status.success() {
        return Ok(());
    }
    let mut printed =
        format!("{}: {status}{}\n", path.display(), if over { "" } else { " after 60 s" });
    let mut logs: Vec<_> =
        std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    logs.retain(|path| path.to_string_lossy().ends_with("log"));
    logs.sort();
    for log in logs {
        let _ = writeln!(printed, "--- {}\n{}", log.display(), text_of(&log));
    }
    Err(printed)
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The README and the guide, from the root.
pub fn pages() -> Vec<PathBuf> {
    let guide = std::fs::read_dir(root().join("src/guide")).unwrap();
    let files = guide.map(|entry| Path::new("src/guide").join(entry.unwrap().file_name()));
    let pages = files.filter(|path| path.extension().is_some_and(|ending| ending == "md"));
    let mut pages: Vec<_> = pages.chain([PathBuf::from("README.md")]).collect();
    pages.sort();
    pages
}

#[tokio::test]
async fn every_command_of_the_readme_and_the_guide_works_as_it_stands() {
    let pages = pages();
    let runs = futures_util::stream::iter(&pages).map(|path| run(path)).buffer_unordered(4);
    let failed: Vec<String> = runs.filter_map(async |result| result.err()).collect().await;
    assert!(failed.is_empty(), "\n{}", failed.join("\n"));
}

#[tokio::test]
async fn a_new_user_is_called_within_eight_seconds_and_three_commands() {
    let readme = Path::new("README.md");
    let mut first = blocks(readme, include_str!("../../../README.md"));
    first.retain(|block| block.info.first().is_some_and(|language| language == "sh"));
    let at = |word: &str| first.iter().position(|block| block.text.contains(word)).unwrap();
    let (begin, end) = (at("dueq dev"), at("/callbacks"));
    let mut first: Vec<Block> = first.drain(begin..=end).collect();
    assert!(first.len() <= 3, "{} commands", first.len());
    let info = ["sh", "interrupt"].map(str::to_owned).to_vec();
    first.push(Block { place: "called".to_owned(), info, text: String::new() });
    // Five of them are the delay. Other tests use the machine, too.
    let mut seconds = Vec::new();
    while seconds.last().is_none_or(|last| *last > 8.0) {
        assert!(seconds.len() < 3, "{seconds:?}");
        let start = std::time::Instant::now();
        run_blocks(readme, &first).await.unwrap();
        seconds.push(start.elapsed().as_secs_f64());
    }
}

#[test]
fn a_block_that_is_not_run_says_so() {
    let known = ["", "no-run", "background", "interrupt"];
    for path in pages() {
        let markdown = std::fs::read_to_string(root().join(&path)).unwrap();
        for block in blocks(&path, &markdown) {
            let info = block.info.iter().skip(1).map(String::as_str).collect::<Vec<_>>().join(" ");
            assert!(known.contains(&info.as_str()), "{}: {info:?}", block.place);
            let language = block.info.first().map_or("", String::as_str);
            assert!(!["bash", "shell", "console"].contains(&language), "{}: `sh`", block.place);
        }
    }
}
