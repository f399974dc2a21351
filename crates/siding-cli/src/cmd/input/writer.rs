//! The input of a task to which `siding input` writes: a pipe, or the keyboard of a terminal.

use siding_core::store::{StateDir, TaskDir};
use siding_core::task::input::TaskInput;
use siding_core::task::terminal::count_characters;
use siding_terminal::{LiveTerminal, LiveTerminalError};

use crate::caller;
use crate::context::{SHIM_PROGRAM, Task};
use crate::failure::Failure;
use crate::terminal_replay;

/// The name under which the journal records the writer, as for a stop.
const REQUESTER: &str = "user";
/// The bytes of the key Enter. A terminal in canonical mode turns it into a newline (`ICRNL`,
/// termios(3)), and a program that reads single keys expects it.
const ENTER: &str = "\r";
/// The byte of Ctrl-D: the usual character for end of file (`VEOF`, termios(3)).
const END_OF_FILE: u8 = 4;

/// The input of a running task.
#[derive(Debug)]
pub(super) enum InputWriter<'r> {
    /// A pipe.
    Pipe(Box<TaskInput<'r>>),
    /// The task's terminal.
    Terminal(Box<Keyboard<'r>>),
}

/// The keyboard of a task's terminal.
#[derive(Debug)]
pub(super) struct Keyboard<'r> {
    terminal: LiveTerminal<'r>,
    /// Number of characters that this call has typed.
    typed_characters: usize,
    /// Whether the last typed byte ended a line, or nothing was typed.
    is_line_complete: bool,
}

impl<'r> InputWriter<'r> {
    /// Opens the input of a task.
    pub(super) fn open(root: &'r StateDir, task: &Task) -> Result<Self, Failure> {
        let id = task.dir.id();
        if let Some(failure) = terminal_replay::host_terminal_failure(root, task) {
            return Err(failure);
        }
        if task.state.terminal.is_none() {
            let pipe = TaskInput::open(root, SHIM_PROGRAM, &task.dir, &task.state)?;
            return Ok(Self::Pipe(Box::new(pipe.requested_by(REQUESTER))));
        }
        let user = caller::terminal_user();
        let terminal = LiveTerminal::open(root, SHIM_PROGRAM, id, user, REQUESTER)?;
        Ok(Self::Terminal(Box::new(Keyboard {
            terminal,
            typed_characters: 0,
            is_line_complete: true,
        })))
    }

    /// Returns the bytes that end a line of text.
    pub(super) const fn newline(&self) -> &'static str {
        match self {
            Self::Pipe(_) => "\n",
            Self::Terminal(_) => ENTER,
        }
    }

    /// Writes bytes unchanged.
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match self {
            Self::Pipe(pipe) => pipe.write(bytes)?,
            Self::Terminal(keyboard) => keyboard.type_bytes(bytes)?,
        }
        Ok(())
    }

    /// Closes the input, so that the task reads end of file after the written bytes.
    pub(super) fn close(self, dir: &TaskDir) -> Result<(), Failure> {
        match self {
            Self::Pipe(pipe) => pipe.close(dir)?,
            Self::Terminal(mut keyboard) => {
                // In the middle of a line, the first Ctrl-D only delivers the line.
                let count = if keyboard.is_line_complete { 1 } else { 2 };
                keyboard.type_bytes(&[END_OF_FILE; 2][..count])?;
            }
        }
        Ok(())
    }
}

impl Keyboard<'_> {
    /// Types bytes unchanged. An error contains the number of the characters that this call has
    /// typed, because the input may consist of several blocks.
    fn type_bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        match self.terminal.type_bytes(bytes) {
            Err(LiveTerminalError::Terminal(error)) => {
                return Err(error.after_typed(self.typed_characters).into());
            }
            result => result?,
        }
        self.typed_characters += count_characters(bytes);
        if let Some(last) = bytes.last() {
            self.is_line_complete = matches!(last, b'\r' | b'\n');
        }
        Ok(())
    }
}
