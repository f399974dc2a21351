//! The JSON form of the terminal of a task.

use serde::Serialize;

use crate::journal::TaskState;
use crate::process::{MonotonicMs, UnixMs};
use crate::terminal::TerminalSize;

/// The terminal of a task that was started with `--pty`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TerminalView {
    /// The current size, or the last one after the end.
    pub size: TerminalSize,
    /// Time at which a person began to type into the terminal, RFC 3339; null if no person types,
    /// and after the end.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub taken_since: Option<String>,
    /// Whether the task shows the alternate screen, as full-screen programs do; null in lists,
    /// which do not compute the screen.
    pub alternate: Option<bool>,
}

impl TerminalView {
    /// Returns the view of a task's terminal, without the facts that only the screen has; `None` for
    /// a task without a terminal. `now` is the current time on the clock of the task's times.
    #[must_use]
    pub fn from_state(state: &TaskState, now: MonotonicMs, wall: UnixMs) -> Option<Self> {
        let terminal = state.terminal.as_ref()?;
        let rfc3339 = |at: MonotonicMs| {
            wall.plus_ms(-i64::try_from(now.ms_since(at)).unwrap_or(i64::MAX)).rfc3339()
        };
        let taken_since = terminal.taken_since.filter(|_| state.is_live()).map(rfc3339);
        Some(Self { size: terminal.size(), taken_since, alternate: None })
    }
}
