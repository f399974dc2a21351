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

/// A list of ten thousand tasks takes megabytes, so it is never there as a whole.
fn write(value: &impl Serialize) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BLOCK, io::stdout().lock());
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}
