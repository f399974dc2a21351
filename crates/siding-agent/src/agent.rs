//! The agent's event loop: performs the effects that the [`Conversation`] decides on, and feeds
//! their results back to the conversation as events.
//!
//! One thread owns the conversation and its transcript. Models and tools run on other threads and
//! send their results as messages, so that nothing slow blocks this thread.

mod approval;
mod bash;
mod builder;
mod call_control;
mod error;
mod event;
mod headless;
mod idle_consolidation;
mod interactive;
mod label;
mod monitor_mcp;
mod notices;
mod prompts;
mod recover;
mod reminders;
mod remote_agent;
mod report;
mod self_task;
mod stream_json;
mod subagent;
mod task_panel;
mod tasks;
mod teammate;
mod teammate_proxy;
mod teammate_tools;
mod teammates;
mod tool_dispatch;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use siding_core::notices::NoticesError;
use siding_model::id::{TaskId, TaskKind};
use siding_model::notice::NoticeId;
use siding_tools::{DeliveryAck, ToolContext};

use crate::cancel_flag::CancelFlag;
use crate::conversation::{Conversation, Effect, Entry, Event, IdleReason, RequestId};
use crate::message::{CallId, Message, UserContent, joined_text};
use crate::provider::{ModelResponse, Provider, ProviderError, ResponsePart};
use crate::runtime::BackgroundRuntime;
use crate::transcript::Transcript;

use call_control::CallControl;
use event::{AgentEvent, ApprovalRequest, OwnedResponsePart};
use notices::NoticeFollower;
use reminders::Reminders;
use teammates::Team;
use tool_dispatch::ToolDispatcher;

pub use approval::AskPolicy;
pub use builder::{AgentBuilder, ConversationSource};
pub use error::AgentError;
pub use headless::run_headless;
pub use interactive::run_interactive;
pub use report::{AgentReport, EndReason};
pub use stream_json::StreamLine;
pub use subagent::SubagentLimits;
pub use teammate_proxy::{ProxyExit, run_teammate_proxy};

pub use crate::command_guard::{ApprovalDecision, CommandGuard};
pub use crate::ui_event::{Label, UiEvent};

/// Milliseconds that a delivery waits for the outbox's delivery lock while another process holds
/// it. The agent handles no other event meanwhile, so the time is short.
const DELIVERY_LOCK_TIMEOUT_MS: u64 = 100;
/// Delay before the agent tries again to deliver notices.
const NOTICE_RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum bytes of notices sent with one request. Each notice is bounded, but a thousand may be
/// pending.
const MAX_NOTICE_BYTES: usize = 64 << 10;

/// A running agent: its conversation, its calls and requests in flight, and what it must still
/// deliver.
struct Agent {
    host: Arc<ToolContext>,
    transcript: Transcript,
    conversation: Conversation,
    provider: Arc<dyn Provider>,
    /// The model that labels finished batches of calls, if labels are enabled.
    labeller: Option<Arc<dyn Provider>>,
    /// Labels received so far, for the final report.
    labels: Vec<Label>,
    /// Cancels the request for the label that is being written.
    label_cancel: CancelFlag,
    dispatcher: Arc<ToolDispatcher>,
    system: Arc<str>,
    /// Receives the results of models and tools, messages, notices and terminal input.
    events: Receiver<AgentEvent>,
    /// The sender of `events`, cloned for every thread that reports to the agent.
    sender: Sender<AgentEvent>,
    /// The model request in flight, if any, and the flag that cancels it.
    active_request: Option<(RequestId, CancelFlag)>,
    call_controls: HashMap<CallId, CallControl>,
    /// Acknowledgements of the task states that results show. They take effect once the result is
    /// recorded.
    pending_receipts: HashMap<CallId, Vec<DeliveryAck>>,
    /// Tasks whose state is shown by the results of the current batch of calls. Their notices are
    /// not sent together with these results.
    tasks_in_results: HashSet<TaskId>,
    /// Approval requests waiting for a person, by call.
    questions: HashMap<CallId, ApprovalRequest>,
    /// Prompts that a person submitted and that the conversation has not received yet.
    queued_prompts: Vec<String>,
    reminders: Reminders,
    /// Whether the outbox may contain notices that the agent has not delivered yet.
    has_new_notices: bool,
    /// Whether there may be pending notices that do not start a turn. They are sent with the next
    /// request.
    has_quiet_notices: bool,
    /// Number of requests, including those for summaries, that this agent has sent to its model in
    /// this process. While the number is unchanged since a teammate's last report, there is nothing
    /// new to report.
    activity_count: u64,
    /// Number of entries that the agent has written to its transcript since the agent was built.
    written_entries: u64,
    /// Why the agent is idle; `None` while it works.
    idle_reason: Option<IdleReason>,
    /// The agent's role among the agents of this process, and its links to these agents.
    team: Team,
    /// The last two fields own the agent's threads. Fields are dropped in order of declaration, so
    /// the threads end after all other fields have been dropped.
    _notice_follower: NoticeFollower,
    runtime: BackgroundRuntime,
}

