//! Parsing of the requests that a client sends to an HTTP proxy (RFC 9110 and 9112).

use super::remote_hosts::split_port;

/// A parsed request header, which ends at the empty line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProxyRequest {
    /// The target host as the client wrote it, which is untrusted text of a task.
    pub host: String,
    /// The target port: 80 if the client specified none in a request to forward.
    pub port: u16,
    /// Whether to open a tunnel or to forward the request.
    pub kind: ProxyRequestKind,
}

/// The kind of a proxy request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProxyRequestKind {
    /// A request to open a tunnel to the target host (`CONNECT`).
    Tunnel,
    /// A request to forward, with the header to send to the target host.
    Forward(Vec<u8>),
}

/// Maximum length of a request's header, in bytes.
pub const MAX_HEADER_BYTES: usize = 16 << 10;
/// Maximum number of fields of a header. Clients send up to about twenty.
const MAX_HEADER_FIELDS: usize = 128;

/// Headers that apply only to the connection between a client and its proxy, and are not forwarded.
const HOP_BY_HOP_HEADERS: [&str; 4] =
    ["connection", "proxy-connection", "keep-alive", "proxy-authorization"];
/// The header by which a server with several sites selects the requested site.
const HOST_HEADER: &str = "host";

impl ProxyRequest {
    /// Returns the length of a request's header, or `None` while the header is incomplete.
    #[must_use]
    pub fn header_len(bytes: &[u8]) -> Option<usize> {
        bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
    }

