//! Sends requests to an OpenTelemetry collector, and decides what its answers mean.

use std::time::Duration;

use siding_core::sys::clock;
use siding_http::{BlockingPost, PostResponse, TransportError};
use siding_model::notice::parse_retry_after;
use siding_model::otlp::{ExportAnswer, parse_answer};
use siding_model::text::one_line;

use crate::failure::Failure;

/// Maximum time for one request: the default of OpenTelemetry's exporters.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of an answer that is read, in bytes.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// Maximum width in columns of a message of the collector or of a library.
const MESSAGE_COLUMNS: usize = 200;
/// Path below the endpoint to which spans are sent.
const TRACES_PATH: &str = "/v1/traces";

/// A collector at one address.
pub(super) struct Collector {
    /// The address of the requests, which is the same for all endpoints that name the same
    /// collector.
    pub(super) address: String,
    server: BlockingPost,
}

/// The reason why spans were not accepted.
#[derive(Debug)]
pub(super) enum SendFailure {
    /// A later attempt may succeed.
    Temporary {
        /// The reason, as text for a person.
        why: String,
        /// Time that the collector asks to wait.
        retry_after: Option<Duration>,
    },
    /// The collector rejects the content of the request. Fewer spans may be accepted.
    BadRequest {
        /// The reason, as text for a person.
        why: String,
    },
    /// Every request to this address fails in the same way.
    Permanent {
        /// The reason, as text for a person.
        why: String,
    },
}

impl Collector {
    /// Returns a client for the collector at `endpoint`, to which the path of traces is added.
    pub(super) fn new(endpoint: &str, headers: Vec<(String, String)>) -> Result<Self, Failure> {
        // The address may contain a secret, so no message repeats it.
        let bad = |why: &str| {
            Failure::new(format!("the endpoint is not usable: {why}"))
                .with_hint("use an address such as `http://localhost:4318`")
        };
        let schemes = ["http://", "https://"].iter();
        let Some(rest) = schemes.filter_map(|scheme| endpoint.strip_prefix(scheme)).next() else {
            return Err(bad("it does not begin with `http://` or `https://`"));
        };
        // Without a host, the first part of the added path would become the host.
        if rest.is_empty() || rest.starts_with('/') {
            return Err(bad("it has no host"));
        }
        let base = endpoint.trim_end_matches('/');
        let path = if base.ends_with(TRACES_PATH) { "" } else { TRACES_PATH };
        let address = format!("{base}{path}");
        let url = address.parse().map_err(|_| bad("it is not an address"))?;
        let server = BlockingPost::new(url, REQUEST_TIMEOUT)
            .map_err(Failure::new)?
            .with_headers(headers)
            .map_err(|name| {
                let name = one_line(&name, MESSAGE_COLUMNS);
                Failure::new(format!(
                    "the header `{name}` in OTEL_EXPORTER_OTLP_HEADERS is invalid"
                ))
            })?;
        Ok(Self { address, server })
    }

    /// Sends a request and waits for the answer. After success, the collector has the spans, except
    /// those that its answer rejects.
    pub(super) fn send(&self, body: String) -> Result<ExportAnswer, SendFailure> {
        let answer = self.server.exchange_json(body, MAX_ANSWER_BYTES);
        let (response, body) = answer.map_err(|error| classify_error(&error))?;
        if response.status.is_success() {
            return Ok(parse_answer(&body));
        }
        Err(classify_status(&response))
    }
}

/// Decides whether a request may be repeated, by the rules of OTLP/HTTP.
fn classify_status(response: &PostResponse) -> SendFailure {
    let status = response.status;
    let why = format!("it answered {status}");
    match status.as_u16() {
        429 | 502 | 503 | 504 => {
            let asked = response.retry_after.as_deref();
            let retry_after = asked.and_then(|text| parse_retry_after(text, clock::unix_now()));
            SendFailure::Temporary { why, retry_after }
        }
        400 | 413 => SendFailure::BadRequest { why },
        _ if status.is_redirection() => {
            SendFailure::Permanent { why: format!("{why}, and redirects are not followed") }
        }
        _ => SendFailure::Permanent { why },
    }
}

fn classify_error(error: &TransportError) -> SendFailure {
    let why = one_line(&error.to_string(), MESSAGE_COLUMNS);
    match error {
        TransportError::Tls(_) | TransportError::InvalidRequest(_) => {
            SendFailure::Permanent { why }
        }
        TransportError::UnknownHost
        | TransportError::ConnectTimeout
        | TransportError::Unreachable(_)
        | TransportError::ResponseTimeout
        | TransportError::Broken(_) => SendFailure::Temporary { why, retry_after: None },
    }
}
