//! The guide: the Markdown pages of `src/guide` and the READMEs of the SDKs, built into the program and served as HTML at
//! `/guide`, a page for each error code, a search, and `/llms.txt` (<https://llmstxt.org>), which lists the pages for programs
//! that read Markdown. They need no key and nothing from another server; their one script adds buttons that copy
//! code. And `/`, which says where to begin.

mod pages;
mod render;
mod search;

use crate::{AppState, problem::Code};
use axum::{
    Router,
    extract::{Path, RawQuery, State},
    http::{HeaderMap, StatusCode, header, uri::Authority},
    response::{Html, IntoResponse, Redirect, Response},
    routing::get,
};
use bytes::Bytes;
use pages::SECTIONS;
use render::{escaped, parts, rendered};
use std::{fmt::Write, sync::OnceLock};

/// The longest query of the search, characters.
const MAX_QUERY: usize = 200;
const STYLE: &str = include_str!("../../../guide/style.css");
const SCRIPT: &str = include_str!("../../../guide/copy.js");
/// The introduction for programs, before the list of pages.
const ABOUT: &str = "\
# dueq

> dueq is a delay queue: an HTTP service on Redis. Publish a message now, lease it when it is due, from any language, and \
acknowledge it when it is done. Or have dueq call a URL at that time.

Bodies are JSON. Durations are integers in milliseconds (`_ms`), instants are RFC 3339 in UTC (`_at`). Errors are \
`application/problem+json` with a stable `code`; their header `Link` with `rel=help` leads to a page about the code.
";

/// The routes of the guide. They are pages, not operations, so they are not in the OpenAPI document.
pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/", get(front))
        .route("/llms.txt", get(llms))
        .route("/guide", get(index))
        .route("/guide/", get(index))
        .route("/guide/llms.txt", get(llms))
        .route("/guide/style.css", get(style))
        .route("/guide/copy.js", get(script))
        .route("/guide/search", get(search_page))
        .route("/guide/errors/{code}", get(error))
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
        let mut body = format!("<h1>The dueq guide</h1>{}<div class=\"index\">", search_form(base));
        for section in SECTIONS.iter() {
            let _ = write!(body, "<section><h2>{}</h2><p>{}</p><ul>", section.title, section.about);
            for page in &section.pages {
                let (name, title, about) = (page.name, page.title(), page.about);
                let _ =
                    write!(body, "<li><a href=\"{base}/guide/{name}\">{title}</a><br>{about}</li>");
            }
            body.push_str("</ul></section>");
        }
        body.push_str("</div>");
        document(base, "The guide", "", &body, "")
    });
    Html(html.clone())
}

/// A page as HTML; as Markdown if its name ends in `.md`, as links between the files have it.
async fn page(
    State(state): State<AppState>,
    Path(name): Path<String>,
) -> Result<Response, StatusCode> {
    let (name, as_markdown) = name.strip_suffix(".md").map_or((&*name, false), |name| (name, true));
    let page = pages::all().find(|page| page.name == name).ok_or(StatusCode::NOT_FOUND)?;
    if as_markdown {
        let kind = [(header::CONTENT_TYPE, "text/markdown; charset=utf-8")];
        return Ok((kind, page.text()).into_response());
    }
    let html = page.html.get_or_init(|| {
        let base = state.public_url.base();
        let (title, nav, text) = (page.title(), nav(base, page.name), page.text());
        document(base, title, &nav, &rendered(base, &text), &contents(&text))
    });
    Ok(Html(html.clone()).into_response())
}

/// The page of an error code.
async fn error(
    State(state): State<AppState>,
    Path(word): Path<String>,
) -> Result<Html<Bytes>, StatusCode> {
    let code = Code::ALL.iter().find(|code| code.word() == word).ok_or(StatusCode::NOT_FOUND)?;
    let markdown = pages::of_error(*code).ok_or(StatusCode::NOT_FOUND)?;
    let base = state.public_url.base();
    Ok(Html(document(base, &word, &nav(base, "errors"), &rendered(base, &markdown), "")))
}

