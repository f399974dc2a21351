//! A tool's structured content (MCP), in addition to the text for a model.
//!
//! Some clients show a model only the text, others only the structured content (Claude Code 2.1.330
//! and Codex 0.169). So the text and the structured content each contain the whole answer, in as
//! few words as possible. The tools for screens have only text. Fields may be added; an existing
//! field is never renamed, removed or given another meaning.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use siding_model::evidence::WhyView;
use siding_model::id::TaskId;
use siding_model::outcome::Outcome;
use siding_model::record::StopReport;
use siding_model::task_view::{PhaseName, PlacementView, TaskView, WaitView};
use siding_model::text::one_line;

/// Maximum width of the line for one task, in columns.
pub const LINE_COLUMNS: usize = 160;

/// The structured content of a tool whose own fields are `T`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StructuredAnswer<T> {
    /// The state of the tasks and what to do next, in siding's own words.
    pub(crate) message: String,
    /// The part of a task's output that the answer shows; omitted if the answer shows none. The
    /// text comes from the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<String>,
    /// Notices about other tasks of the session, when there are new ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) notices: Option<String>,
    #[serde(flatten)]
    pub(crate) details: T,
}

/// The state of one task. Unknown and inapplicable fields are omitted, because a model may read the
/// whole value.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct TaskSummary {
    /// Id of the task, for the other tools.
    task_id: TaskId,
    /// The command on one line, cut to 160 columns.
    command: String,
    /// Phase of the task.
    phase: PhaseName,
    /// Whether a caller waits; otherwise the reason for the background.
    placement: PlacementView,
    /// How the task ended; null until all its processes have ended.
    outcome: Option<Outcome>,
    /// How the shell or program ended, while descendants still run.
    #[serde(skip_serializing_if = "Option::is_none")]
    leader_outcome: Option<Outcome>,
    /// Milliseconds from the start to the end, or until now.
    elapsed_ms: u64,
    /// Time of the deadline, RFC 3339; omitted after the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_at: Option<String>,
    /// Usual duration in milliseconds, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_ms: Option<u64>,
    /// Whether the task is ready, if it has readiness conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<bool>,
    /// TCP ports on which the task listens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    listening: Vec<u16>,
    /// The file with the output.
    output_file: String,
    /// Bytes that the task has written.
    output_bytes: u64,
}

impl From<&TaskView> for TaskSummary {
    fn from(view: &TaskView) -> Self {
        let leader_outcome = view.leader_outcome.clone().filter(|_| view.outcome.is_none());
        Self {
            task_id: view.task_id,
            command: one_line(&view.command, LINE_COLUMNS),
            phase: view.phase,
            placement: view.placement,
            outcome: view.outcome.clone(),
            leader_outcome,
            elapsed_ms: view.elapsed_ms,
            deadline_at: view.deadline_at.clone(),
            expected_ms: view.expected_ms,
            ready: view.ready.as_ref().map(|ready| ready.after_ms.is_some()),
            listening: view.listening.clone(),
            output_file: view.output.path.clone(),
            output_bytes: view.output.bytes,
        }
    }
}

/// The fields of `run`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct RunDetails {
    /// The task of the command; omitted when no task was started, and with `task_id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) task: Option<TaskSummary>,
    /// Id of the running task, in place of `task`, if `output` is the screen of its terminal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) task_id: Option<TaskId>,
    /// The task that already runs the same command; present if the call therefore started no task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duplicate_of: Option<TaskId>,
    /// Whether `output` omits a part of the output so far.
    pub(crate) output_truncated: bool,
}

/// The fields of `output`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OutputDetails {
    /// The task that wrote `output`.
    pub(crate) task: TaskSummary,
    /// Offset at which `output` begins.
    pub(crate) from: u64,
    /// Offset at which to continue, for `since`.
    pub(crate) next: u64,
    /// Whether `output` omits a part between `from` and the end.
    pub(crate) output_truncated: bool,
}

/// The fields of `wait`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WaitDetails {
    #[serde(flatten)]
    pub(crate) wait: WaitView,
    /// The tasks that ended, and the tasks that still ran at the timeout.
    pub(crate) tasks: Vec<TaskSummary>,
}

/// The fields of `stop`.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct StopDetails {
    /// The result for each named task, in the order of the call.
    pub(crate) results: Vec<StopResult>,
}

/// The result of stopping one task.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StopResult {
    /// The id, prefix or name in the call.
    pub(crate) requested_id: String,
    /// The state of the task after the stop; omitted while the stop is in progress, and when
    /// `error` is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) task: Option<TaskSummary>,
    /// The processes that the stop ended, and the survivors, if there were any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stop_report: Option<StopReport>,
    /// The reason why the task could not be stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// The fields of `list`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListDetails {
    /// The running tasks, the newest first, then ended tasks, the most recently ended first.
    pub(crate) tasks: Vec<TaskSummary>,
}

/// The fields of `input`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct InputDetails {
    /// Id of the task that received the text.
    pub(crate) task_id: TaskId,
    /// Bytes written, including an appended newline.
    pub(crate) written_bytes: usize,
    /// Whether the task's input was closed.
    pub(crate) closed: bool,
}

/// The fields of `why`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WhyDetails {
    /// The verdict on the task, with its evidence.
    pub(crate) why: WhyView,
}

/// Returns the fields of a tool's answer as a JSON object.
pub(crate) fn to_fields<T: Serialize>(details: &T) -> Option<Map<String, Value>> {
    match serde_json::to_value(details) {
        Ok(Value::Object(fields)) => Some(fields),
        // Unreachable: the types are structs, in which every key is a string.
        Ok(_) | Err(_) => None,
    }
}
