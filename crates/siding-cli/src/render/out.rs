//! Writes to standard output, where a closed pipe is not a failure.

use std::io::{self, ErrorKind, Write};

use crate::failure::Failure;
pub(crate) use crate::stderr::ReaderState;
use crate::terminal;

/// Prints text of siding, with only the symbols that a terminal can show. A closed pipe is not a
/// failure.
pub(crate) fn print(text: &str) -> Result<ReaderState, Failure> {
    print_exact(&terminal::replace_symbols(text, &io::stdout()))
}

/// Prints text of a task, or for a program, without any change. A closed pipe is not a failure.
pub(crate) fn print_exact(text: &str) -> Result<ReaderState, Failure> {
    let read = map_broken_pipe(write(text.as_bytes()))?;
    Ok(if read.is_some() { ReaderState::Connected } else { ReaderState::Disconnected })
}

/// Writes bytes to standard output and flushes it.
pub(crate) fn write(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Returns `None` if the reader has closed the pipe; any other error is a failure.
pub(crate) fn map_broken_pipe<T>(written: io::Result<T>) -> Result<Option<T>, Failure> {
    match written {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(None),
        Err(error) => Err(Failure::new(format!("could not print: {error}"))),
    }
}
