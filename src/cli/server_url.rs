//! The URL of `--server`. What is no server is refused here: sent on, it would reach another port or host.

use http::Uri;

/// Checks the URL of a server. Adds the scheme if there is none, and drops slashes at the end.
pub fn checked(text: &str) -> Result<String, String> {
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let fits = |uri: &Uri| {
        let Some(authority) = uri.authority() else { return false };
        let (whole, host) = (authority.as_str(), authority.host());
        // `Uri` takes a port above 65535 for none and drops what follows a `#`, and in `http:8080` http is a host.
        (authority.port_u16().is_some() || whole == host)
            && !(host.is_empty() || whole.contains('@') || text.contains('#'))
            && (text.contains("://") || !["http", "https"].contains(&&*host.to_lowercase()))
            && uri.query().is_none()
    };
    let uri = url.parse().ok().filter(fits);
    match (uri.as_ref().and_then(Uri::scheme_str), url.split_once("://")) {
        (Some(scheme @ ("http" | "https")), Some((_, rest))) => {
            Ok(format!("{scheme}://{}", rest.trim_end_matches('/')))
        }
        _ => Err(format!(
            "--server {text:?}: expected one such as 127.0.0.1:8080 or https://dueq.example"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_an_http_url() {
        for (text, url) in [
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("https://dueq.example/", "https://dueq.example"),
            ("http://[::1]:1/queue", "http://[::1]:1/queue"),
            ("HTTPS://http:65535", "https://http:65535"),
        ] {
            assert_eq!(checked(text).as_deref(), Ok(url));
        }
        for bad in ["", "ftp://a", "http://", "http://u:p@a:1", "u@a", "http://a?b=c", "/", "a b"] {
            assert!(checked(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_wrong_port_or_scheme_is_not_taken_for_something_else() {
        for bad in [
            "127.0.0.1:99999",
            "[::1]:65536",
            "a:",
            "a:1#b",
            "http:127.0.0.1",
            "https:8080",
            "http//a",
            "HTTP:/a",
        ] {
            assert!(checked(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_server_without_a_scheme_is_asked_by_http() {
        for (text, url) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("[::1]:8080", "http://[::1]:8080"),
            ("localhost", "http://localhost"),
            ("dueq.example:80/queue", "http://dueq.example:80/queue"),
        ] {
            assert_eq!(checked(text).as_deref(), Ok(url));
        }
    }
}
