//! Writes the events of an agent as JSON, one object per line.

use std::cell::OnceCell;
use std::io;
use std::os::fd::AsFd as _;

use siding_agent::agent::StreamLine;
use siding_core::sys::{pipe, poll};

use crate::render::{json, out};

/// Maximum size of an atomic write to a pipe, in bytes (`PIPE_BUF`, pipe(7)).
const PIPE_BUF_BYTES: usize = 4 << 10;
/// Capacity in bytes that is requested for the pipe on standard output, so that long lines fit. It
/// is the default maximum for an unprivileged user (`pipe-max-size`, proc_sys_fs(5)).
const LARGE_PIPE_BYTES: usize = 1 << 20;
/// Default capacity of a pipe in bytes, which is assumed if the pipe cannot be enlarged.
const DEFAULT_PIPE_BYTES: usize = 64 << 10;
/// Pause between two checks for room in the pipe, in milliseconds.
const ROOM_POLL_MS: u64 = 10;

/// Writes complete lines to standard output, even if the agent is killed, unless a line is too long
/// for the pipe.
///
/// SIGKILL never cuts short a write for which the pipe has room, because a pipe write checks for
/// signals only while it waits for room. A line that an empty pipe can hold is therefore written
/// only once there is room for all of it.
#[derive(Debug, Default)]
pub(super) struct LineWriter {
    /// Capacity of the pipe in bytes; `None` if standard output is not a pipe. The capacity is
    /// determined at the first line that is longer than `PIPE_BUF_BYTES`.
    pipe_bytes: OnceCell<Option<usize>>,
}

impl LineWriter {
    /// Enlarges the pipe on standard output. Returns its capacity in bytes, or `None` if standard
    /// output is not a pipe.
    fn enlarge_pipe() -> Option<usize> {
        match pipe::set_size(io::stdout(), LARGE_PIPE_BYTES) {
            Ok(()) => Some(LARGE_PIPE_BYTES),
            // The pipe keeps its size: either the pipes of this user have reached the limit on
            // pages, or the administrator has lowered the maximum size (pipe(7)).
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Some(DEFAULT_PIPE_BYTES)
            }
            Err(_) => None,
        }
    }

    /// Prints each line as soon as [`Self::wait_for_room`] has returned. A pipe that the reader has
    /// closed does not stop the agent.
    pub(super) fn print_lines(&self, lines: &[StreamLine<'_>]) {
        for line in lines {
            let Ok(line) = json::to_line(line) else { continue };
            self.wait_for_room(line.len());
            let _peer_gone = out::write(line.as_bytes());
        }
    }

    /// Waits until the pipe has room for a line of `bytes`, or the reader has closed the pipe. Does
    /// not wait if even an empty pipe has too little room; a kill may then cut the line short.
    fn wait_for_room(&self, bytes: usize) {
        if bytes <= PIPE_BUF_BYTES {
            return;
        }
        let Some(capacity) = *self.pipe_bytes.get_or_init(Self::enlarge_pipe) else { return };
        // A write that does not fit into the remainder of a page starts a new page, so every page
        // may be half empty: the bytes in the pipe may occupy twice their size.
        let fits = |held: usize| {
            held.saturating_mul(2).saturating_add(bytes + 2 * PIPE_BUF_BYTES) <= capacity
        };
        if !fits(0) {
            return;
        }
        let stdout = io::stdout();
        let held =
            || pipe::buffered_bytes(&stdout).map_or(0, |held| usize::try_from(held).unwrap_or(0));
        while !fits(held()) && !poll::is_peer_closed(stdout.as_fd()) {
            if poll::wait_readable_or_closed(&[], stdout.as_fd(), Some(ROOM_POLL_MS)).is_err() {
                return;
            }
        }
    }
}
