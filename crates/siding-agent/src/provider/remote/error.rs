//! Classification of the errors that the client library returns.

use std::error::Error as StdError;
use std::time::Duration;

use genai::webc::StreamTimeout;
use reqwest::header::HeaderMap;
use serde_json::Value;
use siding_http::TransportError;
use siding_model::process::UnixMs;
use siding_model::text::one_line;

use crate::provider::retry::{FailureKind, requested_retry_delay};

/// Maximum columns of the error message of a server or of the library.
const ERROR_COLUMNS: usize = 300;

/// The error of an attempt, classified for the decision about a retry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RequestError {
    /// The kind of failure, which decides whether the request is retried.
    pub(super) kind: FailureKind,
    /// The delay that the server asks for before a retry, if any.
    pub(super) retry_after: Option<Duration>,
    /// The error in one line, safe to print.
    pub(super) message: String,
}

impl RequestError {
    fn new(trouble: FailureKind, why: &str) -> Self {
        Self { kind: trouble, retry_after: None, message: one_line(why, ERROR_COLUMNS) }
    }

    /// Returns the error of a stream that ended before its answer was complete.
    pub(super) fn truncated_stream() -> Self {
        Self::new(FailureKind::Incomplete, "the answer broke off")
    }

    /// Converts an error of the library.
    #[expect(clippy::wildcard_enum_match_arm, reason = "all other errors are permanent")]
    pub(super) fn from_library(error: &genai::Error, now: UnixMs) -> Self {
        match error {
            genai::Error::WebStream { error, .. } => Self::from_stream(&**error, now),
            genai::Error::HttpError { status, body, headers, .. } => {
                Self::from_status(status.as_u16(), body, headers, now)
            }
            genai::Error::ChatResponse { body, .. } => Self::from_event(body),
            genai::Error::StreamParse { .. } => {
                Self::new(FailureKind::Incomplete, "a part of the answer is not JSON")
            }
            other => Self::new(FailureKind::Permanent, &other.to_string()),
        }
    }

