//! The dashboard at `/ui`: one page, its script and its style, as `src/ui` was built into `src/ui/dist`. The page holds
//! nothing and needs no key; whatever it shows it reads through the API, like any other client. Assets have the hash of
//! their content in their name, so that browsers keep them for good and a new version is another file.

use super::etag;
use crate::AppState;
use axum::{
    Router,
    extract::{Path, State},
    http::{HeaderMap, HeaderName, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use bytes::Bytes;
use std::sync::{LazyLock, OnceLock};

/// What only dueq's own pages send: a foreign page cannot.
pub(crate) const HEADER: HeaderName = HeaderName::from_static("dueq-ui");

/// A file of the dashboard as it is served.
struct Asset {
    /// Its stem, the beginning of its content's SHA-256, and its ending.
    name: String,
    content_type: &'static str,
    content: &'static [u8],
}

impl Asset {
    fn new(stem: &str, ending: &str, content_type: &'static str, content: &'static [u8]) -> Self {
        Self { name: format!("{stem}-{}.{ending}", etag::hash(content)), content_type, content }
    }
}

/// The script, the style, the icon, and the licenses of what the script contains.
static ASSETS: LazyLock<[Asset; 4]> = LazyLock::new(|| {
    let script = include_bytes!("../../ui/dist/ui.js");
    let style = include_bytes!("../../ui/dist/ui.css");
    let icon = include_bytes!("../../ui/dist/icon.svg");
    let licenses = include_bytes!("../../ui/dist/licenses.txt");
    [
        Asset::new("ui", "js", "text/javascript; charset=utf-8", script),
        Asset::new("ui", "css", "text/css; charset=utf-8", style),
        Asset::new("icon", "svg", "image/svg+xml", icon),
        Asset::new("licenses", "txt", "text/plain; charset=utf-8", licenses),
    ]
});

/// The routes of the dashboard. Its screens are fragments of one page's URL.
pub(crate) fn routes() -> Router<AppState> {
    Router::new()
        .route("/ui", get(page))
        .route("/ui/", get(page))
        .route("/ui/assets/{name}", get(asset))
}

async fn page(State(state): State<AppState>, headers: HeaderMap) -> Response {
    static PAGE: OnceLock<(String, Bytes)> = OnceLock::new();
    let (tag, html) = PAGE.get_or_init(|| {
        let html = document(state.public_url.base(), state.hide_payloads);
        (etag::of(html.as_bytes()), html.into())
    });
    // The page names the assets of this version, so browsers ask for it each time.
    answer(&headers, tag, "no-cache", "text/html; charset=utf-8", html.clone())
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    let Some(asset) = ASSETS.iter().find(|asset| asset.name == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let forever = "public, max-age=31536000, immutable";
    let content = Bytes::from_static(asset.content);
    answer(&headers, &format!("\"{}\"", asset.name), forever, asset.content_type, content)
}

/// The content, or 304 where the browser has it.
fn answer(
    asked: &HeaderMap,
    tag: &str,
    keep: &'static str,
    content_type: &'static str,
    content: Bytes,
) -> Response {
    let headers = [(header::ETAG, tag), (header::CACHE_CONTROL, keep)];
    if etag::is_known(asked, tag.as_bytes()) {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    (headers, [(header::CONTENT_TYPE, content_type)], content).into_response()
}

/// The page below this base path, with the settings that concern it.
fn document(base: &str, hide_payloads: bool) -> String {
    let [script, style, icon, _] = &*ASSETS;
    let at = |asset: &Asset| format!("{base}/ui/assets/{}", asset.name);
    let (script, style, icon) = (at(script), at(style), at(icon));
    let hides = if hide_payloads { " data-hide-payloads" } else { "" };
    format!(
        "<!doctype html>\n<html lang=\"en\" data-base=\"{base}\"{hides}><head><meta charset=\"utf-8\">\
        <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
        <meta name=\"color-scheme\" content=\"light dark\"><title>dueq</title>\
        <link rel=\"icon\" href=\"{icon}\"><link rel=\"stylesheet\" href=\"{style}\">\
        <script type=\"module\" src=\"{script}\"></script></head>\n\
        <body><div id=\"app\"></div><noscript>The dashboard needs JavaScript. The API does not: \
        see <a href=\"{base}/guide\">the guide</a>.</noscript></body></html>\n"
    )
}
