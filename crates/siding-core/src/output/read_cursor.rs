//! Read cursors: how much of a task's output each session has read.
//!
//! Each session that reads has its own file next to the output. Each read that changes the cursor
//! appends one line with the offset after the text that was shown, and the last whole line is the
//! cursor. At worst, a part of the output is therefore shown twice after a crash.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use siding_model::id::SessionId;

use crate::store::TaskDir;
use crate::sys::file;

/// Bytes read from the end of the file: room for two of the longest numbers with their newlines,
/// and for a torn line.
const TAIL_BYTES: u64 = 64;

fn cursor_file_name(consumer: &SessionId) -> String {
    format!("seen.{consumer}")
}

/// Returns the read cursor of the session `consumer`; 0 if the session has read nothing.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn load_read_cursor(dir: &TaskDir, consumer: &SessionId) -> io::Result<u64> {
    match file::open_at(dir, cursor_file_name(consumer), file::OpenMode::Read) {
        Ok(fd) => Ok(last_complete_offset(&fd)?.0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

/// Sets the read cursor of the session `consumer` to `offset`. Must be called after the text before
/// `offset` was shown, so that after a crash in between the text is shown again instead of being
/// lost.
///
/// # Errors
///
/// The I/O error of the system call.
pub fn advance_read_cursor(dir: &TaskDir, consumer: &SessionId, offset: u64) -> io::Result<()> {
    let fd = open_cursor_file(dir, &cursor_file_name(consumer))?;
    // Two concurrent readers must not append at the same offset.
    file::lock_exclusive(&fd)?;
    let (last, torn) = last_complete_offset(&fd)?;
    if last == offset {
        return Ok(());
    }
    let end = file::metadata(&fd)?.len;
    let newline = if torn { "\n" } else { "" };
    file::write_all_at(&fd, format!("{newline}{offset}\n").as_bytes(), end)
}

fn open_cursor_file(dir: &TaskDir, name: &str) -> io::Result<OwnedFd> {
    loop {
        match file::open_at(dir, name, file::OpenMode::ReadWrite) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            result => return result,
        }
        match file::open_at(dir, name, file::OpenMode::CreateNew) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => return result,
        }
    }
}

/// Returns the number on the last whole line, 0 if there is none, and whether a torn line follows.
fn last_complete_offset(fd: &OwnedFd) -> io::Result<(u64, bool)> {
    let len = file::metadata(fd)?.len;
    let mut bytes = [0; TAIL_BYTES as usize];
    let from = len.saturating_sub(TAIL_BYTES);
    let count = file::read_at(fd.as_fd(), &mut bytes, from)?;
    let text = String::from_utf8_lossy(&bytes[..count]);
    let torn = !text.is_empty() && !text.ends_with('\n');
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let last = whole.rsplit('\n').find_map(|line| line.parse().ok());
    Ok((last.unwrap_or(0), torn))
}
