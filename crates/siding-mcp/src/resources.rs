//! What tasks wrote, as resources that tell when they grow: `siding://tasks/ID/output`.

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
use siding_core::watch::TaskWatch;
use siding_model::advice;
use siding_model::id::TaskId;
use siding_model::protocol::{ShimMessage, ShimRequest};
use siding_tools::sleep::{Sources, block};
use siding_tools::text::LINE;
use siding_tools::tools::{Whose, tasks};
use siding_tools::{Host, PROGRAM, Refusal};
use tokio::task::{AbortHandle, JoinSet};

/// What stands before and after a task's id.
const BEFORE: &str = "siding://tasks/";
const AFTER: &str = "/output";
/// Bytes of text that are read at most: beginning and end of what was written.
const READ_MAX: usize = 1 << 20;
/// Time between two notices that the same output has grown.
const PACE: Duration = Duration::from_millis(250);
const TEXT: &str = "text/plain";

fn uri(id: TaskId) -> String {
    format!("{BEFORE}{id}{AFTER}")
}

/// Finds the task whose output a resource is.
fn find(host: &Host, uri: &str) -> Result<TaskId, ErrorData> {
    let id = uri.strip_prefix(BEFORE).and_then(|rest| rest.strip_suffix(AFTER));
    let id: Option<TaskId> = id.and_then(|id| id.parse().ok());
    id.filter(|id| host.root.task_dir(*id).is_ok()).ok_or_else(|| {
        let data = serde_json::json!({ "uri": uri });
        ErrorData::resource_not_found(format!("there is no `{uri}`"), Some(data))
    })
}

fn broken(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

/// Returns the outputs of this session's tasks.
pub(crate) fn list(host: &Host) -> Result<Vec<Resource>, ErrorData> {
    let own = block(|| tasks(host, Whose::Session)).map_err(broken)?;
    Ok(own
        .into_iter()
        .map(|view| {
            Resource::new(uri(view.task_id), format!("output of {}", view.task_id))
                .with_description(advice::format_task_line(&view, LINE))
                .with_mime_type(TEXT)
                .with_size(view.output.bytes)
        })
        .collect())
}

pub(crate) fn templates() -> Vec<ResourceTemplate> {
    let template = ResourceTemplate::new(format!("{BEFORE}{{id}}{AFTER}"), "output of a task");
    vec![template.with_description("What a task wrote, as readable text.").with_mime_type(TEXT)]
}

pub(crate) fn read(host: &Host, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let id = find(host, uri)?;
    let excerpt = block(|| {
        let standing = host.state(id)?;
        let keep_head = standing.state.spec.keep_head;
        output::excerpt(&standing.dir, keep_head, READ_MAX)
            .map_err(|source| Refusal::Io { doing: "read the output", source })
    });
    let text = excerpt.map_err(broken)?.text;
    Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(TEXT)]))
}

/// Returns the part of what a client wants to hear of that there is.
pub(crate) fn accepted(host: &Host, requested: &SubscriptionFilter) -> SubscriptionFilter {
    let uris = requested.resource_subscriptions.iter().flatten();
    let known = uris.filter(|uri| find(host, uri).is_ok()).cloned();
    SubscriptionFilter::builder().resource_subscriptions(known.collect::<Vec<_>>()).build()
}

/// Tells of growth until the client has heard enough (2026-07-28).
pub(crate) async fn listen(
    host: &Arc<Host>,
    context: SubscriptionContext,
) -> Result<(), ErrorData> {
    let mut following = JoinSet::new();
    for uri in context.accepted().resource_subscriptions.iter().flatten() {
        // The client has heard already that it listens. What was written before that cannot be told
        // from what was written since, and an update too many does no harm.
        let grown = Growth { id: find(host, uri)?, known: 0 };
        following.spawn(follow(Arc::clone(host), grown, Told::Sink(context.sink().clone())));
    }
    context.cancelled().await;
    Ok(())
}

/// The subscriptions of one client of the old handshake. They end with it.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions(Mutex<HashMap<String, AbortHandle>>);

impl Subscriptions {
    pub(crate) fn add(
        &self,
        host: &Arc<Host>,
        uri: String,
        peer: Peer<RoleServer>,
    ) -> Result<(), ErrorData> {
        let grown = Growth::from_now(host, find(host, &uri)?);
        let task = tokio::spawn(follow(Arc::clone(host), grown, Told::Peer(peer)));
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

/// Whom to tell.
enum Told {
    Peer(Peer<RoleServer>),
    Sink(SubscriptionSink),
}

impl Told {
    /// Returns whether somebody is there to be told.
    async fn updated(&self, id: TaskId) -> bool {
        match self {
            Self::Peer(peer) => {
                let told = ResourceUpdatedNotificationParam::new(uri(id));
                peer.notify_resource_updated(told).await.is_ok()
            }
            Self::Sink(sink) => sink.notify_resource_updated(uri(id)).await.is_ok(),
        }
    }
}

/// An output, and how much of it a client may be taken to know.
struct Growth {
    id: TaskId,
    known: u64,
}

impl Growth {
    /// Begins with what there is: called before the client hears that it has subscribed, so that
    /// whatever comes after that is told.
    fn from_now(host: &Host, id: TaskId) -> Self {
        Self { id, known: bytes_of(host, id).unwrap_or(0) }
    }

    /// Whether there is more than was known. Then it is known.
    fn has_grown(&mut self, host: &Host) -> bool {
        let bytes = bytes_of(host, self.id).unwrap_or(self.known);
        let has_grown = bytes > self.known;
        self.known = bytes;
        has_grown
    }
}

fn bytes_of(host: &Host, id: TaskId) -> Option<u64> {
    let standing = block(|| host.state(id)).ok()?;
    Some(OutputSize::measure(&standing.dir, standing.state.spec.keep_head).bytes)
}

/// Tells of growth, at a bounded rate, and last of the end.
async fn follow(host: Arc<Host>, mut growth: Growth, told: Told) {
    let id = growth.id;
    let again = ShimRequest::Subscribe { follow: true };
    let Ok(mut watch) = block(|| TaskWatch::open(&host.root, PROGRAM, id)) else { return };
    if block(|| watch.send(&again)).is_err() {
        return;
    }
    while let Some(source) = watch.source() {
        let Ok(sources) = Sources::new(&[source]) else { break };
        if sources.readable().await.is_err() {
            break;
        }
        let ask_again = match block(|| watch.try_recv()) {
            Ok(Some(ShimMessage::Output { .. })) => true,
            // From here on growth is told; what came before that has to be looked for.
            Ok(Some(ShimMessage::Done)) => false,
            // Another shim took over, and knows nothing of who follows.
            Ok(None) => true,
            Ok(Some(_)) => continue,
            Err(_) => break,
        };
        if growth.has_grown(&host) {
            if !told.updated(id).await {
                return;
            }
            tokio::time::sleep(PACE).await;
        }
        if ask_again && block(|| watch.send(&again)).is_err() {
            break;
        }
    }
    let _nobody_there = told.updated(id).await;
}
