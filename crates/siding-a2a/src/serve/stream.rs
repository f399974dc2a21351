//! Streams the updates of a task to a client.

use std::sync::Arc;
use std::time::Duration;

use http::Response;
use hyper::body::Bytes;
use serde_json::Value;
use siding_core::sys::clock;
use siding_http::ResponseBody;
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_model::process::MonotonicMs;
use siding_tools::async_fd::{self, run_blocking};
use siding_tools::{AsyncCaller, CancelReason, TaskSnapshot, ToolContext};
use tokio::sync::mpsc::{Sender, channel};

use super::convert;
use super::tasks::{A2A_CALLER_NAME, TaskStore, internal_error};
use super::transcript::TranscriptCursor;
use crate::sse;
use crate::wire::{A2aState, ArtifactUpdate, RpcError, RpcResponse, Status, StatusUpdate, Update};

/// Interval between two reads of a task, in milliseconds. No task is read while no client is
/// connected.
const POLL_INTERVAL_MS: u64 = 200;
/// Silence after which a comment is sent, in milliseconds: some proxies close connections that are
/// silent for a minute.
const KEEP_ALIVE_INTERVAL_MS: u64 = 15_000;
/// Maximum number of events that are queued for a slow client.
const MAX_QUEUED_EVENTS: usize = 16;

/// Returns a response that streams the updates of a task until the task has ended.
pub(super) fn task_response(
    tasks: &Arc<TaskStore>,
    request: Value,
    id: TaskId,
    progress: TranscriptCursor,
) -> Response<ResponseBody> {
    let (sender, receiver) = channel(MAX_QUEUED_EVENTS);
    let stream_sender = StreamSender { tasks: Arc::clone(tasks), request, id, sender };
    tokio::spawn(stream_sender.run(progress));
    siding_http::stream_response(receiver, "text/event-stream")
}

struct StreamSender {
    tasks: Arc<TaskStore>,
    /// The id of the client's JSON-RPC request, which each update repeats.
    request: Value,
    id: TaskId,
    sender: Sender<Bytes>,
}

/// The client has disconnected, so neither updates nor errors can be sent.
struct ClientClosed;

impl StreamSender {
    async fn run(self, progress: TranscriptCursor) {
        let response = match self.send_updates(progress).await {
            Ok(()) | Err(Ok(ClientClosed)) => return,
            Err(Err(error)) => RpcResponse::for_request(&self.request, Err(error)),
        };
        if let Ok(text) = serde_json::to_string(&response) {
            // A client that has disconnected does not receive the error.
            let _peer_gone = self.sender.send(sse::format_event(&text).into()).await;
        }
    }

    /// Sends all updates until the task has ended. Returns `Err(Ok(ClientClosed))` when the client
    /// has disconnected, and `Err(Err(_))` with the error to send to the client.
    async fn send_updates(
        &self,
        progress: TranscriptCursor,
    ) -> Result<(), Result<ClientClosed, RpcError>> {
        let state = self.send_task().await?;
        if !state.is_live() {
            return Ok(());
        }
        let now = clock::monotonic_now();
        let mut caller = StreamCaller {
            stream: self,
            progress,
            sent_state: convert::to_a2a_state(&state),
            last_sent: now,
            next_poll: now.plus_ms(POLL_INTERVAL_MS),
        };
        let end = self.tasks.wait_until_end(self.id, &mut caller).await.map_err(Err)?;
        let Some(TaskSnapshot { dir, state }) = end else { return Err(Ok(ClientClosed)) };
        caller.send_steps(&state).await?;
        let task = run_blocking(|| self.tasks.to_a2a_task(&dir, &state));
        for artifact in task.artifacts {
            let (task_id, context_id) = convert::task_and_context_ids(&state);
            self.send_update(Update::ArtifactUpdate(ArtifactUpdate {
                task_id,
                context_id,
                artifact,
                append: false,
                last_chunk: true,
            }))
            .await?;
        }
        self.send_status(&state, task.status).await
    }

