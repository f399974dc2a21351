//! The key that suspends the call of a person whose other keys reach the program.

use super::TerminalFacts;

/// Ctrl-Z, as a terminal sends it.
const CTRL_Z: u8 = 0x1a;

/// Decides what Ctrl-Z does in the call of a person. Outside of a task, the key stops the command,
/// and the shell gets the terminal back. The command of a task leads its own session, and no
/// process of that session could continue it, so the kernel ignores the key (an orphaned process
/// group, setpgid(2)). In a task, the key therefore suspends the call instead. Everywhere else it
/// belongs to the task: to a program that reads single keys, and to the job of a shell in the task.
/// It also belongs to the task if no shell could continue the call, such as that of
/// `ssh -t HOST siding run`.
///
/// The state of the terminal decides, so the key and the bytes after it are held until that state
/// is known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SuspendKey {
    /// Ctrl-Z and the bytes after it; empty if nothing is held.
    held: Vec<u8>,
    /// Whether the state of the terminal was requested.
    is_checking: bool,
}

/// The decision that follows from the state of the terminal.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SuspendDecision {
    /// The held bytes, if they are for the program.
    pub forwarded: Vec<u8>,
    /// Whether the call is suspended. Bytes typed after the key were meant for the shell and are
    /// dropped.
    pub is_suspended: bool,
}

impl SuspendKey {
    /// Processes typed bytes. Returns those that the program receives immediately.
    pub fn feed(&mut self, mut bytes: Vec<u8>) -> Vec<u8> {
        if !self.held.is_empty() {
            self.held.append(&mut bytes);
        } else if let Some(at) = bytes.iter().position(|byte| *byte == CTRL_Z) {
            self.held = bytes.split_off(at);
        }
        bytes
    }

    /// Returns whether the caller must request the state of the terminal now, for
    /// [`Self::on_facts`].
    pub const fn start_check(&mut self) -> bool {
        let is_due = !self.held.is_empty() && !self.is_checking;
        self.is_checking |= is_due;
        is_due
    }

    /// Processes the requested state of the terminal. `can_be_continued` tells whether a shell
    /// could continue the suspended call.
    pub fn on_facts(&mut self, facts: &TerminalFacts, can_be_continued: bool) -> SuspendDecision {
        if !self.is_checking {
            return SuspendDecision::default();
        }
        let held = self.release();
        if can_be_continued && facts.input.canonical && facts.is_leader_in_foreground {
            SuspendDecision { forwarded: Vec::new(), is_suspended: true }
        } else {
            SuspendDecision { forwarded: held, is_suspended: false }
        }
    }

    /// Returns the held bytes, because the requested state will not arrive.
    pub fn release(&mut self) -> Vec<u8> {
        self.is_checking = false;
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::{TerminalInput, TerminalSize};

    const COMMAND: TerminalFacts = TerminalFacts {
        output_bytes: 0,
        size: TerminalSize::DEFAULT,
        input: TerminalInput { echo: true, canonical: true, reader: None },
        is_reader_hidden: false,
        has_unread_input: false,
        taken_for_ms: None,
        is_leader_in_foreground: true,
    };

    #[test]
    fn ctrl_z_suspends_the_call_of_a_plain_command() {
        let mut key = SuspendKey::default();
        assert_eq!(key.feed(b"ab".to_vec()), b"ab");
        assert!(!key.start_check());
        assert_eq!(key.feed(b"c\x1als\r".to_vec()), b"c");
        assert!(key.start_check());
        assert!(!key.start_check(), "the state is requested once");
        let suspended = SuspendDecision { forwarded: Vec::new(), is_suspended: true };
        assert_eq!(key.on_facts(&COMMAND, true), suspended);
        assert_eq!(key.feed(b"d".to_vec()), b"d");
        assert_eq!(
            key.on_facts(&COMMAND, true),
            SuspendDecision::default(),
            "no state was requested"
        );
    }

    #[test]
    fn ctrl_z_belongs_to_an_editor_and_to_a_job_of_a_shell() {
        let input = TerminalInput { canonical: false, ..COMMAND.input };
        for facts in [
            TerminalFacts { input, ..COMMAND },
            TerminalFacts { is_leader_in_foreground: false, ..COMMAND },
        ] {
            let mut key = SuspendKey::default();
            assert!(key.feed(b"\x1a".to_vec()).is_empty());
            assert!(key.start_check());
            assert!(key.feed(b"fg".to_vec()).is_empty(), "later keys do not overtake it");
            let forwarded = SuspendDecision { forwarded: b"\x1afg".to_vec(), is_suspended: false };
            assert_eq!(key.on_facts(&facts, true), forwarded);
        }
    }

    #[test]
    fn ctrl_z_belongs_to_the_program_if_no_shell_could_continue_the_call() {
        let mut key = SuspendKey::default();
        assert!(key.feed(b"\x1ax".to_vec()).is_empty());
        assert!(key.start_check());
        let forwarded = SuspendDecision { forwarded: b"\x1ax".to_vec(), is_suspended: false };
        assert_eq!(key.on_facts(&COMMAND, false), forwarded);
    }

    #[test]
    fn the_key_reaches_the_program_if_the_state_does_not_arrive() {
        let mut key = SuspendKey::default();
        assert!(key.feed(b"\x1ax".to_vec()).is_empty());
        assert!(key.start_check());
        assert_eq!(key.release(), b"\x1ax");
        assert!(!key.start_check());
    }
}
