//! The records of a task's journal as sentences for people.

use std::time::Duration;

use siding_core::store::{StateDir, journal_file};
use siding_model::duration::format_duration;
use siding_model::id::TaskId;
use siding_model::journal::{self, TaskState};
use siding_model::lifecycle::TaskEvent;
use siding_model::mirror::{InputLoss, RemoteEvent};
use siding_model::outcome::Outcome;
use siding_model::process::{MonotonicMs, UnixMs};
use siding_model::record::Record;
use siding_model::size::size_in_words;
use siding_model::terminal::TerminalEvent;

/// The meaning of an event for the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventTone {
    /// The event is part of siding's bookkeeping and occurs in every task.
    Faint,
    /// The event is neither good nor bad.
    Normal,
    /// The task has succeeded or is ready.
    Good,
    /// The event may need a person.
    Warning,
    /// The task has failed, or something was lost.
    Bad,
}

/// An event of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JournalEvent {
    /// Awake time since the start of the task, in milliseconds.
    pub after_ms: u64,
    /// The wall-clock time of the start plus `after_ms`, which excludes suspend. Zero for the
    /// error of a journal without a readable event.
    pub wall: UnixMs,
    /// The meaning of the event.
    pub tone: EventTone,
    /// The event as a sentence. The text may contain text of the task, which is not escaped.
    pub text: String,
}

/// The events of a task, and the state after the last of them.
#[derive(Debug, Clone)]
pub struct JournalHistory {
    /// The events, oldest first.
    pub events: Vec<JournalEvent>,
    /// The state of the task; `None` if the journal is damaged.
    pub state: Option<TaskState>,
}

/// Reads the events of a task; `None` if the journal does not exist or cannot be read. The error of
/// a damaged journal is the last event.
#[must_use]
pub fn read_history(root: &StateDir, id: TaskId) -> Option<JournalHistory> {
    let bytes = journal_file::read_bytes(&root.task_dir(id).ok()?).ok()?;
    Some(history_of_journal(&bytes))
}

/// Returns the events of a journal with these bytes.
fn history_of_journal(bytes: &[u8]) -> JournalHistory {
    let mut events: Vec<JournalEvent> = Vec::new();
    let replayed = journal::replay_with(bytes, |_, record, state| {
        if let Record::Event { event: TaskEvent::StopAsked { by, .. }, .. } = record {
            // The record of the remote task replaces the mirror's own record of the same request.
            let passed_on = format_pending_stop(by, state);
            events.retain(|known| known.text != passed_on);
        }
        events.extend(describe_record(record, state).map(|(at, tone, text)| {
            let after_ms = at.ms_since(state.started);
            JournalEvent { after_ms, wall: wall_time(state, after_ms), tone, text }
        }));
    });
    let state = match replayed {
        Ok(replayed) => Some(replayed.state),
        Err(error) => {
            let last = events.last();
            events.push(JournalEvent {
                after_ms: last.map_or(0, |event| event.after_ms),
                wall: last.map_or(UnixMs(0), |event| event.wall),
                tone: EventTone::Bad,
                text: error.to_string(),
            });
            None
        }
    };
    if let Some(state) = &state {
        let (wall, text) = (state.started_wall, "accepted".to_owned());
        events.insert(0, JournalEvent { after_ms: 0, wall, tone: EventTone::Faint, text });
    }
    JournalHistory { events, state }
}

fn executor_name(state: &TaskState) -> &str {
    state.spec.executor.as_ref().map_or("", |executor| executor.name.as_str())
}

/// Formats the event of a stop that the remote task has not recorded yet.
fn format_pending_stop(by: &str, state: &TaskState) -> String {
    format!("{by} requested a stop, to be passed on to {}", executor_name(state))
}

fn wall_time(state: &TaskState, after_ms: u64) -> UnixMs {
    state.started_wall.plus_ms(i64::try_from(after_ms).unwrap_or(i64::MAX))
}

fn format_ms(ms: u64) -> String {
    format_duration(Duration::from_millis(ms))
}

