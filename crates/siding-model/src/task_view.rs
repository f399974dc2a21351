//! The JSON form of a task, on which hosts and scripts rely.
//!
//! Fields may be added; an existing field is never renamed, removed or given another meaning.
//! `siding schema task` prints the schema.

mod remote_view;
mod screen_view;
mod terminal_view;
mod wait_view;

use std::borrow::Cow;

use serde::Serialize;

use crate::evidence::AttentionView;
use crate::history::Expectation;
use crate::id::{SessionId, TaskId, TaskKind};
use crate::journal::TaskState;
use crate::lifecycle::Phase;
use crate::limits::{Breach, PeakUsage};
use crate::mirror::{InputLoss, JobStatus, Unreachable};
use crate::outcome::{BackgroundReason, Outcome, Placement};
use crate::process::UnixMs;
use crate::record::{OutputGap, StopReport};

pub use remote_view::FetchView;
pub use screen_view::{ScreenColors, ScreenCursorView, ScreenModesView, ScreenRun, ScreenView};
pub use terminal_view::TerminalView;
pub use wait_view::{ReadyView, WaitHit, WaitReason, WaitView};

/// One task, as `run` and `show` print it. `ps` prints a list of tasks without output text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "task"))]
pub struct TaskView {
    /// Id of the task, which other commands accept.
    pub task_id: TaskId,
    /// Kind of the task, such as `local_bash` for a command on this machine.
    pub kind: TaskKind,
    /// Session to which the task belongs.
    pub session_id: SessionId,
    /// The name that the caller gave the task at its start; null if the caller gave no name.
    pub name: Option<String>,
    /// The command as a person would type it.
    pub command: String,
    /// Directory in which the task started.
    pub cwd: String,
    /// Directory in which the shell ended, if the shell reported it.
    pub final_cwd: Option<String>,
    /// Whether siding adopted the task while it was running, instead of starting it.
    pub adopted: bool,
    /// Program of the sandbox in which the host runs the command, such as `bwrap`; null without a
    /// sandbox.
    pub sandbox: Option<String>,
    /// Phase of the task when the view was built.
    pub phase: PhaseName,
    /// Whether a caller waits for the task.
    pub placement: PlacementView,
    /// How the task ended; null until the whole tree has ended or the task was released.
    pub outcome: Option<Outcome>,
    /// How the shell or program ended; null while it runs, and if its end was not observed. The
    /// field is set before `outcome` if descendants linger.
    pub leader_outcome: Option<Outcome>,
    /// Exit status of each stage of the shell's last pipeline; null unless this pipeline had
    /// several stages.
    pub pipeline_statuses: Option<Vec<i32>>,
    /// Time of the start, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub started_at: String,
    /// Time of the end, RFC 3339; null while the task runs, or if a crash lost the final record.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub ended_at: Option<String>,
    /// Awake time from start to end, or to now, in milliseconds; 0 while the task waits in the
    /// queue of a cluster, and for a task that ended there.
    pub elapsed_ms: u64,
    /// Time in the queue of a cluster, in milliseconds, which `elapsed_ms` does not include; null
    /// for a task that was in no queue.
    pub queued_ms: Option<u64>,
    /// Time at which the task will be stopped, RFC 3339: its deadline, or the earlier time limit of
    /// its job; null when it has ended, and while a person waits for it in the foreground.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub deadline_at: Option<String>,
    /// Time at which the cluster ends the job of the task, RFC 3339; null without a cluster, while
    /// the job waits, and when the task has ended.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub job_ends_at: Option<String>,
    /// Pid of the shim that supervises the task; null when the task has ended.
    pub shim_pid: Option<i32>,
    /// Living processes of the task's tree.
    pub processes: Vec<ProcessView>,
    /// TCP ports on which the tree listens.
    pub listening: Vec<u16>,
    /// Location, size and text of the task's output.
    pub output: OutputView,
    /// The current stall, with its cause; null if the task is not stalled.
    pub attention: Option<AttentionView>,
    /// The highest observed resource usage; null if it is unknown.
    pub usage: Option<PeakUsage>,
    /// The latest breach of each limit or watchdog's threshold that the task exceeded.
    pub breaches: Vec<Breach>,
    /// The network policy, in the form that `--net` accepts.
    pub net: String,
    /// Directory of the task's control group; null without one, when the task has ended, and in
    /// lists.
    pub cgroup: Option<String>,
    /// Totals of the task's monitor; null without a monitor.
    pub monitor: Option<MonitorView>,
    /// Whether the task is ready; null without a readiness condition.
    pub ready: Option<ReadyView>,
    /// The processes that a stop ended; null when none had to be stopped.
    pub stop_report: Option<StopReport>,
    /// Earlier task with the same command and directory that was running when this task started;
    /// null if none was.
    pub duplicate_of: Option<TaskId>,
    /// The task inside which this task was started; null if none.
    pub parent_task: Option<TaskId>,
    /// Number of takeovers: times that a new shim replaced a dead one.
    pub rescues: u32,
    /// Name of the executor in the settings; null for a task that runs on this machine.
    pub executor: Option<String>,
    /// Name of the remote machine, as it calls itself; null for a task that runs on this machine,
    /// and until the remote machine has accepted the task.
    pub machine: Option<String>,
    /// The status of the job that waits in the queue of a cluster; null outside of a queue.
    pub queued: Option<QueuedView>,
    /// Number of the job in the cluster, also while it runs and after its end; null without a
    /// cluster, and until the cluster has accepted the job.
    pub job_id: Option<String>,
    /// Number of times that a cluster interrupted the job and started it again.
    pub restarts: u32,
    /// The current interruption of the connection to the remote machine, where the task continues;
    /// null while it is reachable.
    pub unreachable: Option<UnreachableView>,
    /// The lost part of the standard input of a remote task, whose input was then closed early; null
    /// if no input was lost.
    pub input_loss: Option<InputLoss>,
    /// The files that are copied back from the remote machine when the command has ended; null
    /// without `--fetch`.
    pub fetch: Option<FetchView>,
    /// User and machine that sent the task here, as `USER@MACHINE`; null for a task that was started
    /// on this machine.
    pub sent_by: Option<String>,
    /// The task's terminal; null for a task without one.
    pub terminal: Option<TerminalView>,
    /// Path of the terminal on which an adopted task runs, which siding has not opened and cannot
    /// read; null without one, when the task has ended, and in lists.
    pub host_terminal: Option<String>,
    /// Usual duration, the median of earlier runs, in milliseconds; null unless the shell or
    /// program is still running and the runs give an estimate: at least 3 have a known duration,
    /// and few enough of these were cut short.
    pub expected_ms: Option<u64>,
    /// Duration that nine of ten earlier runs did not exceed, in milliseconds; null in the same
    /// cases as `expected_ms`, or when too many runs were cut short.
    pub expected_p90_ms: Option<u64>,
    /// Number of earlier runs in the estimate; null in the same cases as `expected_ms`.
    pub expected_runs: Option<usize>,
    /// The task's state, the result of the call or the next step, for a person or an agent; null if
    /// there is nothing to explain.
    pub message: Option<String>,
}

