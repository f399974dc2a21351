//! What a failure of the library means.

use std::error::Error as StdError;
use std::io;
use std::time::Duration;

use genai::webc::StreamTimeout;
use reqwest::header::HeaderMap;
use rustls::CertificateError;
use serde_json::Value;
use siding_model::process::UnixMs;
use siding_model::text::one_line;

use crate::provider::retry::{Trouble, asked};

/// Columns of what a server or a library says.
const COLUMNS: usize = 300;

/// A failure of one try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// What kind of failure.
    pub(super) trouble: Trouble,
    /// How long the server wants to be left alone.
    pub(super) asked: Option<Duration>,
    /// What has happened, in one line that is safe to print.
    pub(super) why: String,
}

impl Fault {
    fn new(trouble: Trouble, why: &str) -> Self {
        Self { trouble, asked: None, why: one_line(why, COLUMNS) }
    }

    /// The stream ended, and the answer had not.
    pub(super) fn cut_off() -> Self {
        Self::new(Trouble::Broken, "the answer broke off")
    }

    /// Says what an error of the library means.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the others blame the request")]
    pub(super) fn of(error: &genai::Error, now: UnixMs) -> Self {
        match error {
            genai::Error::WebStream { error, .. } => Self::of_stream(&**error, now),
            genai::Error::HttpError { status, body, headers, .. } => {
                Self::of_status(status.as_u16(), body, headers, now)
            }
            genai::Error::ChatResponse { body, .. } => Self::of_event(body),
            genai::Error::StreamParse { .. } => {
                Self::new(Trouble::Broken, "a part of the answer is no JSON")
            }
            other => Self::new(Trouble::Final, &other.to_string()),
        }
    }

