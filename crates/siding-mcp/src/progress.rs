//! One tool call: its cancellation, and its progress notifications.

use std::time::Duration;

use rmcp::RoleServer;
use rmcp::model::{ProgressNotificationParam, ProgressToken};
use rmcp::service::RequestContext;
use siding_core::sys::clock;
use siding_model::duration::format_duration;
use siding_model::id::TaskId;
use siding_model::process::MonotonicMs;
use siding_model::task_view::TaskView;
use siding_model::text::one_line;
use siding_tools::text::{self, millis};
use siding_tools::{AsyncCaller, CallContext, CancelReason, TaskSnapshot, ToolContext, async_fd};

/// The delay of the first progress notification, and the interval between two. Clients abandon a
/// call after 30 to 60 s without a message (docs/mcp.md).
const PROGRESS_FIRST_AND_INTERVAL: (Duration, Duration) =
    (Duration::from_secs(1), Duration::from_secs(5));
/// Maximum wait of a call whose client may give up despite progress notifications. The TypeScript
/// SDK and Codex give up after 60 s, although Codex puts a progress token into every request.
const MAX_WAIT_WITHOUT_PROGRESS: Duration = Duration::from_secs(50);
/// Clients, by the name in their handshake, that restart their timeout on each progress
/// notification.
const PROGRESS_AWARE_CLIENTS: [&str; 1] = ["claude-code"];
/// Maximum columns of the last output line in a progress message.
const LAST_LINE_COLUMNS: usize = 100;

/// Maximum time for the SDK to close its end of a connection that the client has closed.
const TRANSPORT_CLOSE_GRACE: Duration = Duration::from_millis(100);

/// A tool call whose result has not been returned yet.
#[derive(Debug)]
pub(crate) struct ToolCall {
    pub(crate) context: RequestContext<RoleServer>,
    token: Option<ProgressToken>,
    /// Whether progress notifications restart the client's timeout.
    progress_extends_timeout: bool,
    started_at: MonotonicMs,
    next_progress_at: MonotonicMs,
}

impl ToolCall {
    pub(crate) fn new(context: RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        let is_patient = token.is_some()
            && context
                .client_info()
                .is_some_and(|client| PROGRESS_AWARE_CLIENTS.contains(&client.name.as_str()));
        let began = clock::monotonic_now();
        Self {
            context,
            token,
            progress_extends_timeout: is_patient,
            started_at: began,
            next_progress_at: began.plus_ms(millis(PROGRESS_FIRST_AND_INTERVAL.0)),
        }
    }
}

impl CallContext for ToolCall {
    fn accept_task(&self, _task: TaskId) -> bool {
        true
    }

    fn limit_wait(&self, wanted: Duration) -> Duration {
        if self.progress_extends_timeout { wanted } else { wanted.min(MAX_WAIT_WITHOUT_PROGRESS) }
    }
}

impl AsyncCaller for ToolCall {
    fn name(&self) -> &'static str {
        "client"
    }

    fn cancelled(&self) -> impl Future<Output = CancelReason> + Send + 'static {
        let (cancelled, peer) = (self.context.ct.clone(), self.context.peer.clone());
        async move {
            cancelled.cancelled().await;
            // The SDK also cancels the calls of a client that has disconnected, and closes its own
            // end of the connection a moment later.
            tokio::time::sleep(TRANSPORT_CLOSE_GRACE).await;
            if peer.is_transport_closed() {
                CancelReason::CallerGone
            } else {
                CancelReason::ResultUnwanted
            }
        }
    }

    async fn progress_due(&self) {
        // Without a token the client has not asked for progress.
        if self.token.is_none() {
            return std::future::pending().await;
        }
        async_fd::sleep_until(self.next_progress_at).await;
    }

    async fn report_progress(
        &mut self,
        tool_context: &ToolContext,
        snapshot: Option<&TaskSnapshot>,
        bound: Duration,
    ) {
        let now = clock::monotonic_now();
        self.next_progress_at = now.plus_ms(millis(PROGRESS_FIRST_AND_INTERVAL.1));
        let Some(token) = self.token.clone() else { return };
        let waited_ms = now.ms_since(self.started_at);
        let mut message = format!("waiting for {}", format_duration(whole_seconds(waited_ms)));
        let mut total = bound.as_secs_f64();
        if let Some(snapshot) = snapshot {
            let view = async_fd::run_blocking(|| {
                tool_context.view(snapshot, siding_core::task::view::ViewDetail::Brief)
            });
            message = format_status(&view, snapshot);
            if let Some(usual) = view.expected_ms.filter(|usual| *usual > waited_ms) {
                total = Duration::from_millis(usual).as_secs_f64();
            }
        }
        let progress = Duration::from_millis(waited_ms).as_secs_f64();
        let notification = ProgressNotificationParam::new(token, progress)
            .with_total(total.max(progress))
            .with_message(message);
        // The connection's reader detects that the client has disconnected.
        let _peer_gone = self.context.peer.notify_progress(notification).await;
    }
}

/// Returns the progress message: `b-4k7q… running for 12s, usually 40s; last line: …`.
fn format_status(view: &TaskView, snapshot: &TaskSnapshot) -> String {
    let usual = view.expected_ms.map_or_else(String::new, |ms| {
        format!(", usually {}", format_duration(Duration::from_millis(ms)))
    });
    let last = text::last_line(snapshot).map_or_else(String::new, |line| {
        format!("; last line: {}", one_line(&line, LAST_LINE_COLUMNS))
    });
    let state = view.live_state();
    format!(
        "{} {state} for {}{usual}{last}",
        view.task_id,
        format_duration(whole_seconds(view.state_time_ms()))
    )
}

fn whole_seconds(ms: u64) -> Duration {
    Duration::from_secs(ms / 1000)
}