impl Agent {
    /// Feeds an event to the conversation and performs the resulting effects.
    fn handle_event(
        &mut self,
        event: Event,
        on_event: &mut dyn FnMut(UiEvent<'_>),
    ) -> Result<(), AgentError> {
        for effect in self.conversation.handle_event(event) {
            self.perform(effect, on_event)?;
        }
        Ok(())
    }

    fn perform(
        &mut self,
        effect: Effect,
        on_event: &mut dyn FnMut(UiEvent<'_>),
    ) -> Result<(), AgentError> {
        match effect {
            Effect::Record(entry) => self.record(&entry, on_event)?,
            Effect::SendRequest(request) => {
                self.note_started();
                self.tasks_in_results.clear();
                on_event(UiEvent::RequestSent);
                let messages = self.conversation.shared_messages();
                // A label that arrives late would seem to describe the agent's next action, so the
                // request for such a label is canceled.
                std::mem::take(&mut self.label_cancel).set();
                if let Some(labeller) = &self.labeller {
                    let cancel = self.label_cancel.clone();
                    label::request_label(&self.runtime, labeller, &messages, &self.sender, cancel);
                }
                self.send_model_request(request, messages, RequestPurpose::Answer);
            }
            Effect::Summarize(request) => {
                self.note_started();
                on_event(UiEvent::Summarizing);
                let messages =
                    prompts::add_summary_request(self.conversation.messages_to_summarize());
                self.send_model_request(request, Arc::new(messages), RequestPurpose::Summary);
            }
            Effect::AbandonRequest(request) => {
                if let Some((_, cancel)) =
                    self.active_request.take_if(|(asked, _)| *asked == request)
                {
                    cancel.set();
                }
            }
            Effect::RunCall(call) => {
                on_event(UiEvent::CallStarted(&call));
                let wishes = self.dispatcher.start_call(
                    &self.runtime,
                    &self.host,
                    call.clone(),
                    &self.sender,
                );
                self.call_controls.insert(call.id, wishes);
            }
            Effect::RecoverCall { call, task } => {
                let wishes = self.dispatcher.recover(
                    &self.runtime,
                    &self.host,
                    call.clone(),
                    task,
                    &self.sender,
                );
                self.call_controls.insert(call.id, wishes);
            }
            Effect::CancelCall(call) => {
                if let Some(wishes) = self.call_controls.get(&call) {
                    wishes.cancel();
                }
            }
            Effect::Idle(rest) => {
                // No further request shows these tasks to the model now, so later changes of these
                // tasks must reach the model as notices.
                self.tasks_in_results.clear();
                on_event(UiEvent::Idle(&rest));
                self.idle_reason = Some(rest);
            }
        }
        Ok(())
    }

    /// Counts a new request and marks the agent as working.
    fn note_started(&mut self) {
        self.idle_reason = None;
        self.activity_count += 1;
        self.mark_busy();
    }

    /// Marks a teammate as busy, so that the lead waits for the teammate.
    fn mark_busy(&self) {
        if let Team::Teammate { status: desk, .. } = &self.team {
            desk.set_idle(false);
        }
    }

    /// Writes an entry to the transcript, and then performs the steps that must not precede it.
    fn record(
        &mut self,
        entry: &Entry,
        on_event: &mut dyn FnMut(UiEvent<'_>),
    ) -> Result<(), AgentError> {
        self.transcript.add_entry(entry)?;
        self.written_entries += 1;
        match entry {
            Entry::Input { content } => {
                let ids: Vec<NoticeId> = content.iter().filter_map(notice_id).collect();
                if !ids.is_empty() {
                    let outbox = notices::session_outbox(&self.host)?;
                    notices::acknowledge_recorded(&outbox, &self.transcript, &ids)?;
                }
                content.iter().for_each(|one| on_event(UiEvent::Input(one)));
            }
            Entry::CallFinished { result, .. } => {
                self.call_controls.remove(&result.call);
                self.questions.remove(&result.call);
                on_event(UiEvent::CallFinished(result));
                if let Some(receipts) = self.pending_receipts.remove(&result.call) {
                    self.host.acknowledge(receipts);
                }
            }
            Entry::RequestFailed { why } => on_event(UiEvent::RequestFailed(why)),
            Entry::Response { content, usage, .. } => {
                on_event(UiEvent::Response(content));
                on_event(UiEvent::Usage(*usage));
            }
            Entry::Summary { usage, .. } => on_event(UiEvent::Usage(*usage)),
            Entry::RequestSent
            | Entry::CallStarted { .. }
            | Entry::TaskBound { .. }
            | Entry::Interrupted => {}
        }
        Ok(())
    }

    fn send_model_request(
        &mut self,
        request: RequestId,
        messages: Arc<Vec<Message>>,
        purpose: RequestPurpose,
    ) {
        let cancel = CancelFlag::default();
        self.active_request = Some((request, cancel.clone()));
        let (provider, system) = (Arc::clone(&self.provider), Arc::clone(&self.system));
        let (calls, sender) = (Arc::clone(&self.dispatcher), self.sender.clone());
        self.runtime.spawn_blocking(move || {
            let asking = calls.model_request(&system, &messages, &cancel);
            let answer = provider.send_request(&asking, &mut |part| {
                if purpose == RequestPurpose::Answer || matches!(part, ResponsePart::Retry { .. }) {
                    let part = OwnedResponsePart::from_part(part);
                    // The send fails if the agent has ended.
                    let _receiver_dropped = sender.send(AgentEvent::ResponsePart(request, part));
                }
            });
            // Dropped before the answer is sent: while this reference is alive, `Arc::make_mut` in
            // the conversation would copy the messages.
            drop(messages);
            let _receiver_dropped = sender.send(AgentEvent::Response(request, purpose, answer));
        });
    }

    /// Handles an event from a model, a tool, another agent or the notice follower.
    fn handle_agent_event(
        &mut self,
        event: AgentEvent,
        on_event: &mut dyn FnMut(UiEvent<'_>),
    ) -> Result<(), AgentError> {
        let may_end_tasks =
            matches!(event, AgentEvent::NoticesAvailable | AgentEvent::CallFinished(..));
        match event {
            AgentEvent::ResponsePart(request, part) => {
                if self.active_request.as_ref().is_some_and(|(asked, _)| *asked == request) {
                    on_event(UiEvent::ResponsePart(part.as_part()));
                }
            }
            AgentEvent::Response(request, purpose, answer) => {
                let is_ours = self.active_request.take_if(|(asked, _)| *asked == request).is_some();
                // After a summary the model no longer knows the running tasks, so it receives a
                // full reminder of them.
                if let Some(all) = (is_ours && purpose == RequestPurpose::Summary && answer.is_ok())
                    .then(|| reminders::full_reminder(&self.host))
                    .flatten()
                {
                    self.handle_event(Event::Input(vec![all]), on_event)?;
                }
                self.handle_event(response_event(request, purpose, answer), on_event)?;
            }
            AgentEvent::TaskBound { call, task, recorded: noted } => {
                let result = self.handle_event(Event::TaskBound { call, task }, on_event);
                let _receiver_dropped = noted.send(result.is_ok());
                result?;
            }
            AgentEvent::CallFinished(result, receipts) => {
                // Notices that a finished subagent or teammate has not received are now in the
                // outbox of this session, and no event announces them.
                let has_left = |task: TaskId| task.kind().has_session();
                self.has_new_notices |= receipts.iter().filter_map(DeliveryAck::task).any(has_left);
                self.tasks_in_results.extend(receipts.iter().filter_map(DeliveryAck::task));
                // Recorded with the result: if this process is killed before it acknowledges these
                // notices, the next process does not deliver them.
                let covered_notices = self.host.covered_notices(&receipts);
                self.pending_receipts.insert(result.call.clone(), receipts);
                // Pending notices and prompts are sent in the message with the last result of the
                // batch.
                if self.conversation.open_call_count() == 1
                    && self.call_controls.contains_key(&result.call)
                {
                    if self.has_new_notices || self.has_quiet_notices {
                        self.deliver_notices(on_event)?;
                    }
                    let reminder = self.reminders.next_reminder(&self.host, &self.tasks_in_results);
                    if let Some(reminder) = reminder {
                        self.handle_event(Event::Input(vec![reminder]), on_event)?;
                    }
                    self.deliver_prompts(on_event)?;
                }
                self.handle_event(Event::CallFinished { result, covered_notices }, on_event)?;
            }
            AgentEvent::Label(label) => {
                on_event(UiEvent::Label(&label));
                self.labels.push(label);
            }
            AgentEvent::TeamMessage(letter) => self.receive_message(letter, on_event)?,
            AgentEvent::NoticesAvailable => self.has_new_notices = true,
            AgentEvent::ApprovalRequested(question) => {
                let ApprovalRequest { call, command, reason: why, .. } = &question;
                // A canceled call no longer waits for an answer.
                if self.call_controls.contains_key(call) {
                    on_event(UiEvent::ApprovalRequested { call, command, reason: why });
                    self.questions.insert(call.clone(), question);
                }
            }
            // The loops of interactive agents and of teammates process these events themselves.
            AgentEvent::Terminal(_) | AgentEvent::Shutdown => {}
        }
        if let (Team::Lead(mates), true) = (&self.team, may_end_tasks) {
            mates.remove_ended(&self.host);
        }
        if self.has_new_notices && !self.conversation.is_busy() {
            self.deliver_notices(on_event)?;
        }
        Ok(())
    }

    /// Sends the queued prompts to the model, together with pending notices that do not start a
    /// turn by themselves.
    fn deliver_prompts(&mut self, on_event: &mut dyn FnMut(UiEvent<'_>)) -> Result<(), AgentError> {
        let prompts = std::mem::take(&mut self.queued_prompts);
        if !prompts.is_empty() {
            let content = prompts.into_iter().map(|text| UserContent::Prompt { text }).collect();
            match self.has_quiet_notices {
                true => self.deliver_notices_with(content, on_event)?,
                false => self.handle_event(Event::Input(content), on_event)?,
            }
        }
        Ok(())
    }

    /// Reads the session's pending notices and sends them to the model. These are delivered later:
    /// notices beyond [`MAX_NOTICE_BYTES`], notices about tasks in `tasks_in_results`, notices that
    /// do not start a turn while the agent is idle, and all notices while another process holds the
    /// delivery lock.
    fn deliver_notices(&mut self, on_event: &mut dyn FnMut(UiEvent<'_>)) -> Result<(), AgentError> {
        self.deliver_notices_with(Vec::new(), on_event)
    }

    /// Delivers the pending notices as [`Self::deliver_notices`] does, followed by `others`.
    fn deliver_notices_with(
        &mut self,
        others: Vec<UserContent>,
        on_event: &mut dyn FnMut(UiEvent<'_>),
    ) -> Result<(), AgentError> {
        (self.has_new_notices, self.has_quiet_notices) = (false, false);
        let host = Arc::clone(&self.host);
        if let Team::Lead(mates) = &self.team {
            mates.remove_ended(&host);
        }
        let outbox = notices::session_outbox(&host)?;
        let _delivery_lock = match outbox.lock_delivery_within(DELIVERY_LOCK_TIMEOUT_MS) {
            Err(NoticesError::Busy { .. }) => {
                self.has_new_notices = true;
                return match others.is_empty() {
                    true => Ok(()),
                    false => self.handle_event(Event::Input(others), on_event),
                };
            }
            turn => turn?,
        };
        let notices = outbox.pending()?.notices;
        let (known, new): (Vec<_>, Vec<_>) =
            notices.into_iter().partition(|notice| self.conversation.has_notice(notice.notice_id));
        // An earlier process recorded these notices in the transcript, but was killed before it
        // acknowledged them.
        let known: Vec<NoticeId> = known.into_iter().map(|notice| notice.notice_id).collect();
        if !known.is_empty() {
            notices::acknowledge_recorded(&outbox, &self.transcript, &known)?;
        }
        // These notices concern tasks that a result in the same message shows, so they may repeat
        // the result. Whether the result covers a notice is known only once the result is recorded;
        // the outbox is then read again.
        let (shown, new): (Vec<_>, Vec<_>) =
            new.into_iter().partition(|notice| self.tasks_in_results.contains(&notice.task_id));
        self.has_new_notices = !shown.is_empty();
        // The notice of a finished consolidation of the notes does not start a turn. It is sent
        // with the next request.
        let is_loud = new.iter().any(|notice| notice.task_id.kind() != TaskKind::Dream);
        if !is_loud && others.is_empty() && !self.conversation.is_busy() {
            self.has_quiet_notices = !new.is_empty();
            return Ok(());
        }
        let (mut content, mut bytes) = (Vec::new(), 0);
        for notice in new {
            let one = notices::notice_content(&host, notice);
            bytes += one.text().len();
            if bytes > MAX_NOTICE_BYTES && !content.is_empty() {
                self.has_new_notices = true;
                break;
            }
            content.push(one);
        }
        content.extend(others);
        if !content.is_empty() {
            self.mark_busy();
            self.handle_event(Event::Input(content), on_event)?;
        }
        Ok(())
    }
}

/// Whether the answer to a model request continues the conversation or replaces its earlier
/// messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestPurpose {
    Answer,
    Summary,
}

fn notice_id(content: &UserContent) -> Option<NoticeId> {
    match content {
        UserContent::Notice { id, .. } => Some(*id),
        UserContent::Prompt { .. }
        | UserContent::Message { .. }
        | UserContent::Reminder { .. }
        | UserContent::Summary { .. } => None,
    }
}

fn response_event(
    request: RequestId,
    purpose: RequestPurpose,
    answer: Result<ModelResponse, ProviderError>,
) -> Event {
    match (answer, purpose) {
        (Ok(ModelResponse { content, finish_reason: stop, usage }), RequestPurpose::Answer) => {
            Event::Response { request, content, stop, usage }
        }
        (Ok(ModelResponse { content, usage, .. }), RequestPurpose::Summary) => {
            Event::Summary { request, text: joined_text(&content), usage }
        }
        (Err(error), _) => Event::RequestFailed { request, why: error.to_string() },
    }
}
