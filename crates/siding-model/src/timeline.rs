//! A timeline of tasks: a lane for each session, a bar for each task, and marks for its events.
//!
//! [`TimelineTask`] contains the facts of a task's journal that the timeline needs.
//! [`Timeline::new`] places tasks on a grid of columns: it nests the tasks of subagents and
//! workflows below the task that started them, gives short bars a minimum width, and combines bars
//! where a session has more tasks than rows. [`render_svg`] draws the result as SVG; the command
//! line draws it as text.

mod axis;
mod layout;
mod nesting;
mod packing;
mod svg;
mod task_history;
mod window;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::duration::format_duration;
use crate::id::{SessionId, TaskId};
use crate::outcome::{Outcome, OutcomeGroup};
use crate::text::one_line;

pub use nesting::retain_sessions;
pub use svg::{SVG_GRID, SvgLinks, render_svg};
pub use task_history::{TimelineEvent, TimelineTask};
pub use window::TimelineWindow;

/// Maximum width of the outcome next to a bar, in columns.
const NOTE_COLUMNS: usize = 40;

/// The parent session of each session that has one.
pub type SessionParents = BTreeMap<SessionId, SessionId>;

/// The resolution of a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimelineGrid {
    /// Number of columns: characters of a text, or pixels of a picture.
    pub columns: usize,
    /// Minimum width of a bar, in columns.
    pub min_bar_columns: usize,
    /// Maximum number of rows. Where there are more tasks, several bars share a row, and bars that
    /// would overlap are combined.
    pub max_rows: usize,
    /// Width of a character in the labels of the time axis, in columns.
    pub char_columns: usize,
    /// Difference between the time of the labels and UTC, in milliseconds.
    pub utc_offset_ms: i64,
}

/// Tasks over time, as printed by `siding timeline --json`.
///
/// Columns count from 0 at `since` to `columns` at `until`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "timeline"))]
pub struct Timeline {
    /// Start of the first column, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub since: String,
    /// End of the last column, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub until: String,
    /// The time at which the tasks were read, RFC 3339. Bars of running tasks end here.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub now: String,
    /// Difference between the time of the labels and UTC, in minutes.
    pub utc_offset_minutes: i64,
    /// Number of columns.
    pub columns: usize,
    /// Column of `now`; null if that is outside of the window.
    pub now_column: Option<usize>,
    /// Number of tasks in the window, by their state.
    pub counts: TimelineCounts,
    /// The marks of the time axis.
    pub ticks: Vec<AxisTick>,
    /// The sessions, in the order of their first task. A session follows its parent session.
    pub lanes: Vec<TimelineLane>,
}

/// Number of tasks, by state and outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineCounts {
    /// All tasks: the sum of the other fields.
    pub tasks: usize,
    /// Tasks that have not ended.
    pub running: usize,
    /// Tasks that exited with code 0.
    pub succeeded: usize,
    /// Tasks that failed or were lost, or that siding stopped at their deadline or limit.
    pub failed: usize,
    /// Tasks that were stopped or released on request.
    pub stopped: usize,
}

impl TimelineCounts {
    fn add(&mut self, status: BarStatus) {
        self.tasks += 1;
        *match status {
            BarStatus::Running => &mut self.running,
            BarStatus::Succeeded => &mut self.succeeded,
            BarStatus::Failed => &mut self.failed,
            BarStatus::Stopped => &mut self.stopped,
        } += 1;
    }

    fn merge(&mut self, other: Self) {
        self.tasks += other.tasks;
        self.running += other.running;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.stopped += other.stopped;
    }

    /// Returns the numbers as words, as in `7 tasks, 2 running, 1 failed`.
    #[must_use]
    pub fn describe(&self) -> String {
        let Self { tasks, running, failed, stopped, succeeded: _ } = *self;
        let mut text = format!("{tasks} {}", if tasks == 1 { "task" } else { "tasks" });
        for (count, word) in [(running, "running"), (failed, "failed"), (stopped, "stopped")] {
            if count > 0 {
                text.push_str(&format!(", {count} {word}"));
            }
        }
        text
    }
}

/// A mark of the time axis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AxisTick {
    /// The column.
    pub column: usize,
    /// The local time such as `14:05`, or a date such as `Nov 21` at midnight, or `2026-11-21`.
    pub label: String,
}

/// The tasks of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineLane {
    /// The session; null if the lane combines several sessions because there are too many.
    pub session_id: Option<SessionId>,
    /// Number of sessions in the lane.
    pub sessions: usize,
    /// Number of parent sessions that have a lane of their own.
    pub depth: usize,
    /// Number of tasks in the lane, by their state.
    pub counts: TimelineCounts,
    /// The rows, from top to bottom. Tasks of subagents and workflows follow the task that started
    /// them.
    pub rows: Vec<TimelineRow>,
}

