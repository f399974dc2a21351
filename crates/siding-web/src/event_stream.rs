//! Event streams: the changes of all tasks, and the lines of one task's output.

use std::sync::{Arc, Weak};
use std::time::Duration;

use http::{HeaderMap, HeaderName, Response};
use hyper::body::Bytes;
use siding_http::ResponseBody;
use siding_live::LiveTask;
use siding_model::id::TaskId;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc::{Sender, channel};

use crate::access::header_text;
use crate::context::WebContext;
use crate::event_log::{RESET_EVENT, Resumption, SentEvent, format_event};
use crate::output_feed::OutputFeed;
use crate::output_window::OutputWindow;
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
const UPDATE_INTERVAL: Duration = Duration::from_millis(250);

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
    send_bytes(sender, text.into()).await
}

async fn send_bytes(sender: &Sender<Bytes>, bytes: Bytes) -> Result<(), ClientClosed> {
    sender.send(bytes).await.map_err(|_| ClientClosed)
}

/// Returns the stream of the lines of a task's output from an offset, as HTML. The id of an event
/// is the offset at which the next one starts.
pub(crate) fn output_events(
    context: &Arc<WebContext>,
    id: TaskId,
    query: &Query,
    headers: &HeaderMap,
) -> Response<ResponseBody> {
    let checked = query.check_names(&["from", "after"]).and_then(|()| query.bytes("from"));
    let from = match checked {
        Ok(from) => from,
        Err(message) => return response::json_error(http::StatusCode::BAD_REQUEST, &message),
    };
    let Some(feed) = context.outputs.feed_or_start(id, || start_feed(context, id)) else {
        return page::failure(http::StatusCode::NOT_FOUND, false);
    };
    let resumed = last_event_id(query, headers).and_then(|id| id.parse().ok());
    let from = resumed.or(from).unwrap_or(0);
    // A slow client makes the follower skip, instead of filling a queue.
    let (sender, receiver) = channel(1);
    tokio::spawn(async move {
        let _peer_gone = follow_output(&feed, from, &sender).await;
    });
    siding_http::stream_response(receiver, EVENT_STREAM)
}

/// Starts the feed of a task's output; `None` if there is no such task.
fn start_feed(context: &Arc<WebContext>, id: TaskId) -> Option<Arc<OutputFeed>> {
    let (dir, keep_head) = context.open_task(id)?;
    let feed = Arc::new(OutputFeed::new(dir, keep_head, lines_event));
    tokio::spawn(update_feed(Arc::clone(context), id, Arc::downgrade(&feed)));
    Some(feed)
}

/// Measures an output at each interval until no page follows it.
async fn update_feed(context: Arc<WebContext>, id: TaskId, feed: Weak<OutputFeed>) {
    while let Some(feed) = feed.upgrade() {
        // The state is read before the output, so that an ended task has no more output.
        let is_live = context.feed.read(|view| view.task(id).is_some_and(LiveTask::is_live));
        feed.update(is_live).await;
        drop(feed);
        tokio::time::sleep(UPDATE_INTERVAL).await;
    }
}

/// Returns the event with the lines of a window, whose id is the offset of the next ones.
fn lines_event(window: &OutputWindow, from: u64, next: u64) -> Bytes {
    let skipped = window.from.saturating_sub(from);
    let html = page::output_lines(window).into_string();
    let data = serde_json::json!({
        "from": window.from, "skipped": skipped, "bytes": window.bytes, "html": html,
    });
    format_event(&next.to_string(), "lines", &data.to_string()).into()
}

/// Sends new lines until the task has ended and its output is sent.
async fn follow_output(
    feed: &OutputFeed,
    mut from: u64,
    sender: &Sender<Bytes>,
) -> Result<(), ClientClosed> {
    let mut updates = feed.subscribe();
    let mut shown_to = from;
    loop {
        // The state is read before the output, so that an ended task has no more output.
        let is_live = updates.borrow_and_update().is_live;
        loop {
            let lines = feed.lines_from(from).await;
            if lines.end <= shown_to {
                break;
            }
            send_bytes(sender, lines.event.clone()).await?;
            (from, shown_to) = (lines.next, lines.end);
            if lines.is_last {
                break;
            }
        }
        if !is_live {
            return send(sender, format_event(&from.to_string(), "end", "{}")).await;
        }
        tokio::select! {
            () = sender.closed() => return Err(ClientClosed),
            update = tokio::time::timeout(KEEP_ALIVE_INTERVAL, updates.changed()) => match update {
                Err(_silence) => send(sender, ": still here\n\n".to_owned()).await?,
                Ok(Ok(())) => {}
                Ok(Err(_feed_closed)) => return Ok(()),
            },
        }
    }
}

fn last_event_id(query: &Query, headers: &HeaderMap) -> Option<String> {
    let header = header_text(headers, &HeaderName::from_static("last-event-id"));
    header.filter(|id| !id.is_empty()).or_else(|| query.get("after").map(str::to_owned))
}
