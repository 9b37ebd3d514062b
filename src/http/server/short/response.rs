//! The heads of answers, as hyper writes them.

use axum::http::{StatusCode, header, response::Parts};
use std::{
    cell::RefCell,
    io::Write,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Returns the head of an answer with a body of `length` bytes.
pub(super) fn head(parts: &Parts, length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    out.extend_from_slice(b"HTTP/1.1 ");
    out.extend_from_slice(parts.status.as_str().as_bytes());
    out.push(b' ');
    out.extend_from_slice(parts.status.canonical_reason().unwrap_or("<none>").as_bytes());
    out.extend_from_slice(b"\r\n");
    for (name, value) in &parts.headers {
        out.extend_from_slice(name.as_str().as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value.as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    let has_length = parts.headers.contains_key(header::CONTENT_LENGTH);
    if !has_length && parts.status != StatusCode::NO_CONTENT {
        // A vector takes all that is written.
        let _ = write!(out, "content-length: {length}\r\n");
    }
    push_date(&mut out);
    out.extend_from_slice(b"\r\n");
    out
}

/// Writes the date, which changes once a second.
fn push_date(out: &mut Vec<u8>) {
    thread_local! {
        static DATE: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    DATE.with_borrow_mut(|(at, line)| {
        if *at != now {
            let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(now));
            (*at, *line) = (now, format!("date: {date}\r\n"));
        }
        out.extend_from_slice(line.as_bytes());
    });
}
