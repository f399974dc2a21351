//! Reading one small file that may not exist.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use siding_model::size::Bytes;

use super::error::SettingsError;

/// Most that a settings file may take; a longer one is refused unread.
pub const FILE_MAX: Bytes = Bytes::mib(1);

/// What a file holds.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileContent {
    pub(super) bytes: Vec<u8>,
    /// Number of the user it belongs to.
    pub(super) owner: u32,
}

/// What to make of a file behind a directory that may not be searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnsearchablePolicy {
    /// It counts as absent. After `sudo -u` the home may still be the caller's, closed to us.
    Absent,
    /// It is an error. The administrator's locks must not be lost by accident.
    Error,
}

/// Returns what the file holds, following links, or `None` when there is none.
///
/// It is looked at before it is opened, since opening a FIFO would wait for a writer.
pub(super) fn read(
    path: &Path,
    hidden: UnsearchablePolicy,
) -> Result<Option<FileContent>, SettingsError> {
    let io_error = |source| SettingsError::Io { path: path.to_owned(), source };
    let facts = match fs::metadata(path) {
        Ok(facts) => facts,
        Err(error) if is_absent(&error, hidden) => return Ok(None),
        Err(error) => return Err(io_error(error)),
    };
    if !facts.is_file() {
        return Err(SettingsError::NotAFile { path: path.to_owned() });
    }
    let file = File::open(path).map_err(io_error)?;
    // The owner must be that of the very file which is read.
    let owner = file.metadata().map_err(io_error)?.uid();
    let mut bytes = Vec::new();
    file.take(FILE_MAX.0 + 1).read_to_end(&mut bytes).map_err(io_error)?;
    if bytes.len() as u64 > FILE_MAX.0 {
        return Err(SettingsError::TooLarge { path: path.to_owned() });
    }
    Ok(Some(FileContent { bytes, owner }))
}

fn is_absent(error: &io::Error, hidden: UnsearchablePolicy) -> bool {
    let kind = error.kind();
    let absent = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&kind);
    absent || (kind == io::ErrorKind::PermissionDenied && hidden == UnsearchablePolicy::Absent)
}
