//! The history of one task, from its journal.

use crate::id::{SessionId, TaskId, TaskKind};
use crate::journal::{self, JournalError, TaskState};
use crate::lifecycle::{Phase, TaskEvent};
use crate::outcome::{BackgroundReason, Outcome, Placement};
use crate::process::{MonotonicMs, UnixMs};
use crate::record::Record;
use crate::spec::TaskSpec;
use crate::text::one_line;

use super::{BarState, MarkKind};

/// Maximum width of a task's title and of a mark's text, in columns.
const TEXT_COLUMNS: usize = 160;

/// The history of a task, as far as a timeline shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineTask {
    /// Id of the task.
    pub task_id: TaskId,
    /// Session of the task.
    pub session_id: SessionId,
    /// The task inside which this task was started.
    pub parent_task: Option<TaskId>,
    /// Name and command of the task, or the name alone if the command is siding itself; shortened,
    /// without control characters.
    pub title: String,
    /// Start of the task.
    pub started_at: UnixMs,
    /// End of the task, not before the start; `None` while the task runs.
    pub ended_at: Option<UnixMs>,
    /// How the task ended; `None` while it runs.
    pub outcome: Option<Outcome>,
    /// The states of the task with their starts, in order. The first starts with the task.
    pub states: Vec<(UnixMs, BarState)>,
    /// The events of the task, in the order of their records.
    pub events: Vec<TimelineEvent>,
}

/// An event of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimelineEvent {
    /// Time of the event. The end of a task has the time in its final record. Any other time is the
    /// start plus awake time, so time during which the machine was suspended is not included.
    pub at: UnixMs,
    /// The kind of the event.
    pub kind: MarkKind,
    /// Description of the event, without control characters.
    pub text: String,
}

impl TimelineTask {
    /// Extracts the history of a task from its journal.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`journal::replay`].
    pub fn from_journal(journal: &[u8]) -> Result<Self, JournalError> {
        let mut events = Vec::new();
        let mut states: Vec<(UnixMs, BarState)> = Vec::new();
        let replayed = journal::replay_with(journal, |_, record, state| {
            let Some(at) = record_time(record) else { return };
            let wall = wall_time(state, at);
            if let Some((kind, text)) = describe_record(record, state) {
                events.push(TimelineEvent { at: wall, kind, text: one_line(&text, TEXT_COLUMNS) });
            }
            if let Some(now) = bar_state(state) {
                states.push((wall, now));
            }
        })?;
        let state = replayed.state;
        let started_at = state.started_wall;
        let outcome = state.lifecycle.outcome().cloned();
        let ended_at = outcome.is_some().then(|| state.ended_wall().max(started_at));
        if let (Some(outcome), Some(at)) = (&outcome, ended_at) {
            let text = one_line(&outcome.to_string(), TEXT_COLUMNS);
            events.push(TimelineEvent { at, kind: MarkKind::Ended, text });
        }
        // No record states the placement before the first event, so it comes from the
        // specification.
        states.insert(0, (started_at, placement_state(state.spec.placement)));
        states.dedup_by_key(|(_, state)| *state);
        Ok(Self {
            task_id: state.spec.task_id,
            session_id: state.spec.session_id.clone(),
            parent_task: state.spec.parent_task,
            title: one_line(&title_text(&state.spec), TEXT_COLUMNS),
            started_at,
            ended_at,
            outcome,
            states,
            events,
        })
    }

    /// Returns the end of the task, or the present while it runs.
    pub(super) fn end_or(&self, now: UnixMs) -> UnixMs {
        self.ended_at.unwrap_or(now).max(self.started_at)
    }
}

fn title_text(spec: &TaskSpec) -> String {
    match &spec.name {
        // The command of any other kind is siding itself, which does not describe the task.
        Some(name) if spec.task_id.kind() != TaskKind::LocalBash => name.clone(),
        Some(name) => format!("{name}: {}", spec.command_text()),
        None => spec.command_text(),
    }
}

fn wall_time(state: &TaskState, at: MonotonicMs) -> UnixMs {
    let after = i64::try_from(at.ms_since(state.started)).unwrap_or(i64::MAX);
    state.started_wall.plus_ms(after)
}

