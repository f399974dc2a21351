//! Sends requests from a thread that waits for each response.

use std::time::Duration;

use reqwest::{StatusCode, Url, header};
use tokio::runtime::{Builder, Runtime};

use crate::client::{ClientError, client_builder};
use crate::transport_error::TransportError;

/// Posts JSON documents to one URL, one at a time.
#[derive(Debug)]
pub struct BlockingPost {
    /// Runs on the calling thread, and only during a request.
    runtime: Runtime,
    client: reqwest::Client,
    url: Url,
}

/// The response to a request, without its body.
#[derive(Debug)]
pub struct PostResponse {
    /// HTTP status. An error status is not a [`TransportError`], so the caller must check the
    /// status.
    pub status: StatusCode,
    /// Value of the header `Retry-After`, if the server sent one: seconds or a date.
    pub retry_after: Option<String>,
}

impl BlockingPost {
    /// Returns a client whose requests take at most `timeout`, from the resolution of the host name
    /// to the end of the response's header.
    ///
    /// # Errors
    ///
    /// [`ClientError`] when the URL uses TLS and the machine has no root certificates, or when the
    /// client cannot be set up.
    pub fn new(url: Url, timeout: Duration) -> Result<Self, ClientError> {
        let client = client_builder(&url)?.timeout(timeout).build().map_err(ClientError::Client)?;
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(Self { runtime: runtime.map_err(ClientError::Runtime)?, client, url })
    }

    /// Posts a document and waits for the status of the response.
    ///
    /// # Errors
    ///
    /// [`TransportError`] when no response arrived.
    pub fn send_json(&self, body: String) -> Result<PostResponse, TransportError> {
        let request = self.client.post(self.url.clone());
        let request = request.header(header::CONTENT_TYPE, "application/json").body(body);
        // `send` starts a timer, for which tokio needs the context of the runtime.
        let response = self.runtime.block_on(async { request.send().await });
        let response = response.map_err(|error| TransportError::from(&error))?;
        let retry_after = response.headers().get(header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok()).map(str::to_owned);
        Ok(PostResponse { status: response.status(), retry_after })
    }
}
