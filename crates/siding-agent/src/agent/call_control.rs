//! Both ends of a running tool call. The agent's end cancels the call or moves its command to the
//! background; the tool's end asks a person for approval.

use std::sync::mpsc::{Sender, sync_channel};
use std::time::Duration;

use siding_model::id::TaskId;
use siding_tools::{AsyncCaller, CallContext, CancelReason};
use tokio::sync::{oneshot, watch};

use super::event::{AgentEvent, ApprovalRequest};
use crate::cancel_flag::CancelFlag;
use crate::message::CallId;

/// The agent's end of a running call: cancels the call, ends its waits, or moves its command to the
/// background.
#[derive(Debug)]
pub(crate) struct CallControl {
    cancelled: watch::Sender<bool>,
    backgrounded: watch::Sender<bool>,
    /// Polled by tools that cannot await `cancelled`. Set together with `cancelled`, or alone by
    /// [`Self::stop_waiting`].
    cancel: CancelFlag,
}

impl CallControl {
    pub(crate) fn cancel(&self) {
        self.cancel.set();
        self.cancelled.send_replace(true);
    }

    /// Ends the waits of a tool that polls the flag. A task that the call has started keeps
    /// running.
    pub(crate) fn stop_waiting(&self) {
        self.cancel.set();
    }

    pub(crate) fn move_to_background(&self) {
        self.backgrounded.send_replace(true);
    }
}

/// The tool's end of a running call: asks for approval, and receives the agent's requests.
#[derive(Debug)]
pub(crate) struct AgentCallContext {
    call: CallId,
    cancelled: watch::Receiver<bool>,
    backgrounded: watch::Receiver<bool>,
    sender: Sender<AgentEvent>,
}

impl AgentCallContext {
    /// Creates both ends of a call, and the flag that is set when the call is canceled or its
    /// waits must end.
    pub(crate) fn new(call: CallId, sender: Sender<AgentEvent>) -> (Self, CallControl, CancelFlag) {
        let (wish, gone) = watch::channel(false);
        let (away, is_away) = watch::channel(false);
        let cancel = CancelFlag::default();
        let wishes = CallControl { cancelled: wish, backgrounded: away, cancel: cancel.clone() };
        (Self { call, cancelled: gone, backgrounded: is_away, sender }, wishes, cancel)
    }

    /// Asks a person whether a command may run. Returns false if the answer is no or the question
    /// is dropped without an answer, and `None` if the call is canceled or the agent ends first.
    pub(crate) async fn ask_approval(&self, command: &str, why: &str) -> Option<bool> {
        let (answer, answered) = oneshot::channel();
        let (command, why) = (command.to_owned(), why.to_owned());
        let question = ApprovalRequest { call: self.call.clone(), command, reason: why, answer };
        self.sender.send(AgentEvent::ApprovalRequested(question)).ok()?;
        tokio::select! {
            answer = answered => Some(answer.unwrap_or(false)),
            _cancelled = self.cancelled() => None,
        }
    }
}

impl CallContext for AgentCallContext {
    fn accept_task(&self, task: TaskId) -> bool {
        let (noted, is_noted) = sync_channel(1);
        let bound = AgentEvent::TaskBound { call: self.call.clone(), task, recorded: noted };
        self.sender.send(bound).is_ok() && is_noted.recv().unwrap_or(false)
    }

    fn limit_wait(&self, wanted: Duration) -> Duration {
        wanted
    }
}

impl AsyncCaller for AgentCallContext {
    fn name(&self) -> &'static str {
        "user"
    }

    fn cancelled(&self) -> impl Future<Output = CancelReason> + Send + 'static {
        let mut gone = self.cancelled.clone();
        async move {
            match gone.wait_for(|gone| *gone).await {
                Ok(_) => CancelReason::ResultUnwanted,
                // The agent has ended. Whether the task ends, too, depends on its session.
                Err(_) => CancelReason::CallerGone,
            }
        }
    }

    fn sent_to_background(&self) -> impl Future<Output = ()> + Send + 'static {
        let mut away = self.backgrounded.clone();
        async move {
            if away.wait_for(|away| *away).await.is_err() {
                // The agent has ended, so the request can no longer arrive.
                std::future::pending().await
            }
        }
    }
}
