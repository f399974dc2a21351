//! Errors of changing a host's files.

use std::io;
use std::path::PathBuf;

use super::json::TextError;

/// An error of changing a host's files. Unless stated otherwise, nothing was changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    /// The text of a file is not valid for its host.
    #[error("`{path}`, {fault}")]
    InvalidText {
        /// The file.
        path: PathBuf,
        /// The mistake and its position.
        fault: TextError,
        /// Whether the host accepts only standard JSON.
        strict: bool,
    },
    /// A file is not UTF-8.
    #[error("`{path}` is not UTF-8: invalid UTF-8 at byte {offset}")]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// Offset of the first invalid byte, from 0.
        offset: usize,
    },
    /// The path exists but is not a regular file.
    #[error("`{path}` is not a regular file")]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The file is larger than any host's settings.
    #[error("`{path}` has {len} bytes; the maximum is {max}")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size in bytes.
        len: u64,
        /// The maximum size in bytes.
        max: u64,
    },
    /// The target of a symbolic link does not exist.
    #[error("`{path}` is a symbolic link to a missing file")]
    DanglingLink {
        /// The link.
        path: PathBuf,
    },
    /// Another program changed the file in the meantime.
    #[error("`{path}` was changed by another program in the meantime; it was not modified")]
    ConcurrentChange {
        /// The file.
        path: PathBuf,
    },
    /// A newer siding wrote the installation record.
    #[error("`{path}` has format {found}; this siding supports up to {known}")]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Format version of the record.
        found: u64,
        /// The newest format version that this siding supports.
        known: u64,
    },
    /// A system call failed.
    #[error("could not {doing} `{path}`: {source}")]
    Io {
        /// The attempted operation.
        doing: &'static str,
        /// The affected path.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl InstallError {
    /// Returns a suggestion for the user.
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::InvalidText { strict: true, .. } => Some(
                "correct that line and call siding again; until then the host ignores the whole \
                 file, including what siding adds",
            ),
            Self::InvalidText { strict: false, .. } => {
                Some("correct that line and call siding again")
            }
            Self::NotUtf8 { .. } => Some("save it as UTF-8 and call siding again"),
            Self::DanglingLink { .. } => Some("create its target, or remove the link"),
            Self::ConcurrentChange { .. } => Some("call siding again"),
            Self::TooNew { .. } => Some("use the siding that installed it, or upgrade this one"),
            Self::NotAFile { .. } | Self::TooLarge { .. } | Self::Io { .. } => None,
        }
    }

    /// Returns a function that converts an I/O error to an `InstallError`.
    pub(crate) fn io(
        doing: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::Io { doing, path, source }
    }
}
