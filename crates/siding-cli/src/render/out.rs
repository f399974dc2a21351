//! Standard output.

use std::io::{self, ErrorKind, Write};

use crate::failure::Failure;

/// Whether somebody still reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReaderState {
    /// Yes.
    Connected,
    /// The pipe is closed: the reader has seen enough.
    Disconnected,
}

/// Prints text. That nobody reads it any more is no failure.
pub(crate) fn print(text: &str) -> Result<ReaderState, Failure> {
    let read = map_broken_pipe(write(text.as_bytes()))?;
    Ok(if read.is_some() { ReaderState::Connected } else { ReaderState::Disconnected })
}

/// Writes bytes to standard output, with nothing held back.
pub(crate) fn write(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Returns what was written for through [`write()`], `None` when nobody reads it any more.
pub(crate) fn map_broken_pipe<T>(written: io::Result<T>) -> Result<Option<T>, Failure> {
    match written {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(None),
        Err(error) => Err(Failure::new(format!("could not print: {error}"))),
    }
}
