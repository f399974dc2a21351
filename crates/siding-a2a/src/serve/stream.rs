//! Streams the updates of a task to a client.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Response, header};
use http_body_util::BodyExt;
use hyper::body::{Bytes, Frame};
use serde_json::Value;
use siding_http::ResponseBody;
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_tools::async_fd::run_blocking;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep};

use super::convert;
use super::tasks::{TaskStore, internal_error};
use super::transcript::TranscriptCursor;
use crate::sse;
use crate::wire::{A2aState, ArtifactUpdate, RpcError, RpcResponse, Status, StatusUpdate, Update};

/// Interval between two reads of a task. A task is read only while a client is connected.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Silence after which a comment is sent: proxies close connections that are silent for a minute.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Maximum number of events that are queued for a slow client.
const MAX_QUEUED_EVENTS: usize = 16;

/// The response body: queued events.
struct EventBody(Receiver<Bytes>);

impl hyper::body::Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

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
    let mut response = Response::new(EventBody(receiver).boxed());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

struct StreamSender {
    tasks: Arc<TaskStore>,
    /// The id of the JSON-RPC request.
    request: Value,
    id: TaskId,
    sender: Sender<Bytes>,
}

/// The error for a client that has disconnected.
struct ClientClosed;

impl StreamSender {
    async fn run(self, progress: TranscriptCursor) {
        let response = match self.send_updates(progress).await {
            Ok(()) | Err(Ok(ClientClosed)) => return,
            Err(Err(error)) => RpcResponse::for_request(&self.request, Err(error)),
        };
        if let Ok(text) = serde_json::to_string(&response) {
            // The client has disconnected, so it does not receive the error.
            let _peer_gone = self.sender.send(sse::format_event(&text).into()).await;
        }
    }

    /// Sends all updates until the task has ended. `Err(Ok)` when the client has disconnected.
    async fn send_updates(
        &self,
        mut progress: TranscriptCursor,
    ) -> Result<(), Result<ClientClosed, RpcError>> {
        let mut previous = self.send_task().await?;
        let mut last_sent = Instant::now();
        while previous.is_live() {
            sleep(POLL_INTERVAL).await;
            let (dir, state) = run_blocking(|| self.tasks.read_state(self.id)).map_err(Err)?;
            let stands = convert::to_a2a_state(&state);
            for step in run_blocking(|| self.tasks.new_steps(&state, &mut progress)) {
                let status = convert::to_a2a_status(&state, A2aState::Working, Some(&step));
                self.send_status(&state, status).await?;
                last_sent = Instant::now();
            }
            if !state.is_live() {
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
                self.send_status(&state, task.status).await?;
            } else if stands != convert::to_a2a_state(&previous) {
                self.send_status(&state, convert::to_a2a_status(&state, stands, None)).await?;
                last_sent = Instant::now();
            } else if last_sent.elapsed() > KEEP_ALIVE_INTERVAL {
                self.send_bytes(sse::KEEP_ALIVE_COMMENT.into()).await?;
                last_sent = Instant::now();
            }
            previous = state;
        }
        Ok(())
    }

    /// Sends the complete task before any update.
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