/// What the guide says about the words of `q`.
async fn search_page(State(state): State<AppState>, RawQuery(query): RawQuery) -> Html<Bytes> {
    let base = state.public_url.base();
    let query = query.unwrap_or_default();
    let asked = form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "q");
    let asked: String =
        asked.map(|(_, value)| value.chars().take(MAX_QUERY).collect()).unwrap_or_default();
    let mut body = format!("<h1>Search: {}</h1>", escaped(&asked));
    let found = search::search(&asked);
    if found.is_empty() {
        body.push_str("<p>Nothing in the guide has all of these words.</p>");
    }
    for search::Found { page, part, excerpt } in found {
        let (title, heading) = (escaped(page.title()), escaped(&part.heading));
        let place = if title == heading { title } else { format!("{title}: {heading}") };
        let (name, anchor, excerpt) = (page.name, &part.anchor, escaped(excerpt));
        let _ = write!(
            body,
            "<p><a href=\"{base}/guide/{name}#{anchor}\">{place}</a><br>{excerpt}</p>"
        );
    }
    Html(document(base, "Search", &nav(base, ""), &body, ""))
}

/// The list of pages for programs that read Markdown.
async fn llms(State(state): State<AppState>) -> impl IntoResponse {
    let url = state.public_url.url();
    let mut text = ABOUT.to_owned();
    for section in SECTIONS.iter() {
        let _ = write!(text, "\n## {}\n\n", section.title);
        for page in &section.pages {
            let (name, title, about) = (page.name, page.title(), page.about);
            let _ = writeln!(text, "- [{title}]({url}/guide/{name}.md): {about}");
        }
    }
    let _ = write!(
        text,
        "\n## Optional\n\n- [OpenAPI document]({url}/openapi.json): every operation and schema\n"
    );
    ([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], text)
}

async fn style() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE)
}

async fn script() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], SCRIPT)
}

/// A whole HTML document; `base` is the path before all routes.
fn document(base: &str, title: &str, nav: &str, body: &str, contents: &str) -> Bytes {
    let text = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
        <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
        <title>{title} · dueq</title><link rel=\"stylesheet\" href=\"{base}/guide/style.css\">\
        <script src=\"{base}/guide/copy.js\" defer></script></head>\n\
        <body>{nav}<main>{body}</main>{contents}</body></html>\n"
    );
    text.into()
}

fn search_form(base: &str) -> String {
    format!(
        "<form action=\"{base}/guide/search\" role=\"search\">\
        <input type=\"search\" name=\"q\" aria-label=\"Search the guide\" placeholder=\"Search\" maxlength=\"{MAX_QUERY}\" required></form>"
    )
}

/// Links to the headings below a page's title; nothing where there are none.
fn contents(markdown: &str) -> String {
    let parts = parts(markdown);
    let below: Vec<_> = parts.iter().filter(|part| [2, 3].contains(&part.level)).collect();
    if below.is_empty() {
        return String::new();
    }
    let mut text =
        "<aside aria-labelledby=\"on-this-page\"><h2 id=\"on-this-page\">On this page</h2><ul>"
            .to_owned();
    for part in below {
        let (level, anchor, heading) = (part.level, &part.anchor, escaped(&part.heading));
        let _ = write!(text, "<li class=\"h{level}\"><a href=\"#{anchor}\">{heading}</a></li>");
    }
    text + "</ul></aside>"
}

/// Links to all pages by section; the one named `current` is marked.
fn nav(base: &str, current: &str) -> String {
    let form = search_form(base);
    let mut text =
        format!("<nav aria-label=\"Guide\"><a href=\"{base}/guide\">dueq guide</a>{form}");
    for section in SECTIONS.iter() {
        let _ = write!(text, "<h2>{}</h2><ul>", section.title);
        for page in &section.pages {
            let mark = if page.name == current { " aria-current=\"page\"" } else { "" };
            let (name, title) = (page.name, page.title());
            let _ = write!(text, "<li><a href=\"{base}/guide/{name}\"{mark}>{title}</a></li>");
        }
        text.push_str("</ul>");
    }
    text + "</nav>"
}
