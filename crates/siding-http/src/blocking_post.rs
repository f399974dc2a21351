//! Sends requests from a thread that waits for each response.

use std::time::Duration;

use reqwest::header::{self, HeaderMap, HeaderName, HeaderValue};
use reqwest::{StatusCode, Url};
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
    headers: HeaderMap,
}

/// The status and headers of a response.
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
    /// to the last byte of the response that the client reads.
    ///
    /// # Errors
    ///
    /// [`ClientError`] when the URL uses TLS and the machine has no root certificates, or when the
    /// client cannot be set up.
    pub fn new(url: Url, timeout: Duration) -> Result<Self, ClientError> {
        let client = client_builder(&url)?.timeout(timeout).build().map_err(ClientError::Client)?;
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(Self {
            runtime: runtime.map_err(ClientError::Runtime)?,
            client,
            url,
            headers: HeaderMap::new(),
        })
    }

    /// Adds headers to every request.
    ///
    /// # Errors
    ///
    /// The name of the first header that is not valid in HTTP.
    pub fn with_headers(mut self, headers: Vec<(String, String)>) -> Result<Self, String> {
        for (name, value) in headers {
            let parsed = (HeaderName::try_from(&name), HeaderValue::try_from(value));
            let (Ok(parsed_name), Ok(mut value)) = parsed else { return Err(name) };
            // Headers contain tokens, which must not appear in a debug output.
            value.set_sensitive(true);
            self.headers.insert(parsed_name, value);
        }
        Ok(self)
    }

    /// Posts a document and waits for the status of the response.
    ///
    /// # Errors
    ///
    /// [`TransportError`] when no response arrived.
    pub fn send_json(&self, body: String) -> Result<PostResponse, TransportError> {
        self.runtime.block_on(self.send(body)).map(|response| describe_response(&response))
    }

    /// Posts a document and waits for the response with its body, of which at most `max_body_bytes`
    /// bytes are returned.
    ///
    /// # Errors
    ///
    /// [`TransportError`] when no complete response arrived.
    pub fn exchange_json(
        &self,
        body: String,
        max_body_bytes: usize,
    ) -> Result<(PostResponse, Vec<u8>), TransportError> {
        self.runtime.block_on(async {
            let mut response = self.send(body).await?;
            let described = describe_response(&response);
            let mut received = Vec::new();
            while received.len() < max_body_bytes {
                let chunk = response.chunk().await.map_err(|error| TransportError::from(&error))?;
                let Some(chunk) = chunk else { break };
                received.extend_from_slice(&chunk);
            }
            received.truncate(max_body_bytes);
            Ok((described, received))
        })
    }

    /// Sends a request. The future must be polled inside a runtime, which provides the timer for
    /// the timeout of the request.
    async fn send(&self, body: String) -> Result<reqwest::Response, TransportError> {
        let request = self.client.post(self.url.clone()).headers(self.headers.clone());
        let request = request.header(header::CONTENT_TYPE, "application/json").body(body);
        request.send().await.map_err(|error| TransportError::from(&error))
    }
}

fn describe_response(response: &reqwest::Response) -> PostResponse {
    let retry_after = response.headers().get(header::RETRY_AFTER);
    let retry_after = retry_after.and_then(|value| value.to_str().ok()).map(str::to_owned);
    PostResponse { status: response.status(), retry_after }
}
