//! The URL under which clients know this server behind a proxy: its base path is taken off requests, which
//! come with or without it, and put before what dueq links to.

use axum::http::{HeaderValue, Uri, uri::PathAndQuery};
use std::str::FromStr;

/// First segments of dueq's own routes. A base path that begins with one would hide it.
const OWN: [&str; 18] = [
    "callbacks",
    "docs",
    "guide",
    "healthz",
    "instances",
    "keys",
    "lease",
    "llms.txt",
    "messages",
    "metrics",
    "openapi-3.0.json",
    "openapi.json",
    "readyz",
    "schedules",
    "session",
    "sqs",
    "topics",
    "ui",
];

/// A URL such as `https://q.example/dueq`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublicUrl {
    /// Scheme and authority.
    origin: String,
    /// The path without a slash at its end: empty, or it begins with one.
    base: String,
}

impl FromStr for PublicUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || "expected a URL such as https://q.example or https://q.example/dueq".to_owned();
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let (Some(scheme), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(wrong());
        };
        // As browsers say it in `Origin`.
        let host = authority.host().to_ascii_lowercase();
        let port = authority.port_u16();
        // `Uri` takes a port above 65535 for none, and drops what follows a `#`.
        let plain = port.is_some() || authority.as_str().eq_ignore_ascii_case(&host);
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
        if !["http", "https"].contains(&scheme)
            || host.is_empty()
            || !host.bytes().all(is_name)
            || authority.as_str().contains('@')
            || !plain
            || uri.query().is_some()
            || text.contains('#')
        {
            return Err(wrong());
        }
        let base = uri.path().trim_end_matches('/');
        let good = |segment: &str| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
            segment.bytes().all(plain) && !["", ".", ".."].contains(&segment)
        };
        let mut segments = base.split('/').skip(1);
        if !segments.clone().all(good) {
            return Err("its path may have letters, digits and -._~ between slashes".to_owned());
        }
        if let Some(first) = segments.next().filter(|first| OWN.contains(first)) {
            return Err(format!(
                "its path must not begin with /{first}, which is a route of dueq's own"
            ));
        }
        let is_usual = matches!((scheme, port), ("http", Some(80)) | ("https", Some(443)));
        let port = port.filter(|_| !is_usual).map(|port| format!(":{port}")).unwrap_or_default();
        Ok(Self { origin: format!("{scheme}://{host}{port}"), base: base.to_owned() })
    }
}

impl PublicUrl {
    /// Scheme and authority, such as `https://q.example`; empty if there is no public URL.
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The path before all routes: empty, or such as `/dueq`.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// Whether clients come by https.
    pub fn is_https(&self) -> bool {
        self.origin.starts_with("https:")
    }

    /// Scheme, host and base path, such as `https://q.example/dueq`.
    pub fn url(&self) -> String {
        format!("{}{}", self.origin, self.base)
    }

    /// Takes the base path off a request that has it.
    pub(crate) fn strip(&self, uri: &mut Uri) {
        let Some(rest) = uri.path().strip_prefix(&*self.base).filter(|_| !self.base.is_empty())
        else {
            return;
        };
        let path = match rest.as_bytes().first() {
            None => "/",
            Some(b'/') => rest,
            Some(_) => return,
        };
        let query = uri.query().map(|query| format!("?{query}")).unwrap_or_default();
        let Ok(path) = PathAndQuery::from_maybe_shared(format!("{path}{query}")) else { return };
        let mut parts = std::mem::take(uri).into_parts();
        parts.path_and_query = Some(path);
        *uri = Uri::from_parts(parts).unwrap_or_default();
    }

    /// What a `Location` of this path has to be for clients: within this server (`redirect`) a path, otherwise a URL. `None` if it
    /// is that already.
    pub(crate) fn location(&self, path: &HeaderValue, redirect: bool) -> Option<HeaderValue> {
        if self.origin.is_empty() && self.base.is_empty() {
            return None;
        }
        let path = path.to_str().ok().filter(|path| path.starts_with('/'))?;
        let origin = if redirect { "" } else { &self.origin };
        HeaderValue::try_from(format!("{origin}{}{path}", self.base)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_url_is_an_origin_and_a_base_path() {
        for (text, url, base) in [
            ("https://q.example", "https://q.example", ""),
            ("https://q.example/", "https://q.example", ""),
            ("http://q.example:8080/dueq/", "http://q.example:8080/dueq", "/dueq"),
            ("https://[::1]/a/b-c.d_~1", "https://[::1]/a/b-c.d_~1", "/a/b-c.d_~1"),
            ("https://Q.Example:443/a", "https://q.example/a", "/a"),
            ("http://q.example:80", "http://q.example", ""),
            ("http://q.example:443", "http://q.example:443", ""),
        ] {
            let public: PublicUrl = text.parse().unwrap();
            assert_eq!((public.url().as_str(), public.base()), (url, base));
            assert_eq!(public.is_https(), text.starts_with("https"));
        }
        for bad in [
            "",
            "q.example",
            "/dueq",
            "ftp://q.example",
            "https://",
            "https://u:p@q.example",
            "https://u@q.example:1",
            "https://*/a",
            "https://q'x;$(id).example",
            "https://q.example:99999",
            "https://q.example/?a",
            "https://q.example/#a",
            "https://q.example/a//b",
            "https://q.example/a/../b",
            "https://q.example/%61",
            "https://q.example/topics",
            "https://q.example/guide/x",
        ] {
            assert!(bad.parse::<PublicUrl>().is_err(), "{bad}");
        }
    }

    #[test]
    fn the_base_path_is_taken_off_as_a_whole() {
        let public: PublicUrl = "https://q.example/dueq".parse().unwrap();
        for (asked, served) in [
            ("/dueq/topics?limit=1", "/topics?limit=1"),
            ("/dueq", "/"),
            ("/dueq?a", "/?a"),
            ("/dueq/", "/"),
            ("/topics", "/topics"),
            ("/dueqs/topics", "/dueqs/topics"),
            ("/dueq/dueq/topics", "/dueq/topics"),
            ("/dueq/topics/a%2Fb", "/topics/a%2Fb"),
            ("http://q.example/dueq/topics", "http://q.example/topics"),
        ] {
            let mut uri: Uri = asked.parse().unwrap();
            public.strip(&mut uri);
            assert_eq!(uri.to_string(), served);
        }
        let mut uri: Uri = "/topics".parse().unwrap();
        PublicUrl::default().strip(&mut uri);
        assert_eq!(uri, "/topics");
    }

    #[test]
    fn no_route_is_hidden_by_a_base_path() {
        let (_, document) = crate::routes_and_document();
        for path in document.paths.paths.keys() {
            let first = path.split('/').nth(1).unwrap();
            assert!(OWN.contains(&first), "{first} is not among the routes of public_url.rs");
        }
    }
}