/// A row of bars that do not overlap.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineRow {
    /// Number of tasks inside which the tasks of the row were started, as far as the timeline has
    /// them.
    pub depth: usize,
    /// The bars, from left to right.
    pub bars: Vec<TimelineBar>,
}

/// A task, or several short tasks, over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineBar {
    /// The first column.
    pub from: usize,
    /// The column after the last.
    pub to: usize,
    /// Start of the first task, RFC 3339; it may precede the window.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub started_at: String,
    /// Length from the start of the first task to the end of the last, or to now, in milliseconds
    /// of wall-clock time.
    pub elapsed_ms: u64,
    /// The state of the task; of several tasks the one that most needs attention.
    pub status: BarStatus,
    /// Number of tasks that the bar represents, by their state.
    pub counts: TimelineCounts,
    /// The task; null if the bar represents several.
    pub task: Option<BarTask>,
    /// The parts of the bar, without gaps; empty if the bar represents several tasks.
    pub parts: Vec<BarPart>,
    /// Events of the task in the window, in the order of their columns; empty if the bar represents
    /// several tasks.
    pub marks: Vec<TimelineMark>,
}

impl TimelineBar {
    /// Returns the text next to the bar: how the task ended, unless it succeeded, and how long it
    /// ran; for several tasks their number.
    #[must_use]
    pub fn note(&self) -> String {
        let Some(task) = &self.task else { return self.counts.describe() };
        let took = self.took();
        match &task.outcome {
            None | Some(Outcome::Exited { code: 0 }) => took,
            Some(outcome) => format!("{}, {took}", one_line(&outcome.to_string(), NOTE_COLUMNS)),
        }
    }

    /// Returns the text for a place in which [`Self::note`] has no room.
    #[must_use]
    pub fn short_note(&self) -> String {
        let Some(task) = &self.task else { return self.counts.tasks.to_string() };
        let text = match &task.outcome {
            None | Some(Outcome::Exited { code: 0 }) => return self.took(),
            Some(Outcome::Exited { code }) => format!("exit {code}"),
            Some(Outcome::Signaled { signal, .. }) => signal.to_string(),
            Some(Outcome::Deadline { .. }) => "deadline".to_owned(),
            Some(Outcome::Stopped { by }) => format!("by {by}"),
            Some(Outcome::Limit { limit_kind }) => limit_kind.flag_name().to_owned(),
            Some(Outcome::FailedToStart { .. }) => "not started".to_owned(),
            Some(Outcome::Released { .. }) => "released".to_owned(),
            Some(Outcome::Lost { .. }) => "lost".to_owned(),
        };
        one_line(&text, NOTE_COLUMNS)
    }

    fn took(&self) -> String {
        format_duration(Duration::from_millis(self.elapsed_ms))
    }

    /// Returns the longest run of columns in which the task was in the background and has no mark,
    /// as the first column and the column after the last. A mark also covers `mark_columns` columns
    /// on each side. `None` if there is no such column.
    #[must_use]
    pub fn unmarked_columns(&self, mark_columns: usize) -> Option<(usize, usize)> {
        let whole = [BarPart { from: self.from, to: self.to, state: BarState::Background }];
        let parts = if self.parts.is_empty() { &whole[..] } else { &self.parts };
        let mut longest: Option<(usize, usize)> = None;
        for part in parts.iter().filter(|part| part.state == BarState::Background) {
            let mut from = part.from;
            let marks = self.marks.iter().map(|mark| {
                (mark.column.saturating_sub(mark_columns), mark.column + 1 + mark_columns)
            });
            for (mark_from, mark_to) in marks.chain([(part.to, part.to)]) {
                let to = mark_from.min(part.to);
                if to > from && longest.is_none_or(|(first, end)| end - first < to - from) {
                    longest = Some((from, to));
                }
                from = from.max(mark_to);
            }
        }
        longest
    }
}

/// The task of a bar.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BarTask {
    /// Id of the task.
    pub task_id: TaskId,
    /// Session of the task, which may be that of a subagent in the lane's session.
    pub session_id: SessionId,
    /// The task inside which this task was started; null if none.
    pub parent_task: Option<TaskId>,
    /// Name and command of the task, shortened, without control characters.
    pub title: String,
    /// How the task ended; null while it runs.
    pub outcome: Option<Outcome>,
}

