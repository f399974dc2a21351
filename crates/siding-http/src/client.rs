//! The HTTP client for requests to other servers.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use reqwest::redirect::Policy;
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};

/// Timeout of a connection attempt, including the TLS handshake. A reachable server usually needs
/// less than a second.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Protocols that the client offers with ALPN, the preferred one first.
const ALPN_PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The reason why a client could not be built.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The machine has no root certificates, so no server could be verified.
    #[error(
        "this machine has no root certificates to verify servers with: install the package \
         `ca-certificates`, or set SSL_CERT_FILE"
    )]
    NoCertificates,
    /// The TLS library refused its configuration.
    #[error("could not set up TLS: {0}")]
    Tls(rustls::Error),
    /// The HTTP library refused its configuration.
    #[error("could not set up HTTP: {0}")]
    Client(reqwest::Error),
    /// The system has no resources for an event loop.
    #[error("could not start an event loop: {0}")]
    Runtime(std::io::Error),
}

/// Returns a builder for a client that sends requests to one server.
///
/// The client follows no redirects, because the content of a request is meant for this server only.
/// The client uses the proxies from the environment variables, except for a server on this machine.
///
/// # Errors
///
/// Returns [`ClientError`] when the URL uses TLS and the machine has no root certificates, or when
/// TLS cannot be set up.
pub fn client_builder(url: &Url) -> Result<reqwest::ClientBuilder, ClientError> {
    let mut tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(ClientError::Tls)?
        .with_root_certificates(load_root_certificates(url)?)
        .with_no_client_auth();
    tls.alpn_protocols = ALPN_PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("siding/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .tls_backend_preconfigured(tls);
    if is_loopback_url(url) {
        builder = builder.no_proxy();
    }
    Ok(builder)
}

/// Returns whether the host of a URL is `localhost` or a loopback address.
#[must_use]
pub fn is_loopback_url(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

/// Returns the root certificates of this machine. For a URL without TLS the store is empty, because
/// reading the certificates takes time.
fn load_root_certificates(url: &Url) -> Result<RootCertStore, ClientError> {
    let mut roots = RootCertStore::empty();
    if url.scheme() == "https" {
        let found = rustls_native_certs::load_native_certs().certs;
        let (added, _unreadable) = roots.add_parsable_certificates(found);
        if added == 0 {
            return Err(ClientError::NoCertificates);
        }
    }
    Ok(roots)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_names_and_addresses_are_recognized() {
        let is = |url: &str| is_loopback_url(&Url::parse(url).expect("a URL"));
        assert!(is("http://localhost:1/") && is("http://127.8.9.1") && is("http://[::1]:8"));
        assert!(!is("http://10.0.0.1") && !is("http://localhost.example"));
    }
}
