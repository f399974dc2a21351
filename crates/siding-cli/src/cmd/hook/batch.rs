//! Answers the events after tool calls: delivers notices and, at the end of a batch, a reminder of
//! running tasks.

use siding_core::session;

use super::answer::{AnswerWithAcks, HookAnswer};
use super::conversation::Conversation;
use super::host::{HookEvent, HookHost};
use super::input::HookInput;
use super::notices::NewNotices;
use super::reminder;
use crate::failure::Failure;

/// Answers the event after a tool call of the main agent with new notices and, at the end of a
/// batch, with the reminder that is due. At the end of each batch, including a subagent's, records
/// the commands of the batch as returned if the session is open.
pub(super) fn answer<'c>(
    input: &HookInput,
    conversation: &'c Conversation,
    ends_batch: bool,
) -> Result<AnswerWithAcks<'c>, Failure> {
    let is_open = session::read(&conversation.root, &conversation.session)?.is_some();
    if is_open && ends_batch {
        let commands = input.returned_commands().into_iter();
        session::record_returned_calls(&conversation.root, &conversation.session, commands)
            .unwrap_or_else(|error| {
                Failure::from(error).report();
            });
    }
    // A subagent's messages are discarded with it, so notices wait for the main agent.
    if input.agent_id.is_some() {
        return Ok(HookAnswer::Nothing.into());
    }
    let new_notices = NewNotices::for_conversation(conversation)?;
    if !is_open || !ends_batch {
        return Ok(reminder::build_answer(new_notices, None));
    }
    // On a full disk the reminder fails, because the count of batches cannot be written. The
    // notices are still delivered.
    let reminder =
        reminder::after_batch(conversation, new_notices.as_ref()).unwrap_or_else(|failure| {
            failure.report();
            None
        });
    Ok(reminder::build_answer(new_notices, reminder))
}

/// Returns whether an event marks the end of a batch of tool calls. Codex and Gemini CLI have no
/// event for a batch, so each of their calls is a batch.
pub(super) fn ends_batch(event: HookEvent, host: HookHost) -> bool {
    match host {
        HookHost::ClaudeCode => event == HookEvent::PostToolBatch,
        HookHost::Codex | HookHost::Gemini => true,
    }
}
