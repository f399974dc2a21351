//! Models on HTTP servers, called through the library genai.
//!
//! siding itself decides when to retry ([`super::retry`]), and determines the URL and the key
//! (`endpoint`), the content of requests (`request`) and the meaning of errors (`error`). The
//! library implements the wire formats: the JSON of each API and the stream of an answer.

mod client;
mod endpoint;
mod error;
mod request;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;

use futures_util::StreamExt as _;
use genai::chat::{ChatOptions, ChatRequest};
use genai::{Client, ServiceTarget};
use siding_core::sys::clock;
use siding_model::text::one_line;
use tokio::time::timeout;

use self::error::RequestError;
use self::stream::ResponseAssembler;
use super::cancellable_sleep::{CANCEL_POLL_INTERVAL, sleep_unless_cancelled};
use super::open::OpenError;
use super::retry::{RetryDecision, RetryPolicy};
use super::{ModelRequest, ModelResponse, Provider, ProviderError, ResponsePart};
use crate::cancel_flag::CancelFlag;
use crate::runtime::BackgroundRuntime;

pub(super) use endpoint::{ApiDialect, Endpoint};

/// Maximum columns of a model's name in an error message.
const MODEL_NAME_COLUMNS: usize = 60;

/// How long an attempt waits for the parts of a streamed answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResponseTimeouts {
    /// Maximum time until the server begins to answer. It may first read the prompt, and the model
    /// may reason before it writes.
    pub(super) first_part: Duration,
    /// Maximum time without data after that.
    pub(super) next_part: Duration,
}

impl Default for ResponseTimeouts {
    /// Returns 10 minutes until the answer begins, as in Anthropic's own clients, and 5 minutes
    /// without data, as in Codex. Anthropic's servers send a ping every few seconds; other servers
    /// may send nothing while a model reasons.
    fn default() -> Self {
        Self { first_part: Duration::from_secs(10 * 60), next_part: Duration::from_secs(5 * 60) }
    }
}

/// A model on an HTTP server.
pub(super) struct RemoteProvider {
    endpoint: Endpoint,
    name: String,
    target: ServiceTarget,
    client: Client,
    /// Runs requests, and drives idle connections between them. Otherwise a connection that the
    /// server has closed would still look usable, and the next request on it would fail.
    runtime: BackgroundRuntime,
    policy: RetryPolicy,
    timeouts: ResponseTimeouts,
}

/// Why an attempt failed.
enum AttemptError {
    Cancelled,
    Failed(RequestError),
}

impl RemoteProvider {
    /// Creates the HTTP client and its thread, without opening a connection.
    ///
    /// # Errors
    ///
    /// [`OpenError`] if the machine has no root certificates, or if the client or its thread cannot
    /// be created.
    pub(super) fn open(
        endpoint: Endpoint,
        name: &str,
        policy: RetryPolicy,
        timeouts: ResponseTimeouts,
    ) -> Result<Self, OpenError> {
        let client = client::build_client(&endpoint)?;
        let target = endpoint.target(name);
        let engine = BackgroundRuntime::start("siding-model", 1)
            .map_err(|error| OpenError::Client { why: error.to_string() })?;
        let name = name.to_owned();
        Ok(Self { endpoint, name, target, client, runtime: engine, policy, timeouts })
    }

    /// Sends the request once and assembles the answer.
    async fn attempt(
        &self,
        request: ChatRequest,
        options: &ChatOptions,
        cancel: &CancelFlag,
        on_part: &mut dyn FnMut(ResponsePart<'_>),
    ) -> Result<ModelResponse, AttemptError> {
        let fault = |error: &genai::Error| {
            AttemptError::Failed(RequestError::from_library(error, clock::unix_now()))
        };
        let opened =
            self.client.exec_chat_stream(self.target.clone(), request, Some(options)).await;
        let mut stream = opened.map_err(|error| fault(&error))?.stream;
        let mut assembler = ResponseAssembler::default();
        loop {
            if cancel.is_set() {
                return Err(AttemptError::Cancelled);
            }
            let Ok(event) = timeout(CANCEL_POLL_INTERVAL, stream.next()).await else { continue };
            let event =
                event.ok_or_else(|| AttemptError::Failed(RequestError::truncated_stream()))?;
            if let Some(answer) =
                assembler.handle_event(event.map_err(|error| fault(&error))?, on_part)
            {
                return Ok(answer);
            }
        }
    }

    /// Returns the message for a failed request that is not sent again: the model and the cause, in
    /// most cases with a remedy.
    fn describe_failure(&self, error: &RequestError, next: RetryDecision, tries: u32) -> String {
        let who = format!(
            "{}:{}",
            self.endpoint.dialect().provider_name(),
            one_line(&self.name, MODEL_NAME_COLUMNS)
        );
        let what = self.endpoint.explain(error);
        match next {
            RetryDecision::RetriesExhausted => format!("{who}, tried {tries} times: {what}"),
            RetryDecision::WaitTooLong(time) => {
                format!("{who}: {what}; the server asks to wait for {} s", time.as_secs())
            }
            RetryDecision::RetryAfter(_) | RetryDecision::Permanent => format!("{who}: {what}"),
        }
    }
}

impl Provider for RemoteProvider {
    fn send_request(
        &self,
        asking: &ModelRequest<'_>,
        on_part: &mut dyn FnMut(ResponsePart<'_>),
    ) -> Result<ModelResponse, ProviderError> {
        let dialect = self.endpoint.dialect();
        let request = request::build_request(dialect, asking);
        let options = request::build_options(dialect, &self.name, asking.max_tokens, self.timeouts);
        let mut failures = 0;
        loop {
            let once = self.attempt(request.clone(), &options, asking.cancel, on_part);
            let fault = match self.runtime.block_on(once) {
                Ok(answer) => return Ok(answer),
                Err(AttemptError::Cancelled) => return Err(ProviderError::Cancelled),
                Err(AttemptError::Failed(fault)) => fault,
            };
            failures += 1;
            let dice = RandomState::new().hash_one(failures);
            match self.policy.decide(fault.kind, failures, fault.retry_after, dice) {
                RetryDecision::RetryAfter(time) => {
                    let pause_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                    on_part(ResponsePart::Retry { reason: &fault.message, pause_ms });
                    sleep_unless_cancelled(time, asking.cancel)?;
                }
                next @ (RetryDecision::Permanent
                | RetryDecision::RetriesExhausted
                | RetryDecision::WaitTooLong(_)) => {
                    return Err(ProviderError::Refused(
                        self.describe_failure(&fault, next, failures),
                    ));
                }
            }
        }
    }
}