/// The state of a task in a timeline. The order is that in which a state needs attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BarStatus {
    /// The task exited with code 0.
    Succeeded,
    /// The task was stopped or released on request.
    Stopped,
    /// The task has not ended.
    Running,
    /// The task failed or was lost, or siding stopped it at its deadline or limit.
    Failed,
}

impl BarStatus {
    /// Returns the name in JSON and in classes of the SVG.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Stopped => "stopped",
            Self::Running => "running",
            Self::Failed => "failed",
        }
    }

    fn from_outcome(outcome: Option<&Outcome>) -> Self {
        outcome.map_or(Self::Running, |outcome| match outcome.group() {
            OutcomeGroup::Succeeded => Self::Succeeded,
            OutcomeGroup::Stopped => Self::Stopped,
            OutcomeGroup::Failed => Self::Failed,
        })
    }
}

/// A part of a bar during which the task was in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BarPart {
    /// The first column.
    pub from: usize,
    /// The column after the last.
    pub to: usize,
    /// The state of the task.
    pub state: BarState,
}

/// Whether a caller waits for a task, or how far the task has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BarState {
    /// A caller waits for the task.
    Foreground,
    /// No caller waits for the task.
    Background,
    /// The shell or program has ended, and other processes of the task are alive.
    Lingering,
    /// The task is being stopped.
    Stopping,
}

impl BarState {
    /// All states, in the order of their declaration.
    pub const ALL: [Self; 4] =
        [Self::Foreground, Self::Background, Self::Lingering, Self::Stopping];

    /// Returns the name in JSON, in legends and in classes of the SVG.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Foreground => "foreground",
            Self::Background => "background",
            Self::Lingering => "lingering",
            Self::Stopping => "stopping",
        }
    }
}

/// An event of a task. Events of the same kind in one column share a mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TimelineMark {
    /// The column.
    pub column: usize,
    /// Time of the first event, RFC 3339. Time during which the machine was suspended is not
    /// included.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub at: String,
    /// The kind of the events.
    pub kind: MarkKind,
    /// Description of the first event, without control characters.
    pub text: String,
    /// Number of events.
    pub events: usize,
}

/// The kind of an event in a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MarkKind {
    /// The task wrote lines that its monitor selects.
    Matched,
    /// A new shim replaced a dead one.
    Takeover,
    /// The task became ready.
    Ready,
    /// The task moved to the background.
    HandOver,
    /// The deadline was near.
    Expiring,
    /// Output could not be stored.
    OutputLost,
    /// The shell or program ended, and other processes of the task remained.
    Lingering,
    /// The task was silent, with evidence for the cause.
    Stalled,
    /// The task exceeded a limit or a watchdog's threshold, or was refused a host.
    Limit,
    /// A stop began: requested, at the deadline or at a limit.
    Stop,
    /// Processes that the stop signal had not ended were killed.
    Kill,
    /// The task ended.
    Ended,
}

impl MarkKind {
    /// All kinds, from the least to the most important: where several marks fall into one
    /// character, the last is shown.
    pub const ALL: [Self; 12] = [
        Self::Matched,
        Self::Takeover,
        Self::Ready,
        Self::HandOver,
        Self::Expiring,
        Self::OutputLost,
        Self::Lingering,
        Self::Stalled,
        Self::Limit,
        Self::Stop,
        Self::Kill,
        Self::Ended,
    ];

    /// Returns the words for the kind in a legend.
    #[must_use]
    pub const fn legend(self) -> &'static str {
        match self {
            Self::Matched => "matched lines",
            Self::Takeover => "new shim",
            Self::Ready => "ready",
            Self::HandOver => "hand-over",
            Self::Expiring => "deadline near",
            Self::OutputLost => "output lost",
            Self::Lingering => "processes left",
            Self::Stalled => "stalled",
            Self::Limit => "limit",
            Self::Stop => "stop",
            Self::Kill => "kill",
            Self::Ended => "end",
        }
    }

    /// Returns the ASCII character of the kind. The end of a task has one for each
    /// [`BarStatus`], so it has none here.
    #[must_use]
    pub const fn symbol(self) -> Option<char> {
        match self {
            Self::Matched => Some('m'),
            Self::Takeover => Some('t'),
            Self::Ready => Some('r'),
            Self::HandOver => Some('>'),
            Self::Expiring => Some('d'),
            Self::OutputLost => Some('o'),
            Self::Lingering => Some('~'),
            Self::Stalled => Some('?'),
            Self::Limit => Some('!'),
            Self::Stop => Some('S'),
            Self::Kill => Some('K'),
            Self::Ended => None,
        }
    }
}
