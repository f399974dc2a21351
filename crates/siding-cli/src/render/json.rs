//! JSON on standard output.

use std::io::{self, BufWriter, Write};

use serde::Serialize;

use super::out::{self, Reader};
use crate::failure::Failure;

/// Bytes written at once.
const BLOCK: usize = 64 << 10;

/// Prints a value as one line.
pub(crate) fn print(value: &impl Serialize) -> Result<(), Failure> {
    print_to_reader(value).map(drop)
}

/// Prints a value as one line, and tells whether somebody read it.
pub(crate) fn print_to_reader(value: &impl Serialize) -> Result<Reader, Failure> {
    let written = write(value);
    Ok(if out::result(written)?.is_some() { Reader::There } else { Reader::Gone })
}

/// Returns a value as one line, for a reader who takes one at a time.
pub(crate) fn line(value: &impl Serialize) -> Result<String, Failure> {
    let line = serde_json::to_string(value);
    Ok(line.map_err(|error| Failure::new(format!("could not print: {error}")))? + "\n")
}

/// A list of ten thousand tasks takes megabytes, so it is never there as a whole.
fn write(value: &impl Serialize) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BLOCK, io::stdout().lock());
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}
