//! A teammate: an agent on its own thread, which waits for messages between its turns.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;

use siding_core::task::input::{InputError, TaskInput};
use siding_core::task::stop::{self, StopOptions};
use siding_model::notice::format_teammate_xml;
use siding_model::text::cut_head;
use siding_tools::{SHIM_PROGRAM, ToolContext};

use super::call_control::CallControl;
use super::event::AgentEvent;
use super::teammates::{LEAD_NAME, ReceiverState, Team, TeamMessage, TeammateStatus, Teammates};
use super::{Agent, AgentError, NOTICE_RETRY_INTERVAL, UiEvent};
use crate::conversation::{Event, IdleReason};
use crate::message::{AssistantContent, FinishReason, Message, UserContent, joined_text};

/// Maximum bytes of a teammate's last message that the lead receives.
const MAX_REPORT_BYTES: usize = 16 << 10;

impl Agent {
    /// Runs the agent until it receives a shutdown request, its task ends, or an error occurs.
    pub(super) fn serve(mut self) {
        let Team::Teammate { status: desk, teammates: mates } = self.team.clone() else { return };
        let host = Arc::clone(&self.host);
        // A drop guard, so that a panic does not leave the teammate listed as running.
        let mut cleanup =
            TeammateCleanup { host: &host, status: &desk, teammates: &mates, ends_task: true };
        let mut log = TeammateLog::open(&host, &desk);
        let end = self.serve_loop(&desk, &mates, &mut log);
        // The answer to a request in flight is no longer needed.
        if let Some((_, cancel)) = self.active_request.take() {
            cancel.set();
        }
        // The teammate's tasks are not stopped here: the lead stops them and reports the loss, or
        // they are stopped at the end of the session.
        self.call_controls.values().for_each(CallControl::stop_waiting);
        match end {
            // The sender of the shutdown request stops the task, unless the task has already ended.
            Ok(ServeEnd::ShutdownRequested) => cleanup.ends_task = false,
            Ok(ServeEnd::TaskEnded) => {}
            Err(error) => {
                let why = format!("it has ended because of an error: {error}");
                log.write_line(&why);
                let _logged_by_callee = notify_lead(&mates, &desk, "failed", &why);
            }
        }
    }

    fn serve_loop(
        &mut self,
        desk: &TeammateStatus,
        teammates: &Teammates,
        log: &mut TeammateLog<'_>,
    ) -> Result<ServeEnd, AgentError> {
        self.resume(None, &mut |seen| log.on_event(seen))?;
        let mut reported = None;
        while !log.is_closed() {
            if let Some(rest) = self.idle_reason.clone().filter(|_| !desk.is_idle()) {
                let is_reported = match idle_status(&rest, self.last_turn_text()) {
                    // No request was sent since the last report: only a notice arrived, and the
                    // teammate still cannot continue. The lead already has that report.
                    Some(_) if reported == Some(self.activity_count) => true,
                    Some((status, text)) => {
                        log.write_line(&format!("[{status}]"));
                        notify_lead(teammates, desk, status, &text)
                    }
                    None => true,
                };
                // The idle flag is set only after the report: a lead ends when all its teammates
                // are idle, and would otherwise miss the report.
                if is_reported {
                    reported = Some(self.activity_count);
                    desk.set_idle(true);
                    teammates.wake_lead();
                }
            }
            let event = match self.has_new_notices && self.idle_reason.is_some() {
                true => self.events.recv_timeout(NOTICE_RETRY_INTERVAL),
                false => self.events.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let event = match event {
                Ok(AgentEvent::Shutdown) | Err(RecvTimeoutError::Disconnected) => {
                    return Ok(ServeEnd::ShutdownRequested);
                }
                Ok(came) => came,
                // The last attempt could not deliver all notices, for example because another
                // process held the delivery lock, so the delivery is tried again.
                Err(RecvTimeoutError::Timeout) => AgentEvent::NoticesAvailable,
            };
            self.handle_agent_event(event, &mut |seen| log.on_event(seen))?;
        }
        Ok(ServeEnd::TaskEnded)
    }

    /// Feeds a message to the conversation, and confirms to the sender that the message is
    /// recorded.
    pub(super) fn receive_message(
        &mut self,
        message: TeamMessage,
        on_event: &mut dyn FnMut(UiEvent<'_>),
    ) -> Result<(), AgentError> {
        let TeamMessage { from, text, recorded: noted } = message;
        let was_idle = self.idle_reason.is_some();
        // For a teammate's model, the lead takes the place of the user.
        let input = match (&self.team, from.as_str()) {
            (Team::Teammate { .. }, LEAD_NAME) => UserContent::Prompt { text },
            _ => UserContent::Message { from, text },
        };
        self.handle_event(Event::Input(vec![input]), on_event)?;
        let _receiver_dropped = noted.send(match (was_idle, self.idle_reason.is_some()) {
            (false, _) => ReceiverState::Busy,
            (true, false) => ReceiverState::Started,
            (true, true) => ReceiverState::Halted,
        });
        Ok(())
    }

    /// Returns the text of the model's last message, or an empty text if the conversation ends with
    /// another message.
    fn last_turn_text(&self) -> String {
        match self.conversation.messages().last() {
            Some(Message::Assistant(content)) => joined_text(content),
            Some(Message::User { .. }) | None => String::new(),
        }
    }
}

/// Why a teammate's loop ended.
#[derive(Debug)]
enum ServeEnd {
    ShutdownRequested,
    TaskEnded,
}

/// Removes a teammate from the team when its thread ends, and stops its task if necessary.
struct TeammateCleanup<'m> {
    host: &'m ToolContext,
    status: &'m TeammateStatus,
    teammates: &'m Teammates,
    /// Whether the teammate's task must be stopped, too.
    ends_task: bool,
}

impl Drop for TeammateCleanup<'_> {
    fn drop(&mut self) {
        self.teammates.remove(self.status.task);
        if self.ends_task {
            let how = StopOptions { requested_by: "agent", grace: None, signal: None };
            // A task that could not be stopped here is stopped at the end of the session.
            let _best_effort = stop::stop(&self.host.root, SHIM_PROGRAM, self.status.task, how);
        }
        self.teammates.wake_lead();
    }
}

