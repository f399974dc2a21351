//! Paints the progress of a task for a person who waits for it.

use std::io::{self, IsTerminal as _};

use siding_core::output;
use siding_core::store::StateDir;
use siding_core::sys::tty;
use siding_core::task::view::ViewDetail;
use siding_model::id::TaskId;
use siding_model::progress_line::{ProgressFacts, format_progress_line};
use siding_model::task_view::TaskView;
use siding_model::text::CharacterSet;

use crate::context::Task;
use crate::render::color::{ColorMode, TextStyle};
use crate::run_history;
use crate::stderr;
use crate::stdout::TEXT_COLUMNS;
use crate::terminal;

/// A progress line on the terminal behind standard error.
#[derive(Debug)]
pub(crate) struct TaskProgress<'r> {
    root: &'r StateDir,
    characters: CharacterSet,
    color: ColorMode,
    /// The usual duration of the last painted task, with the task's id.
    usual: Option<(TaskId, Option<u64>)>,
    /// The last line of the last painted task's output, with the task's id and the size of its
    /// output at that time.
    last_line: Option<(TaskId, u64, String)>,
}

/// Whether the line contains the last line of the task's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LastLine {
    Included,
    /// The output itself is on the screen.
    Omitted,
}

/// Whether the line was painted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PaintResult {
    Painted,
    /// This process is in the background of the terminal, or the terminal is not its controlling
    /// terminal, so that other programs use the screen.
    InBackground,
}

impl<'r> TaskProgress<'r> {
    /// Returns a line that is not painted yet, or `None` unless both standard output and standard
    /// error are terminals that can erase a row. If standard output is a pipe, its reader may be a
    /// pager, which uses the screen.
    pub(crate) fn for_terminal(root: &'r StateDir) -> Option<Self> {
        if !terminal::understands_sequences()
            || !io::stdout().is_terminal()
            || !io::stderr().is_terminal()
        {
            return None;
        }
        let characters = terminal::character_set();
        let color = ColorMode::for_stdout();
        Some(Self { root, characters, color, usual: None, last_line: None })
    }

    /// Paints the line of a task. `counts` is the number of ended tasks and of all tasks for which
    /// the caller waits.
    pub(crate) fn paint(
        &mut self,
        id: TaskId,
        counts: Option<(usize, usize)>,
        hint: Option<&str>,
        last_line: LastLine,
    ) -> PaintResult {
        if !tty::is_foreground(io::stderr()) {
            return PaintResult::InBackground;
        }
        // An unreadable task makes the caller fail, which reports the reason.
        let Ok(task) = Task::read(self.root, id) else { return PaintResult::Painted };
        let view = task.view(self.root, ViewDetail::Brief);
        let (characters, color) = (self.characters, self.color);
        let usual_ms = self.usual_ms(&view);
        let last_line = match last_line {
            LastLine::Included => self.read_last_line(&task, view.output.bytes),
            LastLine::Omitted => "",
        };
        let remote = remote_state(&view);
        let facts = ProgressFacts {
            counts,
            elapsed_ms: view.state_time_ms(),
            // The time in a queue is not a part of the duration of the command.
            usual_ms: usual_ms.filter(|_| view.queued.is_none()),
            remote: remote.as_deref(),
            stall: view.attention.as_ref(),
            hint,
            last_line,
        };
        let columns = tty::size(io::stderr()).map_or(TEXT_COLUMNS, |(columns, _)| columns.into());
        // A line that fills the row would move the cursor to the next one in some terminals.
        let line = format_progress_line(facts, columns.saturating_sub(1), characters);
        stderr::show_progress(&color.apply(TextStyle::Faint, &line));
        PaintResult::Painted
    }

    /// Returns the usual duration of a task in milliseconds. The history is read once for a task.
    fn usual_ms(&mut self, view: &TaskView) -> Option<u64> {
        if let Some((id, usual)) = self.usual
            && id == view.task_id
        {
            return usual;
        }
        let usual = run_history::expectation(self.root, &view.command, &view.history_directory())
            .and_then(|usual| usual.median.exact_ms());
        self.usual = Some((view.task_id, usual));
        usual
    }

    /// Returns the last line of a task's output. The output is read only if it has grown.
    fn read_last_line(&mut self, task: &Task, bytes: u64) -> &str {
        let id = task.dir.id();
        if self.last_line.as_ref().is_none_or(|(of, size, _)| (*of, *size) != (id, bytes)) {
            // A line that cannot be read is left out, because the wait does not depend on it.
            let line = output::last_line(&task.dir);
            self.last_line = Some((id, bytes, line.unwrap_or_default()));
        }
        self.last_line.as_ref().map_or("", |(_, _, line)| line)
    }
}

/// Returns the reason why a task on another machine makes no visible progress: its connection is
/// interrupted or not established yet, or its job waits in a queue.
fn remote_state(view: &TaskView) -> Option<String> {
    let interruption = view.unreachable.as_ref().map(|one| {
        let pending = if one.stop_pending { ", a stop is pending" } else { "" };
        format!("unreachable{pending}: {}", one.why)
    });
    let queue = || view.queued.as_ref().map(|one| format!("queued: {}", one.describe(None)));
    let connecting = || view.is_connecting().then(|| view.live_state().to_owned());
    interruption.or_else(queue).or_else(connecting)
}
