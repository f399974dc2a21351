//! Event streams: the changes of all tasks, and the lines of one task's output.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, Response};
use hyper::body::Bytes;
use siding_core::store::TaskDir;
use siding_http::ResponseBody;
use siding_model::id::TaskId;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::{Sender, channel};

use crate::access::header_text;
use crate::context::WebContext;
use crate::event_log::{RESET_EVENT, Resumption, SentEvent, format_event};
use crate::output_window::{self, LineEnd, OutputLine, OutputWindow, WINDOW_BYTES, WindowStart};
use crate::page;
use crate::query::Query;
use crate::response;

const EVENT_STREAM: &str = "text/event-stream";
/// Maximum number of messages that wait for a slow client, besides those in its socket.
const MAX_QUEUED_MESSAGES: usize = 4;
/// Silence after which a comment is sent: some proxies close connections that are silent for a
/// minute.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(15);
/// Interval at which the size of a followed output is read.
const OUTPUT_POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Size of the part of a followed output that is sent in one message, in bytes. Rendered lines take
/// several times as much.
const FOLLOW_BYTES: u64 = 16 << 10;
/// Amount of unsent output beyond which a follower skips to the end, in bytes.
const MAX_BEHIND_BYTES: u64 = 4 * WINDOW_BYTES;

/// The client has disconnected.
struct ClientClosed;

/// Returns the stream of the changes of all tasks. A client that connects again with the header
/// `Last-Event-ID`, or `after` in the address, receives what it missed, or the event `reset`.
pub(crate) fn task_events(
    context: &Arc<WebContext>,
    query: &Query,
    headers: &HeaderMap,
) -> Response<ResponseBody> {
    let last_id = last_event_id(query, headers);
    let (sender, receiver) = channel(MAX_QUEUED_MESSAGES);
    let context = Arc::clone(context);
    tokio::spawn(async move {
        let _peer_gone = send_task_events(&context, last_id.as_deref(), &sender).await;
    });
    siding_http::stream_response(receiver, EVENT_STREAM)
}

async fn send_task_events(
    context: &WebContext,
    last_id: Option<&str>,
    sender: &Sender<Bytes>,
) -> Result<(), ClientClosed> {
    let mut subscription = context.feed.subscribe(last_id);
    send(sender, "retry: 2000\n\n".to_owned()).await?;
    match subscription.missed {
        Resumption::Events(events) => {
            for event in events {
                send_event(context, &event, sender).await?;
            }
        }
        Resumption::Reset => send_reset(context, subscription.last_number, sender).await?,
    }
    loop {
        let next = tokio::time::timeout(KEEP_ALIVE_INTERVAL, subscription.receiver.recv());
        tokio::select! {
            () = sender.closed() => return Err(ClientClosed),
            event = next => match event {
                Err(_silence) => send(sender, ": still here\n\n".to_owned()).await?,
                Ok(Ok(event)) => send_event(context, &event, sender).await?,
                Ok(Err(RecvError::Lagged(_))) => {
                    // The client was too slow for the queue, and reads the present state instead.
                    subscription = context.feed.subscribe(None);
                    send_reset(context, subscription.last_number, sender).await?;
                }
                Ok(Err(RecvError::Closed)) => return Ok(()),
            },
        }
    }
}

async fn send_event(
    context: &WebContext,
    event: &SentEvent,
    sender: &Sender<Bytes>,
) -> Result<(), ClientClosed> {
    let id = context.feed.format_id(event.number);
    send(sender, format_event(&id, event.name, &event.data)).await
}

async fn send_reset(
    context: &WebContext,
    number: u64,
    sender: &Sender<Bytes>,
) -> Result<(), ClientClosed> {
    send(sender, format_event(&context.feed.format_id(number), RESET_EVENT, "{}")).await
}

async fn send(sender: &Sender<Bytes>, text: String) -> Result<(), ClientClosed> {
    sender.send(text.into()).await.map_err(|_| ClientClosed)
}

