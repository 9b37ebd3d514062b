//! The pages of the guide, in the order in which they are listed: to learn, to do and to look up for those who use dueq
//! (<https://diataxis.fr>), then what they can do without.

use crate::problem::Code;
use bytes::Bytes;
use std::sync::{LazyLock, OnceLock};

/// A page: the name of its file, and its text, which begins with `# Title`.
pub struct Page {
    pub name: &'static str,
    /// What the reader finds, in a few words.
    pub about: &'static str,
    markdown: &'static str,
    /// As it is served. Anybody may ask for it as often as they like, so it is made once.
    pub html: OnceLock<Bytes>,
}

impl Page {
    pub fn title(&self) -> &'static str {
        self.markdown.lines().next().unwrap_or_default().trim_start_matches("# ")
    }

    /// The Markdown without pictures, which are not in the program. Links to the READMEs of the SDKs lead to their pages.
    pub fn text(&self) -> String {
        let lines = self.markdown.lines().filter(|line| !line.starts_with("!["));
        let text = lines.fold(String::new(), |text, line| text + line + "\n");
        SDKS.iter().fold(text, |text, sdk| {
            text.replace(&format!("../../openapi/sdks/{sdk}/README.md"), &format!("sdk-{sdk}.md"))
        })
    }
}

/// A part of the guide.
pub struct Section {
    pub title: &'static str,
    /// What its pages are for.
    pub about: &'static str,
    pub pages: Vec<Page>,
}

/// The SDKs whose READMEs are pages.
const SDKS: [&str; 4] = ["python", "typescript", "go", "java"];

/// The text of a page; of a README the file is named.
macro_rules! markdown {
    ($name:literal) => {
        include_str!(concat!("../../../guide/", $name, ".md"))
    };
    ($name:literal $file:literal) => {
        include_str!(concat!("../../../../", $file))
    };
}

macro_rules! sections {
    ($($title:literal $about:literal { $($name:literal $summary:literal $(= $file:literal)?)* })*) => {
        vec![$(Section {
            title: $title,
            about: $about,
            pages: vec![$(Page {
                name: $name,
                about: $summary,
                markdown: markdown!($name $($file)?),
                html: OnceLock::new(),
            }),*],
        }),*]
    };
}

/// Every page, by section, in reading order.
pub static SECTIONS: LazyLock<Vec<Section>> = LazyLock::new(|| {
    sections! {
        "Start" "Learn dueq by using it" {
            "install" "a Debian package, a static program, an image, Kubernetes"
            "tutorial" "a server, a callback that is due in five seconds, retries, a redrive: in five minutes"
            "first-worker" "publish, lease and acknowledge a message by hand"
        }
        "Use" "Recipes for programs that publish and consume" {
            "workers" "consume messages with a loop of one request"
            "callbacks" "have your URL called, signed and retried"
            "failures" "give a message back, and choose when it comes again"
            "waiting" "what a message waits for, and what ends that"
            "dead-letters" "find, repair, redrive and forward messages that died"
            "debounce" "turn repeated events into one message: debounce, throttle, once"
            "tenants" "let no customer wait for the flood of another: webhooks, jobs, imports"
            "reminders" "move and cancel a message by a key of your own, repeat a publish safely"
            "schedules" "publish by cron expression or at an interval"
            "mcp" "give an agent a clock: look, schedule, cancel, redrive, within the scopes of a key"
            "sdks" "clients and workers for Python, TypeScript, Go and Java"
            "frameworks" "a worker and verified callbacks in FastAPI, Django, Express, NestJS, net/http and Spring Boot"
            "sdk-python" "its client and worker, asynchronous and not" = "openapi/sdks/python/README.md"
            "sdk-typescript" "its client and worker, for Node.js" = "openapi/sdks/typescript/README.md"
            "sdk-go" "its client and worker, in net/http programs too" = "openapi/sdks/go/README.md"
            "sdk-java" "its client and worker, from Java 17 on" = "openapi/sdks/java/README.md"
            "languages" "Rust, Ruby, PHP, C#: clients that are generated from the OpenAPI document"
        }
        "Operate" "Recipes for those who operate dueq" {
            "operate" "what a production server needs, and how to look into it"
            "dashboard" "see and act in a browser"
            "alerts" "Prometheus, Grafana and ten alerts"
            "autoscale" "start and stop consumers by what waits for them"
            "traces" "OpenTelemetry: from a publish to its consumer"
            "security" "API keys with scopes, the audit log, sessions"
            "tls" "certificates, their renewal, certificates of clients"
            "proxy" "nginx and others in front of dueq, below a path"
            "redis" "what it must be set to, and what happens when it is full"
            "redis-tls" "managed Redis: TLS, certificates, a user with few rights"
            "sentinel" "follow failovers, lose no answer"
            "cluster" "spread topics over the primaries of a Redis Cluster"
            "move" "dump, load, and keep topics and schedules in a file"
            "backup" "copy the data, and come back from a copy"
            "upgrade" "from one version to the next"
        }
        "Move to dueq" "Recipes for those who come from another system" {
            "sqs" "boto3, celery and the AWS SDKs, unchanged, with dueq behind them"
            "from-sqs" "delays beyond 15 minutes, the same habits"
            "from-celery" "long countdowns that leave your workers alone"
            "from-bullmq" "delayed jobs for every language"
        }
        "Reference" "Look it up" {
            "api" "every route, and what it does"
            "messages" "fields of a publish, of a lease, of a message's history"
            "life" "the states of a message and what moves it"
            "topics" "leases, limits, retention, partitions, groups, backoff"
            "errors" "every error code: what it means and what to do"
            "flags" "flags and environment variables of the server"
            "cli" "every command, with examples"
            "metrics" "every metric"
            "limits" "sizes, counts and times"
            "guarantees" "what dueq promises, exactly"
        }
        "About dueq" "How it is built and tested, and how it compares" {
            "design" "scripts, group commit, exact waking, and why"
            "proof" "how the promises are tested, with results"
            "numbers" "how fast dueq is, measured"
            "compare" "next to other systems, and when to choose them"
            "contribute" "build, test and change it"
        }
    }
});

