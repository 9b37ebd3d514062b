//! The programs of the guide that serve HTTP: web apps, and the receiver of callbacks. Each is taken from its page and run
//! unchanged, but for its port.

use std::path::Path;

use reqwest::StatusCode;
use serde_json::json;

use crate::example::example;
use crate::harness::*;
use crate::program::{Program, SIGNING_SECRET};

/// A program of the guide, and the dueq that calls it.
struct App {
    program: Program,
    url: String,
    client: Client,
    _of: (Redis, Dueq),
}

impl App {
    /// Runs the first block of the text with this fence as a file of this name, until it listens.
    async fn start(language: &str, text: &str, fence: &str, name: &str) -> App {
        let redis = Redis::start().await;
        let flags = ["--callback-allow", "127.0.0.0/8", "--signing-secret", SIGNING_SECRET];
        let dueq = Dueq::on(&redis).args(flags).start().await;
        let port = free_port();
        let file = temp_dir("app").join(name);
        std::fs::write(&file, example(text, fence).replace("9123", &port.to_string()))
            .expect("a file");
        let words = ["framework", file.to_str().expect("its path")];
        let mut program = Program::start(language, &dueq.url(), &words);
        let listens = |_: &Program| std::net::TcpStream::connect(("127.0.0.1", port)).is_ok();
        program.until("it listens", listens).await;
        let url = format!("http://127.0.0.1:{port}");
        App { program, url, client: dueq.client(), _of: (redis, dueq) }
    }

    async fn posted(&self, path: &str) -> StatusCode {
        let request = reqwest::Client::new().post(format!("{}{path}", self.url));
        request.json(&json!({"order": 42})).send().await.expect("an answer").status()
    }

    /// It believes what dueq calls it with, and answers 401 to anyone else.
    async fn believes_signed_calls_only(&mut self) {
        assert_eq!(self.posted("/hook").await, 401);
        let mut call = json!({"url": format!("{}/hook", self.url)});
        self.client.post("/callbacks", &call).await.expect(201);
        self.says("called", "").await; // without a body
        call["payload"] = json!({"order": 4711});
        self.client.post("/callbacks", &call).await.expect(201);
        self.says("called", "4711").await;
        assert!(
            !self
                .program
                .lines()
                .iter()
                .any(|line| line.starts_with("called") && line.contains("42"))
        );
    }

    async fn says(&mut self, what: &str, number: &str) {
        let says = |line: &String| line.starts_with(what) && line.contains(number);
        self.program.until(what, |program| program.lines().iter().any(says)).await;
    }
}

fn page(name: &str) -> String {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/guide");
    std::fs::read_to_string(guide.join(name)).expect("the page")
}

/// The app of this framework takes orders, works them, and finishes what it has begun when it is stopped.
pub async fn serves(framework: &str) {
    let (language, fence, name) = match framework {
        "FastAPI" | "Django" => ("python", "python", "app.py"),
        "Express" => ("typescript", "js", "app.mjs"),
        "NestJS" => ("typescript", "ts", "app.mts"),
        "net/http" => ("go", "go", "main.go"),
        "Spring Boot" => ("java", "java", "App.java"),
        other => panic!("no web app for {other}"),
    };
    let page = page("frameworks.md");
    let section = page.split(&format!("\n## {framework}\n")).nth(1).expect("its section");
    let mut app = App::start(language, section, fence, name).await;
    app.believes_signed_calls_only().await;
    assert_eq!(app.posted("/orders").await, 202);
    app.says("handling", "42").await;
    app.program.ended().await;
    assert_eq!(app.client.total("orders", "acked").await, 1, "it stopped before the ack");
}

/// The receiver on the page on callbacks.
pub async fn receives() {
    let mut app = App::start("python", &page("callbacks.md"), "python", "receiver.py").await;
    app.believes_signed_calls_only().await;
}