    fn from_stream(error: &(dyn StdError + Send + Sync + 'static), now: UnixMs) -> Self {
        if let Some(error) = error.downcast_ref::<genai::Error>() {
            return Self::from_library(error, now);
        }
        if let Some(time) = error.downcast_ref::<StreamTimeout>() {
            let why = match time {
                StreamTimeout::Headers => "the server did not answer in time",
                StreamTimeout::Read => "the answer stopped coming",
            };
            return Self::new(FailureKind::TimedOut, why);
        }
        match error.downcast_ref::<reqwest::Error>() {
            Some(error) => Self::from_http(error),
            None => Self::new(FailureKind::Incomplete, &error.to_string()),
        }
    }

    fn from_http(error: &reqwest::Error) -> Self {
        let error = TransportError::from(error);
        let kind = match &error {
            TransportError::Tls(_) | TransportError::InvalidRequest(_) => FailureKind::Permanent,
            TransportError::UnknownHost
            | TransportError::ConnectTimeout
            | TransportError::Unreachable(_) => FailureKind::Unreachable,
            TransportError::ResponseTimeout | TransportError::Broken(_) => FailureKind::Incomplete,
        };
        Self::new(kind, &error.to_string())
    }

    fn from_status(status: u16, body: &str, headers: &HeaderMap, now: UnixMs) -> Self {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let json = serde_json::from_str(body).unwrap_or(Value::Null);
        let message =
            error_message(&json).or_else(|| body.lines().find(|line| !line.trim().is_empty()));
        let why = match (message, header("location")) {
            (_, Some(location)) if (300..=399).contains(&status) => {
                format!("{status} to {location}")
            }
            (Some(message), _) => format!("{status}: {}", message.trim()),
            (None, _) => status.to_string(),
        };
        // An account without credit also gets status 429, but a retry cannot succeed.
        let is_unpaid =
            json.pointer("/error/code").and_then(Value::as_str) == Some("insufficient_quota");
        let trouble = if is_unpaid { FailureKind::Permanent } else { FailureKind::Status(status) };
        let asked = requested_retry_delay(header("retry-after-ms"), header("retry-after"), now);
        Self { retry_after: asked, ..Self::new(trouble, &why) }
    }

    /// Converts an error event of a stream. Such a response has the HTTP status 200, so the status
    /// is derived from the error type, which is one of Anthropic's
    /// (<https://docs.anthropic.com/en/api/errors>) or OpenAI's `server_error`.
    fn from_event(body: &Value) -> Self {
        let kind = body.pointer("/error/type").or_else(|| body.get("type")).and_then(Value::as_str);
        let status = match kind {
            Some("invalid_request_error") => Some(400),
            Some("authentication_error") => Some(401),
            Some("billing_error") => Some(402),
            Some("permission_error") => Some(403),
            Some("not_found_error") => Some(404),
            Some("request_too_large") => Some(413),
            Some("rate_limit_error") => Some(429),
            Some("api_error" | "server_error") => Some(500),
            Some("timeout_error") => Some(504),
            Some("overloaded_error") => Some(529),
            _ => None,
        };
        let message = error_message(body).unwrap_or("an error without a message");
        match status {
            Some(status) => Self::new(FailureKind::Status(status), &format!("{status}: {message}")),
            None => Self::new(FailureKind::Incomplete, message),
        }
    }
}

/// Returns the error message in a server's response, if there is one.
fn error_message(body: &Value) -> Option<&str> {
    ["/error/message", "/message", "/error", "/detail"]
        .iter()
        .find_map(|place| body.pointer(place).and_then(Value::as_str))
        .filter(|message| !message.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: UnixMs = UnixMs(1_763_764_872_000);

    fn status_error(status: u16, body: &str, headers: &[(&'static str, &str)]) -> RequestError {
        let headers = headers.iter().map(|(name, value)| {
            let name = reqwest::header::HeaderName::from_static(name);
            (name, value.parse().expect("valid header value"))
        });
        RequestError::from_status(status, body, &headers.collect(), NOW)
    }

    #[test]
    fn a_server_message_is_reduced_to_one_printable_line() {
        for (body, why) in [
            (r#"{"type":"error","error":{"type":"x","message":"no\u001b[2J"}}"#, "400: no\\e[2J"),
            (r#"{"error":"model not found"}"#, "400: model not found"),
            (r#"{"message":"a\nb"}"#, "400: a\\nb"),
            ("\n<html>\n<p>Bad", "400: <html>"),
            ("", "400"),
            ("{}", "400: {}"),
        ] {
            assert_eq!(status_error(400, body, &[]).message, why);
        }
        let moved = status_error(308, "moved", &[("location", "https://other/")]);
        assert_eq!(moved.message, "308 to https://other/");
    }

    #[test]
    fn the_retry_after_headers_are_kept() {
        let fault = status_error(429, "", &[("retry-after", "7")]);
        assert_eq!(
            (fault.kind, fault.retry_after),
            (FailureKind::Status(429), Some(Duration::from_secs(7)))
        );
        let fault = status_error(529, "", &[("retry-after-ms", "20"), ("retry-after", "7")]);
        assert_eq!(fault.retry_after, Some(Duration::from_millis(20)));
    }

    #[test]
    fn an_exhausted_quota_is_not_retried() {
        let body = r#"{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}"#;
        assert_eq!(status_error(429, body, &[]).kind, FailureKind::Permanent);
    }

    #[test]
    fn an_error_event_in_a_stream_maps_to_its_http_status() {
        let anthropic = |kind: &str| {
            RequestError::from_event(
                &json!({ "type": "error", "error": { "type": kind, "message": "m" } }),
            )
        };
        assert_eq!(
            anthropic("overloaded_error"),
            RequestError::new(FailureKind::Status(529), "529: m")
        );
        assert_eq!(anthropic("invalid_request_error").kind, FailureKind::Status(400));
        assert_eq!(anthropic("news").kind, FailureKind::Incomplete);
        let openai = json!({ "message": "m", "type": "server_error", "code": null });
        assert_eq!(
            RequestError::from_event(&openai),
            RequestError::new(FailureKind::Status(500), "500: m")
        );
        assert_eq!(RequestError::from_event(&json!("?")).kind, FailureKind::Incomplete);
    }
}
