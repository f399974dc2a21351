//! The error type for reading and changing the files of hosts.

use std::io;
use std::path::PathBuf;

use siding_model::size::size_in_words;

use super::json::TextError;

/// The reason why a host's file could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum InstallError {
    /// The text of a file is not valid for its host.
    #[error("`{path}`, {fault}")]
    InvalidText {
        path: PathBuf,
        fault: TextError,
        /// Whether the text was parsed as standard JSON, without comments and trailing commas.
        strict: bool,
    },
    /// A file is not UTF-8.
    #[error("`{path}` is not UTF-8: invalid UTF-8 at byte {offset}")]
    NotUtf8 {
        path: PathBuf,
        /// Offset of the first invalid byte, from 0.
        offset: usize,
    },
    /// The path exists but is not a regular file.
    #[error("`{path}` is not a regular file")]
    NotAFile { path: PathBuf },
    /// The file exceeds the maximum size of a host's file.
    #[error(
        "`{path}` has {}; the maximum is {}",
        size_in_words(*len),
        size_in_words(*max)
    )]
    TooLarge { path: PathBuf, len: u64, max: u64 },
    /// The target of a symbolic link does not exist.
    #[error("`{path}` is a symbolic link to a missing file")]
    DanglingLink {
        /// Path of the link, not of its target.
        path: PathBuf,
    },
    /// Another program changed the file after siding had read it.
    #[error("another program changed `{path}` in the meantime; siding did not change the file")]
    ConcurrentChange { path: PathBuf },
    /// A newer siding wrote the installation record.
    #[error("`{path}` has format {found}; this siding reads only formats up to {known}")]
    TooNew {
        /// Path of the record's file.
        path: PathBuf,
        /// Format version of the record.
        found: u64,
        /// The newest format version that this siding supports.
        known: u64,
    },
    /// A system call on the file or its directory failed.
    #[error("could not {doing} `{path}`: {source}")]
    Io {
        /// The attempted operation as a verb, such as `read` or `replace`.
        doing: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

impl InstallError {
    /// Returns the remedy for the error, if siding knows one.
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
            Self::TooNew { .. } => {
                Some("use the version of siding that wrote this record, or upgrade this one")
            }
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
