//! The output of tasks as resources with change notifications: `siding://tasks/ID/output`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{
    ReadResourceResult, Resource, ResourceContents, ResourceTemplate,
    ResourceUpdatedNotificationParam, SubscriptionFilter,
};
use rmcp::service::{Peer, RoleServer, SubscriptionContext, SubscriptionSink};
use siding_core::output::{self, OutputSize};
use siding_core::task::watch::TaskWatch;
use siding_model::advice;
use siding_model::id::TaskId;
use siding_model::protocol::{ShimMessage, ShimRequest};
use siding_tools::async_fd::{ReadableFds, run_blocking};
use siding_tools::text::LINE_COLUMNS;
use siding_tools::tools::{TaskScope, tasks};
use siding_tools::{SHIM_PROGRAM, ToolContext, ToolError};
use tokio::task::{AbortHandle, JoinSet};

/// The URI before the task's id; [`URI_SUFFIX`] follows the id.
const URI_PREFIX: &str = "siding://tasks/";
const URI_SUFFIX: &str = "/output";
/// Maximum bytes of text in one read: the beginning and the end of the output.
const MAX_READ_BYTES: usize = 1 << 20;
/// Minimum time between two notifications about the same output.
const NOTIFY_INTERVAL: Duration = Duration::from_millis(250);
const TEXT_MIME_TYPE: &str = "text/plain";

fn output_uri(id: TaskId) -> String {
    format!("{URI_PREFIX}{id}{URI_SUFFIX}")
}

/// Finds the task whose output the URI names.
fn find_task(tool_context: &ToolContext, uri: &str) -> Result<TaskId, ErrorData> {
    let id = uri.strip_prefix(URI_PREFIX).and_then(|rest| rest.strip_suffix(URI_SUFFIX));
    let id: Option<TaskId> = id.and_then(|id| id.parse().ok());
    id.filter(|id| tool_context.root.task_dir(*id).is_ok()).ok_or_else(|| {
        let data = serde_json::json!({ "uri": uri });
        ErrorData::resource_not_found(
            format!("no resource `{uri}`; `resources/list` lists the resources"),
            Some(data),
        )
    })
}

