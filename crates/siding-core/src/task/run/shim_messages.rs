//! Interprets a shim's messages for a caller that waits in the foreground.

use siding_model::foreground_call::CallEvent;
use siding_model::lifecycle::{Phase, TaskEvent};
use siding_model::mirror::RemoteEvent;
use siding_model::notice::TaskNotices;
use siding_model::protocol::ShimMessage;
use siding_model::record::Record;
use siding_model::terminal::{TerminalEvent, TerminalFacts, TerminalSize};

use super::error::RunError;
use crate::store::TaskDir;
use crate::task::watch::TaskWatch;

/// The meaning of a shim's message for a caller that waits in the foreground.
#[derive(Debug)]
pub enum ShimEvent {
    /// The task has ended, or its leader has ended and other processes linger. The notices contain
    /// the current state of the task. A lingering task that has not become ready yet is not
    /// finished.
    Finished(TaskDir, Box<TaskNotices>),
    /// All conditions of the task's readiness have been met.
    Ready(TaskDir, Box<TaskNotices>),
    /// The task has a new record, usually that of the command's start, and is neither finished nor
    /// ready.
    Running,
    /// The output has grown. The shim sends this message once for each request to follow.
    OutputGrown,
    /// A request was carried out. A request to follow has taken effect.
    RequestDone,
    /// The shim has refused a request. A mirror refuses a stop whose end it cannot report soon, after
    /// it has recorded the stop.
    Refused {
        /// The reason, for a person.
        why: String,
    },
    /// The terminal of the task has accepted no byte of a request.
    KeysRefused,
    /// It is unknown whether the terminal of the task has accepted typed bytes.
    WriteUnconfirmed {
        /// The reason, as untrusted text.
        why: String,
    },
    /// A change of the terminal's size was refused.
    ResizeRefused,
    /// The terminal of the task has accepted bytes that were typed.
    TerminalWritten {
        /// Number of the accepted bytes, counted from the first.
        accepted: usize,
    },
    /// The requested state of the task's terminal.
    TerminalFacts(TerminalFacts),
    /// The size of the task's terminal has changed.
    TerminalResized(TerminalSize),
    /// The connection to the task's machine was interrupted or re-established.
    ConnectionChanged {
        /// The reason for the interruption, as untrusted text; `None` if the machine is reachable.
        unreachable: Option<String>,
    },
    /// The task is neither finished nor ready, and another shim may have taken over. A new shim
    /// does not inherit the requests to follow that its predecessor received.
    MayBeNewShim,
    /// The message has no meaning for this caller.
    Nothing,
}

impl ShimEvent {
    /// Returns the event of the foreground call, or `None` if the call is not affected.
    #[must_use]
    pub fn call_event(&self) -> Option<CallEvent> {
        match self {
            Self::Finished(_, notices) if notices.state.is_live() => Some(CallEvent::LeaderEnded),
            Self::Finished(..) => Some(CallEvent::Ended),
            Self::Ready(..) => Some(CallEvent::Ready),
            Self::Running | Self::ConnectionChanged { .. } | Self::MayBeNewShim => {
                Some(CallEvent::Started)
            }
            Self::Refused { .. } => Some(CallEvent::StopDelayed),
            Self::OutputGrown
            | Self::RequestDone
            | Self::KeysRefused
            | Self::WriteUnconfirmed { .. }
            | Self::ResizeRefused
            | Self::TerminalWritten { .. }
            | Self::TerminalFacts(_)
            | Self::TerminalResized(_)
            | Self::Nothing => None,
        }
    }
}

/// The meaning of a shim's message for a caller that shows the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputNews {
    /// The shim may not have received a request to follow the output: the wait has just started, or
    /// another shim may have taken over.
    NotFollowed,
    /// The output has grown. The next growth is announced only after another request to follow.
    Grown,
    /// Output that was written earlier is stored and can be read. From now on, the shim announces
    /// growth, unless no more output follows.
    Stored,
    /// The message is not about the output.
    Unaffected,
}

