//! Reminds the agent of running tasks; `siding-model/src/reminder.rs` decides when.

use siding_core::session;
use siding_core::sys::clock;
use siding_model::id::{SessionId, TaskId};
use siding_model::notice::NoticeKind;
use siding_model::reminder::{has_outlived_its_call, is_list_due};
use siding_model::task_view::TaskView;

use super::HookAnswer;
use super::answer::AnswerWithAcks;
use super::conversation::Conversation;
use super::notices::{NewNotices, escape_xml};
use super::running;
use crate::context::Task;
use crate::failure::Failure;

/// Counts a batch of tool calls, and returns the reminder that is due at its end. After every
/// twentieth batch the reminder lists all background tasks, except those that a notice in `news`
/// reports as running. After any other batch it names the host's own commands that have outlived
/// their calls, each once.
pub(super) fn after_batch(
    conversation: &Conversation,
    news: Option<&NewNotices<'_>>,
) -> Result<Option<String>, Failure> {
    let number = session::count_batch(&conversation.root, &conversation.session)?;
    if !is_list_due(number) {
        return remind_outlived_calls(conversation, news);
    }
    let reported = tasks_reported_running(news);
    let besides = if reported.is_empty() { "" } else { ", besides those above" };
    Ok(list_tasks_except(conversation, &reported)?
        .map(|lines| format!("Background tasks of this session{besides}:\n{}", escape_xml(&lines))))
}

/// Returns a list of all background tasks, including the host's own commands that have outlived
/// their calls; `None` if there are none.
pub(super) fn list_background_tasks(
    conversation: &Conversation,
) -> Result<Option<String>, Failure> {
    list_tasks_except(conversation, &[])
}

fn list_tasks_except(
    conversation: &Conversation,
    excluded: &[TaskId],
) -> Result<Option<String>, Failure> {
    let Conversation { root, session, .. } = conversation;
    let sessions = conversation.sessions()?;
    let is_included = |task: &Task| !excluded.contains(&task.state.spec.task_id);
    let hosted = hosted_tasks(conversation, &sessions, is_included)?;
    let ids: Vec<TaskId> = hosted.iter().map(|view| view.task_id).collect();
    // This list names these commands, so later reminders must omit them.
    let _best_effort = session::claim_reminders(root, session, &ids)?;
    let mut views = running::background_tasks(root, &sessions, is_included)?;
    views.extend(hosted);
    views.sort_by(|a, b| a.started_at.cmp(&b.started_at));
    Ok(running::format_lines(&views))
}

/// Returns a reminder of the host's own commands that have outlived their calls and that no earlier
/// reminder has named.
pub(super) fn remind_outlived_calls(
    conversation: &Conversation,
    news: Option<&NewNotices<'_>>,
) -> Result<Option<String>, Failure> {
    let Conversation { root, session, .. } = conversation;
    let mut known = session::reminded_tasks(root, session)?;
    known.extend(tasks_reported_running(news));
    let sessions = conversation.sessions()?;
    let is_unknown = |task: &Task| !known.contains(&task.state.spec.task_id);
    let mut views = hosted_tasks(conversation, &sessions, is_unknown)?;
    let ids: Vec<TaskId> = views.iter().map(|view| view.task_id).collect();
    let claimed = session::claim_reminders(root, session, &ids)?;
    views.retain(|view| claimed.contains(&view.task_id));
    Ok(running::format_lines(&views).map(|lines| {
        format!(
            "Background commands of the host's own shell tool, supervised by siding (`siding \
             output ID`, `siding stop ID`):\n{}",
            escape_xml(&lines)
        )
    }))
}

/// Returns the host's own commands that have outlived their calls and satisfy `is_wanted`.
fn hosted_tasks(
    conversation: &Conversation,
    sessions: &[SessionId],
    is_wanted: impl Fn(&Task) -> bool,
) -> Result<Vec<TaskView>, Failure> {
    let Conversation { root, session, .. } = conversation;
    let calls = session::returned_calls(root, session)?;
    let now = clock::unix_now();
    running::running_tasks(root, sessions, |task| {
        has_outlived_its_call(&task.state, &calls, now) && is_wanted(task)
    })
}

/// Returns an answer with the notices followed by the reminder. Either part may be missing.
pub(super) fn build_answer<'c>(
    news: Option<NewNotices<'c>>,
    reminder: Option<String>,
) -> AnswerWithAcks<'c> {
    match (news, reminder) {
        (Some(news), reminder) => {
            let (text, acks) = news.into_text(&reminder.unwrap_or_default());
            AnswerWithAcks::with_acks(HookAnswer::Context(text), acks)
        }
        (None, Some(reminder)) => {
            let text = format!("siding reports (automated, not from the user):\n{reminder}");
            HookAnswer::Context(text).into()
        }
        (None, None) => HookAnswer::Nothing.into(),
    }
}

/// Returns the tasks that a notice already reports as running.
fn tasks_reported_running(news: Option<&NewNotices<'_>>) -> Vec<TaskId> {
    let notices = news.map(NewNotices::notices).unwrap_or_default().iter();
    let says_it_runs = |kind| match kind {
        NoticeKind::Lingering | NoticeKind::Stalled | NoticeKind::Ready | NoticeKind::Terminal => {
            true
        }
        NoticeKind::Ended | NoticeKind::Limit | NoticeKind::Matched | NoticeKind::Expiring => false,
    };
    notices.filter(|notice| says_it_runs(notice.kind)).map(|notice| notice.task_id).collect()
}
