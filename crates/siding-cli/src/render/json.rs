//! Prints JSON on standard output.

use std::io::{self, BufWriter, Write};

use serde::Serialize;

use super::out::{self, ReaderState};
use crate::failure::Failure;

/// Size of the output buffer in bytes.
const BLOCK_BYTES: usize = 64 << 10;

/// Initial capacity for an element of a list, in bytes; most elements are smaller.
const ELEMENT_BYTES: usize = 1 << 10;

/// Prints a value as one line of JSON. A closed pipe is not a failure.
pub(crate) fn print(value: &impl Serialize) -> Result<(), Failure> {
    print_to_reader(value).map(drop)
}

/// Prints a value as one line of JSON, and returns whether the reader is still connected.
pub(crate) fn print_to_reader(value: &impl Serialize) -> Result<ReaderState, Failure> {
    let written = write_value(value);
    Ok(if out::map_broken_pipe(written)?.is_some() {
        ReaderState::Connected
    } else {
        ReaderState::Disconnected
    })
}

/// Returns a value as one line of JSON, with a newline.
pub(crate) fn to_line(value: &impl Serialize) -> Result<String, Failure> {
    let line = serde_json::to_string(value);
    Ok(line.map_err(|error| Failure::new(format!("could not print: {error}")))? + "\n")
}

/// Prints JSON texts as one array on one line.
pub(crate) fn print_list<T: AsRef<[u8]>>(
    values: impl IntoIterator<Item = T>,
) -> Result<(), Failure> {
    out::map_broken_pipe(write_list(values)).map(drop)
}

fn write_list<T: AsRef<[u8]>>(values: impl IntoIterator<Item = T>) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BLOCK_BYTES, io::stdout().lock());
    out.write_all(b"[")?;
    for (index, text) in values.into_iter().enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        out.write_all(text.as_ref())?;
    }
    out.write_all(b"]\n")?;
    out.flush()
}

/// Returns a value as JSON text for [`print_list`].
pub(crate) fn to_list_element(value: &impl Serialize) -> Vec<u8> {
    let mut text = Vec::with_capacity(ELEMENT_BYTES);
    serde_json::to_writer(&mut text, value).expect("memory never fails, and all keys are strings");
    text
}

fn write_value(value: &impl Serialize) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BLOCK_BYTES, io::stdout().lock());
    serde_json::to_writer(&mut out, value)?;
    out.write_all(b"\n")?;
    out.flush()
}
