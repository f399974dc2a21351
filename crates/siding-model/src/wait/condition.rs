//! The conditions of a wait, and their text form.

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The valid forms of a condition, for error messages.
const FORMS: &str = "exit, output:REGEX, port:N, http:URL or file:PATH";

/// A condition that a task can satisfy. The JSON form of a condition is its text form, such as
/// `port:8080`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Condition {
    /// The task has ended: its process tree is empty, or it was released.
    Exit,
    /// A line of the output matches this regular expression.
    Output(String),
    /// A process of the tree listens on this TCP port.
    Port(NonZeroU16),
    /// A GET request for this URL returns a status of 2xx or 3xx.
    Http(HttpUrl),
    /// The file exists. A relative path is resolved in the task's directory.
    File(String),
}

/// The reason why a text is not a condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCondition {
    /// The text has none of the known forms.
    #[error("`{0}` is not a condition; write {FORMS}")]
    Unknown(String),
    /// The argument after the colon is missing.
    #[error("`{0}:` lacks its value; write {FORMS}")]
    Empty(&'static str),
    /// The argument of `port:` is not a port number.
    #[error("`{0}` is not a port; write a number from 1 to 65535, as in `port:8080`")]
    Port(String),
    /// The URL cannot be used for a request.
    #[error(
        "`{url}` is not a usable URL: {why}; write one like `http:http://localhost:8080/health`"
    )]
    Url {
        /// The rejected URL as it was passed, not escaped.
        url: String,
        /// The reason why the URL cannot be used.
        why: &'static str,
    },
    /// The URL requires TLS, which is not supported.
    #[error(
        "`{0}`: https is not supported; wait for the server's port (`port:N`) or for a line of its \
         output (`output:REGEX`), or use http"
    )]
    Https(String),
}

impl FromStr for Condition {
    type Err = BadCondition;

    fn from_str(text: &str) -> Result<Self, BadCondition> {
        if text == "exit" {
            return Ok(Self::Exit);
        }
        let (form, rest) =
            text.split_once(':').ok_or_else(|| BadCondition::Unknown(text.to_owned()))?;
        let require_argument = |form: &'static str| {
            if rest.is_empty() { Err(BadCondition::Empty(form)) } else { Ok(rest.to_owned()) }
        };
        match form {
            "output" => require_argument("output").map(Self::Output),
            "file" => require_argument("file").map(Self::File),
            "port" => require_argument("port")?
                .parse()
                .map(Self::Port)
                .map_err(|_| BadCondition::Port(rest.to_owned())),
            // A plain URL such as `http://localhost:8080` is accepted without the prefix `http:`.
            "http" if rest.starts_with("//") => text.parse().map(Self::Http),
            "http" => require_argument("http")?.parse().map(Self::Http),
            "https" => Err(BadCondition::Https(text.to_owned())),
            _ => Err(BadCondition::Unknown(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Condition {
    type Error = BadCondition;

    fn try_from(text: String) -> Result<Self, BadCondition> {
        text.parse()
    }
}

impl From<Condition> for String {
    fn from(condition: Condition) -> Self {
        condition.to_string()
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit => f.write_str("exit"),
            Self::Output(pattern) => write!(f, "output:{pattern}"),
            Self::Port(port) => write!(f, "port:{port}"),
            // A URL is written without the prefix `http:`, which `parse` does not require.
            Self::Http(url) => write!(f, "{url}"),
            Self::File(path) => write!(f, "file:{path}"),
        }
    }
}

/// A URL with the scheme `http`, split into the parts that a request needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpUrl {
    text: String,
    host: String,
    port: u16,
    target: String,
}

impl HttpUrl {
    /// Returns the host to connect to, without the brackets of an IPv6 address.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the port, by default 80.
    #[must_use]
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Returns the complete request, terminated by an empty line (RFC 9112).
    #[must_use]
    pub fn http_request(&self) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let Self { target, port, .. } = self;
        format!(
            "GET {target} HTTP/1.1\r\nHost: {host}:{port}\r\nUser-Agent: siding\r\n\
             Accept: */*\r\nConnection: close\r\n\r\n"
        )
    }
}

impl fmt::Display for HttpUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for HttpUrl {
    type Err = BadCondition;

