//! JSON on standard output.

use serde::Serialize;

use crate::failure::Failure;

/// Prints a value as one line.
pub(crate) fn print(value: &impl Serialize) -> Result<(), Failure> {
    use std::io::Write;
    let mut line = serde_json::to_string(value).map_err(Failure::new)?;
    line.push('\n');
    match std::io::stdout().lock().write_all(line.as_bytes()) {
        // The reader has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(|error| Failure::new(format!("could not print: {error}"))),
    }
}
