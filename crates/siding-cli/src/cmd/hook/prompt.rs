//! Answers the submission of a prompt, which starts a turn of the agent.

use siding_core::output;
use siding_core::session;

use super::answer::AnswerWithAcks;
use super::conversation::Conversation;
use super::notices::{NewNotices, escape_xml};
use super::{daily_report, reminder, running};
use crate::context::{self, Task};
use crate::failure::Failure;

/// Answers with new notices, a reminder of running tasks and, once a day, the daily report.
pub(super) fn answer(conversation: &Conversation) -> Result<AnswerWithAcks<'_>, Failure> {
    let unseen = format_unseen_tasks(conversation)?;
    let new_notices = NewNotices::for_conversation(conversation)?;
    let outlived = match conversation.sessions()?.contains(&conversation.session) {
        true => reminder::remind_outlived_calls(conversation, new_notices.as_ref())?,
        false => None,
    };
    // A conversation may stay open for days, so SessionStart alone cannot deliver the report every
    // day.
    let (report, headline) =
        match daily_report::due_report(&conversation.root, &context::load_valid_settings()) {
            Some(report) => (Some(escape_xml(&report.context)), Some(report.person)),
            None => (None, None),
        };
    let reminder: String = unseen.into_iter().chain(outlived).chain(report).collect();
    let answer = reminder::build_answer(new_notices, (!reminder.is_empty()).then_some(reminder));
    Ok(answer.with_person_line(headline))
}

/// Starts a turn. Returns a reminder of the background tasks that were started since the last
/// prompt and whose output the agent has not read.
fn format_unseen_tasks(conversation: &Conversation) -> Result<Option<String>, Failure> {
    let Conversation { root, session, .. } = conversation;
    let sessions = conversation.sessions()?;
    if !sessions.contains(session) {
        return Ok(None);
    }
    let turn = session::start_turn(root, session)?;
    let was_looked_at = |task: &Task| {
        sessions.iter().any(|of| output::load_read_cursor(&task.dir, of).is_ok_and(|to| to > 0))
    };
    let is_unseen = |task: &Task| {
        turn.last_started.is_some_and(|last| last <= task.state.started_wall)
            && !was_looked_at(task)
    };
    let unseen = running::format_lines(&running::background_tasks(root, &sessions, is_unseen)?);
    Ok(unseen.map(|unseen| {
        format!(
            "Started since the last prompt, still running, output not read:\n{}",
            escape_xml(&unseen)
        )
    }))
}
