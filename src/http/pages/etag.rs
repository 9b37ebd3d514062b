//! Entity tags made of the content, and whether a client has it already.

use axum::http::{HeaderMap, header};
use ring::digest::{SHA256, digest};

/// The first 64 bits of the SHA-256, in hexadecimal.
pub(crate) fn hash(content: &[u8]) -> String {
    hex::encode(&digest(&SHA256, content).as_ref()[..8])
}

/// The tag of this content.
pub(crate) fn of(content: &[u8]) -> String {
    format!("\"{}\"", hash(content))
}

/// Whether the request's `If-None-Match` names this tag.
pub(crate) fn is_known(asked: &HeaderMap, tag: &[u8]) -> bool {
    let known = asked.get_all(header::IF_NONE_MATCH).iter();
    let mut known = known.filter_map(|value| value.to_str().ok()).flat_map(|tags| tags.split(','));
    known.any(|known| known.trim().trim_start_matches("W/").as_bytes() == tag)
}