/// Returns the time of a record, its tone and its sentence; `None` for the first record, which
/// [`read_history`] adds as an event. `state` is the state after the record.
fn describe_record(record: &Record, state: &TaskState) -> Option<(MonotonicMs, EventTone, String)> {
    Some(match record {
        Record::Accepted(_) => return None,
        Record::Event { at, event } => {
            let (tone, text) = describe_event(event, state);
            (*at, tone, text)
        }
        Record::Rescued { at, shim } => (
            *at,
            EventTone::Warning,
            format!("its shim was killed; process {} took over", shim.pid),
        ),
        Record::OutputLost { at, from, error } => {
            (*at, EventTone::Bad, format!("output after byte {from} could not be stored: {error}"))
        }
        Record::Matched { at, text, lines, .. } => {
            (*at, EventTone::Normal, format!("{lines} matching lines: {text}"))
        }
        Record::Stalled(stall) => {
            let evidence = &stall.evidence;
            let silent = format_ms(evidence.silent_ms);
            let phrase = evidence.verdict.phrase(evidence.waiting_on, evidence.awaited_input);
            (stall.at, EventTone::Warning, format!("silent for {silent}: {phrase}"))
        }
        Record::Resumed { at, by: Some(by) } => {
            (*at, EventTone::Normal, format!("received input from {by}"))
        }
        Record::Resumed { at, by: None } => {
            (*at, EventTone::Normal, "continues after the silence".to_owned())
        }
        Record::Limit(breach) => (breach.at, EventTone::Warning, breach.detail.clone()),
        Record::Expiring { at, deadline } => {
            let left = format_ms(deadline.ms_since(*at));
            (*at, EventTone::Warning, format!("its deadline is in {left}"))
        }
        Record::Ready(ready) => (ready.at, EventTone::Good, "ready".to_owned()),
        Record::Denied { at, host } => (*at, EventTone::Warning, format!("was refused {host}")),
        Record::Terminal(event) => {
            let (tone, text) = describe_terminal(event)?;
            (event.time(), tone, text)
        }
        Record::Remote(event) => {
            let (tone, text) = describe_remote(event, state)?;
            (event.time(), tone, text)
        }
        Record::Closed(closed) => {
            let output = size_in_words(closed.output.bytes);
            (closed.at, EventTone::Faint, format!("final record: {output} of output"))
        }
    })
}

/// Describes an event of the task's terminal; `None` for the start of the terminal, which every
/// task with a terminal has.
fn describe_terminal(event: &TerminalEvent) -> Option<(EventTone, String)> {
    Some(match event {
        TerminalEvent::Opened { .. } => return None,
        TerminalEvent::Resized { size, .. } => {
            (EventTone::Faint, format!("its terminal has the size {size}"))
        }
        TerminalEvent::Taken { by, .. } => {
            (EventTone::Normal, format!("a person types into its terminal ({by})"))
        }
        TerminalEvent::Returned { .. } => {
            (EventTone::Normal, "its terminal accepts keys of the agent again".to_owned())
        }
    })
}

/// Describes an event of the connection to a remote machine; `None` for one that only repeats the
/// task's own events.
fn describe_remote(event: &RemoteEvent, state: &TaskState) -> Option<(EventTone, String)> {
    let name = executor_name(state);
    Some(match event {
        RemoteEvent::Sent { .. } => (EventTone::Faint, format!("sent to {name}")),
        RemoteEvent::Accepted { machine, .. } => {
            (EventTone::Normal, format!("accepted by {name} ({machine})"))
        }
        RemoteEvent::Queued { status, .. } => {
            let job = status.job_id.as_ref().map(|job| format!("job {job} ")).unwrap_or_default();
            let reason = status.reason.as_ref().map(|reason| format!(" ({reason})"));
            let text = format!("{job}in the queue of {name}: {}", status.state);
            (EventTone::Normal, text + &reason.unwrap_or_default())
        }
        RemoteEvent::Requeued { attempt, why, .. } => {
            (EventTone::Warning, format!("attempt {}: {why}", attempt + 1))
        }
        RemoteEvent::Unreachable { why, .. } => {
            (EventTone::Warning, format!("{name} is not reachable: {why}"))
        }
        RemoteEvent::Reachable { .. } => (EventTone::Normal, format!("{name} is reachable again")),
        RemoteEvent::StopPending { by, .. } => (EventTone::Normal, format_pending_stop(by, state)),
        RemoteEvent::Rebooted { .. } => {
            (EventTone::Warning, "this machine was restarted".to_owned())
        }
        &RemoteEvent::InputLost { arrived_bytes, .. } => {
            (EventTone::Bad, InputLoss { arrived_bytes }.describe())
        }
        RemoteEvent::Fetched { failed, skipped_links, .. } if failed.is_empty() => {
            let fetched = format!("fetched files from {name}");
            if skipped_links.is_empty() {
                (EventTone::Normal, fetched)
            } else {
                (EventTone::Warning, format!("{fetched}; {}", skipped_links.describe()))
            }
        }
        RemoteEvent::Fetched { failed, .. } => {
            let paths: Vec<&str> = failed.iter().map(|failure| failure.path.as_str()).collect();
            (EventTone::Warning, format!("could not fetch from {name}: {}", paths.join(", ")))
        }
        RemoteEvent::DeadlineCounted { .. } => return None,
    })
}

