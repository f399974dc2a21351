//! One call: whether it is still wanted, and telling how far it is.

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
use siding_tools::{Caller, Gone, Host, Standing, sleep};

/// When the first progress is told, and the time between two. Clients give up after 30 to 60 s of
/// silence (docs/mcp.md).
const PROGRESS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(5));
/// How long a client is kept waiting that may give up whatever it is told: the TypeScript SDK and
/// Codex do after 60 s, although the SDK of the latter puts a token for progress into every request.
const IMPATIENT_MAX: Duration = Duration::from_secs(50);
/// Clients, as they name themselves, whose time begins anew whenever they are told of progress.
const PATIENT: [&str; 1] = ["claude-code"];
/// Columns of the last line in a message.
const LAST_LINE: usize = 100;

/// How long the SDK may take to close its end of a connection that has ended.
const LEAVING: Duration = Duration::from_millis(100);

/// One call.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) context: RequestContext<RoleServer>,
    token: Option<ProgressToken>,
    /// Whether progress keeps the client from giving up.
    is_patient: bool,
    began: MonotonicMs,
    next: MonotonicMs,
}

impl Call {
    pub(crate) fn new(context: RequestContext<RoleServer>) -> Self {
        let token = context.meta.get_progress_token();
        let is_patient = token.is_some()
            && context.client_info().is_some_and(|client| PATIENT.contains(&client.name.as_str()));
        let began = clock::monotonic_now();
        Self { context, token, is_patient, began, next: began.plus_ms(millis(PROGRESS.0)) }
    }
}

impl Caller for Call {
    fn name(&self) -> &'static str {
        "client"
    }

    fn begins(&self, _task: TaskId) -> bool {
        true
    }

    fn bearable(&self, wanted: Duration) -> Duration {
        if self.is_patient { wanted } else { wanted.min(IMPATIENT_MAX) }
    }

    fn cancelled(&self) -> impl Future<Output = Gone> + Send + 'static {
        let (cancelled, peer) = (self.context.ct.clone(), self.context.peer.clone());
        async move {
            cancelled.cancelled().await;
            // The SDK says the same of a client that has left, and closes its end a moment later.
            tokio::time::sleep(LEAVING).await;
            if peer.is_transport_closed() { Gone::Caller } else { Gone::Wish }
        }
    }

    fn sent_away(&self) -> impl Future<Output = ()> + Send + 'static {
        // The protocol has no word for it.
        std::future::pending()
    }

    async fn due(&self) {
        // Never when nobody asked for it.
        if self.token.is_none() {
            return std::future::pending().await;
        }
        sleep::until(self.next).await;
    }

    async fn tell(&mut self, host: &Host, standing: Option<&Standing>, bound: Duration) {
        let now = clock::monotonic_now();
        self.next = now.plus_ms(millis(PROGRESS.1));
        let Some(token) = self.token.clone() else { return };
        let waited_ms = now.ms_since(self.began);
        let mut message = format!("waiting for {}", format_duration(whole(waited_ms)));
        let mut total = bound.as_secs_f64();
        if let Some(standing) = standing {
            let view = sleep::block(|| host.view(standing, siding_core::view::ViewDetail::Brief));
            message = stands(&view, standing);
            if let Some(usual) = view.expected_ms.filter(|usual| *usual > waited_ms) {
                total = Duration::from_millis(usual).as_secs_f64();
            }
        }
        let progress = Duration::from_millis(waited_ms).as_secs_f64();
        let told = ProgressNotificationParam::new(token, progress)
            .with_total(total.max(progress))
            .with_message(message);
        // A client that has gone is found out by whoever reads from it.
        let _nobody_there = self.context.peer.notify_progress(told).await;
    }
}

/// Returns `b-4k7q… running for 12s, usually 40s; last line: …`.
fn stands(view: &TaskView, standing: &Standing) -> String {
    let usual = view.expected_ms.map_or_else(String::new, |ms| {
        format!(", usually {}", format_duration(Duration::from_millis(ms)))
    });
    let last = text::last_line(standing)
        .map_or_else(String::new, |line| format!("; last line: {}", one_line(&line, LAST_LINE)));
    let phase = view.phase.as_str();
    format!("{} {phase} for {}{usual}{last}", view.task_id, format_duration(whole(view.elapsed_ms)))
}

fn whole(ms: u64) -> Duration {
    Duration::from_secs(ms / 1000)
}
