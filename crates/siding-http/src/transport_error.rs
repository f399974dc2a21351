//! Describes why a request got no complete response.
//!
//! No message contains the URL of the request, because a URL may contain a secret.

use std::error::Error;
use std::io;

use rustls::CertificateError;

/// Why a request got no complete response.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// The TLS handshake failed, for example because the server's certificate is rejected. A retry
    /// fails in the same way, and offers the request to an impostor again.
    #[error("{0}")]
    Tls(String),
    /// The request is not valid HTTP.
    #[error("{0}")]
    InvalidRequest(String),
    /// The host name could not be resolved to an address.
    #[error("its host name cannot be resolved")]
    UnknownHost,
    /// The server did not accept the connection in time.
    #[error("the connection timed out")]
    ConnectTimeout,
    /// No connection was made.
    #[error("cannot reach it: {0}")]
    Unreachable(String),
    /// The server accepted the connection, and its response did not arrive in time.
    #[error("it did not answer in time")]
    ResponseTimeout,
    /// The connection ended before the response was complete.
    #[error("the connection broke: {0}")]
    Broken(String),
}

impl From<&reqwest::Error> for TransportError {
    fn from(error: &reqwest::Error) -> Self {
        if let Some(error) = find_tls_error(error) {
            return Self::Tls(format_tls_error(error));
        }
        if error.is_builder() {
            return Self::InvalidRequest(root_cause(error));
        }
        if error.is_dns() {
            return Self::UnknownHost;
        }
        match (error.is_connect(), error.is_timeout()) {
            (true, true) => Self::ConnectTimeout,
            (true, false) => Self::Unreachable(root_cause(error)),
            (false, true) => Self::ResponseTimeout,
            (false, false) => Self::Broken(root_cause(error)),
        }
    }
}

/// Iterates over an error and its sources.
fn error_chain<'e>(
    error: &'e (dyn Error + 'static),
) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

fn root_cause(error: &(dyn Error + 'static)) -> String {
    error_chain(error).last().map(ToString::to_string).unwrap_or_default()
}

fn find_tls_error<'e>(error: &'e (dyn Error + 'static)) -> Option<&'e rustls::Error> {
    error_chain(error).find_map(|error| inner_error(error).downcast_ref())
}

/// Returns the error that an [`io::Error`] wraps. [`Error::source`] does not return it.
fn inner_error<'e>(mut error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    while let Some(inner) = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
        error = inner;
    }
    error
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the library's other messages are clear")]
fn format_tls_error(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InvalidCertificate(why) => {
            format!("its certificate is rejected: {}", format_certificate_error(why))
        }
        rustls::Error::InvalidMessage(_) => "it does not speak TLS: is it http://?".to_owned(),
        other => format!("TLS: {other}"),
    }
}

/// Describes why a certificate is rejected, and what the user can do.
#[expect(clippy::wildcard_enum_match_arm, reason = "the library's other messages are clear")]
fn format_certificate_error(error: &CertificateError) -> String {
    let text = match error {
        CertificateError::UnknownIssuer => {
            "this machine does not trust its issuer; if the server is yours, set \
             SSL_CERT_FILE to your authority's certificate"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "it is not valid yet; is the clock of this machine right?"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it was issued for another host name"
        }
        other => return other.to_string(),
    };
    text.to_owned()
}