fn describe_event(event: &TaskEvent, state: &TaskState) -> (EventTone, String) {
    match event {
        TaskEvent::Spawned { leader } => {
            (EventTone::Normal, format!("started as process {}", leader.pid()))
        }
        TaskEvent::SpawnFailed { error, .. } => {
            (EventTone::Bad, format!("could not start: {error}"))
        }
        TaskEvent::LeaderEnded { end, .. } => {
            let outcome = Outcome::from(end.clone());
            let is_success = outcome == (Outcome::Exited { code: 0 });
            let tone = if is_success { EventTone::Good } else { EventTone::Bad };
            (tone, format!("its command {outcome}"))
        }
        TaskEvent::TreeEmpty => (EventTone::Normal, "its last process has ended".to_owned()),
        TaskEvent::StopAsked { by, .. } => {
            (EventTone::Warning, format!("a stop was requested by {by}"))
        }
        TaskEvent::DeadlinePassed => (EventTone::Bad, "its deadline has passed".to_owned()),
        TaskEvent::LimitPassed { limit_kind } => {
            (EventTone::Bad, format!("stopped at its limit {}", limit_kind.flag_name()))
        }
        TaskEvent::GraceOver => (EventTone::Normal, "its grace is over, SIGKILL".to_owned()),
        TaskEvent::Extended { by, .. } => {
            let deadline = state.lifecycle.deadline().map_or(0, |at| at.ms_since(state.started));
            let deadline = format_ms(deadline);
            let by = by.as_ref().map_or_else(String::new, |by| format!(" by {by}"));
            (EventTone::Normal, format!("its deadline was moved to {deadline} after its start{by}"))
        }
        TaskEvent::Placed { why } => {
            (EventTone::Normal, format!("moved to the background ({})", why.as_str()))
        }
        TaskEvent::Swept { survivors: 0 } => {
            (EventTone::Normal, "all processes have ended".to_owned())
        }
        TaskEvent::Swept { survivors } => {
            (EventTone::Bad, format!("{survivors} processes could not be ended"))
        }
        TaskEvent::Released { by } => (EventTone::Normal, format!("released by {by}")),
        TaskEvent::Vanished { why } => (EventTone::Bad, format!("lost: {why}")),
    }
}

#[cfg(test)]
mod tests {
    use siding_model::executor::RemoteExecutor;
    use siding_model::id::TaskKind;
    use siding_model::process::{BootId, ProcRef};
    use siding_model::record::{AcceptedTask, NEWEST_FORMAT, write_line};
    use siding_model::sample::sample_task_spec;

    use super::*;

    fn journal_bytes(records: &[Record]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (seq, record) in (0..).zip(records) {
            write_line(&mut bytes, seq, record);
        }
        bytes
    }

    /// The mirror records a request, and later copies the record of the remote task about the same
    /// request.
    #[test]
    fn a_stop_of_a_remote_task_is_one_event() {
        let executor = RemoteExecutor {
            name: "build".to_owned(),
            destination: Some("build".to_owned()),
            program: None,
            slurm: None,
            ssh_variables: Vec::new(),
        };
        let mut spec = sample_task_spec(
            TaskId::new(TaskKind::LocalBash, 0x0123_4567_89ab_cdef).expect("in range"),
        );
        spec.executor = Some(Box::new(executor));
        let accepted = AcceptedTask {
            format: NEWEST_FORMAT,
            boot: BootId("9f3a7c51-0d2e-4b88-a1f6-3c5d7e9b1a20".to_owned()),
            at: MonotonicMs(1),
            wall: UnixMs(1),
            shim: ProcRef { pid: 1, start_ticks: 1 },
            cgroup: None,
            adopted: None,
            spec,
        };
        let (by, at) = ("user".to_owned(), MonotonicMs(2));
        let pending = RemoteEvent::StopPending { at, by: by.clone(), grace_ms: None, signal: None };
        let stop = TaskEvent::StopAsked { by, grace_ms: None, signal: None };
        let records = [
            Record::Accepted(Box::new(accepted)),
            Record::Remote(pending),
            Record::Event { at: MonotonicMs(3), event: stop },
        ];
        let texts = |records: &[Record]| -> Vec<String> {
            let history = history_of_journal(&journal_bytes(records));
            history.events.into_iter().map(|event| event.text).collect()
        };
        let pending = "user requested a stop, to be passed on to build";
        assert_eq!(texts(&records[..2]), ["accepted", pending]);
        assert_eq!(texts(&records), ["accepted", "a stop was requested by user"]);
    }
}
