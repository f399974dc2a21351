//! The errors of the history, distinguished by what a user can do about an error.

use std::io;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;
use siding_core::store::StoreError;

use crate::schema::FORMAT;

/// The reason why the history cannot be used. Commands other than `siding history`, `siding stats`
/// and `siding metrics` work without the history.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// A newer version of siding wrote the file. This build does not know the format and leaves the
    /// file unchanged.
    #[error(
        "`{path}` has format {found}, this build reads up to {FORMAT}; the file was not changed: upgrade siding, or move the file away to start a new one"
    )]
    TooNew {
        /// Path of the database file.
        path: PathBuf,
        /// The format number in the file.
        found: i64,
    },
    /// The file is corrupt or not an SQLite database, or its tables are not siding's.
    #[error("`{path}` is damaged: {why}")]
    Damaged {
        /// Path of the database file.
        path: PathBuf,
        /// The damage: SQLite's message, or a message that the tables are not siding's.
        why: String,
    },
    /// Other processes kept the file locked for longer than the busy timeout. A retry may succeed.
    #[error("`{path}` is locked by other processes; try again")]
    Busy {
        /// Path of the locked database file.
        path: PathBuf,
    },
    /// The file cannot be opened or written, for example because of its permissions or a full disk.
    #[error("could not use `{path}`: {why}")]
    Unusable {
        /// Path of the database file.
        path: PathBuf,
        /// SQLite's message, which names the cause.
        why: String,
    },
    /// The file cannot be created or renamed.
    #[error("could not {doing} `{path}`: {source}")]
    Io {
        /// The operation that failed, as an infinitive for the message, such as `create`.
        doing: &'static str,
        /// Path of the file on which the operation failed.
        path: PathBuf,
        /// The error that the operating system returned.
        source: io::Error,
    },
    /// The state directory cannot be listed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl HistoryError {
    /// Converts an SQLite error to the [`HistoryError`] that tells the user what to do with the
    /// file.
    pub(crate) fn from_sqlite(path: &Path, error: &rusqlite::Error) -> Self {
        let (path, why) = (path.to_owned(), error.to_string());
        match error.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Busy { path },
            // `Unknown` (SQLITE_ERROR) means that a statement does not fit the tables. The
            // statements are correct for siding's tables, so the file has other tables.
            Some(
                ErrorCode::DatabaseCorrupt
                | ErrorCode::NotADatabase
                | ErrorCode::Unknown
                | ErrorCode::ConstraintViolation
                | ErrorCode::TypeMismatch,
            ) => Self::Damaged { path, why },
            Some(_) => Self::Unusable { path, why },
            // rusqlite itself rejected a value or statement, which happens only if the tables are
            // not siding's.
            None => Self::Damaged { path, why },
        }
    }
}
