//! Waits for a notice that should wake an idle agent.
//!
//! Claude Code starts a waiter after each shell call and at the end of each turn. If a waiter exits
//! with code 2, the host wakes its agent with the text that the waiter wrote to stderr. A waiter
//! exits immediately if it is not needed, for example because the conversation has another one.
//! Otherwise it sleeps until a journal changes, and ends with its host.

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

/// Time for which a waiter lets other hooks deliver a new notice. After this time the waiter wakes
/// the agent. The hooks of a working agent usually run within this time and make the wake-up
/// unnecessary.
pub(super) const OTHER_HOOKS_GRACE: Duration = Duration::from_secs(1);

/// Environment variable in which Claude Code states how it was started.
pub(super) const ENTRYPOINT_VARIABLE: &str = "CLAUDE_CODE_ENTRYPOINT";

/// Waits for a notice that should wake the agent, prints it, and returns the exit code that wakes
/// the host. Returns success, which does not wake the host, if this waiter is not needed, the host
/// has ended, or the notice could not be acknowledged.
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
    // The follower opens one descriptor for each running task.
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
                // Another process has delivered the notices or is delivering them. It may be killed
                // before it finishes, so check again.
                delivery_pending = true;
                continue;
            };
            if new_notices.notices().iter().any(wakes_agent) {
                let (text, acks) = new_notices.into_text("");
                // If an acknowledgement fails, for example on a full disk, the agent is not woken.
                // Otherwise it would be woken for the same notice again and again, and each turn of
                // its model costs money. The notice is delivered at the next prompt instead.
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

/// Returns whether a program started the host, so that no person can answer the agent.
pub(super) fn is_headless() -> bool {
    !can_be_idle(std::env::var(ENTRYPOINT_VARIABLE).ok().as_deref())
}

/// Returns whether a host with this entry point waits for a person between two turns. Any other
/// host would be delayed by a waiter: `claude -p` 2.1.197 does not continue before its hooks have
/// ended, or waits up to 30 s for a hook that still runs when the answer is complete.
pub(super) fn can_be_idle(entrypoint: Option<&str>) -> bool {
    let headless = ["sdk-cli", "sdk-ts", "sdk-py", "mcp", "claude-code-github-action"];
    entrypoint.is_none_or(|entrypoint| !headless.contains(&entrypoint))
}

/// Returns whether a notice should wake an idle agent. Any other notice, for example of a lingering
/// task or of a stall without proof, waits for the next prompt or tool call.
pub(super) fn wakes_agent(notice: &NoticeView) -> bool {
    notice.priority == Priority::Next
        || match notice.kind {
            NoticeKind::Ended | NoticeKind::Matched => true,
            NoticeKind::Stalled
            | NoticeKind::Lingering
            | NoticeKind::Limit
            | NoticeKind::Ready
            | NoticeKind::Terminal
            | NoticeKind::Expiring => false,
        }
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
