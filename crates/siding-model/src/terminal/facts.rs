//! The state of a terminal that only the kernel and the shim know.

use serde::{Deserialize, Serialize};

use super::{AwaitedInput, PromptEvidence, TerminalInput, TerminalSize};

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
    /// The current size.
    pub size: TerminalSize,
    /// The treatment of typed characters, and the process that waits for them.
    pub input: TerminalInput,
    /// Whether the kernel hides what a process in the foreground waits for, so that this process
    /// may wait for input although `input` names no reader.
    pub is_reader_hidden: bool,
    /// Whether typed input is left that no process has read. In canonical mode, only complete lines
    /// count.
    pub has_unread_input: bool,
    /// Milliseconds for which a person has held the terminal; `None` if no person holds it.
    pub taken_for_ms: Option<u64>,
    /// Whether the leader of the task is in the foreground of its terminal. Otherwise a shell in the
    /// task has started a job there. False from an older shim.
    #[serde(default)]
    pub is_leader_in_foreground: bool,
}

impl TerminalFacts {
    /// Returns whether a program waits for input, and has read everything that was typed.
    #[must_use]
    pub const fn awaits_input(&self) -> bool {
        // Only the mode of the terminal reveals the prompt of a program that runs as another user.
        let is_hidden_prompt = self.is_reader_hidden && !self.input.echo;
        (self.input.awaits_input() || is_hidden_prompt) && !self.has_unread_input
    }

    /// Returns the kind of input that a program waits for, or `None` if no program waits for input.
    #[must_use]
    pub const fn awaited_input(&self, evidence: PromptEvidence) -> Option<AwaitedInput> {
        if self.awaits_input() { Some(self.input.expected_input(evidence)) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::ProcRef;
    use crate::terminal::ReaderFact;

    #[test]
    fn a_program_that_has_not_read_everything_waits_for_nothing() {
        let process = ProcRef { pid: 7, start_ticks: 70 };
        let facts = TerminalFacts {
            output_bytes: 0,
            size: TerminalSize::DEFAULT,
            input: TerminalInput {
                echo: true,
                canonical: true,
                reader: Some(ReaderFact { process, is_in_read: true, timed_wait_cpu_ns: None }),
            },
            is_reader_hidden: false,
            has_unread_input: false,
            taken_for_ms: None,
            is_leader_in_foreground: true,
        };
        let evidence = PromptEvidence::default();
        assert_eq!(facts.awaited_input(evidence), Some(AwaitedInput::Line));
        let busy = TerminalFacts { has_unread_input: true, ..facts };
        assert_eq!(busy.awaited_input(evidence), None);
        // The prompt of sudo, whose processes cannot be examined.
        let input = TerminalInput { echo: false, canonical: true, reader: None };
        let hidden = TerminalFacts { input, is_reader_hidden: true, ..facts };
        assert_eq!(hidden.awaited_input(evidence), Some(AwaitedInput::Secret));
        let input = TerminalInput { echo: true, ..input };
        assert_eq!(TerminalFacts { input, ..hidden }.awaited_input(evidence), None);
    }
}
