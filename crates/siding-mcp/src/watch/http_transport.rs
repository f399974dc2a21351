//! A server that is reached over HTTP: the client, and how the token travels.

use reqwest::Url;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use siding_http::client::{self, CONNECT_TIMEOUT};

use super::BearerToken;
use super::connection::ConnectionError;

/// Prepares to reach a server. Nothing is sent yet.
///
/// No redirection is followed: the token is for one server. A session that the server has forgotten
/// is not begun anew beneath our feet, since subscriptions would be gone with it.
///
/// # Errors
///
/// [`ConnectionError::Permanent`] when there is no client to be had.
pub(super) fn open_transport(
    url: &str,
    bearer: Option<&BearerToken>,
) -> Result<StreamableHttpClientTransport<reqwest::Client>, ConnectionError> {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.to_owned())
        .reinit_on_expired_session(false);
    if let Some(bearer) = bearer {
        config = config.auth_header(bearer.0.clone());
    }
    Ok(StreamableHttpClientTransport::with_client(build_client(url)?, config))
}

fn build_client(url: &str) -> Result<reqwest::Client, ConnectionError> {
    let failed =
        |why: String| ConnectionError::Permanent(format!("could not start the HTTP client: {why}"));
    let url = Url::parse(url).map_err(|error| failed(error.to_string()))?;
    client::client_builder(&url)
        .map_err(|error| failed(error.to_string()))?
        .connect_timeout(CONNECT_TIMEOUT)
        // A connection with an answer that nobody has read to its end is slow to use again.
        .pool_max_idle_per_host(0)
        .build()
        .map_err(|error| failed(error.to_string()))
}
