//! The agent is about to end its turn.

use std::fmt::Write as _;
use std::time::Duration;

use siding_core::session;
use siding_core::store::Root;
use siding_core::view::Detail;
use siding_model::id::{SessionId, TaskId};
use siding_model::report::{PhaseName, PlacementKind, TaskView};
use siding_model::span::human;
use siding_model::text::one_line;

use super::Answer;
use super::answer::Told;
use super::conversation::Conversation;
use super::host::Host;
use super::input::Input;
use super::news::{News, escaped};
use crate::context::Task;
use crate::failure::Failure;

/// Turns in a row that are held at most: as many as Claude Code lets hooks hold (2.1.240). What is
/// new after that waits for the next prompt.
const HOLDS: u64 = 8;
/// Tasks that are named; the others are counted.
const NAMED: usize = 10;
/// Columns of a command.
const COMMAND: usize = 60;

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
    let running = running(root, &sessions, |_| true)?;
    // A held turn of Gemini CLI begins with a text that reads as a person's.
    if host != Host::Gemini
        && let Some(news) = News::of(conversation)?
        && session::hold(root, session, !input.stop_hook_active, HOLDS)?
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

/// Returns the background tasks of some sessions that run and are wanted, one a line; `None` for
/// none. A command of the host's own that it still waits for, or lists itself, is left out.
pub(super) fn running(
    root: &Root,
    sessions: &[SessionId],
    is_wanted: impl Fn(&Task) -> bool,
) -> Result<Option<String>, Failure> {
    let view = |id: TaskId| {
        let task = Task::read(root, id).ok()?;
        let is_ours = task.state.is_live() && sessions.contains(&task.state.spec.session_id);
        (is_ours && is_wanted(&task)).then(|| task.view(root, Detail::Brief))
    };
    let views = root.live_tasks()?.into_iter().filter_map(view);
    let mut views: Vec<TaskView> = views.filter(runs_on).collect();
    views.sort_by(|a, b| a.started_at.cmp(&b.started_at));
    let mut text: String = views.iter().take(NAMED).map(line).collect();
    if views.len() > NAMED {
        let _a_string_takes_all = writeln!(text, "- and {} more: siding ps", views.len() - NAMED);
    }
    Ok((!text.is_empty()).then_some(text))
}

fn runs_on(task: &TaskView) -> bool {
    let lingers = task.phase == PhaseName::Lingering;
    lingers || (!task.adopted && task.placement.kind == PlacementKind::Background)
}

fn line(task: &TaskView) -> String {
    let elapsed = human(Duration::from_millis(task.elapsed_ms / 1000 * 1000));
    let command = one_line(&task.command, COMMAND);
    let lingers = if task.phase == PhaseName::Lingering { ", its shell has ended" } else { "" };
    format!("- {} for {elapsed}{lingers}: {command}\n", task.task_id)
}
