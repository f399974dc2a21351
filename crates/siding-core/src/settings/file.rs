//! Reads one small file that may not exist.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use siding_model::size::Bytes;

use super::error::SettingsError;

/// Maximum size of a settings file. A larger file is rejected.
pub const FILE_MAX: Bytes = Bytes::mib(1);

/// A file's content and owner.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct FileContent {
    pub(super) bytes: Vec<u8>,
    /// The user id of the owner.
    pub(super) owner: u32,
}

/// The treatment of a file in a directory without search permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UnsearchablePolicy {
    /// The file is treated as absent. After `sudo -u`, `HOME` may still name the home directory of
    /// the caller of sudo, which the new user cannot search.
    Absent,
    /// The read fails, because the administrator's locks must not be bypassed by accident.
    Error,
}

/// Reads a file, following symbolic links. Returns `None` if the file does not exist, and with
/// [`UnsearchablePolicy::Absent`] also if a directory of its path cannot be searched.
///
/// The type is checked before open(2), which blocks on a FIFO until it has a writer (fifo(7)).
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
    // The owner is read from the open file, because the path may refer to another file by now.
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
