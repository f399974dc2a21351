//! The keyboard of a person who waits in the foreground for a command that does not read it: the
//! command has no terminal, or the call is not connected with the terminal of the command.
//!
//! While the call waits, this process reads the keys: Ctrl-B moves the
//! command to the background, and any other input is discarded. Otherwise the shell would execute
//! it after the call, even if it was meant as an answer to the command, such as a password.
//!
//! In a pipeline another program may read the keys, such as a pager. There this process reads keys
//! only after all programs have started, and only if it is known that none of them reads keys.

use std::io::{self, IsTerminal as _};
use std::os::fd::BorrowedFd;
use std::time::Duration;

use siding_core::sys::{clock, procfs};
use siding_model::outcome::Placement;
use siding_model::process::MonotonicMs;
use siding_model::signal::Signal;
use siding_model::spec::{StdinMode, TaskSpec};

use super::follow;
use super::plan::RunPlan;
use crate::attachment::{self, HINT_AFTER};
use crate::key_reader::{KEYBOARD_SIGNALS, KeyReader};
use crate::render;

/// Time between two checks whether the shell has moved this process to the foreground, in
/// milliseconds. A person cannot press Ctrl-B faster after typing `fg`.
const FOREGROUND_CHECK_MS: u64 = 500;
/// The programs of a pipeline that read no keys.
const FILTERS: [&str; 19] = [
    "awk", "cat", "column", "cut", "gawk", "grep", "head", "jq", "mawk", "nl", "rg", "sed", "sort",
    "tail", "tee", "tr", "ts", "uniq", "wc",
];
/// The byte of the key that moves the command to the background.
const CTRL_B: u8 = 0x02;
/// The byte of the key that ends the input of a program.
const CTRL_D: u8 = 0x04;
/// The note about keys that were typed for a full-screen command.
const FULL_SCREEN_NOTE: &str = "the command has no terminal and receives no keys: end it with Ctrl-C, \
                                and run it with --pty";

/// The terminal whose keys this process reads while it is in the terminal's foreground.
#[derive(Debug)]
pub(super) struct Keyboard {
    keys: KeyReader,
    /// Whether other programs of this process's pipeline may read the keys.
    pipeline: PipelineState,
    /// Time of the next check whether this process is in the foreground; `None` if the last check
    /// found it there. From then on, a signal reports each change.
    check_at: Option<MonotonicMs>,
    /// Whether Ctrl-B moves the command to the background.
    can_hand_over: bool,
    /// The notes about discarded input; `None` once one has been printed.
    discard_notes: Option<DiscardNotes>,
}

/// The notes about input that was typed for the command and discarded.
#[derive(Debug)]
struct DiscardNotes {
    /// The note about a line.
    line: String,
    /// The note about a key for a full-screen program.
    full_screen: String,
}

/// The state of the other programs of a pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PipelineState {
    /// Standard output is a terminal, so there is no other program.
    Absent,
    /// The other programs may not have started yet.
    Starting,
    /// All programs have probably started, because [`HINT_AFTER`] has passed.
    Started,
}

/// The meaning of typed bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TypedInput {
    has_hand_over_key: bool,
    /// Whether the bytes contain the end of a line or Ctrl-D, at which a program that reads the
    /// terminal would receive the input.
    ends_line: bool,
}

/// Returns whether the call reads keys, in a pipeline perhaps later: a person waits for a command
/// in the foreground, standard input is a terminal, and the command itself does not read it. The
/// keys of a call that is connected with the terminal of the command are read by
/// [`crate::attachment`].
pub(super) fn is_used(plan: &RunPlan) -> bool {
    let spec = plan.task.spec();
    plan.is_person
        && spec.placement == Placement::Foreground
        && spec.stdin != StdinMode::Inherit
        && !follow::is_attached(plan)
        && io::stdin().is_terminal()
}

impl Keyboard {
    /// Starts to read keys if this process is in the foreground and not in a pipeline. Returns
    /// `None` if the descriptor of the terminal cannot be duplicated; the call then reads no keys.
    pub(super) fn open(plan: &RunPlan) -> Option<Self> {
        let is_terminal = io::stdout().is_terminal();
        let mut keyboard = Self {
            keys: KeyReader::for_stdin()?,
            pipeline: if is_terminal { PipelineState::Absent } else { PipelineState::Starting },
            check_at: None,
            can_hand_over: plan.can_hand_over,
            discard_notes: Some(DiscardNotes::new(plan.task.spec())),
        };
        keyboard.resume();
        Some(keyboard)
    }

    /// Returns the time after which [`Self::hand_over_hint`] must be called; `None` if the key has
    /// no effect.
    pub(super) fn hint_after(&self) -> Option<Duration> {
        self.can_hand_over.then_some(HINT_AFTER)
    }

    /// Returns the time at which [`Self::check_foreground`] must be called; `None` if a signal
    /// reports the next change.
    pub(super) const fn foreground_check_at(&self) -> Option<MonotonicMs> {
        self.check_at
    }

    /// Starts to read keys if the shell has moved this process to the foreground. `fg` sends no
    /// signal to a job that was running in the background. Returns whether this process reads keys.
    pub(super) fn check_foreground(&mut self) -> bool {
        if self.keys.is_foreground() {
            self.resume();
        } else {
            self.check_at = Some(clock::monotonic_now().plus_ms(FOREGROUND_CHECK_MS));
        }
        self.keys.is_reading()
    }

