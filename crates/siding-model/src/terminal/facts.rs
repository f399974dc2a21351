//! The state of a terminal that only the kernel and the shim know.

use serde::{Deserialize, Serialize};

use super::{TerminalInput, TerminalSize};

/// A writer's relation to the lease of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TerminalUser {
    /// A program that acts for an agent. Refused while a person has the terminal, and while the
    /// program asks for a secret.
    Agent,
    /// A person, who takes the terminal by typing.
    Person,
}

/// The state of a task's terminal at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalFacts {
    /// Length of the output in bytes, with everything that was written before this moment.
    pub output_bytes: u64,
    /// The present size.
    pub size: TerminalSize,
    /// What the terminal does with typed characters, and the process that waits for them.
    pub input: TerminalInput,
    /// Whether the kernel does not let siding see what a process in the foreground waits for, so
    /// that it may wait for input although `input` names no reader.
    pub is_reader_hidden: bool,
    /// Whether typed input is left that no process has read. In canonical mode, only complete lines
    /// count.
    pub has_unread_input: bool,
    /// Time since which a person has the terminal, in milliseconds; `None` while none has.
    pub taken_for_ms: Option<u64>,
}
