//! From a task on record to a task of A2A. Pure.

use serde::Deserialize;
use siding_model::id::SessionId;
use siding_model::journal::TaskState;
use siding_model::lifecycle::Phase;
use siding_model::outcome::Outcome;
use siding_model::process::UnixMs;
use siding_model::spec::TaskCommand;
use siding_model::text::{cut_tail, make_visible};

use crate::wire::{AGENT, Artifact, Message, Part, State, Status, Task};

/// The flag by which an agent goes on with a conversation.
pub(super) const RESUME: &str = "--resume";
/// What the agent said last is an artifact of this name.
const ANSWER: &str = "answer";
/// Bytes of what an agent wrote that are shown when it said nothing else.
const TAIL: usize = 2000;

/// What `siding agent --json` prints when it ends.
#[derive(Debug, Deserialize)]
struct Report {
    /// Tells it from any other JSON.
    #[serde(rename = "session_id")]
    _session: String,
    text: String,
    end: End,
}

#[derive(Debug, Deserialize)]
struct End {
    kind: String,
    #[serde(default)]
    why: Option<String>,
}

impl Report {
    /// Finds it in what the agent wrote: it is the last line that is one.
    fn find(output: &str) -> Option<Self> {
        output.lines().rev().find_map(|line| serde_json::from_str(line).ok())
    }

    /// Returns how it ended, in words.
    fn end(&self) -> String {
        let kind = self.end.kind.replace('_', " ");
        self.end.why.as_ref().map_or(kind, |why| make_visible(why))
    }
}

/// Returns how a task stands. `output` is what it wrote, or the end of that; it is looked at only when
/// the task has ended.
pub(super) fn task(state: &TaskState, output: &str) -> Task {
    let (id, context_id) = names(state);
    let report = (!state.is_live()).then(|| Report::find(output)).flatten();
    let stands = state_of(state);
    let said = match (&stands, outcome(state)) {
        (State::Failed, Some(outcome)) => Some(match &report {
            Some(report) => format!("{outcome}: {}", report.end()),
            None => format!("{outcome}: {}", make_visible(cut_tail(output, TAIL)).trim()),
        }),
        _ => None,
    };
    let answer = report.map(|report| report.text).filter(|text| !text.is_empty());
    Task {
        status: status(state, stands, said.as_deref()),
        artifacts: answer.into_iter().map(artifact).collect(),
        id,
        context_id,
    }
}

/// Returns the names of a task and of its conversation.
pub(super) fn names(state: &TaskState) -> (String, String) {
    (state.spec.task_id.to_string(), state.spec.name.clone().unwrap_or_default())
}

/// Returns a status, with what the agent says to it.
pub(super) fn status(state: &TaskState, stands: State, said: Option<&str>) -> Status {
    let (id, context) = names(state);
    let message = said.map(|text| Message {
        message_id: format!("{id}-{}", state.next_seq),
        context_id: Some(context),
        task_id: Some(id),
        role: AGENT.to_owned(),
        parts: vec![Part::text(text)],
    });
    Status { state: stands, message, timestamp: Some(changed(state).rfc3339()) }
}

/// Returns when it changed last.
pub(super) fn changed(state: &TaskState) -> UnixMs {
    let since = state.last_event_at.ms_since(state.started);
    state.started_wall.plus_ms(i64::try_from(since).unwrap_or(i64::MAX))
}

fn artifact(text: String) -> Artifact {
    let name = Some(ANSWER.to_owned());
    Artifact { artifact_id: ANSWER.to_owned(), name, parts: vec![Part::text(text)] }
}

/// Returns its state in A2A's words.
pub(super) fn state_of(state: &TaskState) -> State {
    match state.lifecycle.phase() {
        Phase::Starting { .. } => State::Submitted,
        Phase::Running { .. }
        | Phase::Lingering { .. }
        | Phase::Stopping { .. }
        | Phase::Killing { .. } => State::Working,
        Phase::Ended { outcome: Outcome::Exited { code: 0 }, .. } => State::Completed,
        Phase::Ended { outcome: Outcome::Stopped { .. }, .. } => State::Canceled,
        Phase::Ended { .. } => State::Failed,
    }
}

fn outcome(state: &TaskState) -> Option<&Outcome> {
    match state.lifecycle.phase() {
        Phase::Ended { outcome, .. } => Some(outcome),
        Phase::Starting { .. }
        | Phase::Running { .. }
        | Phase::Lingering { .. }
        | Phase::Stopping { .. }
        | Phase::Killing { .. } => None,
    }
}

/// Returns the conversation of the agent that a task is: the one it was told to go on with, else the
/// one that it named after itself. `None` before it runs.
pub(super) fn conversation(state: &TaskState) -> Option<SessionId> {
    if let TaskCommand::Argv { argv } = &state.spec.command {
        let at = argv.iter().position(|word| word == RESUME);
        if let Some(named) = at.and_then(|at| argv.get(at + 1)) {
            return named.parse().ok();
        }
    }
    let leader = state.leader?.process()?;
    format!("agent-{}-{}", leader.pid, leader.start_ticks).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_is_the_last_line_that_is_one() {
        let output = "siding: a warning\n{\"a\":1}\n\
            {\"session_id\":\"agent-1-2\",\"text\":\"hi\",\"end\":{\"kind\":\"wait_bound\",\"bound_ms\":1}}\n\
            siding: more\n";
        let report = Report::find(output).expect("one");
        assert_eq!((report.text.as_str(), report.end().as_str()), ("hi", "wait bound"));
        assert!(Report::find("{\"text\":\"hi\"}\n").is_none());
        let failed = "{\"session_id\":\"s\",\"text\":\"\",\"end\":{\"kind\":\"failed\",\"why\":\"\u{1b}x\"}}";
        assert!(Report::find(failed).is_none(), "no JSON: a control character");
        let failed = failed.replace('\u{1b}', "\\u001b");
        assert_eq!(Report::find(&failed).expect("one").end(), "\\ex");
    }
}
