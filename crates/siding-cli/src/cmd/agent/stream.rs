//! Lines of JSON for a program that follows an agent.

use siding_agent::agent::StreamLine;

use crate::render::{json, out};

/// Prints lines, each with one call of write(2): a reader that keeps up sees whole lines whatever ends
/// the agent.
pub(super) fn print(lines: &[StreamLine<'_>]) {
    for line in lines {
        // The agent works on without a reader.
        let Ok(line) = json::line(line) else { continue };
        let _unread = out::write(line.as_bytes());
    }
}
