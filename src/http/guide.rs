//! The guide: the Markdown pages of `src/guide`, built into the program and served as HTML at `/guide`. The pages need
//! no key, no script and nothing from another server. And `/`, which says where to begin.

use super::AppState;
use axum::{
    Router,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header, uri::Authority},
    response::{Html, IntoResponse, Redirect, Response},
    routing::get,
};
use bytes::Bytes;
use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};
use std::{
    fmt::Write,
    sync::{LazyLock, OnceLock},
};

/// A page: the name of its file, and its text, which begins with `# Title`.
struct Page {
    name: &'static str,
    markdown: &'static str,
    /// As it is served. Anybody may ask for it as often as they like, so it is made once.
    html: OnceLock<Bytes>,
}

impl Page {
    fn title(&self) -> &'static str {
        self.markdown.lines().next().unwrap_or_default().trim_start_matches("# ")
    }
}

macro_rules! pages {
    ($($section:literal: $($name:literal)*;)*) => {
        [$(($section, vec![
            $(Page {
                name: $name,
                markdown: include_str!(concat!("../guide/", $name, ".md")),
                html: OnceLock::new(),
            }),*
        ])),*]
    };
}

/// Every page, by section, in reading order.
static SECTIONS: LazyLock<[(&str, Vec<Page>); 4]> = LazyLock::new(|| {
    pages! {
        "Start": "tutorial";
        "How to": "workers" "callbacks" "schedules" "reminders" "failures" "sdks" "sqs" "operate" "dashboard" "alerts" "traces" "security" "tls" "proxy" "redis" "redis-tls" "sentinel" "cluster" "upgrade";
        "Reference": "api" "messages" "topics" "errors" "flags" "cli" "metrics" "limits";
        "Background": "guarantees" "proof" "numbers" "compare" "contribute";
    }
});

const STYLE: &str = include_str!("../guide/style.css");

/// The routes of the guide. They are pages, not operations, so they are not in the OpenAPI document.
pub(super) fn routes() -> Router<AppState> {
    Router::new()
        .route("/", get(front))
        .route("/guide", get(index))
        .route("/guide/", get(index))
        .route("/guide/style.css", get(style))
        .route("/guide/{page}", get(page))
}

/// Says where to begin. A browser is sent to the guide, which like this needs no key.
async fn front(State(state): State<AppState>, headers: HeaderMap) -> Response {
    let sent = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if sent(header::ACCEPT).is_some_and(|accepted| accepted.contains("text/html")) {
        return Redirect::to("/guide").into_response();
    }
    let host = sent(header::HOST).filter(|host| is_plain(host)).unwrap_or("localhost:8080");
    let (base, public) = (state.public_url.base(), state.public_url.url());
    let server = if public.is_empty() { host } else { &public };
    format!(
        "dueq: a delay queue over HTTP\n\n\
        guide     {base}/guide\n\
        dashboard {base}/ui\n\
        API       {base}/docs\n\
        document  {base}/openapi.json\n\n\
        curl {server}/topics/orders/messages --json '{{\"payload\": {{\"order\": 42}}, \"delay_ms\": 2000}}'\n"
    )
    .into_response()
}

/// Whether `host` is a name or an address with no more than a port, so that a shell takes it literally.
fn is_plain(host: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    host.bytes().all(plain) && host.parse::<Authority>().is_ok()
}

async fn index(State(state): State<AppState>) -> Html<Bytes> {
    static HTML: OnceLock<Bytes> = OnceLock::new();
    let html = HTML.get_or_init(|| {
        let base = state.public_url.base();
        let body = format!("<h1>The dueq guide</h1>{}", list(base, ""));
        document(base, "The guide", "", &body)
    });
    Html(html.clone())
}

async fn page(
    State(state): State<AppState>,
    Path(name): Path<String>,
) -> Result<Html<Bytes>, StatusCode> {
    let mut pages = SECTIONS.iter().flat_map(|(_, pages)| pages.iter());
    let page = pages.find(|page| page.name == name).ok_or(StatusCode::NOT_FOUND)?;
    let html = page.html.get_or_init(|| {
        let base = state.public_url.base();
        let nav = format!(
            "<nav aria-label=\"Guide\"><a href=\"{base}/guide\">dueq guide</a>{}</nav>",
            list(base, page.name)
        );
        document(base, page.title(), &nav, &rendered(base, page.markdown))
    });
    Ok(Html(html.clone()))
}

