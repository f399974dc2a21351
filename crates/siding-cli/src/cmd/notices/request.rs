//! One request to a webhook, and what came of it in words.
//!
//! No message holds more of the address than scheme and host: the rest may be a password.

use std::sync::Arc;
use std::time::Duration;

use siding_model::notice::Answer;
use siding_model::settings::Webhook;
use siding_model::text::one_line;
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Error};

use crate::failure::Failure;

/// Time for one try, from the look-up of the name to the end of the answer's head.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Columns of what a library says.
const COLUMNS: usize = 200;

/// Who asks a server.
pub(super) struct Client {
    agent: Agent,
    address: String,
}

/// Why a try failed.
pub(super) struct Failed {
    pub(super) answer: Answer,
    /// For a person.
    pub(super) why: String,
    /// How long the server wants to be left alone.
    pub(super) asked: Option<Duration>,
}

impl Client {
    /// Returns who asks this server, or nothing when none is set.
    pub(super) fn new(webhook: &Webhook) -> Result<Option<Self>, Failure> {
        let Some(address) = webhook.address() else { return Ok(None) };
        if address.parse::<ureq::http::Uri>().is_err() {
            return Err(Failure::new(format!("notify_webhook is no address: {webhook}"))
                .with_hint("write a whole address such as `https://example.org/hook`"));
        }
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            // What was meant for one server is not sent to another.
            .max_redirects(0)
            .timeout_global(Some(TIMEOUT))
            .user_agent(concat!("siding/", env!("CARGO_PKG_VERSION")));
        // The machine's certificates are read only where they are needed.
        if webhook.to_string().starts_with("https:") {
            config = config.tls_config(tls(webhook)?);
        }
        Ok(Some(Self { agent: config.build().new_agent(), address: address.to_owned() }))
    }

    /// Sends one notice.
    pub(super) fn post(&self, body: &str) -> Result<(), Failed> {
        let request = self.agent.post(&self.address).content_type("application/json");
        let response = match request.send(body) {
            Ok(response) => response,
            Err(error) => {
                return Err(Failed { answer: Answer::Later, why: words(&error), asked: None });
            }
        };
        let status = response.status();
        let answer = Answer::of(status.as_u16());
        if answer == Answer::Taken {
            return Ok(());
        }
        let mut why = format!("it answered {status}");
        if status.is_redirection() {
            why.push_str(", and redirections are not followed: set notify_webhook to the target");
        }
        let asked = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        // The other form, a date, is left to our own schedule.
        let asked = asked.and_then(|value| value.trim().parse().ok()).map(Duration::from_secs);
        Err(Failed { answer, why, asked })
    }
}

fn tls(webhook: &Webhook) -> Result<TlsConfig, Failure> {
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

/// Says what went wrong without the address.
#[expect(clippy::wildcard_enum_match_arm, reason = "the others name no part of an address")]
fn words(error: &Error) -> String {
    match error {
        Error::Io(error) => one_line(&format!("cannot reach it: {error}"), COLUMNS),
        Error::HostNotFound => "its name is not known here".to_owned(),
        Error::Timeout(_) => format!("no answer within {} s", TIMEOUT.as_secs()),
        Error::ConnectionFailed => "cannot reach it".to_owned(),
        Error::BadUri(_) | Error::RequireHttpsOnly(_) => "its address is refused".to_owned(),
        Error::ConnectProxyFailed(_) => "the proxy does not let us through".to_owned(),
        other => one_line(&other.to_string(), COLUMNS),
    }
}
