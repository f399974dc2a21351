//! Describes why a webhook request failed, without the webhook's address, which may contain a
//! secret.

use rustls::CertificateError;
use siding_model::notice::DeliveryStatus;
use siding_model::text::one_line;
use ureq::Error;

use super::webhook_client::REQUEST_TIMEOUT;

/// Maximum columns of a library's error message.
const ERROR_COLUMNS: usize = 200;

/// Classifies a failed request: rejected, or worth retrying.
///
/// A rejected certificate is not worth a retry: it will not change within minutes, and the notice
/// must not be offered repeatedly to an impostor.
pub(super) fn classify_error(error: &Error) -> DeliveryStatus {
    if certificate_error(error).is_some() {
        DeliveryStatus::Rejected
    } else {
        DeliveryStatus::RetryLater
    }
}

/// Returns the certificate error if one caused the failure.
#[expect(clippy::wildcard_enum_match_arm, reason = "other variants hold no certificate error")]
fn certificate_error(error: &Error) -> Option<&CertificateError> {
    let found = match error {
        Error::Rustls(found) => Some(found),
        Error::Io(error) => error.get_ref().and_then(|inner| inner.downcast_ref()),
        _ => None,
    };
    match found {
        Some(rustls::Error::InvalidCertificate(why)) => Some(why),
        _ => None,
    }
}

/// Describes the failure without the address.
#[expect(clippy::wildcard_enum_match_arm, reason = "other messages contain no part of the address")]
pub(super) fn format_error(error: &Error) -> String {
    if let Some(why) = certificate_error(error) {
        return format_certificate_error(why);
    }
    match error {
        Error::Io(error) => one_line(&format!("cannot reach it: {error}"), ERROR_COLUMNS),
        Error::HostNotFound => "its host name cannot be resolved".to_owned(),
        Error::Timeout(_) => format!("no answer within {} s", REQUEST_TIMEOUT.as_secs()),
        Error::ConnectionFailed => "cannot reach it".to_owned(),
        Error::BadUri(_) | Error::RequireHttpsOnly(_) => "its address is rejected".to_owned(),
        Error::ConnectProxyFailed(_) => "the proxy refused the connection".to_owned(),
        other => one_line(&other.to_string(), ERROR_COLUMNS),
    }
}

/// Describes what is wrong with a certificate, and what the user can do.
#[expect(clippy::wildcard_enum_match_arm, reason = "the library's other messages are clear")]
fn format_certificate_error(why: &CertificateError) -> String {
    let why = match why {
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
        other => return one_line(&format!("its certificate is rejected: {other}"), ERROR_COLUMNS),
    };
    format!("its certificate is rejected: {why}")
}
