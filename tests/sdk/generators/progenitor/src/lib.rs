//! What progenitor makes of dueq's document, in OpenAPI 3.0, as it comes.

progenitor::generate_api!(spec = "../../../../openapi/openapi-3.0.json");
