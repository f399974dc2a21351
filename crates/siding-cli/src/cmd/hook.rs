//! `siding hook`: what an agent's program calls at the events of a conversation.
//!
//! ```text
//! stdin ─ Input ─► event ─► Answer ─ wire ─► stdout, stderr, exit code
//! ```
//! Each event has a file: what it does, and the [`Answer`] it gives. How an answer is said to which
//! host is `wire`'s alone. What an event does not know or does not need is ignored; what it cannot
//! read is said on stderr, and decides nothing.

mod answer;
mod await_notice;
mod batch;
mod conversation;
mod daily;
mod host;
mod input;
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
mod wire;

use std::process::ExitCode;

use answer::{Answer, Told};
use conversation::Conversation;
use host::{Event, Host};
use input::Input;

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
    #[command(flatten)]
    notify: notify_person::FollowArgs,
}

impl Args {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if let Some(conversation) = self.notify.conversation()? {
            return notify_person::follow(&conversation, self.host, &self.notify);
        }
        let input = Input::from_stdin(self.event)?;
        input.enter_directory();
        match self.event {
            Event::PreToolUse => self.say(pre_tool_use::answer(&input).into()),
            Event::SessionStart => self.within(&input, |conversation| {
                self.say(session_start::answer(conversation, self.host)?)
            }),
            Event::PostToolUse | Event::PostToolUseFailure | Event::PostToolBatch => {
                let ends_batch = batch::ends_batch(self.event, self.host);
                self.within(&input, |conversation| {
                    self.say(batch::answer(&input, conversation, ends_batch)?)
                })
            }
            Event::UserPromptSubmit => {
                self.within(&input, |conversation| self.say(prompt::answer(conversation)?))
            }
            Event::Stop => self.within(&input, |conversation| {
                self.say(stop::answer(&input, conversation, self.host)?)
            }),
            Event::SessionEnd => self.say(session_end::answer()?.into()),
            Event::AwaitNotice => self.within(&input, await_notice::run),
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
        match Conversation::of(input, self.host)? {
            Some(conversation) => act(&conversation),
            None => Ok(ExitCode::SUCCESS),
        }
    }

    /// Says an answer to the host, and notes what it was told thereby.
    fn say(&self, told: Told<'_>) -> Result<ExitCode, Failure> {
        let said = wire::said(told.answer(), self.host, self.event);
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
