//! Decides which requests a page of this server may have sent, and which may change a task.
//!
//! A browser sends requests for every page that it shows. The checks refuse requests of other
//! pages, even of pages on this machine: servers at other ports of one host share cookies, and
//! browsers count them as the same site.

use http::{HeaderMap, HeaderName, StatusCode, header};

/// The effect of a request, which determines the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestEffect {
    /// The request only reads data.
    Read,
    /// The response is an event stream, which stays open.
    Stream,
    /// The request changes something.
    Change,
}

/// The proof that a request comes from the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credential {
    /// The cookie of a signed-in browser. The browser adds it to requests that other pages cause,
    /// and sends it to the servers at all ports of this host, each of which can use it.
    Cookie,
    /// The cookie with the page key, which only pages of this server can read.
    PageKey,
    /// The token in the header `Authorization`, which no page of another origin can set.
    Token,
}

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The header `Host` does not name this server.
    UnknownHost,
    /// A page of another origin caused the request.
    OtherOrigin,
    /// A request that needs the header `Origin` or `Sec-Fetch-Site` has neither.
    NoOrigin,
    /// The request wants to become a WebSocket connection.
    WebSocket,
    /// The body of a change is not declared as JSON.
    NotJson,
    /// The request has neither a valid cookie nor a valid token.
    SignedOut,
    /// The request has neither a valid cookie nor a valid token, and was caused by another site.
    /// For such a request a browser withholds `SameSite=Strict` cookies, even if it has signed in.
    CookieWithheld,
    /// The server was started without `--control`.
    ReadOnly,
}

impl Refusal {
    /// Returns the status of the response.
    pub(crate) const fn status(self) -> StatusCode {
        match self {
            Self::UnknownHost
            | Self::OtherOrigin
            | Self::NoOrigin
            | Self::WebSocket
            | Self::ReadOnly => StatusCode::FORBIDDEN,
            Self::NotJson => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::SignedOut | Self::CookieWithheld => StatusCode::UNAUTHORIZED,
        }
    }

    /// Returns the message for the user: what is wrong, and what to do.
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::UnknownHost => {
                "the `Host` of the request is not a name of this server; `siding web --allow-host NAME` allows another name"
            }
            Self::OtherOrigin => {
                "the request comes from a page of another server; only pages of this server may send it"
            }
            Self::NoOrigin => {
                "the request needs the header `Origin`, or a token instead of a cookie"
            }
            Self::WebSocket => "this server does not support WebSocket",
            Self::NotJson => "the body must have the type `application/json`",
            Self::SignedOut => {
                "sign in with the last link that `siding web` printed; each link works once"
            }
            Self::CookieWithheld => {
                "a page of another site led here; if this browser has signed in, open this page \
                 again, otherwise use the last link that `siding web` printed"
            }
            Self::ReadOnly => "this page is read-only; `siding web --control` allows changes",
        }
    }
}

/// Checks the headers with which a browser describes the page that caused a request. The header
/// `Host` has been checked before.
pub(crate) fn check_browser_headers(
    headers: &HeaderMap,
    effect: RequestEffect,
) -> Result<(), Refusal> {
    if header_text(headers, &header::UPGRADE)
        .is_some_and(|wanted| wanted.to_ascii_lowercase().contains("websocket"))
    {
        return Err(Refusal::WebSocket);
    }
    let host = header_text(headers, &header::HOST).unwrap_or_default();
    if header_text(headers, &header::ORIGIN).is_some_and(|origin| !is_same_origin(&origin, &host)) {
        return Err(Refusal::OtherOrigin);
    }
    match fetch_header(headers, "sec-fetch-site").as_deref() {
        None | Some("same-origin" | "none") => Ok(()),
        // A link on another page may open a page of this server, because the other page cannot read
        // the response.
        Some(_) if effect == RequestEffect::Read && is_page_load(headers) => Ok(()),
        Some(_) => Err(Refusal::OtherOrigin),
    }
}

