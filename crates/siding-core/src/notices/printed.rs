//! The notices that were printed last for a consumer and not acknowledged by the same call:
//! `sessions/NAME/printed.CONSUMER`, one id per line.
//!
//! The file is replaced by rename(2) under the lock of the session. Its loss only means that the
//! notices have to be acknowledged by their ids, so it is not synced.

use std::fmt::Write as _;
use std::io;
use std::os::fd::AsFd as _;

use siding_model::id::SessionId;
use siding_model::notice::{Consumer, NoticeId};

use super::error::{NoticesError, io_error_in};
use crate::store::{StateDir, StoreError};
use crate::sys::file;

/// Name of a new file until it replaces the old one.
const PRINTED_TEMP_FILE: &str = "printed-new";
/// Maximum size of the file, in bytes: more than 200,000 ids.
const MAX_PRINTED_BYTES: usize = 8 << 20;

/// Replaces the list of a consumer.
pub(super) fn write(
    root: &StateDir,
    session: &SessionId,
    consumer: &Consumer,
    notices: &[NoticeId],
) -> Result<(), NoticesError> {
    let mut text = String::new();
    for id in notices {
        let _writing_to_string = writeln!(text, "{id}");
    }
    let dir = root.open_locked_session(session.as_str())?;
    // The lock is held, so an existing file was left by a crash.
    let _already_removed = file::remove(&dir, PRINTED_TEMP_FILE);
    file::open_at(&dir, PRINTED_TEMP_FILE, file::OpenMode::CreateNew)
        .and_then(|fd| file::write_all_at(&fd, text.as_bytes(), 0))
        .and_then(|()| file::rename_over(&dir, PRINTED_TEMP_FILE, &file_name(consumer)))
        .map_err(io_error_in(session, "record the printed notices"))
}

/// Returns the list of a consumer; empty if nothing was recorded. Damaged lines are skipped.
pub(super) fn read(
    root: &StateDir,
    session: &SessionId,
    consumer: &Consumer,
) -> Result<Vec<NoticeId>, NoticesError> {
    let is_missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let dir = match root.session_dir(session.as_str(), false) {
        Err(StoreError::Io { source, .. }) if is_missing(&source) => return Ok(Vec::new()),
        result => result?,
    };
    let bytes = file::open_at(&dir, file_name(consumer), file::OpenMode::Read)
        .and_then(|fd| file::read_to_end(fd.as_fd(), MAX_PRINTED_BYTES));
    let bytes = match bytes {
        Err(error) if is_missing(&error) => return Ok(Vec::new()),
        result => result.map_err(io_error_in(session, "read the printed notices"))?,
    };
    Ok(String::from_utf8_lossy(&bytes).lines().filter_map(|line| line.parse().ok()).collect())
}

fn file_name(consumer: &Consumer) -> String {
    format!("printed.{consumer}")
}