/// The status of a job in the queue of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct QueuedView {
    /// Number of the job; null until the cluster has accepted it.
    pub job_id: Option<String>,
    /// State of the job in the words of the cluster: `PENDING`.
    pub state: String,
    /// The reason why the job waits, in the words of the cluster: `Resources`; null if it names
    /// none.
    pub reason: Option<String>,
    /// Time at which the cluster expects to start the job, RFC 3339; null if it names none.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub expected_start: Option<String>,
}

impl QueuedView {
    /// Returns the view of the waiting job; `None` outside of a queue, after the end, and for a task
    /// that runs on this machine.
    #[must_use]
    pub fn from_state(state: &TaskState) -> Option<Self> {
        let remote = state.remote.as_ref().filter(|_| state.is_live())?;
        let JobStatus { job_id, state, reason, expected_start } = remote.queued.clone()?;
        let expected_start = expected_start.map(UnixMs::rfc3339);
        Some(Self { job_id, state, reason, expected_start })
    }
}

/// An interruption of the connection to a remote machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnreachableView {
    /// Start of the interruption, RFC 3339.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub since: String,
    /// The last message of ssh, or the reason.
    pub why: String,
    /// Whether a stop was requested that waits for the connection.
    pub stop_pending: bool,
}

impl UnreachableView {
    /// Returns the view of the current interruption; `None` while the remote machine is reachable,
    /// after the end, and for a task that runs on this machine.
    #[must_use]
    pub fn from_state(state: &TaskState) -> Option<Self> {
        let remote = state.remote.as_ref().filter(|_| state.is_live())?;
        let Unreachable { since, why } = remote.unreachable.as_ref()?;
        let stop_pending = remote.pending_stop.is_some();
        Some(Self { since: since.rfc3339(), why: why.clone(), stop_pending })
    }
}

