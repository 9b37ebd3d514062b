//! URLs that can be called, as far as their text shows.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use url::Url;

/// Characters of a callback's URL, at most.
pub const MAX_URL_CHARS: usize = 2_048;

/// A URL that can be called: http or https, a host, no user, no blanks or control characters. It is kept as it was given;
/// [`CallUrl::url`] is what is dialled. It is parsed when that is first asked for, once for all clones: a call asks several times.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct CallUrl(Arc<(String, OnceLock<Option<Url>>)>);

impl PartialEq for CallUrl {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for CallUrl {}

/// What was stored, unchecked.
impl From<String> for CallUrl {
    fn from(text: String) -> Self {
        Self(Arc::new((text, OnceLock::new())))
    }
}

impl From<CallUrl> for String {
    fn from(url: CallUrl) -> Self {
        url.as_str().to_owned()
    }
}

/// Why a text is no URL that can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCallUrl {
    /// Too long.
    #[error("must have at most 2048 characters")]
    TooLong,
    /// A host that no DNS name can be.
    #[error("must have a host of at most 259 characters with its port")]
    Host,
    /// A blank, a control character or a backslash, which readers of URLs take differently.
    #[error("must not contain spaces, control characters or backslashes")]
    Character,
    /// It cannot be parsed.
    #[error("must be an absolute http or https URL with a host")]
    Syntax,
    /// A user or a password.
    #[error("must not contain a user or password")]
    Userinfo,
}

/// Characters of a host and its port, at most: DNS names have 253.
pub const MAX_HOST_CHARS: usize = 259;

/// Whom calls are for: a name or an address as it is dialled, and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallHost(String);

/// Why a text is no host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a host has a name or an address and a port, such as example.com:443 or [2001:db8::1]:80")]
pub struct InvalidCallHost;

impl CallHost {
    /// Checks a text and writes it as [`CallUrl::host`] does.
    pub fn parse(text: &str) -> Result<Self, InvalidCallHost> {
        let (_, port) = text.rsplit_once(':').ok_or(InvalidCallHost)?;
        let is_port = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
        if !is_port || text.contains(['/', '?', '#', '%']) {
            return Err(InvalidCallHost);
        }
        let url = CallUrl::parse(&format!("http://{text}/")).map_err(|_| InvalidCallHost)?;
        Some(url.host())
            .filter(|host| host.len() <= MAX_HOST_CHARS)
            .map(Self)
            .ok_or(InvalidCallHost)
    }

    /// As it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl CallUrl {
    /// Checks a text.
    pub fn parse(text: &str) -> Result<Self, InvalidCallUrl> {
        if text.chars().count() > MAX_URL_CHARS {
            return Err(InvalidCallUrl::TooLong);
        }
        if text.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return Err(InvalidCallUrl::Character);
        }
        let authority = text.split_once("://").map(|(_, rest)| rest);
        let host = authority.and_then(|rest| rest.split(['/', '?', '#']).next());
        // An empty user (`http://@host/`) is one too.
        if host.is_some_and(|host| host.contains('@')) {
            return Err(InvalidCallUrl::Userinfo);
        }
        // The work for a name that is not ASCII grows with the square of its length.
        if host.is_some_and(|host| host.chars().count() > MAX_HOST_CHARS) {
            return Err(InvalidCallUrl::Host);
        }
        let url = Url::parse(text).map_err(|_| InvalidCallUrl::Syntax)?;
        // Hosts such as a`b are taken by the one standard and not by the other.
        if url.as_str().parse::<http::Uri>().is_err() {
            return Err(InvalidCallUrl::Syntax);
        }
        // The parser mends `http:example.com` and `http:///example.com`; nobody means those.
        let begins = authority.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'));
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() || !begins {
            return Err(InvalidCallUrl::Syntax);
        }
        Ok(Self(Arc::new((text.to_owned(), Some(url).into()))))
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.0.0
    }

    /// Whom it calls: name or address as it is dialled, and port; empty where what was stored is no URL.
    pub fn host(&self) -> String {
        let Ok(url) = self.url() else { return String::new() };
        let port = url.port_or_known_default().unwrap_or(0);
        format!("{}:{port}", url.host_str().unwrap_or_default())
    }

    /// Scheme, host and port: whom secrets are stored for. `None` where what was stored is no URL.
    pub fn origin(&self) -> Option<String> {
        self.url().ok().map(|url| url.origin().ascii_serialization())
    }

    /// The parsed URL. Errors: where what was stored is none (any more), which only a hand in Redis can bring about.
    pub fn url(&self) -> Result<&Url, InvalidCallUrl> {
        let (text, parsed) = &*self.0;
        parsed.get_or_init(|| Url::parse(text).ok()).as_ref().ok_or(InvalidCallUrl::Syntax)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_written_as_that_of_a_url() {
        for (text, host) in [
            ("example.com:443", "example.com:443"),
            ("EXAMPLE.com:80", "example.com:80"),
            ("bücher.example:0443", "xn--bcher-kva.example:443"),
            ("127.1:8080", "127.0.0.1:8080"),
            ("[2001:DB8:0::1]:80", "[2001:db8::1]:80"),
        ] {
            assert_eq!(CallHost::parse(text).as_ref().map(CallHost::as_str), Ok(host), "{text}");
            let url = CallUrl::parse(&format!("http://{host}/path")).unwrap();
            assert_eq!(url.host(), host);
        }
        let long = format!("{}:80", "a".repeat(MAX_HOST_CHARS));
        for bad in [
            "",
            ":",
            ":80",
            "example.com",
            "example.com:",
            "example.com:x",
            "example.com:65536",
            "example.com:+80",
            "http://example.com:80",
            "example.com:80/",
            "a b:80",
            "a@b:80",
            "2001:db8::1",
            "[2001:db8::1]",
            "[::1:80",
            "a%2fb:80",
            "a?b:80",
            "a#b:80",
            "é\0:80",
            &long,
        ] {
            assert_eq!(CallHost::parse(bad), Err(InvalidCallHost), "{bad}");
        }
    }

    #[test]
    fn urls_that_cannot_be_called_are_refused_with_their_reason() {
        use InvalidCallUrl::{Character, Host, Syntax, TooLong, Userinfo};
        for good in
            ["http://example.com", "HTTPS://Example.com:8443/a?b=c#d", "http://[2001:db8::1]/"]
        {
            assert_eq!(CallUrl::parse(good).unwrap().as_str(), good);
        }
        let long = format!("http://example.com/{}", "a".repeat(2_048));
        // Characters that differ cost most.
        let wide: String = ('\u{4e00}'..).take(900).collect();
        let wide = format!("http://{wide}.{wide}/");
        let began = std::time::Instant::now();
        for (bad, why) in [
            (wide.as_str(), Host),
            ("", Syntax),
            ("example.com", Syntax),
            ("ftp://example.com", Syntax),
            ("http:example.com", Syntax),
            ("http:///example.com", Syntax),
            ("http://", Syntax),
            ("http://a`b/", Syntax),
            ("http://user@example.com", Userinfo),
            ("http://@example.com", Userinfo),
            ("http://a:b@example.com/", Userinfo),
            ("http://example.com/a b", Character),
            ("http://exa\tmple.com/", Character),
            ("http:\\\\example.com", Character),
            (long.as_str(), TooLong),
        ] {
            assert_eq!(CallUrl::parse(bad), Err(why), "{bad}");
        }
        assert!(began.elapsed() < std::time::Duration::from_millis(100));
    }
}
