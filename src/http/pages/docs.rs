//! The page at `/docs`: Swagger UI with a start of dueq's own, which asks for an API key where the server has keys. The page
//! needs none itself, since it holds nothing; the document that it shows does.

use crate::AppState;
use axum::{
    Router,
    body::{Body, to_bytes},
    http::{HeaderValue, header},
    middleware::map_response,
    response::{IntoResponse, Response},
    routing::get,
};
use utoipa_swagger_ui::{Config, SwaggerUi};

const START: &str = include_str!("docs/start.js");
const STYLE: &str = include_str!("docs/style.css");

/// The page, its assets, and in place of two of them dueq's own.
pub(crate) fn routes() -> Router<AppState> {
    let page = SwaggerUi::new("/docs").config(Config::new(["/openapi.json"]));
    Router::new()
        .route("/docs/swagger-initializer.js", get(start))
        .route("/docs/index.css", get(style))
        .merge(Router::from(page).layer(map_response(compressed)))
}

/// Says that an asset is compressed where a release has it so. Whatever runs the page can read it.
async fn compressed(response: Response) -> Response {
    const GZIP: [u8; 2] = [0x1f, 0x8b];
    let (mut head, body) = response.into_parts();
    // The page's own assets, which are in memory.
    let Ok(bytes) = to_bytes(body, usize::MAX).await else { return head.into_response() };
    if bytes.starts_with(&GZIP) {
        head.headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    Response::from_parts(head, Body::from(bytes))
}

async fn start() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], START)
}

async fn style() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE)
}
