//! Construction of the HTTP client for a model's server.

use genai::{Client, WebConfig};
use siding_http::client::{self, CONNECT_TIMEOUT, ClientError};

use super::Endpoint;
use crate::provider::open::OpenError;

/// Builds the client for an endpoint. The client trusts the system's root certificates.
///
/// # Errors
///
/// [`OpenError`] if the machine has no root certificates or the client cannot be created.
pub(super) fn build_client(endpoint: &Endpoint) -> Result<Client, OpenError> {
    let failed = |why: String| OpenError::Client { why };
    let builder = client::client_builder(endpoint.url()).map_err(|error| match error {
        ClientError::NoCertificates => {
            OpenError::NoCertificates { url: endpoint.display_url().to_owned() }
        }
        error @ (ClientError::Tls(_) | ClientError::Client(_) | ClientError::Runtime(_)) => {
            failed(error.to_string())
        }
    })?;
    let builder =
        WebConfig::default().with_connect_timeout(CONNECT_TIMEOUT).apply_to_builder(builder);
    let http = builder.build().map_err(|error| failed(error.to_string()))?;
    Client::builder().with_reqwest(http).build().map_err(|error| failed(error.to_string()))
}