/// Sends the lead the report of a teammate that has become idle or has failed. Returns false when
/// the lead no longer accepts messages because it is about to end.
fn notify_lead(teammates: &Teammates, desk: &TeammateStatus, status: &str, text: &str) -> bool {
    let words = cut_head(text, MAX_REPORT_BYTES);
    let mut words = words.to_owned();
    if words.len() < text.len() {
        words.push_str("\n… `task_output` has the rest");
    }
    let block = format_teammate_xml(&desk.name, desk.task, Some(status), &words);
    teammates.deliver(&desk.name, LEAD_NAME, block).is_ok()
}

/// Returns the status and the text that the lead receives when a teammate becomes idle; `None` when
/// there is nothing to report.
fn idle_status(reason: &IdleReason, text: String) -> Option<(&'static str, String)> {
    Some(match reason {
        IdleReason::TurnEnded(FinishReason::EndTurn) => ("idle", text),
        IdleReason::TurnEnded(FinishReason::MaxTokens) => ("cut", text),
        IdleReason::TurnEnded(FinishReason::Refusal) => {
            ("refused", "its provider refused to let its model continue".to_owned())
        }
        IdleReason::TurnEnded(FinishReason::ToolUse | FinishReason::Other) => {
            ("stopped", "its provider stopped its model without giving a reason".to_owned())
        }
        IdleReason::RequestFailed { why } => {
            ("failed", format!("the request to its model failed: {why}"))
        }
        IdleReason::RequestLimit { limit: most } => (
            "out_of_requests",
            format!(
                "it has reached its limit of {most} requests to its model; a message from you lets \
                 it continue"
            ),
        ),
        IdleReason::Empty | IdleReason::Interrupted => return None,
    })
}

/// Writes a log of the teammate's actions, for people, to the output of the teammate's task.
struct TeammateLog<'h> {
    /// The standard input of the proxy process; `None` if it could not be opened, or once the proxy
    /// no longer reads it.
    proxy_input: Option<TaskInput<'h>>,
}

impl<'h> TeammateLog<'h> {
    fn open(host: &'h ToolContext, status: &TeammateStatus) -> Self {
        let standing = host.snapshot(status.task).ok();
        let open = |it: siding_tools::TaskSnapshot| {
            TaskInput::open_for_host(&host.root, SHIM_PROGRAM, &it.dir, &it.state).ok()
        };
        Self { proxy_input: standing.and_then(open) }
    }

    const fn is_closed(&self) -> bool {
        self.proxy_input.is_none()
    }

    fn write_line(&mut self, text: &str) {
        let Some(stand_in) = &mut self.proxy_input else { return };
        match stand_in.write(format!("{}\n", text.trim_end()).as_bytes()) {
            // If the proxy reads slowly, only this line is lost.
            Ok(()) | Err(InputError::Unread { .. }) => {}
            Err(_) => self.proxy_input = None,
        }
    }

    fn on_event(&mut self, event: UiEvent<'_>) {
        match event {
            UiEvent::Response(content) => {
                for one in content {
                    if let AssistantContent::Text { text } = one {
                        self.write_line(text);
                    }
                }
            }
            UiEvent::CallStarted(call) => {
                self.write_line(&format!("> {} {}", call.name, call.input))
            }
            UiEvent::Input(UserContent::Prompt { text }) => {
                self.write_line(&format!("< {LEAD_NAME}: {text}"))
            }
            UiEvent::Input(UserContent::Message { from, .. }) => {
                self.write_line(&format!("< {from}"))
            }
            UiEvent::Input(UserContent::Notice { id, .. }) => {
                self.write_line(&format!("* notice about {}", id.task))
            }
            UiEvent::RequestFailed(why) => self.write_line(&format!("! {why}")),
            UiEvent::Input(UserContent::Reminder { .. } | UserContent::Summary { .. })
            | UiEvent::Started(_)
            | UiEvent::RequestSent
            | UiEvent::ResponsePart(_)
            | UiEvent::CallFinished(_)
            | UiEvent::Label(_)
            | UiEvent::Usage(_)
            | UiEvent::Summarizing
            | UiEvent::ApprovalRequested { .. }
            | UiEvent::Idle(_) => {}
        }
    }
}
