//! The requests of clients: how each is carried out, and when it is refused.

use siding_model::lifecycle::{JobLimitAnswer, Phase, TaskEvent};
use siding_model::protocol::{ShimMessage, ShimRequest};

use super::TaskSupervisor;
use super::terminal_requests::TerminalWrite;
use crate::clients::{ClientId, STDIN_CLOSED};
use crate::task_context::TaskContext;

impl TaskSupervisor {
    /// Carries out a request, and sends the reply or registers the client for a later reply.
    pub(super) fn handle_request(&mut self, id: ClientId, request: ShimRequest) {
        let reply = match request {
            ShimRequest::Ping => ShimMessage::Done,
            ShimRequest::Subscribe { follow, shown } => {
                self.clients.subscribe(id, follow, shown);
                ShimMessage::Done
            }
            ShimRequest::Place { why } => {
                self.handle_event(&TaskEvent::Placed { why });
                ShimMessage::Done
            }
            ShimRequest::Extend { to_ms, by_ms, by, job_limit } => {
                self.extend(to_ms, by_ms, by, job_limit)
            }
            ShimRequest::Release { by } => self.release(by),
            ShimRequest::InputWritten { by } => {
                self.on_input_written(by);
                ShimMessage::Done
            }
            ShimRequest::CloseStdin { by } => match self.stdin.take() {
                Some(closed) => {
                    drop(closed);
                    // A process that reads its input sees the end of file and continues.
                    self.on_input_written(by);
                    ShimMessage::Done
                }
                None => ShimMessage::Refused { why: STDIN_CLOSED.to_owned() },
            },
            ShimRequest::TerminalWrite { bytes, user, by, if_output, is_secret } => {
                self.write_terminal(id, TerminalWrite { bytes, user, by, if_output, is_secret })
            }
            ShimRequest::TerminalResize { size } => self.resize_terminal(id, size),
            ShimRequest::TerminalTake { by, in_foreground: false } => self.take_terminal(id, &by),
            ShimRequest::TerminalTake { by, in_foreground: true } => {
                self.hold_terminal_in_foreground(id, by)
            }
            ShimRequest::TerminalReturn => self.return_terminal_of(id),
            ShimRequest::Terminal => match self.terminal_facts() {
                Ok(facts) => {
                    let typing_agent = self.terminal.as_ref().and_then(|one| one.typing_agent);
                    if typing_agent == Some(id) && facts.awaits_input() {
                        self.stall.on_wait_shown();
                    }
                    self.clients.send_message(id, &ShimMessage::Terminal { facts });
                    ShimMessage::Done
                }
                Err(refused) => refused,
            },
            ShimRequest::Why => {
                self.clients.await_evidence(id);
                let Self { task, output, tree, .. } = self;
                self.stall.request_evidence(&TaskContext::new(task, output, tree));
                return;
            }
            ShimRequest::Usage => {
                let Self { task, output, tree, .. } = self;
                let peaks = self.resources.measure_now(&TaskContext::new(task, output, tree));
                self.clients.send_message(id, &ShimMessage::Usage { peaks });
                ShimMessage::Done
            }
            ShimRequest::Stop { by, grace_ms, signal } => {
                self.clients.await_end(id);
                self.request_stop(&by, grace_ms, signal);
                return;
            }
        };
        self.clients.send_message(id, &reply);
    }

    /// Releases an adopted task: its processes continue without a shim. Refuses to release a task
    /// that siding started, that is being stopped, or whose journal has a format without releases.
    fn release(&mut self, by: String) -> ShimMessage {
        let why = if self.task.state().adopted.is_none() {
            "siding started it, and only an adopted task can run without a shim; `siding stop` ends it"
        } else if !self.task.state().may_release() {
            "an older siding recorded the task, in a format without releases; `siding stop` ends it"
        } else if self.handle_event(&TaskEvent::Released { by }) {
            return ShimMessage::Done;
        } else {
            "it is being stopped already"
        };
        ShimMessage::Refused { why: why.to_owned() }
    }

    /// Moves the deadline. A request for the deadline that the task already has succeeds, so that a
    /// client can repeat a request with `to_ms`; each request with `by_ms` adds to the deadline.
    fn extend(
        &mut self,
        to_ms: u64,
        by_ms: Option<u64>,
        by: Option<String>,
        job_limit: Option<JobLimitAnswer>,
    ) -> ShimMessage {
        let before = self.task.state().lifecycle.deadline();
        let deadline = match by_ms {
            // Without a deadline the lifecycle refuses any other one, so the value has no effect.
            Some(more) => before.unwrap_or_default().plus_ms(more),
            None => self.task.state().started.plus_ms(to_ms),
        };
        if self.handle_event(&TaskEvent::Extended { deadline, by, job_limit })
            || before == Some(deadline.min(self.task.state().lifecycle.cap()))
        {
            return ShimMessage::Done;
        }
        let why = extension_refusal(self.task.state().lifecycle.phase(), before.is_some());
        ShimMessage::Refused { why: why.to_owned() }
    }
}

/// Returns the reason why the deadline of a task in this phase was not moved.
const fn extension_refusal(phase: &Phase, has_deadline: bool) -> &'static str {
    match phase {
        Phase::Starting { stop: Some(_) }
        | Phase::Stopping { .. }
        | Phase::Killing { .. }
        | Phase::Ended { .. } => "the task is already being stopped",
        Phase::Starting { stop: None } | Phase::Running { .. } | Phase::Lingering { .. } => {
            if has_deadline {
                "the requested time has already passed"
            } else {
                "a person waits for the task in the foreground, where it has no deadline"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use siding_model::lifecycle::{StopIntent, StopReason};
    use siding_model::signal::Signal;

    use super::*;

    #[test]
    fn the_deadline_of_a_task_that_is_to_be_stopped_has_not_passed() {
        let intent = StopIntent {
            reason: StopReason::Stop { by: "user".to_owned() },
            signal: Signal::TERM,
            grace: Duration::ZERO,
            earlier_leader_end: None,
        };
        let stopping = Phase::Starting { stop: Some(intent) };
        let starting = Phase::Starting { stop: None };
        assert!(extension_refusal(&stopping, true).contains("being stopped"));
        assert!(extension_refusal(&starting, true).contains("already passed"));
        assert!(extension_refusal(&starting, false).contains("foreground"));
    }
}