fn internal_error(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

/// Returns the outputs of tasks of this session and its subagents as resources: of all running
/// tasks, and of the most recently ended ones.
pub(crate) fn list(tool_context: &ToolContext) -> Result<Vec<Resource>, ErrorData> {
    let views = run_blocking(|| tasks(tool_context, TaskScope::Session)).map_err(internal_error)?;
    Ok(views
        .into_iter()
        .map(|view| {
            Resource::new(output_uri(view.task_id), format!("output of {}", view.task_id))
                .with_description(advice::format_task_line(&view, LINE_COLUMNS))
                .with_mime_type(TEXT_MIME_TYPE)
                .with_size(view.output.bytes)
        })
        .collect())
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    let template =
        ResourceTemplate::new(format!("{URI_PREFIX}{{id}}{URI_SUFFIX}"), "output of a task");
    vec![
        template
            .with_description("The output of a task, as readable text.")
            .with_mime_type(TEXT_MIME_TYPE),
    ]
}

pub(crate) fn read(tool_context: &ToolContext, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let id = find_task(tool_context, uri)?;
    let excerpt = run_blocking(|| {
        let snapshot = tool_context.snapshot(id)?;
        let keep_head = snapshot.state.spec.keep_head;
        output::excerpt(&snapshot.dir, keep_head, MAX_READ_BYTES)
            .map_err(|source| ToolError::Io { doing: "read the output", source })
    });
    let text = excerpt.map_err(internal_error)?.text;
    Ok(ReadResourceResult::new(vec![
        ResourceContents::text(text, uri).with_mime_type(TEXT_MIME_TYPE),
    ]))
}

/// Returns the requested subscriptions whose resources exist.
pub(crate) fn accepted_filter(
    tool_context: &ToolContext,
    requested: &SubscriptionFilter,
) -> SubscriptionFilter {
    let uris = requested.resource_subscriptions.iter().flatten();
    let known = uris.filter(|uri| find_task(tool_context, uri).is_ok()).cloned();
    SubscriptionFilter::builder().resource_subscriptions(known.collect::<Vec<_>>()).build()
}

/// Notifies the client when an output grows, until the client ends the subscription (revision
/// 2026-07-28).
pub(crate) async fn listen(
    tool_context: &Arc<ToolContext>,
    context: SubscriptionContext,
) -> Result<(), ErrorData> {
    let mut following = JoinSet::new();
    for uri in context.accepted().resource_subscriptions.iter().flatten() {
        // The SDK has already confirmed the subscription. Output from before and after the
        // confirmation cannot be distinguished, so all output is reported as new; a superfluous
        // update does no harm.
        let growth = OutputGrowth { id: find_task(tool_context, uri)?, known_bytes: 0 };
        following.spawn(notify_growth(
            Arc::clone(tool_context),
            growth,
            UpdateSink::Sink(context.sink().clone()),
        ));
    }
    context.cancelled().await;
    Ok(())
}

/// The subscriptions of one client of the older handshake. They end when the client disconnects.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions(Mutex<HashMap<String, AbortHandle>>);

impl Subscriptions {
    pub(crate) fn add(
        &self,
        tool_context: &Arc<ToolContext>,
        uri: String,
        peer: Peer<RoleServer>,
    ) -> Result<(), ErrorData> {
        let growth = OutputGrowth::from_now(tool_context, find_task(tool_context, &uri)?);
        let task =
            tokio::spawn(notify_growth(Arc::clone(tool_context), growth, UpdateSink::Peer(peer)));
        self.replace(uri, Some(task.abort_handle()));
        Ok(())
    }

    pub(crate) fn remove(&self, uri: &str) {
        self.replace(uri.to_owned(), None);
    }

    fn replace(&self, uri: String, with: Option<AbortHandle>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match with {
            Some(handle) => all.insert(uri, handle),
            None => all.remove(&uri),
        };
        if let Some(before) = before {
            before.abort();
        }
    }
}

impl Drop for Subscriptions {
    fn drop(&mut self) {
        let all = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        all.values().for_each(AbortHandle::abort);
    }
}

/// The SDK's sender of update notifications, which differs between the two handshakes.
enum UpdateSink {
    Peer(Peer<RoleServer>),
    Sink(SubscriptionSink),
}

impl UpdateSink {
    /// Notifies the client that the output has changed. Returns false when the client has
    /// disconnected.
    async fn notify_updated(&self, id: TaskId) -> bool {
        match self {
            Self::Peer(peer) => {
                let notification = ResourceUpdatedNotificationParam::new(output_uri(id));
                peer.notify_resource_updated(notification).await.is_ok()
            }
            Self::Sink(sink) => sink.notify_resource_updated(output_uri(id)).await.is_ok(),
        }
    }
}

/// A task's output, and the number of bytes that the client is assumed to have received.
struct OutputGrowth {
    id: TaskId,
    known_bytes: u64,
}

impl OutputGrowth {
    /// Returns a value that counts the current output as received by the client. The subscription
    /// must not have been confirmed yet, so that the client is notified of all later growth.
    fn from_now(tool_context: &ToolContext, id: TaskId) -> Self {
        Self { id, known_bytes: output_bytes(tool_context, id).unwrap_or(0) }
    }

    /// Returns whether the output has grown since the last call.
    fn has_grown(&mut self, tool_context: &ToolContext) -> bool {
        let bytes = output_bytes(tool_context, self.id).unwrap_or(self.known_bytes);
        let has_grown = bytes > self.known_bytes;
        self.known_bytes = bytes;
        has_grown
    }
}

fn output_bytes(tool_context: &ToolContext, id: TaskId) -> Option<u64> {
    let snapshot = run_blocking(|| tool_context.snapshot(id)).ok()?;
    Some(OutputSize::measure(&snapshot.dir, snapshot.state.spec.keep_head).bytes)
}

/// Notifies the client when the output grows, at a bounded rate, and once more when the task has
/// ended or can no longer be watched. Does nothing if the task cannot be watched at all.
async fn notify_growth(tool_context: Arc<ToolContext>, mut growth: OutputGrowth, sink: UpdateSink) {
    let id = growth.id;
    let resubscribe = ShimRequest::Subscribe { follow: true, shown: None };
    let Ok(mut watch) = run_blocking(|| TaskWatch::open(&tool_context.root, SHIM_PROGRAM, id))
    else {
        return;
    };
    if run_blocking(|| watch.send(&resubscribe)).is_err() {
        return;
    }
    while let Some(source) = watch.source() {
        let Ok(sources) = ReadableFds::new(&[source]) else { break };
        if sources.readable().await.is_err() {
            break;
        }
        let ask_again = match run_blocking(|| watch.try_recv()) {
            Ok(Some(ShimMessage::Output { .. })) => true,
            // From here on the shim reports growth; earlier growth is checked below.
            Ok(Some(ShimMessage::Done)) => false,
            // A new shim may have taken over, which has not received this subscription.
            Ok(None) => true,
            Ok(Some(_)) => continue,
            Err(_) => break,
        };
        if growth.has_grown(&tool_context) {
            if !sink.notify_updated(id).await {
                return;
            }
            tokio::time::sleep(NOTIFY_INTERVAL).await;
        }
        if ask_again && run_blocking(|| watch.send(&resubscribe)).is_err() {
            break;
        }
    }
    let _peer_gone = sink.notify_updated(id).await;
}
