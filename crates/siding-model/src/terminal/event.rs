//! The records about a task's terminal, and the state that follows from them.

use serde::{Deserialize, Serialize};

use super::TerminalSize;
use crate::process::{MonotonicMs, ProcRef};

/// An event of a task's terminal, as a record of the task's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "terminal", rename_all = "snake_case")]
pub enum TerminalEvent {
    /// The terminal exists. Written before the command starts, and again when a new holder replaces
    /// one that was killed.
    Opened {
        /// Time of the record.
        at: MonotonicMs,
        /// The process that holds the terminal for the next shim if this shim is killed. `None` if
        /// the holder could not be started: the end of this shim then hangs up the terminal.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        holder: Option<ProcRef>,
    },
    /// The terminal has another size.
    Resized {
        /// Time of the record.
        at: MonotonicMs,
        /// The new size.
        size: TerminalSize,
        /// Stream offset of the output at this time. The command may have written some of the bytes
        /// after the offset for the earlier size.
        offset: u64,
    },
    /// A person types into the terminal; from now on it refuses the keys of an agent.
    Taken {
        /// Time of the record.
        at: MonotonicMs,
        /// Name of the person's program, for people.
        by: String,
    },
    /// Every person who has typed has detached or stopped typing, so the terminal accepts the keys
    /// of an agent again.
    Returned {
        /// Time of the record.
        at: MonotonicMs,
        /// Stream offset of the output at this time.
        offset: u64,
    },
}

impl TerminalEvent {
    /// Returns the time of the record.
    #[must_use]
    pub const fn time(&self) -> MonotonicMs {
        match self {
            Self::Opened { at, .. }
            | Self::Resized { at, .. }
            | Self::Taken { at, .. }
            | Self::Returned { at, .. } => *at,
        }
    }

    /// Returns the event with the time `at`, and without the holder, which is a process of another
    /// machine.
    #[must_use]
    pub fn with_time(self, at: MonotonicMs) -> Self {
        match self {
            Self::Opened { .. } => Self::Opened { at, holder: None },
            Self::Resized { size, offset, .. } => Self::Resized { at, size, offset },
            Self::Taken { by, .. } => Self::Taken { at, by },
            Self::Returned { offset, .. } => Self::Returned { at, offset },
        }
    }
}

/// A change of the size of a task's terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TerminalResize {
    /// Time of the change.
    pub at: MonotonicMs,
    /// Stream offset of the output from which the size applies.
    pub offset: u64,
    /// The new size.
    pub size: TerminalSize,
}

/// The terminal of a task after replaying its journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalState {
    /// The size at the start.
    pub initial_size: TerminalSize,
    /// The later sizes, in their order.
    pub resizes: Vec<TerminalResize>,
    /// The process that holds the terminal for the next shim.
    pub holder: Option<ProcRef>,
    /// Time at which a person began to type into the terminal; `None` if no person types.
    pub taken_since: Option<MonotonicMs>,
}

impl TerminalState {
    /// Returns the state of a terminal that is about to be opened with this size.
    #[must_use]
    pub const fn new(initial_size: TerminalSize) -> Self {
        Self { initial_size, resizes: Vec::new(), holder: None, taken_since: None }
    }

    /// Returns the current size.
    #[must_use]
    pub fn size(&self) -> TerminalSize {
        self.resizes.last().map_or(self.initial_size, |resize| resize.size)
    }

    /// Updates the state for a terminal that is opened again, for another attempt of a job whose
    /// output begins at this offset.
    pub fn restart(&mut self, at: MonotonicMs, offset: u64) {
        let size = self.initial_size;
        if self.size() != size {
            self.resizes.push(TerminalResize { at, offset, size });
        }
        (self.holder, self.taken_since) = (None, None);
    }

    /// Updates the state with the next event of the journal.
    pub fn apply(&mut self, event: &TerminalEvent) {
        match event {
            TerminalEvent::Opened { holder, .. } => self.holder = *holder,
            TerminalEvent::Resized { at, size, offset } => {
                self.resizes.push(TerminalResize { at: *at, offset: *offset, size: *size });
            }
            TerminalEvent::Taken { at, .. } => self.taken_since = Some(*at),
            TerminalEvent::Returned { .. } => self.taken_since = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_attempt_begins_with_the_size_of_the_start_and_without_a_person() {
        let at = MonotonicMs(1);
        let mut state = TerminalState::new(TerminalSize::DEFAULT);
        state.restart(at, 40);
        assert_eq!(state, TerminalState::new(TerminalSize::DEFAULT), "nothing has changed");
        let size = TerminalSize::new(100, 30).expect("a permitted size");
        state.apply(&TerminalEvent::Resized { at, size, offset: 7 });
        state.apply(&TerminalEvent::Taken { at, by: "person".to_owned() });
        state.restart(at, 90);
        let resize = |offset, size| TerminalResize { at, offset, size };
        assert_eq!(state.resizes, [resize(7, size), resize(90, TerminalSize::DEFAULT)]);
        assert_eq!((state.size(), state.taken_since), (TerminalSize::DEFAULT, None));
    }
}
