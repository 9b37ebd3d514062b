//! Every `code` that a problem may have, by its status: what the document names, so that clients know what to look for.

/// The codes of one status. A client bears one that is not among them: more may come.
pub(in crate::http) struct Codes {
    pub status: u16,
    /// Those that hardly any operation lacks: they say something of the request as such, or of who sent it.
    pub general: &'static [&'static str],
    /// Those that say something of what was asked for.
    pub own: &'static [&'static str],
}

impl Codes {
    /// All of them.
    pub fn all(&self) -> impl Iterator<Item = &'static str> {
        self.general.iter().chain(self.own).copied()
    }
}

const fn codes(
    status: u16,
    general: &'static [&'static str],
    own: &'static [&'static str],
) -> Codes {
    Codes { status, general, own }
}

/// Every code, by status.
pub(in crate::http) const CODES: &[Codes] = &[
    codes(
        400,
        &[
            "malformed_path",
            "malformed_body",
            "malformed_json",
            "invalid_message_id",
            "invalid_topic_name",
            "invalid_schedule_name",
            "invalid_key",
        ],
        &[],
    ),
    codes(401, &["unauthorized"], &[]),
    codes(403, &["host_not_allowed"], &["topic_reserved"]),
    codes(
        404,
        &[],
        &["route_not_found", "message_not_found", "topic_not_found", "schedule_not_found"],
    ),
    codes(405, &["method_not_allowed"], &[]),
    codes(408, &["request_timeout"], &[]),
    codes(
        409,
        &[],
        &[
            "lease_lost",
            "duplicate_key",
            "message_leased",
            "message_dead",
            "message_not_dead",
            "message_acked",
            "topic_is_pushed",
            "topic_not_empty",
        ],
    ),
    codes(412, &[], &["revision_mismatch"]),
    codes(413, &["body_too_large"], &["payload_too_large"]),
    codes(414, &["uri_too_long"], &[]),
    codes(415, &["unsupported_media_type"], &[]),
    codes(
        422,
        &["invalid_input"],
        &[
            "idempotency_key_reused",
            "callback_url_missing",
            "callback_address_refused",
            "topic_not_pushed",
            "secret_required",
        ],
    ),
    codes(429, &[], &["topic_full"]),
    codes(431, &["headers_too_large"], &[]),
    codes(500, &["internal"], &[]),
    codes(503, &[], &["redis_unavailable", "outcome_unknown", "overloaded", "not_ready"]),
    codes(507, &[], &["topics_exhausted"]),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::{collections::BTreeSet, fs, path::Path};

    /// What stands before a code where it is given to a problem, spaces apart.
    const BEFORE: [&str; 6] = [
        "malformed(",
        ".named(",
        "Problem::new(status,",
        "NOT_FOUND=>(",
        "METHOD_NOT_ALLOWED=>{(",
        "INTERNAL_SERVER_ERROR=>(",
    ];

    /// The codes that this file of Rust gives to problems.
    fn codes_given(text: &str, found: &mut BTreeSet<String>) {
        let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let parts: Vec<_> = text.split('"').collect();
        for (before, word) in parts.iter().zip(&parts[1..]) {
            let status = before.rsplit_once("StatusCode::").and_then(|(_, s)| s.strip_suffix(','));
            let after_status =
                status.is_some_and(|s| s.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'));
            let is_word = word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            if is_word && (after_status || BEFORE.iter().any(|end| before.ends_with(end))) {
                found.insert((*word).to_owned());
            }
        }
    }

    fn walk(dir: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(&path, found);
            } else if path.file_name().is_some_and(|name| name != "codes.rs") {
                codes_given(&fs::read_to_string(&path).unwrap(), found);
            }
        }
    }

    #[test]
    fn every_code_of_the_sources_is_here_and_no_other() {
        let mut found = BTreeSet::new();
        walk(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/http"), &mut found);
        let here = CODES.iter().flat_map(Codes::all).map(str::to_owned);
        assert_eq!(found, here.collect());
    }

    #[test]
    fn each_code_stands_in_one_place() {
        let mut seen = BTreeSet::new();
        for code in CODES.iter().flat_map(Codes::all) {
            assert!(seen.insert(code), "{code}");
        }
    }
}
