//! Sends one request to a webhook and describes its result.
//!
//! Messages contain only the scheme and host of the address: its path and query may be a secret.

use std::sync::Arc;
use std::time::Duration;

use siding_core::sys::clock;
use siding_model::notice::{DeliveryStatus, parse_retry_after};
use siding_model::settings::Webhook;
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::error_text;
use crate::failure::Failure;

/// Maximum time for one request, from name resolution to the end of the response's header.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// An HTTP client for one webhook.
pub(super) struct WebhookClient {
    agent: Agent,
    address: String,
}

/// A failed request.
pub(super) struct RequestFailure {
    pub(super) answer: DeliveryStatus,
    /// Description for a person.
    pub(super) why: String,
    /// How long the server asks clients to wait (the `Retry-After` header).
    pub(super) retry_after: Option<Duration>,
}

impl WebhookClient {
    /// Returns a client for the webhook; `None` if no address is set.
    pub(super) fn new(webhook: &Webhook) -> Result<Option<Self>, Failure> {
        let Some(address) = webhook.address() else { return Ok(None) };
        if address.parse::<ureq::http::Uri>().is_err() {
            return Err(Failure::new(format!("notify_webhook is not an address: {webhook}"))
                .with_hint("use a complete address such as `https://example.org/hook`"));
        }
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // Notices meant for one server must not be redirected to another.
            .max_redirects(0)
            .timeout_global(Some(REQUEST_TIMEOUT))
            .user_agent(concat!("siding/", env!("CARGO_PKG_VERSION")));
        // The system's certificates are read only if they are needed.
        if webhook.to_string().starts_with("https:") {
            config = config.tls_config(tls_config(webhook)?);
        }
        Ok(Some(Self { agent: config.build().new_agent(), address: address.to_owned() }))
    }

    /// Sends one notice.
    pub(super) fn post(&self, body: &str) -> Result<(), RequestFailure> {
        let request = self.agent.post(&self.address).content_type("application/json");
        let response = match request.send(body) {
            Ok(response) => response,
            Err(error) => {
                let (answer, why) =
                    (error_text::classify_error(&error), error_text::format_error(&error));
                return Err(RequestFailure { answer, why, retry_after: None });
            }
        };
        let status = response.status();
        let answer = DeliveryStatus::from_http_status(status.as_u16());
        if answer == DeliveryStatus::Accepted {
            return Ok(());
        }
        let mut why = format!("it answered {status}");
        if status.is_redirection() {
            why.push_str(", and redirects are not followed: set notify_webhook to the target");
        }
        let asked = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let asked = asked.and_then(|value| parse_retry_after(value, clock::unix_now()));
        Err(RequestFailure { answer, why, retry_after: asked })
    }
}

fn tls_config(webhook: &Webhook) -> Result<TlsConfig, Failure> {
    let found = rustls_native_certs::load_native_certs().certs;
    if found.is_empty() {
        return Err(Failure::new(format!("webhook {webhook}: this machine has no certificates"))
            .with_hint("install the package `ca-certificates`, or set SSL_CERT_FILE"));
    }
    let roots: Vec<_> = found.iter().map(|one| Certificate::from_der(one).to_owned()).collect();
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&roots))
        .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .build())
}
