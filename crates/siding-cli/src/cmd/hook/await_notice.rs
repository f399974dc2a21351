//! Waiting for news that is worth waking an idle agent for.
//!
//! The host starts one after each turn and takes exit code 2 as a reason to wake its agent, with
//! what stands on stderr. One is enough for a conversation: the others leave at once. It sleeps
//! until a journal changes, and goes when the host does.

use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::time::Duration;

use siding_core::notices::{FollowEvent, Outbox, OutboxFollower};
use siding_core::sys::descriptor;
use siding_model::notice::{Consumer, NoticeKind, NoticeView, Priority};

use super::block_exit_code;
use super::conversation::Conversation;
use super::notices::NewNotices;
use crate::context::SHIM_PROGRAM;
use crate::failure::Failure;
use crate::render::out::ReaderState;
use crate::stderr;

/// How long news waits for an event of the conversation to tell it. While the agent is at work
/// there is one in a moment, and nobody need be woken.
pub(super) const OTHER_HOOKS_GRACE: Duration = Duration::from_secs(1);

/// How Claude Code says in what way it was started.
pub(super) const ENTRYPOINT_VARIABLE: &str = "CLAUDE_CODE_ENTRYPOINT";

/// Waits, tells, and returns what wakes.
pub(super) fn run(conversation: &Conversation) -> Result<ExitCode, Failure> {
    if is_headless() {
        return Ok(ExitCode::SUCCESS);
    }
    if !conversation.sessions()?.contains(&conversation.session) {
        return Ok(ExitCode::SUCCESS);
    }
    let root = &conversation.root;
    let outbox = Outbox::new(root, conversation.session.clone(), Consumer::agent())?;
    let Some(_keeps_alive) = outbox.try_become_waiter()? else { return Ok(ExitCode::SUCCESS) };
    // One descriptor for each task that runs.
    descriptor::raise_open_limit();
    let mut follower = OutboxFollower::for_owner(&outbox, conversation.owner, SHIM_PROGRAM)?;
    let stderr = std::io::stderr();
    loop {
        let mut delivery_pending = false;
        for session in conversation.sessions()? {
            let pending = Outbox::new(root, session, Consumer::agent())?.pending()?;
            follower.schedule_later(&pending);
            if !pending.notices.iter().any(wakes_agent) {
                continue;
            }
            std::thread::sleep(OTHER_HOOKS_GRACE);
            let Some(new_notices) = NewNotices::for_sessions(root, &conversation.sessions()?)?
            else {
                // It was told meanwhile, or somebody is at it, who may be ended before he has.
                delivery_pending = true;
                continue;
            };
            if new_notices.notices().iter().any(wakes_agent) {
                let (text, acks) = new_notices.into_text("");
                // What cannot be noted, on a full disk, would wake it again and again, a turn of its
                // model each time: it is told when somebody speaks.
                if stderr::print(&text) == ReaderState::Connected && !acks.acknowledge() {
                    return Ok(ExitCode::SUCCESS);
                }
                return Ok(block_exit_code());
            }
        }
        if delivery_pending {
            continue;
        }
        match follower.next_event(stderr.as_fd())? {
            FollowEvent::TasksChanged(_) => {}
            FollowEvent::ReaderClosed => return Ok(ExitCode::SUCCESS),
        }
    }
}

/// Returns whether the host was started without a terminal for a person.
pub(super) fn is_headless() -> bool {
    !can_be_idle(std::env::var(ENTRYPOINT_VARIABLE).ok().as_deref())
}

/// Whether a host that was started so waits for somebody between two turns. One that does not
/// would be kept from ending: `claude -p` 2.1.197 waits 30 s for a hook that still runs when its
/// answer is complete, or waits for it before it goes on at all.
pub(super) fn can_be_idle(entrypoint: Option<&str>) -> bool {
    let headless = ["sdk-cli", "sdk-ts", "sdk-py", "mcp", "claude-code-github-action"];
    entrypoint.is_none_or(|entrypoint| !headless.contains(&entrypoint))
}

/// Whether somebody who does nothing wants to hear this now. That something lingers or is silent
/// can wait until he speaks.
pub(super) fn wakes_agent(notice: &NoticeView) -> bool {
    notice.priority == Priority::Next
        || matches!(notice.kind, NoticeKind::Ended | NoticeKind::Matched)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headless_entrypoints_are_never_idle() {
        assert!(can_be_idle(None) && can_be_idle(Some("cli")));
        assert!(!can_be_idle(Some("sdk-cli")) && !can_be_idle(Some("sdk-ts")));
    }
}
