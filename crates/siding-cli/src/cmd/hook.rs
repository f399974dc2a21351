//! `siding hook`: what an agent's program calls at the events of a conversation.
//!
//! ```text
//! stdin ─ Input ─► event ─► Answer ─ wire ─► stdout, stderr, exit code
//! ```
//! Each event has a file: what it does, and the [`Answer`] it gives. How an answer is said to which
//! host is `wire`'s alone. What an event does not know or does not need is ignored; what it cannot
//! read is said on stderr, and decides nothing.

mod answer;
mod attendance;
mod await_notice;
mod batch;
mod budget;
mod codex_wake;
mod conversation;
mod daily;
mod host;
mod input;
mod monitor_limit;
mod news;
mod notify_person;
mod pre_tool_use;
mod predecessors;
mod prompt;
mod reminder;
mod running;
mod session_end;
mod session_start;
mod status_line;
mod stop;
mod supervision;
mod wire;

use std::process::ExitCode;

use answer::{Answer, Told};
use conversation::Conversation;
use host::{Event, Host};
use input::Input;
use siding_model::settings::HostBudget;

pub(crate) use status_line::status_line;

use crate::exit;
use crate::failure::Failure;
use crate::render::out::Reader;

/// Answers an event of an agent's conversation: JSON on stdin, JSON on stdout.
///
/// `siding install` puts it into the host's settings. session-start opens the session, clears what
/// earlier ones left, and has the host's shells adopted; pre-tool-use asks the guard; the others
/// tell what is new of background tasks, once; await-notice wakes a host that is idle, and
/// notify-person has the person told what needs them until the host ends.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  siding hook pre-tool-use < event.json
  siding install claude-code --dry-run   where the calls stand

Unknown fields are ignored. What cannot be read gives one line on stderr, exit
code 125 and no decision. Exit code 2 means: denied, or (await-notice) news.")]
pub(crate) struct Args {
    /// The event
    #[arg(value_enum, value_name = "EVENT")]
    event: Event,
    /// The program that calls
    #[arg(long, value_enum, default_value = "claude-code")]
    host: Host,
    /// How long the host waits for a shell call of its main agent (`15s`, `off`); a `budget` in
    /// siding's settings counts before it
    #[arg(long, value_name = "D", default_value_t)]
    budget: HostBudget,
    /// The host's process, for a process that is no child of it
    #[arg(long, value_name = "PID", hide = true)]
    owner_pid: Option<i32>,
    #[command(flatten)]
    notify: notify_person::FollowArgs,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if let Some(conversation) = self.notify.conversation(self.owner_pid)? {
            return notify_person::follow(&conversation, self.host, &self.notify);
        }
        let input = Input::from_stdin(self.event)?;
        input.enter_directory();
        supervision::ring(&input, self.host, self.event);
        match self.event {
            Event::PreToolUse => {
                let answer = pre_tool_use::answer(&input, self.host);
                let said = wire::said(&answer, self.host, self.event);
                // A call that is denied is not made, and no other host moves calls.
                let is_made = self.host == Host::ClaudeCode && !matches!(answer, Answer::Deny(_));
                let updated = is_made
                    .then(|| budget::updated_input(&input, self.budget))
                    .flatten()
                    .or_else(|| budget::subagent_input(&input).filter(|_| is_made));
                let event = self.event.name(self.host);
                let remark = is_made.then(|| monitor_limit::remark(&input)).flatten();
                let said = said.with_updated_input(updated, event).with_fact(remark, event);
                said.print()?;
                Ok(said.code())
            }
            Event::SessionStart => self.within(&input, |conversation| {
                self.say(session_start::answer(conversation, self.host)?)
            }),
            Event::PostToolUse | Event::PostToolUseFailure | Event::PostToolBatch => {
                let has_run = self.event == Event::PostToolUse;
                let moved = has_run.then(|| budget::moved(&input, self.budget)).flatten();
                let ends_batch = batch::ends_batch(self.event, self.host);
                self.within(&input, |conversation| {
                    self.say_after(moved, batch::answer(&input, conversation, ends_batch)?)
                })
            }
            Event::UserPromptSubmit => {
                self.within(&input, |conversation| self.say(prompt::answer(conversation)?))
            }
            Event::Stop => self.within(&input, |conversation| {
                let told = stop::answer(&input, conversation, self.host)?;
                if self.host == Host::Codex && !matches!(told.answer(), Answer::Hold(_)) {
                    // Without it the news waits for the next prompt.
                    codex_wake::start_waiter(&input, conversation).unwrap_or_else(|failure| {
                        failure.report();
                    });
                }
                self.say(told)
            }),
            Event::SessionEnd => self.say(session_end::answer()?.into()),
            Event::AwaitNotice => self.within(&input, |conversation| match self.host {
                Host::Codex => {
                    codex_wake::run(conversation, input.session_id.as_deref().unwrap_or_default())
                }
                Host::ClaudeCode | Host::Gemini => await_notice::run(conversation),
            }),
            Event::NotifyPerson => self.within(&input, |conversation| {
                notify_person::start(conversation, self.host, &self.notify)
            }),
        }
    }

    /// Does what an event asks for in the conversation that it names. Without one that is nothing.
    fn within(
        &self,
        input: &Input,
        act: impl FnOnce(&Conversation) -> Result<ExitCode, Failure>,
    ) -> Result<ExitCode, Failure> {
        match Conversation::of(input, self.host, self.owner_pid)? {
            Some(conversation) => act(&conversation),
            None => Ok(ExitCode::SUCCESS),
        }
    }

    /// Says an answer to the host, and notes what it was told thereby.
    fn say(&self, told: Told<'_>) -> Result<ExitCode, Failure> {
        self.say_after(None, told)
    }

    /// Says an answer behind a fact that needs no acknowledgement.
    fn say_after(&self, fact: Option<String>, told: Told<'_>) -> Result<ExitCode, Failure> {
        let said = wire::said(told.answer(), self.host, self.event);
        let said = said.with_fact(fact, self.event.name(self.host));
        if said.print()? == Reader::There {
            told.acknowledge();
        }
        Ok(said.code())
    }
}

/// Returns the exit code by which a hook blocks or wakes: the hosts' own.
fn block() -> ExitCode {
    ExitCode::from(exit::HOOK_BLOCKS)
}
