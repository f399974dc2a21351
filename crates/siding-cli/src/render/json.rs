//! JSON on standard output.

use serde::Serialize;

use super::out::{self, Reader};
use crate::failure::Failure;

/// Prints a value as one line.
pub(crate) fn print(value: &impl Serialize) -> Result<(), Failure> {
    print_to_reader(value).map(drop)
}

/// Prints a value as one line, and tells whether somebody read it.
pub(crate) fn print_to_reader(value: &impl Serialize) -> Result<Reader, Failure> {
    let mut line = serde_json::to_string(value).map_err(Failure::new)?;
    line.push('\n');
    out::print(&line)
}