async fn style() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE)
}

/// A whole HTML document; `base` is the path before all routes.
fn document(base: &str, title: &str, nav: &str, body: &str) -> Bytes {
    let text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
        <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
        <title>{title} · dueq</title><link rel=\"stylesheet\" href=\"{base}/guide/style.css\"></head>\n\
        <body>{nav}<main>{body}</main></body></html>\n"
    );
    text.into()
}

/// Links to all pages by section; the one named `current` is marked.
fn list(base: &str, current: &str) -> String {
    let mut text = String::new();
    for (section, pages) in &*SECTIONS {
        let _ = write!(text, "<h2>{section}</h2><ul>");
        for page in pages {
            let mark = if page.name == current { " aria-current=\"page\"" } else { "" };
            let (name, title) = (page.name, page.title());
            let _ = write!(text, "<li><a href=\"{base}/guide/{name}\"{mark}>{title}</a></li>");
        }
        text.push_str("</ul>");
    }
    text
}

/// A page's HTML. Headings get the anchors that code hosts give them, and links between files become links between
/// routes. Pictures are left out: they are not in the program, which shows the real thing at `/ui`.
fn rendered(base: &str, markdown: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
    let mut events: Vec<Event<'_>> = without_pictures(Parser::new_ext(markdown, options)).collect();
    for at in 0..events.len() {
        let anchor = anchor(&events[at + 1..]);
        match &mut events[at] {
            Event::Start(Tag::Heading { id, .. }) => *id = Some(anchor.into()),
            Event::Start(Tag::Link { dest_url, .. }) => {
                if let Some(route) = route(dest_url) {
                    *dest_url = CowStr::from(format!("{base}{route}"));
                }
            }
            _ => {}
        }
    }
    let mut text = String::new();
    html::push_html(&mut text, events.into_iter());
    text
}

/// The same without images and what stands in them.
fn without_pictures<'a>(
    events: impl Iterator<Item = Event<'a>>,
) -> impl Iterator<Item = Event<'a>> {
    let mut depth = 0;
    events.filter(move |event| match event {
        Event::Start(Tag::Image { .. }) => {
            depth += 1;
            false
        }
        Event::End(TagEnd::Image) => {
            depth -= 1;
            false
        }
        _ => depth == 0,
    })
}

/// The anchor of a heading whose content begins here: in lower case, blanks as dashes, without punctuation.
fn anchor(content: &[Event<'_>]) -> String {
    let content =
        content.iter().take_while(|event| !matches!(event, Event::End(TagEnd::Heading(_))));
    let words = content.map(|event| match event {
        Event::Text(text) | Event::Code(text) => text.as_ref(),
        _ => "",
    });
    let words: String = words.collect();
    let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Where a link to another page's file leads: `flags.md#who` to `/guide/flags#who`.
fn route(link: &str) -> Option<String> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let name = file.strip_suffix(".md").filter(|name| !name.contains('/'))?;
    let hash = if anchor.is_empty() { "" } else { "#" };
    Some(format!("/guide/{name}{hash}{anchor}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, fs};

    #[test]
    fn every_file_of_the_guide_is_a_page_with_a_title() {
        let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/src/guide");
        let files = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        let files = files.map(|name| name.into_string().unwrap());
        let files = files.filter_map(|name| name.strip_suffix(".md").map(str::to_owned));
        let pages: Vec<&Page> = SECTIONS.iter().flat_map(|(_, pages)| pages.iter()).collect();
        let names = pages.iter().map(|page| page.name.to_owned());
        assert_eq!(files.collect::<BTreeSet<_>>(), names.collect());
        for page in pages {
            assert!(page.markdown.starts_with("# "), "{} begins with its title", page.name);
            assert!(!page.title().contains(['<', '&', '`']), "{}: plain text", page.name);
        }
    }

    #[test]
    fn headings_get_anchors_and_links_lead_to_routes() {
        let html = rendered(
            "/q",
            "## What is `X-Y`, really?\n[a](flags.md#log) [b](#x) [c](https://d/e.md) ![d *e*](f/g.png)",
        );
        assert!(html.contains("<h2 id=\"what-is-x-y-really\">"), "{html}");
        for link in ["\"/q/guide/flags#log\"", "\"#x\"", "\"https://d/e.md\""] {
            assert!(html.contains(link), "{link}: {html}");
        }
        assert!(!html.contains("g.png") && !html.contains("<em>"), "{html}");
    }
}
