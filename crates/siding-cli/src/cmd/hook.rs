//! `siding hook`: the program that an agent calls at the events of a conversation.
//!
//! ```text
//! stdin ─ HookInput ─► event ─► HookAnswer ─ encode ─► stdout, stderr, exit code
//! ```
//!
//! Each event is handled by one of these modules, most of which return a [`HookAnswer`]. Only
//! `encode` depends on the format in which each host expects an answer. Unknown fields of the input
//! are ignored. If the input is invalid, the hook prints an error on stderr and makes no decision.

mod answer;
mod attendance;
mod await_notice;
mod batch;
mod budget;
mod codex_wake;
mod conversation;
mod daily_report;
mod encode;
mod host;
mod input;
mod monitor_limit;
mod notices;
mod notify_person;
mod pre_tool_use;
mod prompt;
mod reminder;
mod running;
mod session_end;
mod session_start;
mod stale_sessions;
mod status_line;
mod stop;
mod supervision;

use std::process::ExitCode;

use answer::{AnswerWithAcks, HookAnswer};
use clap::ValueEnum as _;
use conversation::Conversation;
use host::HookEvent;
use input::HookInput;
use siding_model::settings::HostBudget;

pub(crate) use status_line::status_line;

use crate::exit;
use crate::failure::Failure;
use crate::install::hosts::HookHost;
use crate::render::out::ReaderState;

/// Answers an event of an agent's conversation; reads JSON on stdin and writes JSON on stdout.
///
/// `siding install` adds this command to the host's settings. session-start opens the session,
/// removes what earlier sessions left, and arranges the adoption of the host's shells; pre-tool-use
/// asks the guard; the other tool and turn events report new notices of background tasks, each
/// once; await-notice wakes an idle host; notify-person notifies the person until the host ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding hook pre-tool-use < event.json
  siding install claude-code --dry-run   shows the installed calls

Unknown fields are ignored. Invalid input leads to one line on stderr, exit code
125 and no decision. Exit code 2 means denied or, for await-notice, a notice.")]
pub(crate) struct Args {
    /// Event to answer
    #[arg(value_enum, value_name = "EVENT")]
    event: HookEvent,
    /// Host that calls the hook
    #[arg(long, value_enum, default_value = "claude-code")]
    host: HookHost,
    /// How long the host waits for a shell call of its main agent (`15s`, `off`); a `budget` in
    /// siding's settings takes precedence
    #[arg(long, value_name = "D", default_value_t)]
    budget: HostBudget,
    /// Process id of the host, for a caller that is not the host's child
    #[arg(long, value_name = "PID", hide = true)]
    owner_pid: Option<i32>,
    #[command(flatten)]
    notify: notify_person::FollowArgs,
}

/// Returns the effect of `siding hook` with this argument in a few words; `None` if the argument
/// names no event.
pub(super) fn describe_effect(event_arg: &str) -> Option<&'static str> {
    HookEvent::from_str(event_arg, false).ok().map(HookEvent::effect)
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if let Some(conversation) = self.notify.followed_conversation(self.owner_pid)? {
            return notify_person::follow(&conversation, self.host, &self.notify);
        }
        let input = HookInput::from_stdin(self.event)?;
        input.enter_directory();
        supervision::notify_supervisor(&input, self.host, self.event);
        match self.event {
            HookEvent::PreToolUse => {
                let answer = pre_tool_use::answer(&input, self.host);
                let encoded = encode::encode_answer(&answer, self.host, self.event);
                // Only a host that can move calls to the background receives a changed input or a
                // note. The answer to a denied call contains neither, because the call never
                // runs.
                let call_proceeds =
                    self.host.moves_calls() && !matches!(answer, HookAnswer::Deny(_));
                let updated = call_proceeds
                    .then(|| budget::updated_input(&input, self.budget))
                    .flatten()
                    .or_else(|| budget::updated_subagent_input(&input).filter(|_| call_proceeds));
                let event = self.event.name(self.host);
                let remark =
                    call_proceeds.then(|| monitor_limit::format_limit_remark(&input)).flatten();
                let encoded = encoded.with_updated_input(updated, event).with_fact(remark, event);
                encoded.print()?;
                Ok(encoded.exit_code())
            }
            HookEvent::SessionStart => self.with_conversation(&input, |conversation| {
                self.send_answer(session_start::answer(conversation, self.host)?)
            }),
            HookEvent::PostToolUse | HookEvent::PostToolUseFailure | HookEvent::PostToolBatch => {
                let has_run = self.event == HookEvent::PostToolUse;
                let moved =
                    has_run.then(|| budget::format_background_move(&input, self.budget)).flatten();
                let ends_batch = batch::ends_batch(self.event, self.host);
                self.with_conversation(&input, |conversation| {
                    self.send_answer_with_fact(
                        moved,
                        batch::answer(&input, conversation, ends_batch)?,
                    )
                })
            }
            HookEvent::UserPromptSubmit => self.with_conversation(&input, |conversation| {
                self.send_answer(prompt::answer(conversation)?)
            }),
            HookEvent::Stop => self.with_conversation(&input, |conversation| {
                let answer = stop::answer(&input, conversation, self.host)?;
                if self.host.wakes_by_waiter() && !matches!(answer.answer(), HookAnswer::Hold(_)) {
                    // If the waiter cannot be started, the next prompt delivers the notices.
                    codex_wake::start_waiter(&input, conversation).unwrap_or_else(|failure| {
                        failure.report();
                    });
                }
                self.send_answer(answer)
            }),
            HookEvent::SessionEnd => self.send_answer(session_end::answer()?.into()),
            HookEvent::AwaitNotice => {
                self.with_conversation(&input, |conversation| match self.host {
                    HookHost::Codex => codex_wake::run(
                        conversation,
                        input.session_id.as_deref().unwrap_or_default(),
                    ),
                    HookHost::ClaudeCode | HookHost::Gemini => await_notice::run(conversation),
                })
            }
            HookEvent::NotifyPerson => self.with_conversation(&input, |conversation| {
                notify_person::start_detached(conversation, self.host, &self.notify)
            }),
        }
    }

    /// Runs `act` for the conversation that the input names, or does nothing if the input names
    /// none.
    fn with_conversation(
        &self,
        input: &HookInput,
        act: impl FnOnce(&Conversation) -> Result<ExitCode, Failure>,
    ) -> Result<ExitCode, Failure> {
        match Conversation::from_input(input, self.host, self.owner_pid)? {
            Some(conversation) => act(&conversation),
            None => Ok(ExitCode::SUCCESS),
        }
    }

    /// Writes an answer, and acknowledges the notices in it if the host has received it.
    fn send_answer(&self, answer: AnswerWithAcks<'_>) -> Result<ExitCode, Failure> {
        self.send_answer_with_fact(None, answer)
    }

    /// Writes `fact`, which needs no acknowledgement, followed by an answer. Acknowledges the
    /// notices in the answer if the host has received it.
    fn send_answer_with_fact(
        &self,
        fact: Option<String>,
        answer: AnswerWithAcks<'_>,
    ) -> Result<ExitCode, Failure> {
        let encoded = encode::encode_answer(answer.answer(), self.host, self.event);
        let encoded = encoded.with_fact(fact, self.event.name(self.host));
        if encoded.print()? == ReaderState::Connected {
            answer.acknowledge();
        }
        Ok(encoded.exit_code())
    }
}

/// Returns the exit code on which a host denies the call or wakes its agent. The value is defined
/// by the hosts.
fn block_exit_code() -> ExitCode {
    ExitCode::from(exit::HOOK_BLOCKS)
}
