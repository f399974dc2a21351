//! The HTTP transport to a watched MCP server, which sends the bearer token with each request.

use reqwest::Url;
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use siding_http::client::{self, CONNECT_TIMEOUT};

use super::BearerToken;
use super::connection::ConnectionError;

/// Creates the transport to a server, without sending anything yet.
///
/// The transport follows no redirects, because the token is for one server. The transport does not
/// open a new session when the server has dropped the old one, because that would lose the
/// subscriptions unnoticed.
///
/// # Errors
///
/// [`ConnectionError::Permanent`] when the URL is invalid or the client cannot be built.
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
        // Reusing a connection with an unread response body is slow, so none is kept idle.
        .pool_max_idle_per_host(0)
        .build()
        .map_err(|error| failed(error.to_string()))
}
