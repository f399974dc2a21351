//! How far somebody has looked.
//!
//! Each consumer has a file of its own beside the output. It is only ever appended to, a line per
//! look with the offset behind what was shown; the last whole line counts. So a crash shows
//! something twice at worst.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use siding_model::id::SessionId;

use crate::store::TaskDir;
use crate::sys::file;

/// Bytes that hold the last whole line: twice the longest number with its newline, and a torn one.
const TAIL_BYTES: u64 = 64;

fn cursor_file_name(consumer: &SessionId) -> String {
    format!("seen.{consumer}")
}

/// Returns the offset behind what a consumer was shown, zero when it never looked.
///
/// # Errors
///
/// The operating system's.
pub fn load_read_cursor(dir: &TaskDir, consumer: &SessionId) -> io::Result<u64> {
    match file::open_at(dir, cursor_file_name(consumer), file::OpenMode::Read) {
        Ok(fd) => Ok(last_complete_offset(&fd)?.0),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error),
    }
}

/// Notes what a consumer was shown. Only after it was.
///
/// # Errors
///
/// The operating system's.
pub fn advance_read_cursor(dir: &TaskDir, consumer: &SessionId, offset: u64) -> io::Result<()> {
    let fd = open_cursor_file(dir, &cursor_file_name(consumer))?;
    // Two looks at once write two lines.
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

/// Returns the number on the last whole line, and whether a torn one follows.
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