    fn from_str(text: &str) -> Result<Self, BadCondition> {
        let bad = |why| BadCondition::Url { url: text.to_owned(), why };
        if text.starts_with("https://") {
            return Err(BadCondition::Https(text.to_owned()));
        }
        let rest =
            text.strip_prefix("http://").ok_or_else(|| bad("it does not start with `http://`"))?;
        // Only graphic ASCII characters are allowed in a request target. A blank or line break
        // would end the target early and let the text continue the request.
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(bad("it contains a blank, a control or a non-ASCII character"));
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let (authority, target) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err(bad("a user name is not supported"));
        }
        let (host, port) =
            split_port(authority).ok_or_else(|| bad("its port is not a number from 1 to 65535"))?;
        if host.is_empty() {
            return Err(bad("it has no host"));
        }
        let slash = if target.starts_with('/') { "" } else { "/" };
        Ok(Self {
            text: text.to_owned(),
            host: host.to_owned(),
            port,
            target: format!("{slash}{target}"),
        })
    }
}

/// Splits `host:port`, `host`, `[address]:port` or `[address]` into the host and the port, by
/// default 80. `None` for any other form, and for an invalid port.
fn split_port(authority: &str) -> Option<(&str, u16)> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(inner) => inner.split_once(']')?,
        None => authority.find(':').map_or((authority, ""), |at| authority.split_at(at)),
    };
    match rest.strip_prefix(':') {
        None if rest.is_empty() => Some((host, 80)),
        None => None,
        Some(port) => port.parse().ok().filter(|port| *port != 0).map(|port| (host, port)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_condition_round_trips() {
        for text in [
            "exit",
            "output:^listening on :[0-9]+$",
            "output::",
            "port:1",
            "port:65535",
            "http://localhost/",
            "http://[::1]:8080/a?b=c#d",
            "file:target/out: put",
            "file:/tmp/x",
        ] {
            let condition: Condition = text.parse().expect(text);
            assert_eq!(condition.to_string(), text);
        }
        let prefixed: Condition = "http:http://127.0.0.1:3000/up".parse().expect("a URL");
        assert_eq!(prefixed.to_string(), "http://127.0.0.1:3000/up");
    }

    #[test]
    fn errors_say_what_to_write() {
        for (text, expected) in [
            ("", "`` is not a condition; write exit, output:REGEX"),
            ("exited", "`exited` is not a condition"),
            ("ports:80", "write exit, output:REGEX, port:N"),
            ("output:", "`output:` lacks its value"),
            ("file:", "`file:` lacks"),
            ("port:", "`port:` lacks"),
            ("port:0", "`0` is not a port; write a number from 1 to 65535"),
            ("port:65536", "is not a port"),
            ("port:-1", "is not a port"),
            ("http:", "`http:` lacks"),
            ("http:localhost", "it does not start with `http://`"),
            ("http:http://", "it has no host"),
            ("http:http://a:b/", "its port is not a number"),
            ("http:http://a:0/", "its port is not a number"),
            ("http:http://[::1]x/", "its port is not a number"),
            ("http:http://a/ b", "it contains a blank"),
            ("http:http://a/\r\nX: y", "it contains a blank"),
            ("http:http://me@a/", "a user name"),
            ("https://a/", "https is not supported; wait for the server's port"),
            ("http:https://a/", "https is not supported"),
        ] {
            let error = text.parse::<Condition>().expect_err(text).to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn the_http_request_matches_the_url() {
        let request = |text: &str| text.parse::<HttpUrl>().expect(text).http_request();
        assert!(
            request("http://a:8080/b?c#d").starts_with("GET /b?c HTTP/1.1\r\nHost: a:8080\r\n")
        );
        assert!(request("http://a?b").starts_with("GET /?b HTTP/1.1\r\nHost: a:80\r\n"));
        assert!(request("http://[::1]").starts_with("GET / HTTP/1.1\r\nHost: [::1]:80\r\n"));
        assert!(request("http://a").ends_with("\r\n\r\n"));
        let url: HttpUrl = "http://[::1]:9".parse().expect("a URL");
        assert_eq!((url.host(), url.port()), ("::1", 9));
    }
}