impl OutputNews {
    /// Returns the meaning of an event; `None` stands for the start of the wait.
    #[must_use]
    pub const fn from_event(event: Option<&ShimEvent>) -> Self {
        match event {
            None | Some(ShimEvent::MayBeNewShim) => Self::NotFollowed,
            Some(ShimEvent::OutputGrown) => Self::Grown,
            Some(ShimEvent::RequestDone | ShimEvent::Finished(..)) => Self::Stored,
            Some(
                ShimEvent::Ready(..)
                | ShimEvent::Running
                | ShimEvent::Refused { .. }
                | ShimEvent::KeysRefused
                | ShimEvent::WriteUnconfirmed { .. }
                | ShimEvent::ResizeRefused
                | ShimEvent::TerminalWritten { .. }
                | ShimEvent::TerminalFacts(_)
                | ShimEvent::TerminalResized(_)
                | ShimEvent::ConnectionChanged { .. }
                | ShimEvent::Nothing,
            ) => Self::Unaffected,
        }
    }
}

/// Receives the next message about a task that was started or is watched.
///
/// # Errors
///
/// [`RunError::NotStarted`] if the shim could not start the command; [`RunError::Watch`].
pub fn recv_event(watch: &mut TaskWatch<'_>) -> Result<ShimEvent, RunError> {
    let message = watch.try_recv()?;
    if let Some(size) = message.as_ref().and_then(new_terminal_size) {
        return Ok(ShimEvent::TerminalResized(size));
    }
    if let Some(event) = message.as_ref().and_then(connection_event) {
        return Ok(event);
    }
    Ok(match message {
        Some(ShimMessage::CannotStart { doing, .. }) => return Err(RunError::NotStarted { doing }),
        Some(ShimMessage::Record { record: Some(record), .. })
            if matches!(*record, Record::Event { event: TaskEvent::Spawned { .. }, .. }) =>
        {
            ShimEvent::Running
        }
        Some(ShimMessage::Output { .. }) => ShimEvent::OutputGrown,
        Some(ShimMessage::Done) => ShimEvent::RequestDone,
        Some(ShimMessage::Refused { why }) => ShimEvent::Refused { why },
        Some(ShimMessage::KeysRefused { .. } | ShimMessage::OutputDiffers { .. }) => {
            ShimEvent::KeysRefused
        }
        Some(ShimMessage::WriteUnconfirmed { why }) => ShimEvent::WriteUnconfirmed { why },
        Some(ShimMessage::ResizeRefused { .. }) => ShimEvent::ResizeRefused,
        Some(ShimMessage::TerminalWritten { accepted }) => ShimEvent::TerminalWritten { accepted },
        Some(ShimMessage::Terminal { facts }) => ShimEvent::TerminalFacts(facts),
        Some(ShimMessage::Why { .. } | ShimMessage::Usage { .. }) => ShimEvent::Nothing,
        // The record may be the final one, so the journal is read.
        Some(ShimMessage::Record { .. }) => finished_event(watch)?.unwrap_or(ShimEvent::Running),
        // `None` may also mean that a new shim has taken over. Events before the takeover are only
        // in the journal.
        None => finished_event(watch)?.unwrap_or(ShimEvent::MayBeNewShim),
    })
}

/// Returns the new size if the message is the record of a change of the terminal's size.
fn new_terminal_size(message: &ShimMessage) -> Option<TerminalSize> {
    let ShimMessage::Record { record: Some(record), .. } = message else { return None };
    let Record::Terminal(TerminalEvent::Resized { size, .. }) = &**record else { return None };
    Some(*size)
}

/// Returns the event if the message is the record that the connection to the task's machine was
/// interrupted or re-established.
fn connection_event(message: &ShimMessage) -> Option<ShimEvent> {
    let ShimMessage::Record { record: Some(record), .. } = message else { return None };
    let Record::Remote(event) = &**record else { return None };
    if let RemoteEvent::Unreachable { why, .. } = event {
        return Some(ShimEvent::ConnectionChanged { unreachable: Some(why.clone()) });
    }
    let is_reachable = matches!(event, RemoteEvent::Reachable { .. });
    is_reachable.then_some(ShimEvent::ConnectionChanged { unreachable: None })
}

fn finished_event(watch: &TaskWatch<'_>) -> Result<Option<ShimEvent>, RunError> {
    let (dir, notices) = watch.read_notices()?;
    let state = &notices.state;
    let lingers =
        matches!(state.lifecycle.phase(), Phase::Lingering { .. }) && !state.is_waiting_for_ready();
    Ok(if !state.is_live() {
        Some(ShimEvent::Finished(dir, Box::new(notices)))
    } else if state.ready.is_some() {
        Some(ShimEvent::Ready(dir, Box::new(notices)))
    } else {
        lingers.then(|| ShimEvent::Finished(dir, Box::new(notices)))
    })
}
