//! Lines of JSON for a program that follows an agent.

use std::cell::OnceCell;
use std::io;
use std::os::fd::AsFd as _;

use siding_agent::agent::StreamLine;
use siding_core::sys::{pipe, poll};

use crate::render::{json, out};

/// Bytes that a pipe takes whole or not at all, however full it is (`PIPE_BUF` of pipe(7)).
const PIPE_BUF_BYTES: usize = 4 << 10;
/// Bytes that a pipe is made to hold, so that long lines have room: the most that an ordinary user may
/// ask for (`pipe-max-size` of proc_sys_fs(5)).
const LARGE_PIPE_BYTES: usize = 1 << 20;
/// Bytes that a pipe holds which cannot be made larger.
const DEFAULT_PIPE_BYTES: usize = 64 << 10;
/// Time between two looks whether a reader has made room, in milliseconds.
const ROOM_POLL_MS: u64 = 10;

/// Writes whole lines to standard output, whatever ends the agent.
///
/// A pipe takes a line whole where it has room for all of it: the kernel looks for a kill only when it has
/// to wait. So a line begins when there is room.
#[derive(Debug, Default)]
pub(super) struct LineWriter {
    /// Bytes that standard output holds, where it is a pipe. Found out for the first long line.
    pipe_bytes: OnceCell<Option<usize>>,
}

impl LineWriter {
    /// Makes standard output hold much, where it is a pipe. Returns how many bytes it holds then.
    fn enlarge_pipe() -> Option<usize> {
        match pipe::set_size(io::stdout(), LARGE_PIPE_BYTES) {
            Ok(()) => Some(LARGE_PIPE_BYTES),
            // A user may have only so many pages in pipes.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Some(DEFAULT_PIPE_BYTES)
            }
            Err(_) => None,
        }
    }

    /// Prints lines. The agent works on without a reader.
    pub(super) fn print_lines(&self, lines: &[StreamLine<'_>]) {
        for line in lines {
            let Ok(line) = json::to_line(line) else { continue };
            self.wait_for_room(line.len());
            let _peer_gone = out::write(line.as_bytes());
        }
    }

    /// Waits until a pipe has room for so many bytes, or nobody reads it.
    fn wait_for_room(&self, bytes: usize) {
        if bytes <= PIPE_BUF_BYTES {
            return;
        }
        let Some(capacity) = *self.pipe_bytes.get_or_init(Self::enlarge_pipe) else { return };
        // A page may be half empty, since a write that does not fit into the rest of one begins another.
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
