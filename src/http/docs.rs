//! The page at `/docs`: Swagger UI with a start of dueq's own, which asks for an API key where the server has keys. The page
//! needs none itself, since it holds nothing; the document that it shows does.

use super::AppState;
use axum::{Router, http::header, response::IntoResponse, routing::get};
use utoipa_swagger_ui::{Config, SwaggerUi};

const START: &str = include_str!("docs/start.js");
const STYLE: &str = include_str!("docs/style.css");

/// The page, its assets, and in place of two of them dueq's own.
pub(super) fn routes() -> Router<AppState> {
    let page = SwaggerUi::new("/docs").config(Config::new(["/openapi.json"]));
    Router::new()
        .route("/docs/swagger-initializer.js", get(start))
        .route("/docs/index.css", get(style))
        .merge(page)
}

async fn start() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/javascript; charset=utf-8")], START)
}

async fn style() -> impl IntoResponse {
    ([(header::CONTENT_TYPE, "text/css; charset=utf-8")], STYLE)
}
