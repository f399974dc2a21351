//! The span of an ended task.

use serde_json::{Value, json};

use super::attribute::Attributes;
use crate::journal::{self, JournalError, TaskState};
use crate::lifecycle::TaskEvent;
use crate::metrics::outcome_label;
use crate::outcome::Outcome;
use crate::person_need::is_failed_outcome;
use crate::process::{MonotonicMs, UnixMs};
use crate::record::Record;
use crate::trace_parent::{SpanId, TraceId, TraceParent};

/// The kind of a span for a call of another program (`SPAN_KIND_CLIENT`), which the conventions for
/// command lines require of the caller.
const CLIENT_SPAN_KIND: u8 = 3;
/// `STATUS_CODE_ERROR`.
const ERROR_STATUS: u8 = 2;
/// The trace flag of a span that is recorded.
const SAMPLED_FLAG: u8 = 1;
/// Maximum number of events of a span, as in the SDKs of OpenTelemetry. Further events are counted
/// only.
const MAX_EVENTS: usize = 128;

/// The task's properties that are not in its journal, and the data that the caller wants to
/// disclose.
#[derive(Debug, Clone, Copy)]
pub struct SpanOptions<'s> {
    /// Name of the program that the command runs, without its directory: the name of the span.
    pub program: &'s str,
    /// Whether the span contains the command line, which may contain secrets.
    pub with_command_line: bool,
    /// The context of the task that started this one, if it is known.
    pub parent_task: Option<TraceParent>,
}

/// The data of an ended task from which its span is built.
#[derive(Debug, Clone)]
pub struct TaskSpan {
    state: TaskState,
    outcome: Outcome,
    events: Vec<(MonotonicMs, SpanEvent)>,
    dropped_events: usize,
}

#[derive(Debug, Clone)]
struct SpanEvent {
    name: &'static str,
    attributes: Attributes,
}

impl TaskSpan {
    /// Reads the journal of a task; `None` if the task has not ended.
    ///
    /// # Errors
    ///
    /// The errors of [`journal::replay`].
    pub fn from_journal(bytes: &[u8]) -> Result<Option<Self>, JournalError> {
        let (mut events, mut dropped_events) = (Vec::new(), 0);
        let state = journal::replay_with(bytes, |_, record, _| {
            let Some(event) = span_event(record) else { return };
            if events.len() < MAX_EVENTS {
                events.push(event);
            } else {
                dropped_events += 1;
            }
        })?
        .state;
        let Some(outcome) = state.lifecycle.outcome().cloned() else { return Ok(None) };
        Ok(Some(Self { state, outcome, events, dropped_events }))
    }

    /// Returns the state of the task.
    #[must_use]
    pub const fn state(&self) -> &TaskState {
        &self.state
    }

    /// Returns the span in the JSON encoding of OTLP.
    #[must_use]
    pub fn to_json(&self, options: SpanOptions<'_>) -> Value {
        let context = span_context(&self.state, options.parent_task);
        let mut span = json!({
            "traceId": context.trace_id.to_string(),
            "spanId": context.span_id.to_string(),
            "flags": context.flags,
            "name": options.program,
            "kind": CLIENT_SPAN_KIND,
            "startTimeUnixNano": unix_nanoseconds(self.state.started_wall),
            "endTimeUnixNano": unix_nanoseconds(self.state.ended_wall()),
            "attributes": self.attributes(options).into_json(),
            "events": self.events.iter().map(|event| self.event_json(event)).collect::<Vec<_>>(),
            "droppedEventsCount": self.dropped_events,
            "status": self.status(),
        });
        if let Some(parent) = parent_context(&self.state, options.parent_task) {
            span["parentSpanId"] = json!(parent.span_id.to_string());
        }
        span
    }

    fn attributes(&self, options: SpanOptions<'_>) -> Attributes {
        let (state, spec) = (&self.state, &self.state.spec);
        let exit_code = self.outcome.exit_code().map(u64::from);
        let pid = state.leader.and_then(|leader| u64::try_from(leader.pid()).ok());
        let label = outcome_label(&self.outcome);
        let output = state.closed.as_ref().map(|closed| closed.output.bytes);
        let peaks = state.closed.as_ref().and_then(|closed| closed.peaks.as_ref());
        let command = spec.command_text();
        Attributes::default()
            .text("process.executable.name", options.program)
            .optional_number("process.pid", pid)
            .optional_number("process.exit.code", exit_code)
            .optional_text("process.command_line", options.with_command_line.then_some(&*command))
            .text("process.working_directory", &spec.cwd)
            .optional_text("error.type", is_failed_outcome(&self.outcome).then_some(label))
            .text("siding.task.id", &spec.task_id.to_string())
            .text("siding.task.kind", spec.task_id.kind().name())
            .optional_text("siding.task.name", spec.name.as_deref())
            .text("siding.session.id", spec.session_id.as_str())
            .text("siding.outcome", label)
            .flag("siding.adopted", state.adopted.is_some())
            .optional_number("siding.output.bytes", output)
            .optional_number("siding.memory.peak", peaks.and_then(|peaks| peaks.memory_bytes))
            .number("siding.takeovers", u64::from(state.takeovers))
    }