/// All pages in order.
pub fn all() -> impl Iterator<Item = &'static Page> {
    SECTIONS.iter().flat_map(|section| section.pages.iter())
}

/// The page of an error code, in Markdown: its section on the page of all errors.
pub fn of_error(code: Code) -> Option<String> {
    let errors = all().find(|page| page.name == "errors")?.markdown;
    let (word, status) = (code.word(), code.status());
    let section = errors.split("\n### ").skip(1).find_map(|section| {
        let (heading, text) = section.split_once('\n')?;
        (heading == word).then(|| text.split("\n## ").next().unwrap_or(text).trim())
    })?;
    let meaning = code.meaning();
    Some(format!("# {word}\n\n**{status}**: {meaning}.\n\n{section}\n\n[All errors](errors.md)\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, fs};

    #[test]
    fn every_file_of_the_guide_is_a_page_with_a_title() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../guide");
        let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        let files = files.map(|name| name.into_string().unwrap());
        let files = files.filter_map(|name| name.strip_suffix(".md").map(str::to_owned));
        let names = all().map(|page| page.name.to_owned());
        let sdks = SDKS.map(|sdk| format!("sdk-{sdk}"));
        assert_eq!(files.chain(sdks).collect::<BTreeSet<_>>(), names.collect());
        for page in all() {
            assert!(page.markdown.starts_with("# "), "{} begins with its title", page.name);
            assert!(!page.title().contains(['<', '&', '`']), "{}: plain text", page.name);
            assert!(!page.about.contains(['<', '&', '`']), "{}: plain text", page.name);
        }
    }

    #[test]
    fn every_error_code_has_a_section_and_every_section_is_of_a_code() {
        let errors = all().find(|page| page.name == "errors").unwrap().markdown;
        let below = errors.split("\n## Each code\n").nth(1).unwrap();
        let sections = below.lines().filter_map(|line| line.strip_prefix("### "));
        let codes: Vec<&str> = Code::ALL.iter().map(|code| code.word()).collect();
        assert_eq!(sections.collect::<Vec<_>>(), codes);
        for code in Code::ALL {
            let page = of_error(*code).unwrap_or_else(|| panic!("{} has no page", code.word()));
            let advice = page.lines().nth(4).unwrap_or_default();
            assert!(advice.len() > 20 && !page.contains("\n#"), "{page}");
        }
    }
}
