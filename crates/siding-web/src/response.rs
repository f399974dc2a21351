//! Builds responses, with the headers that limit what a browser does with them.

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use maud::Markup;
use serde::Serialize;
use siding_http::ResponseBody;

/// Allows scripts, styles and requests only from this server, no inline code, and no frame around a
/// page.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
    connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; \
    frame-ancestors 'none'";

/// The headers of every response.
const SAFETY_HEADERS: [(&str, &str); 7] = [
    ("content-security-policy", CONTENT_SECURITY_POLICY),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=()"),
];

/// Adds the headers of every response. Unless a response allows it, no cache stores the response.
pub(crate) fn add_safety_headers(headers: &mut HeaderMap) {
    for (name, value) in SAFETY_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
}

/// Returns a page.
pub(crate) fn html_page(status: StatusCode, markup: Markup) -> Response<ResponseBody> {
    with_type(status, "text/html; charset=utf-8", markup.into_string())
}

/// Returns a value as JSON.
pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response<ResponseBody> {
    match serde_json::to_string(value) {
        Ok(text) => with_type(status, "application/json", text),
        Err(error) => json_error(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// Returns an error for a program: an object with the field `error`.
pub(crate) fn json_error(status: StatusCode, message: &str) -> Response<ResponseBody> {
    with_type(status, "application/json", serde_json::json!({ "error": message }).to_string())
}

/// Returns a text of this media type.
pub(crate) fn with_type(
    status: StatusCode,
    content_type: &'static str,
    text: impl Into<Bytes>,
) -> Response<ResponseBody> {
    let mut response = Response::new(Full::new(text.into()).boxed());
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

/// Returns a redirection to another page of this server.
pub(crate) fn redirect(to: &str) -> Response<ResponseBody> {
    let mut response = with_type(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", "");
    // Paths of this server are ASCII.
    if let Ok(to) = HeaderValue::from_str(to) {
        response.headers_mut().insert(header::LOCATION, to);
    }
    response
}