    /// Parses the header of a request, or returns `None` if it is not a valid proxy request.
    ///
    /// A forwarded request asks the host to close the connection: the proxy checks only the first
    /// request on a connection, so a second one could be for another host. To prevent requests for
    /// another host, `Host` is also set to the target, and a header that servers may interpret in
    /// several ways is rejected (RFC 9112, 2.2 and 5).
    #[must_use]
    pub fn parse_header(head: &[u8]) -> Option<Self> {
        let mut fields = [httparse::EMPTY_HEADER; MAX_HEADER_FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        let parsed = request.parse(head).ok()?;
        if parsed != httparse::Status::Complete(head.len()) || has_bare_line_feed(head) {
            return None;
        }
        let (method, target) = (request.method?, request.path?);
        if method == "CONNECT" {
            let (host, port) = split_port(target)?;
            return Some(Self {
                host: host.to_owned(),
                port: port?,
                kind: ProxyRequestKind::Tunnel,
            });
        }
        let (scheme, rest) = target.split_at_checked("http://".len())?;
        if !scheme.eq_ignore_ascii_case("http://") {
            return None;
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let authority = authority.rsplit('@').next()?;
        let (host, port) = split_port(authority)?;
        let slash = if path.starts_with('/') { "" } else { "/" };
        let version = request.version?;
        let line = format!("{method} {slash}{path} HTTP/1.{version}\r\nHost: {authority}\r\n");
        let mut forwarded = line.into_bytes();
        for field in request.headers {
            let replaced = |own: &&str| field.name.eq_ignore_ascii_case(own);
            if !HOP_BY_HOP_HEADERS.iter().chain([&HOST_HEADER]).any(replaced) {
                forwarded.extend_from_slice(field.name.as_bytes());
                forwarded.extend_from_slice(b": ");
                forwarded.extend_from_slice(field.value);
                forwarded.extend_from_slice(b"\r\n");
            }
        }
        forwarded.extend_from_slice(b"Connection: close\r\n\r\n");
        let kind = ProxyRequestKind::Forward(forwarded);
        Some(Self { host: host.to_owned(), port: port.unwrap_or(80), kind })
    }
}

/// Returns whether a line ends with LF alone. `httparse` accepts such a line, but the proxy and a
/// server must never disagree about the end of a line (RFC 9112, 2.2).
fn has_bare_line_feed(head: &[u8]) -> bool {
    head.iter().enumerate().any(|(at, byte)| *byte == b'\n' && !head[..at].ends_with(b"\r"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse_text(text: &str) -> Option<ProxyRequest> {
        ProxyRequest::parse_header(text.as_bytes())
    }

    #[test]
    fn tunnel_and_forward_requests_are_parsed() {
        let tunnel =
            parse_text("CONNECT Example.org:443 HTTP/1.1\r\nHost: x\r\n\r\n").expect("one");
        assert_eq!((tunnel.host.as_str(), tunnel.port), ("Example.org", 443));
        assert_eq!(tunnel.kind, ProxyRequestKind::Tunnel);
        let address = parse_text("CONNECT [::1]:8443 HTTP/1.0\r\n\r\n").expect("one");
        assert_eq!((address.host.as_str(), address.port), ("::1", 8443));
        let plain = parse_text(
            "GET http://me@example.org/a?b HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\
             Proxy-Connection: keep-alive\r\nConnection: x\r\n\r\n",
        )
        .expect("one");
        assert_eq!((plain.host.as_str(), plain.port), ("example.org", 80));
        let passed =
            "GET /a?b HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\nConnection: close\r\n\r\n";
        assert_eq!(plain.kind, ProxyRequestKind::Forward(passed.as_bytes().to_vec()));
        let bare = parse_text("GET HTTP://a:81?q HTTP/1.1\r\n\r\n").expect("one");
        assert_eq!(bare.port, 81);
        assert_eq!(
            bare.kind,
            ProxyRequestKind::Forward(
                b"GET /?q HTTP/1.1\r\nHost: a:81\r\nConnection: close\r\n\r\n".to_vec()
            )
        );
    }

    /// A server with several sites selects the requested site by the `Host` header. A client must
    /// not reach a site that the policy does not allow on a server with a site that it allows.
    #[test]
    fn the_forwarded_host_header_is_the_admitted_host() {
        let text = "GET http://u:p@Example.org:8080/ HTTP/1.1\r\nA: b\r\nhOsT: other.net\r\n\
                    X-Host: kept\r\nHost: third.net\r\n\r\n";
        let request = parse_text(text).expect("one");
        assert_eq!((request.host.as_str(), request.port), ("Example.org", 8080));
        let passed = "GET / HTTP/1.1\r\nHost: Example.org:8080\r\nA: b\r\nX-Host: kept\r\n\
                      Connection: close\r\n\r\n";
        assert_eq!(request.kind, ProxyRequestKind::Forward(passed.as_bytes().to_vec()));
    }

    #[test]
    fn ambiguous_headers_are_rejected() {
        for headers in [
            "A: b\nHost: other.net",
            "A: b\rHost: other.net",
            "A: b\r\n Host: other.net",
            "A: b\r\n\tHost: other.net",
            "Host : other.net",
            "Host\u{b}: other.net",
            "Host",
            ": other.net",
            "A: \0",
        ] {
            for line in ["GET http://a/ HTTP/1.1", "CONNECT a:443 HTTP/1.1"] {
                assert_eq!(
                    parse_text(&format!("{line}\r\n{headers}\r\n\r\n")),
                    None,
                    "{headers:?}"
                );
            }
        }
        assert_eq!(parse_text("GET http://a/\nHost:x HTTP/1.1\r\n\r\n"), None);
        assert!(parse_text("GET http://a/ HTTP/1.1\r\nA:\tb: c\r\nB:\r\n\r\n").is_some());
    }

    #[test]
    fn non_proxy_requests_are_rejected() {
        for text in [
            "",
            "\r\n\r\n",
            "CONNECT example.org HTTP/1.1\r\n\r\n",
            "CONNECT example.org:0 HTTP/1.1\r\n\r\n",
            "CONNECT example.org:443\r\n\r\n",
            "CONNECT a b:443 HTTP/1.1\r\n\r\n",
            "GET /local HTTP/1.1\r\nHost: a\r\n\r\n",
            "GET https://a/ HTTP/1.1\r\n\r\n",
            "GET http://a/ HTTP/2\r\n\r\n",
            "GET http://a/ HTTP/1.1\r\n",
        ] {
            assert_eq!(parse_text(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let whole = [&bytes[..], b"\r\n\r\n"].concat();
            let _best_effort = ProxyRequest::parse_header(&whole);
            prop_assert!(ProxyRequest::header_len(&whole).is_some());
        }
    }
}