    /// Returns the status. Conventions reserve `OK` for the application, so a success is unset.
    fn status(&self) -> Value {
        if !is_failed_outcome(&self.outcome) {
            return json!({});
        }
        // Text of the task, such as the name of a missing file, is not part of the message.
        let message = match &self.outcome {
            Outcome::FailedToStart { .. } => "failed to start".to_owned(),
            Outcome::Lost { .. } => "lost".to_owned(),
            Outcome::Exited { .. }
            | Outcome::Signaled { .. }
            | Outcome::Deadline { .. }
            | Outcome::Stopped { .. }
            | Outcome::Limit { .. }
            | Outcome::Released { .. } => self.outcome.to_string(),
        };
        json!({ "code": ERROR_STATUS, "message": message })
    }

    fn event_json(&self, (at, event): &(MonotonicMs, SpanEvent)) -> Value {
        // Awake time, so an event after a suspend is shown earlier than it was.
        let after = i64::try_from(at.ms_since(self.state.started)).unwrap_or(i64::MAX);
        json!({
            "name": event.name,
            "timeUnixNano": unix_nanoseconds(self.state.started_wall.plus_ms(after)),
            "attributes": event.attributes.clone().into_json(),
        })
    }
}

/// Returns the context of a task's own span, for the spans below it. `parent_task` is the context of
/// the task that started this one, if it is known.
#[must_use]
pub fn span_context(state: &TaskState, parent_task: Option<TraceParent>) -> TraceParent {
    let parent = parent_context(state, parent_task);
    let task = state.spec.task_id;
    TraceParent {
        trace_id: parent.map_or_else(|| TraceId::from_task(task), |parent| parent.trace_id),
        span_id: SpanId::from_task(task),
        flags: parent.map_or(SAMPLED_FLAG, |parent| parent.flags),
    }
}

/// Returns the span above that of a task: the span of the task that started this one, if it is in
/// the trace of the starter, otherwise the span of the starter.
///
/// A task's commands inherit the variable `TRACEPARENT`, so the starter of a nested task names the
/// span above the outer task.
fn parent_context(state: &TaskState, parent_task: Option<TraceParent>) -> Option<TraceParent> {
    match (state.spec.trace_parent, parent_task) {
        (Some(starter), Some(task)) if starter.trace_id == task.trace_id => Some(task),
        (Some(starter), _) => Some(starter),
        (None, task) => task,
    }
}

/// Returns a time in nanoseconds, as a text: the encoding writes 64-bit numbers in this way.
fn unix_nanoseconds(time: UnixMs) -> String {
    (i128::from(time.0.max(0)) * 1_000_000).to_string()
}

/// Returns the event of a record, or `None` for a record that gives no event.
fn span_event(record: &Record) -> Option<(MonotonicMs, SpanEvent)> {
    let none = Attributes::default();
    let (at, name, attributes) = match record {
        Record::Event { at, event } => {
            let (name, attributes) = lifecycle_event(event)?;
            (*at, name, attributes)
        }
        Record::Stalled(stall) => {
            let verdict = stall.evidence.verdict.as_str();
            let attributes = none.text("siding.verdict", verdict);
            (
                stall.at,
                "siding.stall",
                attributes.number("siding.silent.ms", stall.evidence.silent_ms),
            )
        }
        Record::Resumed { at, by: None } => (*at, "siding.stall.end", none),
        Record::Resumed { at, by: Some(by) } => {
            (*at, "siding.input", none.text("siding.requested_by", by))
        }
        Record::Limit(breach) => {
            let attributes = none
                .text("siding.limit", breach.limit_kind.as_str())
                .number("siding.limit.value", breach.value)
                .number("siding.limit.allowed", breach.limit)
                .flag("siding.limit.watchdog", breach.watchdog);
            (breach.at, "siding.limit", attributes)
        }
        Record::Ready(ready) => (ready.at, "siding.ready", none),
        Record::Rescued { at, .. } => (*at, "siding.takeover", none),
        Record::OutputLost { at, .. } => (*at, "siding.output.lost", none),
        // The lines and hosts are text of the task; their notices show them.
        Record::Denied { at, .. } => (*at, "siding.connection.denied", none),
        Record::Accepted(_)
        | Record::Matched { .. }
        | Record::Expiring { .. }
        | Record::Remote(_)
        | Record::Terminal(_)
        | Record::Closed(_) => return None,
    };
    Some((at, SpanEvent { name, attributes }))
}

fn lifecycle_event(event: &TaskEvent) -> Option<(&'static str, Attributes)> {
    let none = Attributes::default();
    match event {
        TaskEvent::Placed { why } => {
            Some(("siding.handover", none.text("siding.reason", why.as_str())))
        }
        TaskEvent::StopAsked { by, .. } => {
            Some(("siding.stop", none.text("siding.requested_by", by)))
        }
        TaskEvent::DeadlinePassed => Some(("siding.deadline", none)),
        TaskEvent::Extended { by: None, .. } => Some(("siding.extend", none)),
        TaskEvent::Extended { by: Some(by), .. } => {
            Some(("siding.extend", none.text("siding.requested_by", by)))
        }
        TaskEvent::GraceOver => Some(("siding.kill", none)),
        TaskEvent::Spawned { .. }
        | TaskEvent::SpawnFailed { .. }
        | TaskEvent::LeaderEnded { .. }
        | TaskEvent::TreeEmpty
        | TaskEvent::LimitPassed { .. }
        | TaskEvent::Swept { .. }
        | TaskEvent::Released { .. }
        | TaskEvent::Vanished { .. } => None,
    }
}
