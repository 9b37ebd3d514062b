//! `dueq top` on a terminal: it takes another screen, listens to keys, and gives the terminal back however it ends.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::json;

use crate::client::done;
use crate::harness::*;

const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";

/// Runs dueq with these words on a terminal of its own, whose size changes when it hears SIGWINCH; copies what is shown to a
/// file, and types what is in the other. At the end it writes the exit code and whether the terminal is as it was.
const TERMINAL: &str = r#"
import fcntl, os, pty, select, signal, struct, sys, termios
typed, shown, end, *words = sys.argv[1:]
master, slave = pty.openpty()
def size(rows, columns):
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
size(24, 120)
before = termios.tcgetattr(slave)
child = os.fork()
if child == 0:
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    for fd in range(3):
        os.dup2(slave, fd)
    os.execvp(words[0], words)
signal.signal(signal.SIGUSR1, lambda *_: size(8, 40))
signal.signal(signal.SIGTERM, lambda *_: os.kill(child, signal.SIGTERM))
keys = os.open(typed, os.O_RDWR)
with open(shown, "ab", buffering=0) as out:
    while True:
        ready, _, _ = select.select([master, keys], [], [], 0.05)
        if keys in ready:
            os.write(master, os.read(keys, 100))
        if master in ready:
            out.write(os.read(master, 65536))
        elif os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            break
    # What it wrote between the last look and its end.
    while select.select([master], [], [], 0)[0]:
        out.write(os.read(master, 65536))
_, status = os.waitpid(child, 0)
with open(end, "w") as out:
    out.write(f"{os.waitstatus_to_exitcode(status)} {termios.tcgetattr(slave) == before}")
"#;

/// `dueq top` on a terminal.
struct Top {
    process: Process,
    dir: std::path::PathBuf,
    keys: File,
}

impl Top {
    async fn start(url: &str, prefix: &str) -> Top {
        let dir = temp_dir("top");
        let [typed, shown, end] = ["typed", "shown", "end"].map(|name| dir.join(name));
        fifo(&typed);
        File::create(&shown).unwrap();
        let mut command = Command::new("python3");
        command.args(["-c", TERMINAL]).args([&typed, &shown, &end]).arg(binary());
        command.args(["top", "--server", url, "--prefix", prefix]);
        command.env("TERM", "xterm").env_remove("NO_COLOR").env_remove("DUEQ_API_KEY");
        command.stdin(Stdio::null());
        let process = Process::start(&mut command);
        let keys = File::options().read(true).write(true).open(&typed).unwrap();
        Top { process, dir, keys }
    }

    fn types(&mut self, keys: &str) {
        use std::io::Write;
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    fn shown(&self) -> String {
        text_of(&self.dir.join("shown"))
    }

    /// The last screen that was drawn.
    fn screen(&self) -> String {
        self.shown().rsplit("\u{1b}[H").next().unwrap_or_default().to_owned()
    }

    async fn sees(&self, what: &str) {
        let screen = || async { self.screen().contains(what).then_some(()) };
        eventually(&format!("{what:?} on the screen"), screen).await;
    }

    /// How it ended; the terminal must be as it was.
    async fn ends(mut self) {
        self.process.wait(Duration::from_secs(20)).await;
        let end = text_of(&self.dir.join("end"));
        assert_eq!(end, "0 True", "{:?}", self.shown());
        let shown = self.shown();
        assert!(shown.contains(ENTER) && shown.trim_end().ends_with(LEAVE), "{shown:?}");
        assert!(shown.contains("\u{1b}[?25h"), "the cursor is back: {shown:?}");
    }
}

#[tokio::test]
async fn top_shows_what_happens_and_obeys_keys() {
    let (topic, client) = (topic("client-top"), client().await);
    let [quiet, busy] = ["a", "b"].map(|end| format!("{topic}-{end}"));
    client.published(&quiet, json!({"payload": 1, "delay_ms": 3_600_000})).await;
    client.published_batch(&busy, &vec![json!({"payload": 1}); 3]).await;
    let mut top = Top::start(&shared().await.dueq.url(), &topic).await;
    top.sees("2 topics, 3 ready, 1 delayed").await;
    let at = |top: &Top, name: &str| top.screen().find(name).unwrap();
    assert!(at(&top, &busy) < at(&top, &quiet), "by activity: {:?}", top.screen());
    top.types("s");
    top.sees("by name").await;
    assert!(at(&top, &quiet) < at(&top, &busy), "{:?}", top.screen());
    client.published(&quiet, json!({"payload": 1})).await;
    top.sees("4 ready").await;
    top.types("p");
    top.sees("(stopped)").await;
    top.types("\u{1b}[C");
    top.sees("by ready").await;
    top.process.signal(Signal::USR1);
    eventually("a smaller screen", || async { (top.screen().lines().count() == 8).then_some(()) })
        .await;
    top.types("q");
    top.ends().await;
}

#[tokio::test]
async fn ctrl_c_and_sigterm_give_the_terminal_back() {
    let (topic, client) = (topic("client-top"), client().await);
    client.published(&topic, json!({"payload": 1})).await;
    let url = shared().await.dueq.url();
    let mut top = Top::start(&url, &topic).await;
    top.sees("1 topic,").await;
    top.types("\u{3}");
    top.ends().await;
    let mut top = Top::start(&url, &topic).await;
    top.sees("1 topic,").await;
    top.process.signal(Signal::TERM);
    top.ends().await;
}

#[tokio::test]
async fn top_outlives_a_server_that_goes_away() {
    let topic = topic("client-top");
    let mut server = instance().await;
    server.client().published(&topic, json!({"payload": 1})).await;
    let mut top = Top::start(&server.url(), &topic).await;
    top.sees("1 ready").await;
    server.kill9();
    top.sees("nothing listens").await;
    assert!(top.screen().contains(&topic), "what was known stays");
    top.types("q");
    top.ends().await;
}

#[tokio::test]
async fn without_a_terminal_it_is_one_table() {
    let (topic, client) = (topic("client-top"), client().await);
    client.published(&topic, json!({"payload": 1})).await;
    let shown = done(&["top", "--prefix", &topic]).await;
    let lines: Vec<&str> = shown.lines().collect();
    assert!(lines[0].starts_with("TOPIC ") && lines[0].contains("PUBLISHED/S"), "{shown}");
    assert!(lines.len() == 2 && lines[1].starts_with(&topic), "{shown}");
}
