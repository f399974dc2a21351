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

use super::block;
use super::conversation::Conversation;
use super::news::News;
use crate::context::PROGRAM;
use crate::err;
use crate::failure::Failure;
use crate::render::out::Reader;

/// How long news waits for an event of the conversation to tell it. While the agent is at work
/// there is one in a moment, and nobody need be woken.
pub(super) const OTHERS_FIRST: Duration = Duration::from_secs(1);

/// How Claude Code says in what way it was started.
pub(super) const ENTRYPOINT: &str = "CLAUDE_CODE_ENTRYPOINT";

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
    let Some(_only) = outbox.try_become_waiter()? else { return Ok(ExitCode::SUCCESS) };
    // One descriptor for each task that runs.
    descriptor::raise_open_limit();
    let mut follower = OutboxFollower::for_owner(&outbox, conversation.owner, PROGRAM)?;
    let stderr = std::io::stderr();
    loop {
        let mut is_open = false;
        for session in conversation.sessions()? {
            let others = Outbox::new(root, session, Consumer::agent())?.pending()?;
            follower.schedule_later(&others);
            if !others.notices.iter().any(wakes) {
                continue;
            }
            std::thread::sleep(OTHERS_FIRST);
            let Some(news) = News::in_sessions(root, &conversation.sessions()?)? else {
                // It was told meanwhile, or somebody is at it, who may be ended before he has.
                is_open = true;
                continue;
            };
            if news.notices().iter().any(wakes) {
                let (text, acks) = news.facts("");
                // What cannot be noted, on a full disk, would wake it again and again, a turn of its
                // model each time: it is told when somebody speaks.
                if err::print(&text) == Reader::There && !acks.acknowledge() {
                    return Ok(ExitCode::SUCCESS);
                }
                return Ok(block());
            }
        }
        if is_open {
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
    !is_ever_idle(std::env::var(ENTRYPOINT).ok().as_deref())
}

/// Whether a host that was started so waits for somebody between two turns. One that does not
/// would be kept from ending: `claude -p` 2.1.197 waits 30 s for a hook that still runs when its
/// answer is complete, or waits for it before it goes on at all.
pub(super) fn is_ever_idle(entrypoint: Option<&str>) -> bool {
    let headless = ["sdk-cli", "sdk-ts", "sdk-py", "mcp", "claude-code-github-action"];
    entrypoint.is_none_or(|entrypoint| !headless.contains(&entrypoint))
}

/// Whether somebody who does nothing wants to hear this now. That something lingers or is silent
/// can wait until he speaks.
pub(super) fn wakes(notice: &NoticeView) -> bool {
    notice.priority == Priority::Next
        || matches!(notice.kind, NoticeKind::Ended | NoticeKind::Matched)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_where_nobody_is_idle() {
        assert!(is_ever_idle(None) && is_ever_idle(Some("cli")));
        assert!(!is_ever_idle(Some("sdk-cli")) && !is_ever_idle(Some("sdk-ts")));
    }
}
