//! Converts a task of siding to a task of A2A. Pure.

use serde::Deserialize;
use siding_model::id::SessionId;
use siding_model::journal::TaskState;
use siding_model::lifecycle::Phase;
use siding_model::outcome::Outcome;
use siding_model::process::UnixMs;
use siding_model::session_host::SessionHost;
use siding_model::spec::TaskCommand;
use siding_model::text::{cut_tail, make_visible};

use crate::wire::{A2aState, Artifact, Message, Part, ROLE_AGENT, Status, Task};

/// The flag with which an agent resumes a conversation.
pub(super) const RESUME_FLAG: &str = "--resume";
/// The name of the artifact with the agent's last answer.
const ANSWER_ARTIFACT_NAME: &str = "answer";
/// Maximum bytes of an agent's output shown for a failure without a report.
const FAILURE_TAIL_BYTES: usize = 2000;

/// The report that `siding agent --json` prints at its end.
#[derive(Debug, Deserialize)]
struct AgentReport {
    /// Required, so that no other JSON line parses as a report.
    #[serde(rename = "session_id")]
    _session: String,
    text: String,
    end: AgentEnd,
}

#[derive(Debug, Deserialize)]
struct AgentEnd {
    kind: String,
    #[serde(default)]
    why: Option<String>,
}

impl AgentReport {
    /// Finds the report in an agent's output: the last line that parses as one, if any.
    fn find_in(output: &str) -> Option<Self> {
        output.lines().rev().find_map(|line| serde_json::from_str(line).ok())
    }

    /// Formats how the agent ended.
    fn format_end(&self) -> String {
        let kind = self.end.kind.replace('_', " ");
        self.end.why.as_ref().map_or(kind, |why| make_visible(why))
    }
}

/// Converts a task. `output` is the end of the task's output, and is not used for a live task.
pub(super) fn to_a2a_task(state: &TaskState, output: &str) -> Task {
    let (id, context_id) = task_and_context_ids(state);
    let report = (!state.is_live()).then(|| AgentReport::find_in(output)).flatten();
    let a2a_state = to_a2a_state(state);
    let message = match (&a2a_state, state.lifecycle.outcome()) {
        (A2aState::Failed, Some(outcome)) => Some(match &report {
            Some(report) => format!("{outcome}: {}", report.format_end()),
            None => {
                format!("{outcome}: {}", make_visible(cut_tail(output, FAILURE_TAIL_BYTES)).trim())
            }
        }),
        _ => None,
    };
    let answer = report.map(|report| report.text).filter(|text| !text.is_empty());
    Task {
        status: to_a2a_status(state, a2a_state, message.as_deref()),
        artifacts: answer.into_iter().map(answer_artifact).collect(),
        id,
        context_id,
    }
}

/// Returns the ids of a task and of its conversation.
pub(super) fn task_and_context_ids(state: &TaskState) -> (String, String) {
    (state.spec.task_id.to_string(), state.spec.name.clone().unwrap_or_default())
}

/// Returns a status with an optional message of the agent.
pub(super) fn to_a2a_status(state: &TaskState, a2a_state: A2aState, text: Option<&str>) -> Status {
    let (id, context) = task_and_context_ids(state);
    let message = text.map(|text| Message {
        message_id: format!("{id}-{}", state.next_seq),
        context_id: Some(context),
        task_id: Some(id),
        role: ROLE_AGENT.to_owned(),
        parts: vec![Part::text(text)],
    });
    Status { state: a2a_state, message, timestamp: Some(changed_at(state).rfc3339()) }
}

/// Returns the time of the task's last recorded event.
pub(super) fn changed_at(state: &TaskState) -> UnixMs {
    let since = state.last_event_at.ms_since(state.started);
    state.started_wall.plus_ms(i64::try_from(since).unwrap_or(i64::MAX))
}

fn answer_artifact(text: String) -> Artifact {
    let name = Some(ANSWER_ARTIFACT_NAME.to_owned());
    Artifact { artifact_id: ANSWER_ARTIFACT_NAME.to_owned(), name, parts: vec![Part::text(text)] }
}

/// Maps a task's phase to a state of A2A.
pub(super) fn to_a2a_state(state: &TaskState) -> A2aState {
    match state.lifecycle.phase() {
        Phase::Starting { .. } => A2aState::Submitted,
        Phase::Running { .. }
        | Phase::Lingering { .. }
        | Phase::Stopping { .. }
        | Phase::Killing { .. } => A2aState::Working,
        Phase::Ended { outcome: Outcome::Exited { code: 0 }, .. } => A2aState::Completed,
        Phase::Ended { outcome: Outcome::Stopped { .. }, .. } => A2aState::Canceled,
        Phase::Ended { .. } => A2aState::Failed,
    }
}

/// Returns the conversation of a task's agent: the conversation that the agent resumes, otherwise
/// the one that the agent has named after its own process. Returns `None` before the agent runs.
pub(super) fn conversation_id(state: &TaskState) -> Option<SessionId> {
    if let TaskCommand::Argv { argv } = &state.spec.command {
        let at = argv.iter().position(|word| word == RESUME_FLAG);
        if let Some(named) = at.and_then(|at| argv.get(at + 1)) {
            return named.parse().ok();
        }
    }
    let leader = state.leader?.process()?;
    let prefix = SessionHost::Agent.session_prefix();
    format!("{prefix}{}-{}", leader.pid, leader.start_ticks).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_the_last_line_that_parses_as_one() {
        let output = "siding: a warning\n{\"a\":1}\n\
            {\"session_id\":\"agent-1-2\",\"text\":\"hi\",\"end\":{\"kind\":\"wait_bound\",\"bound_ms\":1}}\n\
            siding: more\n";
        let report = AgentReport::find_in(output).expect("one");
        assert_eq!((report.text.as_str(), report.format_end().as_str()), ("hi", "wait bound"));
        assert!(AgentReport::find_in("{\"text\":\"hi\"}\n").is_none());
        let failed = "{\"session_id\":\"s\",\"text\":\"\",\"end\":{\"kind\":\"failed\",\"why\":\"\u{1b}x\"}}";
        assert!(AgentReport::find_in(failed).is_none(), "no JSON: a control character");
        let failed = failed.replace('\u{1b}', "\\u001b");
        assert_eq!(AgentReport::find_in(&failed).expect("one").format_end(), "\\ex");
    }
}