    /// Sends the complete task, which must precede every update, and returns the task's state.
    async fn send_task(&self) -> Result<TaskState, Result<ClientClosed, RpcError>> {
        let (dir, state) = run_blocking(|| self.tasks.read_state(self.id)).map_err(Err)?;
        let task = run_blocking(|| self.tasks.to_a2a_task(&dir, &state));
        self.send_update(Update::Task(task)).await?;
        Ok(state)
    }

    async fn send_status(
        &self,
        state: &TaskState,
        status: Status,
    ) -> Result<(), Result<ClientClosed, RpcError>> {
        let (task_id, context_id) = convert::task_and_context_ids(state);
        self.send_update(Update::StatusUpdate(StatusUpdate { task_id, context_id, status })).await
    }

    async fn send_update(&self, update: Update) -> Result<(), Result<ClientClosed, RpcError>> {
        let result = serde_json::to_value(update).map_err(|error| Err(internal_error(error)))?;
        let answer = serde_json::to_string(&RpcResponse::for_request(&self.request, Ok(result)));
        let answer = answer.map_err(|error| Err(internal_error(error)))?;
        self.send_bytes(sse::format_event(&answer).into()).await
    }

    async fn send_bytes(&self, bytes: Bytes) -> Result<(), Result<ClientClosed, RpcError>> {
        self.sender.send(bytes).await.map_err(|_| Ok(ClientClosed))
    }
}

/// A client that receives the agent's steps while it waits for the end.
struct StreamCaller<'s> {
    stream: &'s StreamSender,
    progress: TranscriptCursor,
    /// The state that was last sent to the client.
    sent_state: A2aState,
    last_sent: MonotonicMs,
    next_poll: MonotonicMs,
}

impl StreamCaller<'_> {
    /// Sends the agent's steps since the last call. Returns whether there were any.
    async fn send_steps(
        &mut self,
        state: &TaskState,
    ) -> Result<bool, Result<ClientClosed, RpcError>> {
        let steps = run_blocking(|| self.stream.tasks.new_steps(state, &mut self.progress));
        for step in &steps {
            let status = convert::to_a2a_status(state, A2aState::Working, Some(step));
            self.stream.send_status(state, status).await?;
        }
        Ok(!steps.is_empty())
    }

    async fn send_progress(
        &mut self,
        state: &TaskState,
    ) -> Result<(), Result<ClientClosed, RpcError>> {
        let now = clock::monotonic_now();
        let a2a_state = convert::to_a2a_state(state);
        let mut is_sent = self.send_steps(state).await?;
        if a2a_state != self.sent_state {
            let status = convert::to_a2a_status(state, a2a_state.clone(), None);
            self.stream.send_status(state, status).await?;
            self.sent_state = a2a_state;
            is_sent = true;
        } else if now.ms_since(self.last_sent) > KEEP_ALIVE_INTERVAL_MS {
            self.stream.send_bytes(sse::KEEP_ALIVE_COMMENT.into()).await?;
            is_sent = true;
        }
        if is_sent {
            self.last_sent = now;
        }
        Ok(())
    }
}

impl AsyncCaller for StreamCaller<'_> {
    fn name(&self) -> &'static str {
        A2A_CALLER_NAME
    }

    fn cancelled(&self) -> impl Future<Output = CancelReason> + Send + 'static {
        let sender = self.stream.sender.clone();
        async move {
            sender.closed().await;
            CancelReason::CallerGone
        }
    }

    async fn progress_due(&self) {
        async_fd::sleep_until(self.next_poll).await;
    }

    async fn report_progress(
        &mut self,
        _context: &ToolContext,
        snapshot: Option<&TaskSnapshot>,
        _bound: Duration,
    ) {
        // `send_updates` sends the end together with the result, after the wait.
        if let Some(snapshot) = snapshot.filter(|snapshot| snapshot.state.is_live()) {
            // An error is ignored: when the client has disconnected, `cancelled` ends the wait.
            let _peer_gone = self.send_progress(&snapshot.state).await;
        }
        self.next_poll = clock::monotonic_now().plus_ms(POLL_INTERVAL_MS);
    }
}
