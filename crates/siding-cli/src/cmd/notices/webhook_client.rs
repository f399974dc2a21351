//! Sends single requests to a webhook, and describes the reason for a failure.
//!
//! Messages contain only the scheme and host of the webhook's address, because the path and query
//! may be secret.

use std::time::Duration;

use siding_core::sys::clock;
use siding_http::{BlockingPost, TransportError};
use siding_model::notice::{DeliveryStatus, parse_retry_after};
use siding_model::settings::Webhook;
use siding_model::text::one_line;

use crate::failure::Failure;

/// Maximum time for one request, from name resolution to the end of the response's header.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum width in columns of an error message from a library.
const ERROR_COLUMNS: usize = 200;

/// An HTTP client that posts to the address of one webhook.
pub(super) struct WebhookClient {
    server: BlockingPost,
}

/// The reason why a request failed, and whether and when to repeat it.
pub(super) struct RequestFailure {
    pub(super) answer: DeliveryStatus,
    /// Reason for the failure, as text for a person.
    pub(super) why: String,
    /// Time to wait before the next request, from the header `Retry-After` of the response.
    pub(super) retry_after: Option<Duration>,
}

impl WebhookClient {
    /// Returns a client for the webhook; `None` if no address is set.
    pub(super) fn new(webhook: &Webhook) -> Result<Option<Self>, Failure> {
        let Some(address) = webhook.address() else { return Ok(None) };
        let url = address.parse().map_err(|_| {
            Failure::new(format!("notify_webhook is not an address: {webhook}"))
                .with_hint("use a complete address such as `https://example.org/hook`")
        })?;
        let server = BlockingPost::new(url, REQUEST_TIMEOUT)
            .map_err(|error| Failure::new(format!("webhook {webhook}: {error}")))?;
        Ok(Some(Self { server }))
    }

    /// Sends a notice, whose JSON is `body`, and waits for the response's status.
    pub(super) fn post(&self, body: &str) -> Result<(), RequestFailure> {
        let response = self.server.send_json(body.to_owned()).map_err(|error| RequestFailure {
            answer: classify_error(&error),
            why: format_error(&error),
            retry_after: None,
        })?;
        let answer = DeliveryStatus::from_http_status(response.status.as_u16());
        if answer == DeliveryStatus::Accepted {
            return Ok(());
        }
        let mut why = format!("it answered {}", response.status);
        if response.status.is_redirection() {
            why.push_str(", and redirects are not followed: set notify_webhook to the target");
        }
        let asked = response.retry_after.as_deref();
        let asked = asked.and_then(|value| parse_retry_after(value, clock::unix_now()));
        Err(RequestFailure { answer, why, retry_after: asked })
    }
}

/// Returns `RetryLater` if a retry may succeed, otherwise `Rejected`.
///
/// A request is not retried after a rejected certificate: the certificate will not change within
/// minutes, and the notice must not be offered repeatedly to an impostor.
fn classify_error(error: &TransportError) -> DeliveryStatus {
    match error {
        TransportError::Tls(_) | TransportError::InvalidRequest(_) => DeliveryStatus::Rejected,
        TransportError::UnknownHost
        | TransportError::ConnectTimeout
        | TransportError::Unreachable(_)
        | TransportError::ResponseTimeout
        | TransportError::Broken(_) => DeliveryStatus::RetryLater,
    }
}

fn format_error(error: &TransportError) -> String {
    match error {
        TransportError::ConnectTimeout | TransportError::ResponseTimeout => {
            format!("no answer within {} s", REQUEST_TIMEOUT.as_secs())
        }
        TransportError::InvalidRequest(_) => "its address is rejected".to_owned(),
        TransportError::Tls(_)
        | TransportError::UnknownHost
        | TransportError::Unreachable(_)
        | TransportError::Broken(_) => one_line(&error.to_string(), ERROR_COLUMNS),
    }
}
