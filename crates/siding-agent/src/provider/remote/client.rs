//! The HTTP client.

use std::sync::Arc;
use std::time::Duration;

use genai::{Client, WebConfig};
use reqwest::redirect::Policy;
use rustls::crypto::ring::default_provider;
use rustls::{ClientConfig, RootCertStore};

use super::Endpoint;
use crate::provider::open::OpenError;

/// Time for a connection, TLS included. A server that is there takes a second at most.
const CONNECT: Duration = Duration::from_secs(30);

/// What is spoken over TLS, the better first.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Makes the client for one endpoint.
///
/// It follows no redirection, since what is meant for one server is not sent to another. Proxies of
/// the environment are used, but none on the way to this machine itself.
///
/// # Errors
///
/// [`OpenError`] when the machine has no certificates.
pub(super) fn client(endpoint: &Endpoint) -> Result<Client, OpenError> {
    let failed = |why: String| OpenError::Client { why };
    let mut tls = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?
        .with_root_certificates(roots(endpoint)?)
        .with_no_client_auth();
    tls.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
    let mut builder = reqwest::Client::builder()
        .user_agent(concat!("siding/", env!("CARGO_PKG_VERSION")))
        .redirect(Policy::none())
        .tls_backend_preconfigured(tls);
    if endpoint.is_here() {
        builder = builder.no_proxy();
    }
    let builder = WebConfig::default().with_connect_timeout(CONNECT).apply_to_builder(builder);
    let http = builder.build().map_err(|error| failed(error.to_string()))?;
    Client::builder().with_reqwest(http).build().map_err(|error| failed(error.to_string()))
}

/// Returns whom this machine trusts; nobody where there is no TLS to be spoken.
fn roots(endpoint: &Endpoint) -> Result<RootCertStore, OpenError> {
    let mut roots = RootCertStore::empty();
    if endpoint.is_encrypted() {
        let found = rustls_native_certs::load_native_certs().certs;
        let (added, _unreadable) = roots.add_parsable_certificates(found);
        if added == 0 {
            return Err(OpenError::NoCertificates { url: endpoint.shown().to_owned() });
        }
    }
    Ok(roots)
}
