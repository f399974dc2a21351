//! The agent is about to end its turn.

use siding_core::session;

use super::Answer;
use super::answer::Told;
use super::conversation::Conversation;
use super::host::Host;
use super::input::Input;
use super::news::{News, escaped};
use super::running;
use crate::failure::Failure;

/// Turns in a row that are held at most: as many as Claude Code lets hooks hold (2.1.240). What is
/// new after that waits for the next prompt.
const HOLDS: u64 = 8;

/// Holds the turn while there is news; otherwise tells the person what runs on.
pub(super) fn answer<'c>(
    input: &Input,
    conversation: &'c Conversation,
    host: Host,
) -> Result<Told<'c>, Failure> {
    let Conversation { root, session, .. } = conversation;
    let sessions = conversation.sessions()?;
    if !sessions.contains(session) {
        return Ok(Answer::Nothing.into());
    }
    let running = running::format_lines(&running::own_tasks(root, &sessions, |_| true)?);
    // A held turn of Gemini CLI begins with a text that reads as a person's.
    if host != Host::Gemini
        && let Some(news) = News::of(conversation)?
        && session::count_hold(root, session, !input.stop_hook_active, HOLDS)?
    {
        let running = running.map(|running| format!("Still running:\n{}", escaped(&running)));
        let (text, acks) = news.facts(&running.unwrap_or_default());
        return Ok(Told::with(Answer::Hold(text), acks));
    }
    Ok(match running {
        Some(running) => {
            Answer::Person(format!("siding: still running in the background:\n{running}")).into()
        }
        None => Answer::Nothing.into(),
    })
}
