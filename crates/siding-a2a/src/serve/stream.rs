//! Telling a client what becomes of a task, as it comes.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Response, header};
use http_body_util::BodyExt;
use hyper::body::{Bytes, Frame};
use serde_json::Value;
use siding_http::Body;
use siding_model::id::TaskId;
use siding_model::journal::TaskState;
use siding_tools::sleep::block;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep};

use super::book::{Book, internal};
use super::progress::Progress;
use super::report;
use crate::sse;
use crate::wire::{Answer, ArtifactUpdate, RpcError, State, Status, StatusUpdate, Update};

/// Time between two looks at a task. Only while somebody listens.
const LOOK: Duration = Duration::from_millis(200);
/// Silence after which a comment is sent: proxies end connections that are silent for a minute.
const ALIVE: Duration = Duration::from_secs(15);
/// Events that a client may be behind.
const BEHIND: usize = 16;

/// Events on their way.
struct Events(Receiver<Bytes>);

impl hyper::body::Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// Returns an answer that tells what becomes of a task until it is over.
pub(super) fn of_task(
    book: &Arc<Book>,
    request: Value,
    id: TaskId,
    progress: Progress,
) -> Response<Body> {
    let (sender, receiver) = channel(BEHIND);
    let teller = Teller { book: Arc::clone(book), request, id, sender };
    tokio::spawn(teller.tell(progress));
    let mut response = Response::new(Events(receiver).boxed());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

struct Teller {
    book: Arc<Book>,
    /// The id of the request that is answered.
    request: Value,
    id: TaskId,
    sender: Sender<Bytes>,
}

/// The client has gone.
struct Gone;

impl Teller {
    async fn tell(self, progress: Progress) {
        let told = match self.follow(progress).await {
            Ok(()) | Err(Ok(Gone)) => return,
            Err(Err(error)) => Answer::to(&self.request, Err(error)),
        };
        if let Ok(text) = serde_json::to_string(&told) {
            // It has gone without hearing why.
            let _gone = self.sender.send(sse::event(&text).into()).await;
        }
    }

    /// Tells all there is, to the end. `Err(Ok)` when nobody listens any more.
    async fn follow(&self, mut progress: Progress) -> Result<(), Result<Gone, RpcError>> {
        let mut before = self.begin().await?;
        let mut heard = Instant::now();
        while before.is_live() {
            sleep(LOOK).await;
            let (dir, state) = block(|| self.book.state(self.id)).map_err(Err)?;
            let stands = report::state_of(&state);
            for step in block(|| self.book.steps(&state, &mut progress)) {
                let status = report::status(&state, State::Working, Some(&step));
                self.status(&state, status).await?;
                heard = Instant::now();
            }
            if !state.is_live() {
                let task = block(|| self.book.told(&dir, &state));
                for artifact in task.artifacts {
                    let (task_id, context_id) = report::names(&state);
                    self.send(Update::ArtifactUpdate(ArtifactUpdate {
                        task_id,
                        context_id,
                        artifact,
                        append: false,
                        last_chunk: true,
                    }))
                    .await?;
                }
                self.status(&state, task.status).await?;
            } else if stands != report::state_of(&before) {
                self.status(&state, report::status(&state, stands, None)).await?;
                heard = Instant::now();
            } else if heard.elapsed() > ALIVE {
                self.pass(sse::COMMENT.into()).await?;
                heard = Instant::now();
            }
            before = state;
        }
        Ok(())
    }

    /// Tells how the task stands, whole, before anything else.
    async fn begin(&self) -> Result<TaskState, Result<Gone, RpcError>> {
        let (dir, state) = block(|| self.book.state(self.id)).map_err(Err)?;
        let task = block(|| self.book.told(&dir, &state));
        self.send(Update::Task(task)).await?;
        Ok(state)
    }

    async fn status(
        &self,
        state: &TaskState,
        status: Status,
    ) -> Result<(), Result<Gone, RpcError>> {
        let (task_id, context_id) = report::names(state);
        self.send(Update::StatusUpdate(StatusUpdate { task_id, context_id, status })).await
    }

    async fn send(&self, update: Update) -> Result<(), Result<Gone, RpcError>> {
        let result = serde_json::to_value(update).map_err(|error| Err(internal(error)))?;
        let answer = serde_json::to_string(&Answer::to(&self.request, Ok(result)));
        let answer = answer.map_err(|error| Err(internal(error)))?;
        self.pass(sse::event(&answer).into()).await
    }

    async fn pass(&self, bytes: Bytes) -> Result<(), Result<Gone, RpcError>> {
        self.sender.send(bytes).await.map_err(|_| Ok(Gone))
    }
}
