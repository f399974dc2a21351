//! A tool's structured content (MCP), in addition to the text for a model.
//!
//! Some clients show a model only the text, others only the structured content (Claude Code 2.1.330
//! and Codex 0.169), so each is complete, and as short as possible. The schemas may gain fields; no
//! field is renamed, removed or given another meaning.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use siding_model::evidence::WhyView;
use siding_model::id::TaskId;
use siding_model::outcome::Outcome;
use siding_model::record::StopReport;
use siding_model::task_view::{PhaseName, PlacementView, TaskView, WaitView};
use siding_model::text::one_line;

use crate::text::LINE_COLUMNS;

/// The structured content of a tool whose own fields are `T`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StructuredAnswer<T> {
    /// How things stand and what to do next, in siding's own words.
    pub(crate) message: String,
    /// What a task wrote, as far as the answer shows it; left out when it shows none. Text of the task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<String>,
    /// What has become of other tasks of the session, as notices, when there is something new.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) news: Option<String>,
    #[serde(flatten)]
    pub(crate) details: T,
}

/// How one task stands. What is not known, or not so, is left out: a model may read all of it.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct TaskSummary {
    /// Name of the task, for the other tools.
    task_id: TaskId,
    /// The command on one line, cut to 160 columns.
    command: String,
    /// Where it stands.
    phase: PhaseName,
    /// Whether a caller waits for it, and if not, why it is in the background.
    placement: PlacementView,
    /// How it ended; null until everything that it started has ended.
    outcome: Option<Outcome>,
    /// How its shell or program ended, while descendants still run.
    #[serde(skip_serializing_if = "Option::is_none")]
    leader_outcome: Option<Outcome>,
    /// Milliseconds from its start to its end, or to now.
    elapsed_ms: u64,
    /// When it will be stopped, RFC 3339; left out once it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_at: Option<String>,
    /// How long it usually takes, in milliseconds, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_ms: Option<u64>,
    /// Whether it is ready, where something was named that makes it so.
    #[serde(skip_serializing_if = "Option::is_none")]
    ready: Option<bool>,
    /// TCP ports on which it listens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    listening: Vec<u16>,
    /// The file that holds its output.
    output_file: String,
    /// Bytes that it wrote.
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
    /// The task that the command became; left out when it was not started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) task: Option<TaskSummary>,
    /// The task that runs the same command already, because of which this one was not started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duplicate_of: Option<TaskId>,
    /// Whether `output` leaves something out that the task wrote until now.
    pub(crate) output_truncated: bool,
}

/// The fields of `output`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct OutputDetails {
    /// The task.
    pub(crate) task: TaskSummary,
    /// Offset at which `output` begins.
    pub(crate) from: u64,
    /// Offset at which to go on, as `since`.
    pub(crate) next: u64,
    /// Whether `output` leaves something out between `from` and the end.
    pub(crate) output_truncated: bool,
}

/// The fields of `wait`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WaitDetails {
    #[serde(flatten)]
    pub(crate) wait: WaitView,
    /// The tasks that ended, and those that still run when the time was over.
    pub(crate) tasks: Vec<TaskSummary>,
}

/// The fields of `stop`.
#[derive(Debug, Default, Serialize, JsonSchema)]
pub(crate) struct StopDetails {
    /// What came of each task that was named, in order.
    pub(crate) results: Vec<StopResult>,
}

/// What came of the stop of one task.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct StopResult {
    /// The id, or its beginning, as it was given.
    pub(crate) asked: String,
    /// How the task stands; left out when there is none, or when it is still being ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) task: Option<TaskSummary>,
    /// What was ended and what could not be, when anything had to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) stop_report: Option<StopReport>,
    /// Why it could not be stopped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// The fields of `list`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ListDetails {
    /// The tasks: all that run, the newest first, then those that ended last.
    pub(crate) tasks: Vec<TaskSummary>,
}

/// The fields of `input`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct InputDetails {
    /// The task.
    pub(crate) task_id: TaskId,
    /// Bytes that were written.
    pub(crate) written_bytes: usize,
    /// Whether its input was closed.
    pub(crate) closed: bool,
}

/// The fields of `why`.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct WhyDetails {
    /// The evidence.
    pub(crate) why: WhyView,
}

/// Returns the fields of a tool's answer as a JSON object.
pub(crate) fn to_fields<T: Serialize>(details: &T) -> Option<Map<String, Value>> {
    match serde_json::to_value(details) {
        Ok(Value::Object(fields)) => Some(fields),
        // Unreachable: these types are structs, and none has a map with keys that are not strings.
        Ok(_) | Err(_) => None,
    }
}
