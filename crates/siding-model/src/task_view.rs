//! What `--json` prints: the contract with hosts and scripts.
//!
//! Fields may be added, never renamed, removed or given another meaning. The committed schema is
//! `docs/schema/task.schema.json`.

mod wait_view;

use serde::Serialize;

use crate::evidence::AttentionView;
use crate::history::Expectation;
use crate::id::{SessionId, TaskId, TaskKind};
use crate::journal::TaskState;
use crate::lifecycle::Phase;
use crate::limits::{Breach, PeakUsage};
use crate::outcome::{BackgroundReason, Outcome, Placement};
use crate::record::{OutputGap, StopReport};

pub use wait_view::{ReadyView, WaitHit, WaitReason, WaitView};

/// One task, as `run` and `show` print it. `ps` prints a list of them without output text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "task"))]
pub struct TaskView {
    /// Name of the task.
    pub task_id: TaskId,
    /// Kind of the task.
    pub kind: TaskKind,
    /// Session that owns it.
    pub session_id: SessionId,
    /// A person's name for it.
    pub name: Option<String>,
    /// The command as it was typed.
    pub command: String,
    /// Directory in which it started.
    pub cwd: String,
    /// Directory in which its shell ended, where the shell told.
    pub final_cwd: Option<String>,
    /// Whether siding did not start it, but took it on while it ran.
    pub adopted: bool,
    /// Program of the sandbox in which its host runs it, such as `bwrap`; null where there is none.
    pub sandbox: Option<String>,
    /// Where it stands.
    pub phase: PhaseName,
    /// Whether somebody waits for it.
    pub placement: PlacementView,
    /// How it ended; null until the whole tree has ended.
    pub outcome: Option<Outcome>,
    /// How its shell or program ended; known while descendants still linger.
    pub leader_outcome: Option<Outcome>,
    /// Status of each stage of the shell's last pipeline, where it had several.
    pub pipeline_statuses: Option<Vec<i32>>,
    /// When it was accepted, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub started_at: String,
    /// When it ended, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub ended_at: Option<String>,
    /// Awake time from start to end, or to now.
    pub elapsed_ms: u64,
    /// When it will be stopped, RFC 3339; null once it has ended.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub deadline_at: Option<String>,
    /// The shim that keeps it; null once it has ended.
    pub shim_pid: Option<i32>,
    /// Living processes of its tree.
    pub processes: Vec<ProcessView>,
    /// TCP ports on which its tree listens.
    pub listening: Vec<u16>,
    /// What it wrote.
    pub output: OutputView,
    /// That it has been silent for long, and what it does; null when it has not, or has written
    /// again since.
    pub attention: Option<AttentionView>,
    /// The most it was seen to use; null where nobody looked.
    pub usage: Option<PeakUsage>,
    /// Limits that it has passed, each as it was told last.
    pub breaches: Vec<Breach>,
    /// What of the network it may reach, as `--net` takes it.
    pub net: String,
    /// Directory of its control group; null where it has none, once it has ended, and in lists.
    pub cgroup: Option<String>,
    /// What its monitor told; null where it has none.
    pub monitor: Option<MonitorView>,
    /// Whether it is ready; null where nobody said what makes it so.
    pub ready: Option<ReadyView>,
    /// What a stop ended; null when nothing had to be.
    pub stop_report: Option<StopReport>,
    /// Task with the same command and directory that ran before it.
    pub duplicate_of: Option<TaskId>,
    /// Task inside which it was started.
    pub parent_task: Option<TaskId>,
    /// Times another shim had to take over.
    pub rescues: u32,
    /// How long it usually takes, the median of earlier runs; null unless its shell or program
    /// still runs, and with fewer than 3 runs that say something.
    pub expected_ms: Option<u64>,
    /// Nine of ten earlier runs took no longer; null as `expected_ms`, or when too many were cut
    /// short to tell.
    pub expected_p90_ms: Option<u64>,
    /// Earlier runs this rests on; null as `expected_ms`.
    pub expected_runs: Option<usize>,
    /// What a person or an agent should know or do next.
    pub message: Option<String>,
}