    /// Returns the hint that Ctrl-B moves the command to the background. In a pipeline, first tries
    /// to start reading keys. Returns `None` if this process reads no keys, for example in the
    /// background, if standard error is not a terminal, and inside a task.
    pub(super) fn hand_over_hint(&mut self) -> Option<String> {
        if self.pipeline == PipelineState::Starting {
            self.pipeline = PipelineState::Started;
            self.resume();
        }
        let is_shown = self.keys.is_reading() && io::stderr().is_terminal();
        is_shown.then(attachment::hand_over_hint).flatten()
    }

    /// Returns whether this process reads the keys now.
    pub(super) const fn is_reading(&self) -> bool {
        self.keys.is_reading()
    }

    /// Returns the descriptor that becomes readable when a key is typed; `None` while this process
    /// reads no keys.
    pub(super) fn readable_fd(&self) -> Option<BorrowedFd<'_>> {
        self.keys.readable_fd()
    }

    /// Reads the typed keys, without waiting for any. Returns whether the person moves the command
    /// to the background. The first discarded line causes a note; with `is_full_screen`, the first
    /// key does, because each key is meant for the screen of the command.
    pub(super) fn read_hand_over_key(&mut self, is_full_screen: bool) -> bool {
        let mut bytes = [0; 256];
        let count = self.keys.read(&mut bytes);
        if count == 0 {
            return false;
        }
        let typed = parse_input(&bytes[..count]);
        if typed.has_hand_over_key && self.can_hand_over {
            return true;
        }
        if (typed.ends_line || is_full_screen)
            && io::stderr().is_terminal()
            && let Some(notes) = self.discard_notes.take()
        {
            render::print_note(if is_full_screen { &notes.full_screen } else { &notes.line });
        }
        false
    }

    /// Handles one of [`KEYBOARD_SIGNALS`]. Returns false for any other signal.
    pub(super) fn handle_signal(&mut self, signal: Signal) -> bool {
        if signal == Signal::TSTP {
            self.keys.suspend();
            self.resume();
        } else if signal == Signal::CONT {
            self.resume();
        }
        KEYBOARD_SIGNALS.contains(&signal)
    }

    /// Starts to read keys if this process is in the foreground and no other program reads them,
    /// and otherwise leaves the terminal to the shell or to that program.
    fn resume(&mut self) {
        let is_background = !self.keys.is_foreground();
        self.check_at = is_background.then(|| clock::monotonic_now().plus_ms(FOREGROUND_CHECK_MS));
        if self.has_no_rival() {
            self.keys.resume();
        } else {
            self.keys.pause();
        }
    }

    /// Returns whether no other program reads the keys. Only processes in the terminal's foreground
    /// process group can read them, and this process is in that group.
    fn has_no_rival(&self) -> bool {
        match self.pipeline {
            PipelineState::Absent => true,
            PipelineState::Starting => false,
            PipelineState::Started => {
                procfs::names_in_own_group().is_some_and(|names| are_filters(&names))
            }
        }
    }
}

impl DiscardNotes {
    fn new(spec: &TaskSpec) -> Self {
        let id = spec.task_id;
        let advice = match spec.stdin {
            StdinMode::Pipe => format!("`siding input {id}` writes to it"),
            StdinMode::Terminal => {
                format!("`siding attach {id}` in another terminal types into its own")
            }
            StdinMode::Null | StdinMode::Inherit => {
                "a command started with --stdin pipe reads the text of `siding input`".to_owned()
            }
        };
        let line = format!(
            "the typed text was discarded: the command does not read this terminal; {advice}"
        );
        let full_screen = match spec.stdin {
            StdinMode::Terminal => line.clone(),
            StdinMode::Null | StdinMode::Pipe | StdinMode::Inherit => FULL_SCREEN_NOTE.to_owned(),
        };
        Self { line, full_screen }
    }
}

/// Returns whether all programs with these names are known to read no keys.
fn are_filters(names: &[String]) -> bool {
    names.iter().all(|name| FILTERS.contains(&name.as_str()))
}

/// Determines the meaning of typed bytes.
fn parse_input(bytes: &[u8]) -> TypedInput {
    TypedInput {
        has_hand_over_key: bytes.contains(&CTRL_B),
        ends_line: bytes.iter().any(|byte| [b'\n', b'\r', CTRL_D].contains(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ctrl_b_hands_over_and_only_a_line_is_reported() {
        let typed = |has_hand_over_key, ends_line| TypedInput { has_hand_over_key, ends_line };
        assert_eq!(parse_input(b""), typed(false, false));
        assert_eq!(parse_input(b"b B ^B secret"), typed(false, false));
        assert_eq!(parse_input(b"secret\n"), typed(false, true));
        assert_eq!(parse_input(b"y\r"), typed(false, true));
        assert_eq!(parse_input(b"\x04"), typed(false, true));
        assert_eq!(parse_input(b"\x02"), typed(true, false));
        assert_eq!(parse_input(b"make\n\x02"), typed(true, true));
    }

    #[test]
    fn a_pipeline_with_a_program_that_may_read_keys_is_no_filter() {
        let are_filters = |names: &[&str]| {
            are_filters(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert!(are_filters(&[]));
        assert!(are_filters(&["tee", "grep"]));
        for reader in ["less", "more", "bash", "sudo", "vim", "fzf"] {
            assert!(!are_filters(&["tee", reader]), "{reader}");
        }
    }
}