/// Returns the reason for refusing a request without a valid cookie or token.
pub(crate) fn missing_credential(headers: &HeaderMap) -> Refusal {
    match fetch_header(headers, "sec-fetch-site").as_deref() {
        Some("cross-site") => Refusal::CookieWithheld,
        Some(_) | None => Refusal::SignedOut,
    }
}

/// Checks a request that changes something or opens an event stream. From a browser, the request
/// must prove that a page of this server caused it. The body of a change must be JSON.
pub(crate) fn check_effect(
    headers: &HeaderMap,
    effect: RequestEffect,
    credential: Credential,
) -> Result<(), Refusal> {
    let has_origin = headers.contains_key(header::ORIGIN);
    // Browsers send no `Origin` with the request for an event stream of the same origin.
    let is_own_fetch = fetch_header(headers, "sec-fetch-site").as_deref() == Some("same-origin");
    match (effect, credential) {
        (RequestEffect::Read, _) => return Ok(()),
        (RequestEffect::Stream, Credential::Cookie | Credential::PageKey)
            if !has_origin && !is_own_fetch =>
        {
            return Err(Refusal::NoOrigin);
        }
        (RequestEffect::Change, Credential::Cookie | Credential::PageKey) if !has_origin => {
            return Err(Refusal::NoOrigin);
        }
        (RequestEffect::Stream | RequestEffect::Change, _) => {}
    }
    if effect == RequestEffect::Change && !is_json(headers) {
        return Err(Refusal::NotJson);
    }
    Ok(())
}

/// Returns whether an `Origin` header names the server of the `Host` header, at the same port.
fn is_same_origin(origin: &str, host: &str) -> bool {
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    !host.is_empty() && rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
}

/// Returns whether the browser loads a page into a tab or window, and not into a frame.
fn is_page_load(headers: &HeaderMap) -> bool {
    fetch_header(headers, "sec-fetch-mode").as_deref() == Some("navigate")
        && fetch_header(headers, "sec-fetch-dest").as_deref() == Some("document")
}