impl TaskView {
    /// Returns what it is, for people: the command, and for what is siding itself at other work its name,
    /// which says more.
    #[must_use]
    pub fn display_name(&self) -> &str {
        let name = self.name.as_deref().filter(|_| self.kind != TaskKind::LocalBash);
        name.unwrap_or(&self.command)
    }

    /// Whether its end is still to be expected: its shell or program has not ended, and nobody
    /// ends it.
    #[must_use]
    pub const fn is_in_progress(&self) -> bool {
        matches!(self.phase, PhaseName::Starting | PhaseName::Running)
    }

    /// Adds what is usual for its command, where it is under way.
    pub fn set_expectation(&mut self, usual: &Expectation) {
        if self.is_in_progress()
            && let Some(median) = usual.median.exact_ms()
        {
            self.expected_ms = Some(median);
            self.expected_p90_ms = usual.p90.exact_ms();
            self.expected_runs = Some(usual.runs);
        }
    }
}

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PhaseName {
    /// Recorded, not yet running.
    Starting,
    /// Its shell or program runs.
    Running,
    /// It is being ended.
    Stopping,
    /// Its shell has ended, descendants live.
    Lingering,
    /// Nothing of it is left.
    Ended,
}

impl PhaseName {
    /// Returns the word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Lingering => "lingering",
            Self::Ended => "ended",
        }
    }
}

impl From<&Phase> for PhaseName {
    fn from(phase: &Phase) -> Self {
        match phase {
            Phase::Starting { .. } => Self::Starting,
            Phase::Running { .. } => Self::Running,
            Phase::Lingering { .. } => Self::Lingering,
            Phase::Stopping { .. } | Phase::Killing { .. } => Self::Stopping,
            Phase::Ended { .. } => Self::Ended,
        }
    }
}

/// Whether somebody waits for the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlacementView {
    /// `foreground` or `background`.
    pub kind: PlacementKind,
    /// Why it is in the background; null in the foreground.
    pub why: Option<BackgroundReason>,
}

/// The two places.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PlacementKind {
    /// A caller waits.
    Foreground,
    /// Nobody waits.
    Background,
}

impl From<Placement> for PlacementView {
    fn from(placement: Placement) -> Self {
        match placement {
            Placement::Foreground => Self { kind: PlacementKind::Foreground, why: None },
            Placement::Background { why } => {
                Self { kind: PlacementKind::Background, why: Some(why) }
            }
        }
    }
}

/// What a monitor told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MonitorView {
    /// Regular expression of the lines that are told; null for every line.
    pub pattern: Option<String>,
    /// Lines that were told so far.
    pub lines: u64,
    /// Notices in which they were.
    pub notices: u32,
    /// How many of the lines shared a notice with others, since there were too many at once.
    pub coalesced: u64,
    /// How many of these were only counted: their text is in the output alone.
    pub text_dropped: u64,
}

impl MonitorView {
    /// Returns what the monitor of a task told, `None` where it has none.
    #[must_use]
    pub fn from_state(state: &TaskState) -> Option<Self> {
        let totals = state.matched;
        state.spec.monitor.as_ref().map(|monitor| Self {
            pattern: monitor.pattern.clone(),
            lines: totals.lines,
            notices: totals.records,
            coalesced: totals.coalesced_lines,
            text_dropped: totals.dropped_lines,
        })
    }
}

/// A living process of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ProcessView {
    /// Process number.
    pub pid: i32,
    /// Its command line, shortened.
    pub command: String,
    /// State letter of proc_pid_stat(5): `R`, `S`, `D`, `T`, `Z` …
    pub state: String,
    /// User and system time so far.
    pub cpu_ms: u64,
}

/// What a task wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutputView {
    /// The file that holds it.
    pub path: String,
    /// Bytes written by the task.
    pub bytes: u64,
    /// Bytes still in the file.
    pub kept_bytes: u64,
    /// The part released in the middle.
    pub gap: Option<OutputGap>,
    /// Bytes that could not be stored, for want of space.
    pub lost_bytes: u64,
    /// The text for a model or a person; null in lists.
    pub text: Option<String>,
    /// Whether `text` leaves something out.
    pub truncated: bool,
}
