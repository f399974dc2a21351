//! Answers the event that a host sends when its agent is about to end a turn.

use siding_core::session;

use super::HookAnswer;
use super::answer::AnswerWithAcks;
use super::conversation::Conversation;
use super::host::HookHost;
use super::input::HookInput;
use super::notices::{NewNotices, escape_xml};
use super::running;
use crate::failure::Failure;

/// Maximum number of consecutive turns to hold: the limit of Claude Code for hooks (2.1.240). Later
/// notices wait for the next prompt.
const MAX_HELD_TURNS: u64 = 8;

/// Holds the turn if there are new notices, the host's turns may be held, and fewer than
/// `MAX_HELD_TURNS` consecutive turns were held. Otherwise lists the running background tasks for
/// the person. Does neither if the host's process no longer owns the conversation's session.
pub(super) fn answer<'c>(
    input: &HookInput,
    conversation: &'c Conversation,
    host: HookHost,
) -> Result<AnswerWithAcks<'c>, Failure> {
    let Conversation { root, session, .. } = conversation;
    let sessions = conversation.sessions()?;
    if !sessions.contains(session) {
        return Ok(HookAnswer::Nothing.into());
    }
    let running = running::format_lines(&running::background_tasks(root, &sessions, |_| true)?);
    if host.can_hold_turns()
        && let Some(new_notices) = NewNotices::for_conversation(conversation)?
        && session::count_hold(root, session, !input.stop_hook_active, MAX_HELD_TURNS)?
    {
        let running = running.map(|running| format!("Still running:\n{}", escape_xml(&running)));
        let (text, acks) = new_notices.into_text(&running.unwrap_or_default());
        return Ok(AnswerWithAcks::with_acks(HookAnswer::Hold(text), acks));
    }
    Ok(match running {
        Some(running) => {
            HookAnswer::Person(format!("siding: still running in the background:\n{running}"))
                .into()
        }
        None => HookAnswer::Nothing.into(),
    })
}