    fn of_stream(error: &(dyn StdError + Send + Sync + 'static), now: UnixMs) -> Self {
        if let Some(error) = error.downcast_ref::<genai::Error>() {
            return Self::of(error, now);
        }
        if let Some(time) = error.downcast_ref::<StreamTimeout>() {
            let why = match time {
                StreamTimeout::Headers => "no answer for too long",
                StreamTimeout::Read => "the answer stopped coming",
            };
            return Self::new(Trouble::Silent, why);
        }
        match error.downcast_ref::<reqwest::Error>() {
            Some(error) => Self::of_http(error),
            None => Self::new(Trouble::Broken, &error.to_string()),
        }
    }

    fn of_http(error: &reqwest::Error) -> Self {
        if let Some(why) = tls(error) {
            return Self::new(Trouble::Final, &why);
        }
        if error.is_builder() {
            return Self::new(Trouble::Final, &deepest(error));
        }
        if error.is_dns() {
            return Self::new(Trouble::Unreachable, "its name is not known here");
        }
        if error.is_connect() && error.is_timeout() {
            return Self::new(Trouble::Unreachable, "no connection for too long");
        }
        if error.is_connect() {
            return Self::new(Trouble::Unreachable, &deepest(error));
        }
        Self::new(Trouble::Broken, &format!("the connection broke: {}", deepest(error)))
    }

    fn of_status(status: u16, body: &str, headers: &HeaderMap, now: UnixMs) -> Self {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let json = serde_json::from_str(body).unwrap_or(Value::Null);
        let message = message(&json).or_else(|| body.lines().find(|line| !line.trim().is_empty()));
        let why = match (message, header("location")) {
            (_, Some(location)) if (300..=399).contains(&status) => {
                format!("{status} to {location}")
            }
            (Some(message), _) => format!("{status}: {}", message.trim()),
            (None, _) => status.to_string(),
        };
        // Too many requests, of which none will ever be answered: nobody has paid.
        let is_unpaid =
            json.pointer("/error/code").and_then(Value::as_str) == Some("insufficient_quota");
        let trouble = if is_unpaid { Trouble::Final } else { Trouble::Status(status) };
        let asked = asked(header("retry-after-ms"), header("retry-after"), now);
        Self { asked, ..Self::new(trouble, &why) }
    }

    /// Says what an error means that came within a stream, after a status of 200. Anthropic names the
    /// kinds that it has statuses for. <https://docs.anthropic.com/en/api/errors>
    fn of_event(body: &Value) -> Self {
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
        let message = message(body).unwrap_or("an error, without a word");
        match status {
            Some(status) => Self::new(Trouble::Status(status), &format!("{status}: {message}")),
            None => Self::new(Trouble::Broken, message),
        }
    }
}

/// Returns what a server says of its error.
fn message(body: &Value) -> Option<&str> {
    ["/error/message", "/message", "/error", "/detail"]
        .iter()
        .find_map(|place| body.pointer(place).and_then(Value::as_str))
        .filter(|message| !message.trim().is_empty())
}

/// Returns each error that another one is of, beginning with itself.
fn chain<'e>(
    error: &'e (dyn StdError + 'static),
) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn deepest(error: &(dyn StdError + 'static)) -> String {
    chain(error).last().map(ToString::to_string).unwrap_or_default()
}

/// Returns what TLS has against the server. It would have it again.
#[expect(clippy::wildcard_enum_match_arm, reason = "the library says the rest well enough")]
fn tls(error: &(dyn StdError + 'static)) -> Option<String> {
    let found = chain(error).find_map(|error| within(error).downcast_ref::<rustls::Error>())?;
    Some(match found {
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "nobody that this machine trusts has signed its certificate; if the server is yours, \
             name your authority in SSL_CERT_FILE"
                .to_owned()
        }
        rustls::Error::InvalidCertificate(why) => format!("its certificate is refused: {why}"),
        rustls::Error::InvalidMessage(_) => "it does not speak TLS: is it http://?".to_owned(),
        other => format!("TLS: {other}"),
    })
}

/// Returns what an error of the system is made of, which is not its source.
fn within<'e>(mut error: &'e (dyn StdError + 'static)) -> &'e (dyn StdError + 'static) {
    while let Some(inner) = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        error = inner;
    }
    error
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: UnixMs = UnixMs(1_763_764_872_000);

    fn status(status: u16, body: &str, headers: &[(&'static str, &str)]) -> Fault {
        let headers = headers.iter().map(|(name, value)| {
            let name = reqwest::header::HeaderName::from_static(name);
            (name, value.parse().expect("it is a value"))
        });
        Fault::of_status(status, body, &headers.collect(), NOW)
    }

    #[test]
    fn what_a_server_says_is_told_in_one_safe_line() {
        for (body, why) in [
            (r#"{"type":"error","error":{"type":"x","message":"no\u001b[2J"}}"#, "400: no\\e[2J"),
            (r#"{"error":"model not found"}"#, "400: model not found"),
            (r#"{"message":"a\nb"}"#, "400: a\\nb"),
            ("\n<html>\n<p>Bad", "400: <html>"),
            ("", "400"),
            ("{}", "400: {}"),
        ] {
            assert_eq!(status(400, body, &[]).why, why);
        }
        let moved = status(308, "moved", &[("location", "https://other/")]);
        assert_eq!(moved.why, "308 to https://other/");
    }

    #[test]
    fn what_a_server_asks_for_is_kept() {
        let fault = status(429, "", &[("retry-after", "7")]);
        assert_eq!(
            (fault.trouble, fault.asked),
            (Trouble::Status(429), Some(Duration::from_secs(7)))
        );
        let fault = status(529, "", &[("retry-after-ms", "20"), ("retry-after", "7")]);
        assert_eq!(fault.asked, Some(Duration::from_millis(20)));
    }

    #[test]
    fn an_account_without_money_is_not_asked_again() {
        let body = r#"{"error":{"message":"You exceeded your quota","code":"insufficient_quota"}}"#;
        assert_eq!(status(429, body, &[]).trouble, Trouble::Final);
    }

    #[test]
    fn an_error_within_a_stream_is_what_its_status_would_be() {
        let anthropic = |kind: &str| {
            Fault::of_event(&json!({ "type": "error", "error": { "type": kind, "message": "m" } }))
        };
        assert_eq!(anthropic("overloaded_error"), Fault::new(Trouble::Status(529), "529: m"));
        assert_eq!(anthropic("invalid_request_error").trouble, Trouble::Status(400));
        assert_eq!(anthropic("news").trouble, Trouble::Broken);
        let openai = json!({ "message": "m", "type": "server_error", "code": null });
        assert_eq!(Fault::of_event(&openai), Fault::new(Trouble::Status(500), "500: m"));
        assert_eq!(Fault::of_event(&json!("?")).trouble, Trouble::Broken);
    }
}