/// Returns the stream of the lines of a task's output from an offset, as HTML. The id of an event
/// is the offset at which the next one starts.
pub(crate) fn output_events(
    context: &Arc<WebContext>,
    id: TaskId,
    query: &Query,
    headers: &HeaderMap,
) -> Response<ResponseBody> {
    let Some((dir, keep_head)) = context.open_task(id) else {
        return page::failure(http::StatusCode::NOT_FOUND, false);
    };
    let checked = query.check_names(&["from", "after"]).and_then(|()| query.bytes("from"));
    let from = match checked {
        Ok(from) => from,
        Err(message) => return response::json_error(http::StatusCode::BAD_REQUEST, &message),
    };
    let resumed = last_event_id(query, headers).and_then(|id| id.parse().ok());
    let from = resumed.or(from).unwrap_or(0);
    // A slow client makes the follower skip, instead of filling a queue.
    let (sender, receiver) = channel(1);
    let follower = OutputFollower { context: Arc::clone(context), id, dir, keep_head, sender };
    tokio::spawn(async move {
        let _peer_gone = follower.run(from).await;
    });
    siding_http::stream_response(receiver, EVENT_STREAM)
}

struct OutputFollower {
    context: Arc<WebContext>,
    id: TaskId,
    dir: TaskDir,
    keep_head: u64,
    sender: Sender<Bytes>,
}

impl OutputFollower {
    /// Sends new lines until the task has ended and its output is sent.
    async fn run(&self, mut from: u64) -> Result<(), ClientClosed> {
        let mut shown_to = from;
        let mut silent = Duration::ZERO;
        loop {
            // The state is read before the output, so that an ended task has no more output.
            let is_live = self.is_live();
            let window = self.read(from);
            let end = window.end();
            if end > shown_to {
                from = self.send_lines(&window, from).await?;
                shown_to = end;
                silent = Duration::ZERO;
                if end < window.bytes {
                    continue;
                }
            } else if !is_live {
                return send(&self.sender, format_event(&from.to_string(), "end", "{}")).await;
            }
            tokio::select! {
                () = self.sender.closed() => return Err(ClientClosed),
                () = tokio::time::sleep(OUTPUT_POLL_INTERVAL) => silent += OUTPUT_POLL_INTERVAL,
            }
            if silent >= KEEP_ALIVE_INTERVAL {
                silent = Duration::ZERO;
                send(&self.sender, ": still here\n\n".to_owned()).await?;
            }
        }
    }

    fn is_live(&self) -> bool {
        self.context.feed.read(|view| view.task(self.id).is_some_and(|task| task.is_live()))
    }

    /// Reads the next lines, or the last ones if too many are unsent.
    fn read(&self, from: u64) -> OutputWindow {
        let read = |start| {
            tokio::task::block_in_place(|| {
                output_window::read_window(&self.dir, self.keep_head, start, FOLLOW_BYTES)
            })
            .unwrap_or_default()
        };
        let window = read(WindowStart::Exact(from));
        if window.bytes.saturating_sub(window.next) > MAX_BEHIND_BYTES {
            return read(WindowStart::End);
        }
        window
    }

    /// Sends the lines of a window. Returns the offset at which the next window starts: an
    /// incomplete line is sent again when it has grown.
    async fn send_lines(&self, window: &OutputWindow, from: u64) -> Result<u64, ClientClosed> {
        let is_growing =
            |line: &&OutputLine| line.end == LineEnd::Open && window.end() >= window.bytes;
        let open = window.lines.last().filter(is_growing);
        let next = open.map_or(window.next, |line| line.from);
        let skipped = window.from.saturating_sub(from);
        let html = page::output_lines(window).into_string();
        let data = serde_json::json!({
            "from": window.from, "skipped": skipped, "bytes": window.bytes, "html": html,
        });
        let event = format_event(&next.to_string(), "lines", &data.to_string());
        send(&self.sender, event).await?;
        Ok(next)
    }
}

fn last_event_id(query: &Query, headers: &HeaderMap) -> Option<String> {
    let header = header_text(headers, &HeaderName::from_static("last-event-id"));
    header.filter(|id| !id.is_empty()).or_else(|| query.get("after").map(str::to_owned))
}
