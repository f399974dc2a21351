//! A person has said something, and a turn of the agent begins.

use siding_core::output;
use siding_core::session;

use super::Answer;
use super::answer::Told;
use super::conversation::Conversation;
use super::news::{News, escaped};
use super::stop::running;
use crate::context::Task;
use crate::failure::Failure;

/// Turns after which all that runs is named again (SPEC.md 5.4).
const EVERY: u64 = 20;

/// Tells what is new, and reminds of what runs.
pub(super) fn answer(conversation: &Conversation) -> Result<Told<'_>, Failure> {
    let reminder = reminder(conversation)?;
    let Some(news) = News::of(conversation)? else {
        return Ok(match reminder {
            Some(reminder) => {
                let text = format!("siding reports (automated, not from the user):\n{reminder}");
                Answer::Context(text).into()
            }
            None => Answer::Nothing.into(),
        });
    };
    let (text, acks) = news.facts(&reminder.unwrap_or_default());
    Ok(Told::with(Answer::Context(text), acks))
}

/// Returns what runs that the agent may have forgotten: what it has started since the last turn
/// began and has not looked at, and every now and then all of it.
fn reminder(conversation: &Conversation) -> Result<Option<String>, Failure> {
    let Conversation { root, session, .. } = conversation;
    let sessions = conversation.sessions()?;
    if !sessions.contains(session) {
        return Ok(None);
    }
    let turn = session::begin_turn(root, session)?;
    if (turn.before + 1).is_multiple_of(EVERY) {
        let all = running(root, &sessions, |_| true)?;
        return Ok(all.map(|all| format!("Background tasks of this session:\n{}", escaped(&all))));
    }
    let was_looked_at =
        |task: &Task| sessions.iter().any(|of| output::seen(&task.dir, of).is_ok_and(|to| to > 0));
    let is_unseen = |task: &Task| {
        turn.last.is_some_and(|last| last <= task.state.started_wall) && !was_looked_at(task)
    };
    let unseen = running(root, &sessions, is_unseen)?;
    Ok(unseen.map(|unseen| {
        format!(
            "Started since the last prompt, still running, and not looked at:\n{}",
            escaped(&unseen)
        )
    }))
}
