//! Models that are asked over HTTP, through the library genai.
//!
//! What is ours stays ours: when it is tried again ([`super::retry`]), where requests go and with which
//! key (`endpoint`), what stands in them (`request`), and what a failure means (`fault`). The library
//! does the wire: the JSON of each API, and the stream of an answer.

mod client;
mod endpoint;
mod fault;
mod heard;
mod request;
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

use self::fault::Fault;
use self::heard::Heard;
use super::open::OpenError;
use super::pause::{TICK, pause};
use super::retry::{Next, Policy};
use super::{Answer, AskError, Asking, Cancel, Part, Provider};
use crate::engine::Engine;

pub(super) use endpoint::{Dialect, Endpoint};

/// Columns of a model's name, when it is told.
const COLUMNS: usize = 60;

/// How long it is waited for a server.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// For its first word: a model may think before it, and a long prompt is read before it.
    pub(super) answer: Duration,
    /// For the next word.
    pub(super) silence: Duration,
}

impl Default for Patience {
    /// The first is the time-out of Anthropic's own clients; the second that of Codex for a stream.
    /// Anthropic's servers send a ping every few seconds, others nothing while a model thinks.
    fn default() -> Self {
        Self { answer: Duration::from_secs(10 * 60), silence: Duration::from_secs(5 * 60) }
    }
}

/// A model behind HTTP.
pub(super) struct Remote {
    endpoint: Endpoint,
    name: String,
    target: ServiceTarget,
    client: Client,
    /// Drives the connections between two requests too: else one that the server has closed meanwhile
    /// would be taken for good, and the next request be lost on it.
    engine: Engine,
    policy: Policy,
    patience: Patience,
}

/// Why a try came to nothing.
enum Ended {
    Cancelled,
    Fault(Fault),
}

impl Remote {
    /// Gets everything ready to ask. Connects to nobody.
    ///
    /// # Errors
    ///
    /// [`OpenError`] when the machine has no certificates or no thread.
    pub(super) fn open(
        endpoint: Endpoint,
        name: &str,
        policy: Policy,
        patience: Patience,
    ) -> Result<Self, OpenError> {
        let client = client::client(&endpoint)?;
        let target = endpoint.target(name);
        let engine = Engine::start("siding-model", 1)
            .map_err(|error| OpenError::Client { why: error.to_string() })?;
        let name = name.to_owned();
        Ok(Self { endpoint, name, target, client, engine, policy, patience })
    }

    /// Asks once.
    async fn once(
        &self,
        request: ChatRequest,
        options: &ChatOptions,
        cancel: &Cancel,
        listen: &mut dyn FnMut(Part<'_>),
    ) -> Result<Answer, Ended> {
        let fault = |error: &genai::Error| Ended::Fault(Fault::of(error, clock::unix_now()));
        let opened =
            self.client.exec_chat_stream(self.target.clone(), request, Some(options)).await;
        let mut stream = opened.map_err(|error| fault(&error))?.stream;
        let mut heard = Heard::default();
        loop {
            if cancel.is_set() {
                return Err(Ended::Cancelled);
            }
            let Ok(event) = timeout(TICK, stream.next()).await else { continue };
            let event = event.ok_or_else(|| Ended::Fault(Fault::cut_off()))?;
            if let Some(answer) = heard.take(event.map_err(|error| fault(&error))?, listen) {
                return Ok(answer);
            }
        }
    }

    /// Says why there is no answer, and what can be done.
    fn words(&self, fault: &Fault, next: Next, tries: u32) -> String {
        let who =
            format!("{}:{}", self.endpoint.dialect().provider(), one_line(&self.name, COLUMNS));
        let what = self.endpoint.explain(fault);
        match next {
            Next::Enough => format!("{who}, tried {tries} times: {what}"),
            Next::Later(time) => {
                format!("{who}: {what}; it wants to be left alone for {} s", time.as_secs())
            }
            Next::Again(_) | Next::Never => format!("{who}: {what}"),
        }
    }
}

impl Provider for Remote {
    fn ask(
        &self,
        asking: &Asking<'_>,
        listen: &mut dyn FnMut(Part<'_>),
    ) -> Result<Answer, AskError> {
        let dialect = self.endpoint.dialect();
        let request = request::request(dialect, asking);
        let options = request::options(dialect, &self.name, asking.max_tokens, self.patience);
        let mut failures = 0;
        loop {
            let once = self.once(request.clone(), &options, asking.cancel, listen);
            let fault = match self.engine.block_on(once) {
                Ok(answer) => return Ok(answer),
                Err(Ended::Cancelled) => return Err(AskError::Cancelled),
                Err(Ended::Fault(fault)) => fault,
            };
            failures += 1;
            let dice = RandomState::new().hash_one(failures);
            match self.policy.next(fault.trouble, failures, fault.asked, dice) {
                Next::Again(time) => {
                    let pause_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                    listen(Part::Again { why: &fault.why, pause_ms });
                    pause(time, asking.cancel)?;
                }
                next @ (Next::Never | Next::Enough | Next::Later(_)) => {
                    return Err(AskError::Refused(self.words(&fault, next, failures)));
                }
            }
        }
    }
}
