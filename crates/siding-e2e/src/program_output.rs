//! The exit status and output of an ended program, with assertions that show both on failure.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

/// The exit status, output and run time of a program that has ended.
#[derive(Debug)]
#[must_use]
pub struct ProgramOutput {
    /// Exit code; `None` when a signal ended the program.
    pub code: Option<i32>,
    /// Number of the signal that ended the program.
    pub signal: Option<i32>,
    /// All bytes written to stdout.
    pub stdout: Vec<u8>,
    /// All bytes written to stderr.
    pub stderr: Vec<u8>,
    /// Time from just before the start of the program to its end.
    pub elapsed: Duration,
    command_text: String,
}

impl ProgramOutput {
    pub(crate) fn new(
        status: ExitStatus,
        stdout: Vec<u8>,
        stderr: Vec<u8>,
        elapsed: Duration,
        shown: String,
    ) -> Self {
        Self {
            code: status.code(),
            signal: status.signal(),
            stdout,
            stderr,
            elapsed,
            command_text: shown,
        }
    }

    /// Returns stdout as text, with invalid UTF-8 replaced.
    pub fn stdout_text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Returns stderr as text, with invalid UTF-8 replaced.
    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }

    /// Parses stdout as one JSON value.
    ///
    /// # Panics
    ///
    /// When stdout is not a JSON value.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        match serde_json::from_slice(&self.stdout) {
            Ok(value) => value,
            Err(error) => panic!("stdout is not JSON ({error}): {self}"),
        }
    }

    /// Asserts the exit code.
    ///
    /// # Panics
    ///
    /// When the code differs or a signal ended the program.
    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "exit code of {self}");
        self
    }

    /// Asserts the signal that ended the program.
    ///
    /// # Panics
    ///
    /// When another signal or no signal ended the program.
    #[track_caller]
    pub fn expect_signal(self, signal: i32) -> Self {
        assert_eq!(self.signal, Some(signal), "signal of {self}");
        self
    }
}

impl std::fmt::Display for ProgramOutput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { code, signal, elapsed, command_text: shown, .. } = self;
        let text = transcript(&self.stdout, &self.stderr);
        write!(f, "`{shown}`: code {code:?}, signal {signal:?}, after {elapsed:?}{text}")
    }
}

/// Formats both streams for a failure message. Of a long stream, shows only the first and the last
/// 4,000 bytes.
pub(crate) fn transcript(out: &[u8], err: &[u8]) -> String {
    format!("\n--- stdout\n{}\n--- stderr\n{}\n---", excerpt(out), excerpt(err))
}

fn excerpt(bytes: &[u8]) -> String {
    const EXCERPT_END_BYTES: usize = 4000;
    if bytes.len() <= 2 * EXCERPT_END_BYTES {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let head = String::from_utf8_lossy(&bytes[..EXCERPT_END_BYTES]);
    let tail = String::from_utf8_lossy(&bytes[bytes.len() - EXCERPT_END_BYTES..]);
    format!("{head}\n… {} bytes …\n{tail}", bytes.len() - 2 * EXCERPT_END_BYTES)
}