fn is_json(headers: &HeaderMap) -> bool {
    let Some(given) = header_text(headers, &header::CONTENT_TYPE) else { return false };
    let kind = given.split(';').next().unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

fn fetch_header(headers: &HeaderMap, name: &'static str) -> Option<String> {
    header_text(headers, &HeaderName::from_static(name))
}

/// Returns a header as text. Several headers of one name count as invalid, so that they do not pass
/// a check that reads only the first one.
pub(crate) fn header_text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?;
    if values.next().is_some() {
        return Some(String::new());
    }
    Some(String::from_utf8_lossy(first.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use proptest::prelude::*;

    use super::*;

    const HOST: (&str, &str) = ("host", "127.0.0.1:7000");

    fn build_headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).expect("a header"));
        }
        headers
    }

    fn check_all(
        pairs: &[(&'static str, &str)],
        effect: RequestEffect,
        credential: Credential,
    ) -> Result<(), Refusal> {
        let headers = build_headers(pairs);
        check_browser_headers(&headers, effect)?;
        check_effect(&headers, effect, credential)
    }

    #[test]
    fn a_page_of_this_server_may_change_and_stream() {
        let own = ("origin", "http://127.0.0.1:7000");
        let json = ("content-type", "application/json; charset=utf-8");
        let change = check_all(&[HOST, own, json], RequestEffect::Change, Credential::Cookie);
        assert_eq!(change, Ok(()));
        let fetch = ("sec-fetch-site", "same-origin");
        for proof in [own, fetch] {
            let stream = check_all(&[HOST, proof], RequestEffect::Stream, Credential::Cookie);
            assert_eq!(stream, Ok(()));
        }
    }

    #[test]
    fn a_page_at_another_port_is_another_origin() {
        for origin in ["http://127.0.0.1:7001", "http://localhost:7000", "null", "http://evil"] {
            for effect in [RequestEffect::Read, RequestEffect::Stream, RequestEffect::Change] {
                let answer = check_all(&[HOST, ("origin", origin)], effect, Credential::Token);
                assert_eq!(answer, Err(Refusal::OtherOrigin), "{origin}");
            }
        }
    }

    #[test]
    fn a_form_cannot_change_anything() {
        let own = ("origin", "http://127.0.0.1:7000");
        for kind in
            ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
        {
            let pairs = [HOST, own, ("content-type", kind)];
            let answer = check_all(&pairs, RequestEffect::Change, Credential::Cookie);
            assert_eq!(answer, Err(Refusal::NotJson), "{kind}");
        }
        assert_eq!(
            check_all(&[HOST, own], RequestEffect::Change, Credential::Token),
            Err(Refusal::NotJson)
        );
    }

    #[test]
    fn a_cookie_alone_changes_and_streams_nothing() {
        let json = ("content-type", "application/json");
        for effect in [RequestEffect::Stream, RequestEffect::Change] {
            for credential in [Credential::Cookie, Credential::PageKey] {
                let answer = check_all(&[HOST, json], effect, credential);
                assert_eq!(answer, Err(Refusal::NoOrigin));
            }
            assert_eq!(check_all(&[HOST, json], effect, Credential::Token), Ok(()));
        }
    }

    #[test]
    fn another_site_may_only_link_to_a_page() {
        let load = [
            HOST,
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-mode", "navigate"),
            ("sec-fetch-dest", "document"),
        ];
        assert_eq!(check_all(&load, RequestEffect::Read, Credential::Cookie), Ok(()));
        let mut frame = load;
        frame[3].1 = "iframe";
        for (pairs, effect) in [
            (load, RequestEffect::Stream),
            (load, RequestEffect::Change),
            (frame, RequestEffect::Read),
        ] {
            let answer = check_all(&pairs, effect, Credential::Cookie);
            assert_eq!(answer, Err(Refusal::OtherOrigin));
        }
        let image = [HOST, ("sec-fetch-site", "same-site"), ("sec-fetch-mode", "no-cors")];
        assert_eq!(
            check_all(&image, RequestEffect::Read, Credential::Cookie),
            Err(Refusal::OtherOrigin)
        );
    }

    #[test]
    fn a_link_on_another_site_does_not_mean_that_the_browser_is_signed_out() {
        let refusal = |site| missing_credential(&build_headers(&[HOST, ("sec-fetch-site", site)]));
        assert_eq!(refusal("cross-site"), Refusal::CookieWithheld);
        for site in ["none", "same-origin", "same-site"] {
            assert_eq!(refusal(site), Refusal::SignedOut, "{site}");
        }
        assert_eq!(missing_credential(&build_headers(&[HOST])), Refusal::SignedOut);
    }

    #[test]
    fn repeated_headers_and_web_sockets_are_refused() {
        let twice = [HOST, ("origin", "http://127.0.0.1:7000"), ("origin", "http://evil")];
        assert_eq!(
            check_all(&twice, RequestEffect::Read, Credential::Cookie),
            Err(Refusal::OtherOrigin)
        );
        let upgrade = [HOST, ("upgrade", "WebSocket"), ("origin", "http://127.0.0.1:7000")];
        assert_eq!(
            check_all(&upgrade, RequestEffect::Read, Credential::Cookie),
            Err(Refusal::WebSocket)
        );
    }

    proptest! {
        /// An origin passes only if it is the host with a scheme.
        #[test]
        fn only_the_own_origin_passes(text in "[ -~]{0,30}") {
            let origin = format!("http://127.0.0.1:7000{text}");
            let passed = is_same_origin(&origin, HOST.1);
            prop_assert_eq!(passed, text.is_empty());
            prop_assert!(!is_same_origin(&text, HOST.1));
        }
    }
}
