//! The input that the terminal of a task expects, and the reasons why keys are refused.

use serde::{Deserialize, Serialize};

use super::CTRL_C;
use crate::process::ProcRef;

/// The state of a task's terminal that decides which input is expected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalInput {
    /// Whether the terminal echoes typed characters (`ECHO`, termios(3)).
    pub echo: bool,
    /// Whether the terminal passes on whole lines (`ICANON`, termios(3)).
    pub canonical: bool,
    /// A process of the foreground process group that waits for input from the terminal; `None`
    /// while no process does.
    pub reader: Option<ReaderFact>,
}

/// A process that waits for input from its terminal, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReaderFact {
    /// The process.
    pub process: ProcRef,
    /// Whether the process is blocked in read(2). Otherwise it waits in poll(2) or a similar call,
    /// possibly also for other descriptors.
    pub is_in_read: bool,
    /// CPU time of the waiting thread, in nanoseconds, if its wait has a timeout: as long as the
    /// number stays the same, this is the same wait. `None` for a wait without a timeout, if the
    /// time is unknown, and from an older shim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_wait_cpu_ns: Option<u64>,
}

/// The kind of input that a program waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AwaitedInput {
    /// A line of text, which Enter completes.
    Line,
    /// Single keys, as in an editor, a pager or a shell with line editing.
    Keys,
    /// A password or another secret, which only a person may type.
    Secret,
}

/// The parts of the screen that are evidence for a password prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PromptEvidence {
    /// Whether the last line of the output looks like a password prompt.
    pub is_password_prompt: bool,
    /// Whether the program uses the alternate screen, as editors and pagers do.
    pub is_alternate_screen: bool,
}

impl TerminalInput {
    /// Returns whether the program asks for a secret. The program need not have begun to read: keys
    /// that are typed before it reads are input as well.
    ///
    /// A program that reads a password line by line turns off only the echo. Editors and shells
    /// with line editing also turn off the echo, but they read single keys. A prompt that shows a
    /// star for each character reads single keys too, so there the text of the prompt decides,
    /// except on the alternate screen, where an editor may show a file with such a text.
    #[must_use]
    pub const fn secret_requested(&self, evidence: PromptEvidence) -> bool {
        let is_masked_prompt = evidence.is_password_prompt && !evidence.is_alternate_screen;
        !self.echo && (self.canonical || is_masked_prompt)
    }

    /// Returns whether typed bytes would answer a program that asks for a secret. A single Ctrl-C
    /// interrupts a program that reads a line, and is no part of its answer; the shim refuses the
    /// key if the program has turned off the interrupt.
    #[must_use]
    pub fn is_answer_to_secret(&self, evidence: PromptEvidence, bytes: &[u8]) -> bool {
        self.secret_requested(evidence) && !(self.canonical && bytes == [CTRL_C])
    }

    /// Returns whether a process of the foreground process group waits for input.
    #[must_use]
    pub const fn awaits_input(&self) -> bool {
        self.reader.is_some()
    }

    /// Returns the kind of input that a program which waits for input expects.
    #[must_use]
    pub const fn expected_input(&self, evidence: PromptEvidence) -> AwaitedInput {
        if self.secret_requested(evidence) {
            AwaitedInput::Secret
        } else if self.canonical {
            AwaitedInput::Line
        } else {
            AwaitedInput::Keys
        }
    }
}

/// Why keys were not sent to a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum KeysRefusal {
    /// The screen is not the one for which the keys were meant.
    ScreenChanged {
        /// Hash of the current screen.
        hash: String,
    },
    /// A person types in the terminal, so an agent must not.
    PersonHasTerminal {
        /// Milliseconds since the person took the terminal.
        since_ms: u64,
    },
    /// The program asks for a secret, which must not pass through a model.
    SecretRequested {
        /// The line of the prompt as the program wrote it, not escaped.
        prompt: String,
    },
    /// The task has ended.
    Ended,
    /// The task has no terminal.
    NoTerminal,
}

impl KeysRefusal {
    /// Returns the milliseconds for which a person has held the terminal; `None` for another
    /// refusal.
    #[must_use]
    pub const fn taken_for_ms(&self) -> Option<u64> {
        match self {
            Self::PersonHasTerminal { since_ms } => Some(*since_ms),
            Self::ScreenChanged { .. }
            | Self::SecretRequested { .. }
            | Self::Ended
            | Self::NoTerminal => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READER: ReaderFact = ReaderFact {
        process: ProcRef { pid: 7, start_ticks: 70 },
        is_in_read: true,
        timed_wait_cpu_ns: None,
    };
    const PASSWORD_PROMPT: PromptEvidence =
        PromptEvidence { is_password_prompt: true, is_alternate_screen: false };

    fn input(echo: bool, canonical: bool) -> TerminalInput {
        TerminalInput { echo, canonical, reader: Some(READER) }
    }

    #[test]
    fn a_secret_is_requested_by_a_line_without_echo() {
        for (what, terminal, evidence, expected) in [
            ("python's input()", input(true, true), PASSWORD_PROMPT, AwaitedInput::Line),
            ("sudo, ssh", input(false, true), PASSWORD_PROMPT, AwaitedInput::Secret),
            ("read -s", input(false, true), PromptEvidence::default(), AwaitedInput::Secret),
            ("bash, vim", input(false, false), PromptEvidence::default(), AwaitedInput::Keys),
            ("sudo with stars", input(false, false), PASSWORD_PROMPT, AwaitedInput::Secret),
            (
                "vim with the text `Password:`",
                input(false, false),
                PromptEvidence { is_alternate_screen: true, ..PASSWORD_PROMPT },
                AwaitedInput::Keys,
            ),
            ("cbreak mode", input(true, false), PASSWORD_PROMPT, AwaitedInput::Keys),
        ] {
            assert_eq!(terminal.expected_input(evidence), expected, "{what}");
            let is_secret = expected == AwaitedInput::Secret;
            assert_eq!(terminal.secret_requested(evidence), is_secret, "{what}");
        }
    }

    #[test]
    fn a_secret_is_requested_before_the_program_reads_it() {
        let terminal = TerminalInput { reader: None, ..input(false, true) };
        assert!(!terminal.awaits_input());
        assert!(terminal.secret_requested(PASSWORD_PROMPT));
    }

    #[test]
    fn only_a_single_interrupt_is_no_answer_to_a_line_without_echo() {
        let none = PromptEvidence::default();
        assert!(!input(false, true).is_answer_to_secret(none, b"\x03"));
        for bytes in [&b""[..], b"x", b"\x03\x03", b"\x03x", b"\x04", b"\n"] {
            assert!(input(false, true).is_answer_to_secret(none, bytes), "{bytes:?}");
            assert!(!input(true, true).is_answer_to_secret(none, bytes), "{bytes:?}");
        }
        // A prompt that reads single keys could read the key as a character of the secret.
        assert!(input(false, false).is_answer_to_secret(PASSWORD_PROMPT, b"\x03"));
    }

    #[test]
    fn a_refusal_is_written_as_json_with_its_kind() {
        let refusal = KeysRefusal::ScreenChanged { hash: "5f3a".to_owned() };
        let json = serde_json::to_string(&refusal).unwrap();
        assert_eq!(json, r#"{"kind":"screen_changed","hash":"5f3a"}"#);
        assert_eq!(serde_json::from_str::<KeysRefusal>(&json).unwrap(), refusal);
    }
}