impl TaskView {
    /// Returns the text that identifies the task in lists: its command, or its name if the task
    /// runs siding itself, because such a command does not describe the task.
    #[must_use]
    pub fn display_name(&self) -> &str {
        let name = self.name.as_deref().filter(|_| self.kind != TaskKind::LocalBash);
        name.unwrap_or(&self.command)
    }

    /// Returns [`display_name`](Self::display_name) with the name of a command in front of it.
    #[must_use]
    pub fn title(&self) -> Cow<'_, str> {
        let shown = self.display_name();
        match self.name.as_deref().filter(|name| *name != shown) {
            Some(name) => Cow::Owned(format!("{name}: {shown}")),
            None => Cow::Borrowed(shown),
        }
    }

    /// Returns how often the shim was replaced, in words: `replaced once`. `None` if it was not.
    #[must_use]
    pub fn shim_replacements(&self) -> Option<String> {
        match self.rescues {
            0 => None,
            1 => Some("replaced once".to_owned()),
            count => Some(format!("replaced {count} times")),
        }
    }

    /// Returns whether the shell or program has not ended and is not being stopped.
    #[must_use]
    pub const fn is_in_progress(&self) -> bool {
        matches!(self.phase, PhaseName::Starting | PhaseName::Running)
    }

    /// Sets the usual duration of the command if the task is in progress and the median is known.
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

/// The phase of a task, without the details that only the lifecycle needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PhaseName {
    /// The task is recorded, and its command does not run yet.
    Starting,
    /// The shell or program is running.
    Running,
    /// The task is being stopped.
    Stopping,
    /// The shell has ended, and descendants are alive.
    Lingering,
    /// The task has ended: its processes were terminated or have exited, or it was released.
    Ended,
}

impl PhaseName {
    /// Returns the name in JSON and text.
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

/// Whether a caller waits for the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PlacementView {
    /// `foreground` or `background`.
    pub kind: PlacementKind,
    /// The reason for the background; null in the foreground.
    pub why: Option<BackgroundReason>,
}

/// The kind of a task's placement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PlacementKind {
    /// A caller waits for the end of the command.
    Foreground,
    /// No caller waits, so the task's end is reported by a notice.
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

/// Totals of a task's monitor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MonitorView {
    /// Regular expression for the reported lines; null reports every line.
    pub pattern: Option<String>,
    /// Number of reported lines.
    pub lines: u64,
    /// Number of notices with these lines.
    pub notices: u32,
    /// Number of lines that shared a notice with others because of the rate limit.
    pub coalesced: u64,
    /// Number of the coalesced lines whose text is in no notice, only in the output.
    pub text_dropped: u64,
}

impl MonitorView {
    /// Returns the totals of a task's monitor, or `None` without a monitor.
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
    /// Pid of the process.
    pub pid: i32,
    /// Command line of the process, shortened.
    pub command: String,
    /// Process state: the letter from proc_pid_stat(5), such as `R`, `S`, `D`, `T` or `Z`.
    pub state: String,
    /// User and system time so far, in milliseconds.
    pub cpu_ms: u64,
}

/// The location, size and text of a task's output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutputView {
    /// Path of the file that holds the output.
    pub path: String,
    /// Bytes that the task has written.
    pub bytes: u64,
    /// Bytes that are still in the file.
    pub kept_bytes: u64,
    /// The part in the middle whose storage was freed; null if the whole output is kept.
    pub gap: Option<OutputGap>,
    /// Bytes that could not be stored, for example because the disk was full; 0 while the task
    /// runs.
    pub lost_bytes: u64,
    /// The text for a model or a person: the rows of the screen if a full-screen program has drawn
    /// the end of the output, otherwise lines; null in lists.
    pub text: Option<String>,
    /// Whether `text` omits a part of the output.
    pub truncated: bool,
}