/// Returns the time of a record; `None` for the records that begin and close a journal.
fn record_time(record: &Record) -> Option<MonotonicMs> {
    match record {
        Record::Event { at, .. }
        | Record::Rescued { at, .. }
        | Record::OutputLost { at, .. }
        | Record::Matched { at, .. }
        | Record::Resumed { at, .. }
        | Record::Expiring { at, .. }
        | Record::Denied { at, .. } => Some(*at),
        Record::Stalled(stalled) => Some(stalled.at),
        Record::Limit(breach) => Some(breach.at),
        Record::Ready(ready) => Some(ready.at),
        Record::Remote(event) => Some(event.time()),
        Record::Terminal(event) => Some(event.time()),
        Record::Accepted(_) | Record::Closed(_) => None,
    }
}

/// Returns the kind and the text of a record's mark; `None` for a record without a mark. The end of
/// a task is marked from its final state instead.
fn describe_record(record: &Record, state: &TaskState) -> Option<(MarkKind, String)> {
    match record {
        Record::Event { event, .. } => describe_event(event, state),
        Record::Rescued { .. } => {
            Some((MarkKind::Takeover, "a new shim replaced a dead one".to_owned()))
        }
        Record::OutputLost { error, .. } => {
            Some((MarkKind::OutputLost, format!("output could not be stored: {error}")))
        }
        Record::Matched { text, .. } => Some((MarkKind::Matched, text.clone())),
        Record::Stalled(stalled) => {
            let evidence = &stalled.evidence;
            let phrase = evidence.verdict.phrase(evidence.waiting_on, evidence.awaited_input);
            Some((MarkKind::Stalled, format!("{phrase}: {}", evidence.tail)))
        }
        Record::Limit(breach) => Some((MarkKind::Limit, breach.detail.clone())),
        Record::Denied { host, .. } => Some((MarkKind::Limit, format!("refused: {host}"))),
        Record::Expiring { .. } => Some((MarkKind::Expiring, "the deadline was near".to_owned())),
        Record::Ready(ready) => Some((MarkKind::Ready, ready.describe(state.started))),
        Record::Resumed { .. }
        | Record::Remote(_)
        | Record::Terminal(_)
        | Record::Accepted(_)
        | Record::Closed(_) => None,
    }
}

fn describe_event(event: &TaskEvent, state: &TaskState) -> Option<(MarkKind, String)> {
    match event {
        TaskEvent::Placed { why } => {
            let why = match why {
                BackgroundReason::Asked => "as requested",
                BackgroundReason::Budget => "its budget had passed",
                BackgroundReason::Timeout => "the timeout of the call had passed",
                BackgroundReason::Known | BackgroundReason::Heuristic => "it is usually slow",
                BackgroundReason::User => "a user or the host moved it, or the caller exited",
            };
            Some((MarkKind::HandOver, format!("moved to the background: {why}")))
        }
        TaskEvent::StopAsked { by, .. } => Some((MarkKind::Stop, format!("stop by {by}"))),
        TaskEvent::DeadlinePassed => Some((MarkKind::Stop, "stop at the deadline".to_owned())),
        TaskEvent::LimitPassed { limit_kind } => {
            Some((MarkKind::Stop, format!("stop at the limit {}", limit_kind.flag_name())))
        }
        TaskEvent::GraceOver => {
            Some((MarkKind::Kill, "the grace had passed; the rest was killed".to_owned()))
        }
        TaskEvent::LeaderEnded { end, .. }
            if matches!(state.lifecycle.phase(), Phase::Lingering { .. }) =>
        {
            let end = Outcome::from(end.clone());
            Some((MarkKind::Lingering, format!("{end}; other processes remained")))
        }
        TaskEvent::Spawned { .. }
        | TaskEvent::SpawnFailed { .. }
        | TaskEvent::LeaderEnded { .. }
        | TaskEvent::TreeEmpty
        | TaskEvent::Extended { .. }
        | TaskEvent::Swept { .. }
        | TaskEvent::Released { .. }
        | TaskEvent::Vanished { .. } => None,
    }
}

/// Returns the state of a bar for a task in this state; `None` once the task has ended.
fn bar_state(state: &TaskState) -> Option<BarState> {
    match state.lifecycle.phase() {
        Phase::Starting { .. } | Phase::Running { .. } => {
            Some(placement_state(state.lifecycle.placement()))
        }
        Phase::Lingering { .. } => Some(BarState::Lingering),
        Phase::Stopping { .. } | Phase::Killing { .. } => Some(BarState::Stopping),
        Phase::Ended { .. } => None,
    }
}

const fn placement_state(placement: Placement) -> BarState {
    match placement {
        Placement::Foreground => BarState::Foreground,
        Placement::Background { .. } => BarState::Background,
    }
}
